//! The listener: HTTP/1.1 and, with prior knowledge, cleartext HTTP/2. Requests of agents go straight
//! to their handler, everything else to the admin API.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tower_service::Service as _;

use crate::Gate;
use crate::agents::endpoint;
use crate::body::Body;
use crate::metrics;
use crate::own_wake::Poller;

/// The most that is read from a connection at once. Buffers grow to it and stay so as long as the
/// connection lives, so it bounds what an idle agent costs.
const READ_BUFFER: usize = 64 << 10;

/// How long answers under way may take once the gateway stops.
const DRAIN: Duration = Duration::from_millis(1_500);

/// How long to wait where the system has no file descriptor left for a new connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a connection may be silent until the system asks whether the peer is still there, and how
/// often it then asks.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// What connections do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Serve,
    /// Finish what is under way, and take nothing new.
    Drain,
    /// Close.
    Stop,
}

/// A listener that serves.
#[derive(Debug)]
pub(crate) struct Listener {
    local: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Every connection holds a sender of it: it ends when they all have.
    connections: mpsc::Receiver<Infallible>,
}

impl Listener {
    /// Serves on a bound socket.
    pub(crate) fn start(socket: TcpListener, local: SocketAddr, gate: Arc<Gate>) -> Self {
        let (mode, watching) = watch::channel(Mode::Serve);
        let (_alive, connections) = mpsc::channel(1);
        let server = Server {
            gate,
            watching,
            _alive,
        };
        tokio::spawn(server.accept(socket));
        Self {
            local,
            mode,
            connections,
        }
    }

    /// The address really listened on.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Takes no new connection and waits for those that are open, in bounded time.
    pub(crate) async fn shutdown(mut self) {
        self.mode.send_replace(Mode::Drain);
        let drained = tokio::time::timeout(DRAIN, self.connections.recv()).await;
        self.mode.send_replace(Mode::Stop);
        if drained.is_err() {
            self.connections.recv().await;
        }
    }
}

#[derive(Clone)]
struct Server {
    gate: Arc<Gate>,
    watching: watch::Receiver<Mode>,
    _alive: mpsc::Sender<Infallible>,
}

impl Server {
    async fn accept(mut self, socket: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                _ = self.watching.wait_for(|mode| *mode != Mode::Serve) => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(self.clone().serve(stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(mut self, stream: TcpStream) {
        // Each event and answer leaves at once.
        let _ = stream.set_nodelay(true);
        // An agent that is gone without a word must not cost a connection for ever.
        let probes = TcpKeepalive::new()
            .with_time(PROBE_AFTER)
            .with_interval(PROBE_EVERY);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
        let gate = Arc::clone(&self.gate);
        let service = service_fn(move |request| respond(Arc::clone(&gate), request));
        let version = tokio::select! {
            version = version(&stream) => version,
            _ = self.watching.wait_for(|mode| *mode != Mode::Serve) => return,
        };
        let Ok(version) = version else {
            return;
        };
        let io = TokioIo::new(stream);
        match version {
            Version::Http1 => {
                let mut builder = http1::Builder::new();
                let connection = builder
                    .max_buf_size(READ_BUFFER)
                    .serve_connection(io, service);
                drive(
                    connection,
                    http1::Connection::graceful_shutdown,
                    self.watching,
                )
                .await;
            }
            // Boxed, so that the task of the usual connection is no larger than it needs.
            Version::Http2 => {
                let builder = http2::Builder::new(TokioExecutor::new());
                let connection = builder.serve_connection(io, service);
                let drain = http2::Connection::graceful_shutdown;
                Box::pin(drive(connection, drain, self.watching)).await;
            }
            Version::Unclear => {
                let builder = auto::Builder::new(TokioExecutor::new());
                let connection = builder.serve_connection(io, service);
                let drain = auto::Connection::graceful_shutdown;
                Box::pin(drive(connection, drain, self.watching)).await;
            }
        }
    }
}

/// What the first bytes of a connection say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
    /// Too few bytes came to tell.
    Unclear,
}

impl Version {
    /// No method of HTTP/1.1 that is served begins as the preface of HTTP/2 does (RFC 9113 section 3.4).
    fn of(first: &[u8]) -> Self {
        const PREFACE: &[u8] = b"PRI";
        if first.starts_with(PREFACE) {
            Self::Http2
        } else if PREFACE.starts_with(first) {
            Self::Unclear
        } else {
            Self::Http1
        }
    }
}

/// Waits for the first bytes and leaves them where they are.
async fn version(stream: &TcpStream) -> std::io::Result<Version> {
    let mut first = [0; 3];
    let read = stream.peek(&mut first).await?;
    Ok(Version::of(first.get(..read).unwrap_or_default()))
}

/// Serves one connection until it ends, or until the gateway stops.
async fn drive<C, E>(connection: C, drain: fn(Pin<&mut C>), mut watching: watch::Receiver<Mode>)
where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let watched = watching.clone();
    let poller = Poller::new();
    loop {
        let mut changed = pin!(watching.changed());
        let mut registered = false;
        let served = poll_fn(|cx| {
            if let Poll::Ready(served) = poller.poll(connection.as_mut(), cx) {
                return Poll::Ready(Some(served));
            }
            // A task's waker stays the same: it is registered once, and at every further wake-up there
            // is no more to look at than a number.
            if registered && matches!(watched.has_changed(), Ok(false)) {
                return Poll::Pending;
            }
            registered = true;
            changed.as_mut().poll(cx).map(|_| None)
        })
        .await;
        match served {
            Some(Ok(())) => return,
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection of an agent broke");
                return;
            }
            None => {}
        }
        match *watched.borrow() {
            Mode::Serve => {}
            Mode::Drain => drain(connection.as_mut()),
            Mode::Stop => return,
        }
    }
}

async fn respond(
    gate: Arc<Gate>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let endpoint = metrics::endpoint_of(request.uri());
    let response = served(gate, request).await?;
    metrics::answered(endpoint, response.status());
    Ok(response)
}

async fn served(gate: Arc<Gate>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let ours = endpoint::is_ours(request.uri().path());
    if let Err(refused) = gate.guard.check(request.uri(), request.headers()) {
        tracing::debug!(code = %refused.code, detail = %refused.detail, "refused by Host or Origin");
        return Ok(if ours {
            refused.rpc(None, crate::problem::INVALID_REQUEST)
        } else {
            refused.response()
        });
    }
    if ours {
        return Ok(endpoint::serve(&gate, request).await);
    }
    if let Some(metadata) = gate
        .protected
        .metadata(request.method(), request.uri().path())
    {
        return Ok(metadata);
    }
    let response = gate
        .admin
        .clone()
        .call(request.map(axum::body::Body::new))
        .await?;
    Ok(response.map(Body::Admin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<Fut>(_: impl Fn(Arc<Gate>, Request<Incoming>) -> Fut) -> usize {
        size_of::<Fut>()
    }

    #[test]
    fn the_first_bytes_tell_the_version() {
        for (first, version) in [
            (&b"PRI"[..], Version::Http2),
            (b"POS", Version::Http1),
            (b"GET", Version::Http1),
            (b"PR", Version::Unclear),
            (b"PU", Version::Http1),
            (b"", Version::Unclear),
        ] {
            assert_eq!(Version::of(first), version, "{first:?}");
        }
    }

    /// Each connection holds room for the request that it serves, also while it serves none.
    #[test]
    fn an_idle_connection_holds_little_room_for_requests() {
        assert!(size(respond) < 6 << 10, "{}", size(respond));
    }
}
