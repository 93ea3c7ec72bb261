//! A faulty network in front of any address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::port::{Listening, Port};
use crate::reply::End;
use crate::stream::reset_on_drop;

/// A direction through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What the network does to what passes; may be changed at any time, see [`Net::change`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Accept and read, and pass nothing on: neither side learns anything.
    pub black_hole: bool,
    /// Hold back what comes from this direction, until it is healed.
    pub frozen: Option<Direction>,
    /// Close connections on which nothing passed for so long, as load balancers do.
    pub cut_idle: Option<Duration>,
    /// Swallow everything on connections on which nothing passed for so long, as NAT does.
    pub forget_idle: Option<Duration>,
    /// Accept at most so many connections per second.
    pub accepts_per_second: Option<u32>,
    /// Pass each piece on so much later.
    pub delay: Duration,
}

/// A TCP proxy whose conditions a test can change.
#[derive(Debug)]
pub struct Net {
    port: Port,
    inner: Arc<Inner>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Inner {
    target: SocketAddr,
    conditions: watch::Sender<Conditions>,
    cuts: Mutex<Vec<Cut>>,
    /// Counts the resets: a connection that sees it change resets itself.
    resets: watch::Sender<u64>,
    accepts: Mutex<Vec<Instant>>,
}

impl Net {
    /// A healthy network on a free port of 127.0.0.1 that leads to an address.
    pub fn to(target: SocketAddr) -> io::Result<Self> {
        let port = Port::on_loopback()?;
        let listener = port.listen()?;
        let inner = Inner {
            target,
            conditions: watch::Sender::default(),
            cuts: Mutex::default(),
            resets: watch::Sender::default(),
            accepts: Mutex::default(),
        };
        let net = Self {
            port,
            inner: Arc::new(inner),
            accepting: Mutex::new(None),
        };
        net.accept(listener);
        Ok(net)
    }

    /// The near end.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// A URL through this network.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.port.address())
    }

    /// Changes the conditions, for present and coming connections.
    pub fn change(&self, change: impl FnOnce(&mut Conditions)) {
        self.inner.conditions.send_modify(change);
    }

    /// Ends every fault that [`Net::change`] made; what was held back passes.
    pub fn heal(&self) {
        self.inner.conditions.send_replace(Conditions::default());
    }

    /// Lets so many more bytes pass in one direction, over all connections together; the one that carries the last of them
    /// is ended then, by [`End::Rst`], [`End::Fin`], or in silence by [`End::BlackHole`].
    pub fn cut_after(&self, direction: Direction, bytes: u64, end: End) {
        self.inner.cuts.lock().push(Cut {
            direction,
            left: bytes,
            end,
        });
    }

    /// Resets every open connection on both sides.
    pub fn reset_all(&self) {
        self.inner.resets.send_modify(|resets| *resets += 1);
    }

    /// Closes the port: new connections are refused, open ones live on.
    pub async fn refuse(&self) {
        let accepting = self.accepting.lock().take();
        if let Some(accepting) = accepting {
            accepting.abort();
            // Awaited, so that the listener is closed when this returns.
            let _aborted = accepting.await;
        }
    }

    /// Opens the port again.
    pub async fn accept_again(&self) -> io::Result<()> {
        self.refuse().await;
        self.accept(self.port.listen()?);
        Ok(())
    }

    /// When connections were accepted.
    #[must_use]
    pub fn accepts(&self) -> Vec<Instant> {
        self.inner.accepts.lock().clone()
    }

    fn accept(&self, listener: Listening) {
        let inner = Arc::clone(&self.inner);
        let accepting = tokio::spawn(async move {
            loop {
                let rate = inner.conditions.borrow().accepts_per_second;
                if let Some(rate) = rate {
                    tokio::time::sleep(Duration::from_secs(1) / rate.max(1)).await;
                }
                let Ok((near, _)) = listener.accept().await else {
                    return;
                };
                inner.accepts.lock().push(Instant::now());
                tokio::spawn(connection(near, Arc::clone(&inner)));
            }
        });
        *self.accepting.lock() = Some(accepting);
    }
}

/// A cut that is to come.
#[derive(Debug)]
struct Cut {
    direction: Direction,
    left: u64,
    end: End,
}

