//! The listener: HTTP/1.1 and, with prior knowledge, cleartext HTTP/2. Requests of agents go straight
//! to their handler, everything else to the admin API.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
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
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().max_buf_size(READ_BUFFER);
        let gate = Arc::clone(&self.gate);
        let service = service_fn(move |request| respond(Arc::clone(&gate), request));
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut seen = Mode::Serve;
        loop {
            tokio::select! {
                served = connection.as_mut() => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "a connection of an agent broke");
                    }
                    return;
                }
                changed = self.watching.wait_for(|mode| *mode != seen) => {
                    let Ok(mode) = changed.map(|mode| *mode) else {
                        return;
                    };
                    if mode == Mode::Stop {
                        return;
                    }
                    seen = mode;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

async fn respond(
    gate: Arc<Gate>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
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

    /// Each connection holds room for the request that it serves, also while it serves none.
    #[test]
    fn an_idle_connection_holds_little_room_for_requests() {
        assert!(size(respond) < 6 << 10, "{}", size(respond));
    }
}
