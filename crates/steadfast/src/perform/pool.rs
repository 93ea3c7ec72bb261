//! The connections to one server, for one link. They are never shared between agents (architecture,
//! events and bytes 18), and nothing in here sends a request a second time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use steadfast_core::Fault;
use steadfast_core::oauth::reach::Reach;
use tokio::time::Instant;

use super::dial::{Dialer, Origin};

/// More idle connections than this are closed: bursts come, and pass.
const MAX_IDLE: usize = 128;
/// An idle connection is closed after this long.
const IDLE_LIMIT: Duration = Duration::from_secs(90);

/// The connections to one server.
#[derive(Debug)]
pub(crate) struct Pool {
    dialer: Arc<Dialer>,
    origin: Origin,
    reach: Reach,
    idle: Mutex<Vec<Idle>>,
    http2: Mutex<Option<http2::SendRequest<Full<Bytes>>>>,
}

#[derive(Debug)]
struct Idle {
    connection: Http1,
    since: Instant,
}

/// One HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Full<Bytes>>,
    written: Arc<AtomicU64>,
}

impl Http1 {
    /// How many bytes were ever written to it.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// A connection that is ours for one exchange.
#[derive(Debug)]
pub(crate) enum Lease {
    Http1(Http1),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Pool {
    pub(crate) fn new(dialer: Arc<Dialer>, origin: Origin, reach: Reach) -> Self {
        Self {
            dialer,
            origin,
            reach,
            idle: Mutex::default(),
            http2: Mutex::default(),
        }
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// A connection: the one used last, if it is open and, where `max_idle` is given, was used
    /// within that time; else a fresh one.
    pub(crate) async fn lease(&self, max_idle: Option<Duration>) -> Result<Lease, Fault> {
        if let Some(lease) = self.pooled(max_idle).await {
            return Ok(lease);
        }
        // Boxed, as everything rare on the way of a call is: each call holds room for what is not.
        Box::pin(self.fresh()).await
    }

    async fn pooled(&self, max_idle: Option<Duration>) -> Option<Lease> {
        let shared = self.http2.lock().clone();
        if let Some(mut sender) = shared {
            if !sender.is_closed() && sender.ready().await.is_ok() {
                return Some(Lease::Http2(sender));
            }
            *self.http2.lock() = None;
        }
        loop {
            let Idle {
                mut connection,
                since,
            } = self.idle.lock().pop()?;
            let limit = max_idle.unwrap_or(IDLE_LIMIT);
            if connection.sender.is_closed() || since.elapsed() > limit {
                continue;
            }
            if connection.sender.ready().await.is_ok() {
                return Some(Lease::Http1(connection));
            }
        }
    }

    /// A fresh connection.
    pub(crate) async fn fresh(&self) -> Result<Lease, Fault> {
        let dialled = self.dialer.dial(&self.origin, self.reach).await?;
        let broken = |error: hyper::Error| {
            Fault::new(
                steadfast_core::Kind::Network,
                format!("no HTTP with {}: {error}", self.origin.authority()),
            )
        };
        let written = dialled.wire.written();
        let io = TokioIo::new(dialled.wire);
        if dialled.http2 {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .adaptive_window(true)
                .handshake(io)
                .await
                .map_err(broken)?;
            tokio::spawn(connection);
            *self.http2.lock() = Some(sender.clone());
            return Ok(Lease::Http2(sender));
        }
        let (sender, connection) = http1::Builder::new().handshake(io).await.map_err(broken)?;
        tokio::spawn(connection);
        Ok(Lease::Http1(Http1 { sender, written }))
    }

    /// Takes back a connection whose answer was read to its end.
    pub(crate) fn give_back(&self, lease: Lease) {
        let Lease::Http1(connection) = lease else {
            return;
        };
        if connection.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(Idle {
                connection,
                since: Instant::now(),
            });
        }
    }

    /// Closes what has been idle for too long.
    pub(crate) fn prune(&self) {
        self.idle.lock().retain(|idle| {
            !idle.connection.sender.is_closed() && idle.since.elapsed() <= IDLE_LIMIT
        });
    }

    /// Closes every idle connection: something in between may have dropped them silently (WR-04 b).
    pub(crate) fn discard_idle(&self) {
        self.idle.lock().clear();
        *self.http2.lock() = None;
    }
}