impl Inner {
    /// How much of a piece passes, and how its connection ends then.
    fn passes(&self, direction: Direction, piece: usize) -> (usize, Option<End>) {
        let mut cuts = self.cuts.lock();
        let Some(index) = cuts.iter().position(|cut| cut.direction == direction) else {
            return (piece, None);
        };
        let cut = &mut cuts[index];
        match usize::try_from(cut.left) {
            Ok(left) if left <= piece => (left, Some(cuts.remove(index).end)),
            Ok(_) | Err(_) => {
                cut.left -= piece as u64;
                (piece, None)
            }
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.lock().take() {
            accepting.abort();
        }
        self.reset_all();
    }
}

/// What the two directions of one connection share.
struct Passage {
    last: Mutex<Instant>,
    forgotten: Mutex<bool>,
}

impl Passage {
    /// Whether bytes that arrive now are swallowed, because nothing passed for too long before them.
    fn swallows(&self, forget_idle: Option<Duration>) -> bool {
        let mut forgotten = self.forgotten.lock();
        *forgotten |= forget_idle.is_some_and(|limit| self.last.lock().elapsed() >= limit);
        *forgotten
    }
}

/// One side was reset.
struct WasReset;

async fn connection(mut near: TcpStream, inner: Arc<Inner>) {
    let mut resets = inner.resets.subscribe();
    let Ok(mut far) = TcpStream::connect(inner.target).await else {
        return reset_on_drop(&near);
    };
    let (_, _) = (near.set_nodelay(true), far.set_nodelay(true));
    let passage = Passage {
        last: Mutex::new(Instant::now()),
        forgotten: Mutex::new(false),
    };
    let (mut near_read, mut near_write) = near.split();
    let (mut far_read, mut far_write) = far.split();
    let both = async {
        tokio::try_join!(
            forward(
                &mut near_read,
                &mut far_write,
                Direction::Up,
                &inner,
                &passage
            ),
            forward(
                &mut far_read,
                &mut near_write,
                Direction::Down,
                &inner,
                &passage
            ),
        )
    };
    let was_reset = tokio::select! {
        ended = both => ended.is_err(),
        () = idle(&inner, &passage) => false,
        _ = resets.changed() => true,
    };
    if was_reset {
        reset_on_drop(&near);
        reset_on_drop(&far);
    }
}

async fn forward(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    direction: Direction,
    inner: &Inner,
    passage: &Passage,
) -> Result<(), WasReset> {
    let mut conditions = inner.conditions.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        until(&mut conditions, |conditions| {
            conditions.frozen != Some(direction)
        })
        .await;
        let length = from.read(&mut buffer).await.map_err(|_| WasReset)?;
        // The freeze may have begun while this waited for bytes.
        until(&mut conditions, |conditions| {
            conditions.frozen != Some(direction)
        })
        .await;
        let now = conditions.borrow_and_update().clone();
        if passage.swallows(now.forget_idle) {
            if length == 0 {
                std::future::pending::<()>().await;
            }
            continue;
        }
        if length == 0 {
            // A FIN is swallowed as bytes are, but once the fault is over it shows.
            until(&mut conditions, |conditions| !conditions.black_hole).await;
            let _peer_gone = to.shutdown().await;
            return Ok(());
        }
        if now.black_hole {
            continue;
        }
        *passage.last.lock() = Instant::now();
        tokio::time::sleep(now.delay).await;
        let (passes, cut) = inner.passes(direction, length);
        to.write_all(&buffer[..passes])
            .await
            .map_err(|_| WasReset)?;
        match cut {
            None => {}
            Some(End::Rst) => return Err(WasReset),
            Some(End::BlackHole) => std::future::pending().await,
            Some(End::Clean | End::Fin | End::MidChunk) => {
                let _peer_gone = to.shutdown().await;
                return Ok(());
            }
        }
    }
}

/// Waits for a condition, also if it holds already. A [`Net`] that is gone holds nothing back.
async fn until(
    conditions: &mut watch::Receiver<Conditions>,
    holds: impl FnMut(&Conditions) -> bool,
) {
    // The guard must not live on: it blocks every change.
    drop(conditions.wait_for(holds).await);
}

/// Returns once nothing has passed for the idle limit.
async fn idle(inner: &Inner, passage: &Passage) {
    let mut conditions = inner.conditions.subscribe();
    loop {
        let limit = conditions.borrow_and_update().cut_idle;
        let Some(limit) = limit else {
            let _changed = conditions.changed().await;
            continue;
        };
        let idle = passage.last.lock().elapsed();
        if idle >= limit {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(limit - idle) => {}
            _ = conditions.changed() => {}
        }
    }
}

/// An address where a connection attempt gets no answer at all: a listener whose backlog is full and that never
/// accepts, so that the kernel drops every further SYN.
#[derive(Debug)]
pub struct SilentAddress {
    address: SocketAddr,
    _listener: Socket,
    _fillers: Vec<Socket>,
}

impl SilentAddress {
    /// On a free port of 127.0.0.1.
    pub fn new() -> io::Result<Self> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        listener.listen(0)?;
        let bound = listener.local_addr()?;
        let address = bound
            .as_socket()
            .ok_or_else(|| io::Error::other("not an internet address"))?;
        let mut fillers = Vec::new();
        loop {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            let full = match filler.connect_timeout(&bound, Duration::from_millis(200)) {
                Ok(()) => false,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => true,
                Err(error) => return Err(error),
            };
            fillers.push(filler);
            if full {
                return Ok(Self {
                    address,
                    _listener: listener,
                    _fillers: fillers,
                });
            }
        }
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
