//! A network in front of the upstream that can swallow everything: connections stay, and nothing passes.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::Outcome;

#[derive(Debug)]
pub(super) struct Hole {
    address: SocketAddr,
    swallows: watch::Sender<bool>,
}

impl Hole {
    /// An open network, for now.
    pub(super) fn before(upstream: SocketAddr) -> Outcome<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let swallows = watch::Sender::new(false);
        let watched = swallows.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass(near, upstream, watched.subscribe()));
            }
        });
        Ok(Self { address, swallows })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub(super) fn swallow(&self, swallows: bool) {
        self.swallows.send_replace(swallows);
    }
}

async fn pass(near: TcpStream, upstream: SocketAddr, swallows: watch::Receiver<bool>) {
    let Ok(far) = TcpStream::connect(upstream).await else {
        return;
    };
    // Small messages must not wait for each other; where that fails they do.
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let up = forward(near_read, far_write, swallows.clone());
    tokio::select! {
        () = up => {}
        () = forward(far_read, near_write, swallows) => {}
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, swallows: watch::Receiver<bool>) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let swallowed = *swallows.borrow();
        if !swallowed && to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
