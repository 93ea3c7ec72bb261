//! A port that stays ours while nobody listens on it.

use std::io;
use std::net::{Shutdown, SocketAddr};

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// An address with its port, held by a socket that is bound and never listens: connections are refused, and no other
/// test is given the port in the meantime. Whoever sets `SO_REUSEADDR` may listen on it.
#[derive(Debug)]
pub(crate) struct Port {
    address: SocketAddr,
    _held: Socket,
}

impl Port {
    /// The port of the address, or a free one where that is 0.
    pub(crate) fn reserve(address: SocketAddr) -> io::Result<Self> {
        let held = bind(address)?;
        let address = held.local_addr()?.as_socket();
        let address = address.ok_or_else(|| io::Error::other("not an internet address"))?;
        Ok(Self {
            address,
            _held: held,
        })
    }

    /// A free port of 127.0.0.1.
    pub(crate) fn on_loopback() -> io::Result<Self> {
        Self::reserve(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on it; again and again, one listener at a time.
    pub(crate) fn listen(&self) -> io::Result<Listening> {
        let socket = bind(self.address)?;
        socket.set_nonblocking(true)?;
        socket.listen(1024)?;
        Ok(Listening(TcpListener::from_std(socket.into())?))
    }
}

/// A listener that is closed for good when it is dropped.
#[derive(Debug)]
pub(crate) struct Listening(TcpListener);

impl Listening {
    pub(crate) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.accept().await
    }
}

impl Drop for Listening {
    /// A child process that is being started at this moment has a copy of the socket until it has begun its program:
    /// closing ours alone would leave the port listened on for that long.
    fn drop(&mut self) {
        let _already_closed = SockRef::from(&self.0).shutdown(Shutdown::Both);
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_held_port_refuses_until_it_is_listened_on_and_again_afterwards() {
        let port = Port::on_loopback().unwrap();
        let mut copies = Vec::new();
        for _ in 0..2 {
            let refused = TcpStream::connect(port.address()).await;
            let error = refused.expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let listener = port.listen().unwrap();
            // As if a child process had it too.
            let copy = SockRef::from(&listener.0).try_clone().unwrap();
            TcpStream::connect(port.address()).await.unwrap();
            drop(listener);
            copies.push(copy);
        }
    }
}
