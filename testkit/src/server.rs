//! The fake server: a listener on loopback, its state, and what a test may ask and change.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::behaviour::{Behaviour, notify_subscription};
use crate::gate::Gates;
use crate::http1::Link;
use crate::http2;
use crate::ledger::Ledger;
use crate::log::{Event, RequestLog};
use crate::port::{Listening, Port};
use crate::script::Script;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::tls::Tls;
use crate::tool::Tool;
use crate::wire::Stop;

/// How a server is to be started.
#[derive(Debug)]
pub struct Builder {
    behaviour: Behaviour,
    address: SocketAddr,
    ledger: Option<Ledger>,
    tls: Option<Tls>,
    http2: bool,
}

impl Builder {
    /// On this address instead of a free port of 127.0.0.1.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// With this ledger instead of a temporary one.
    #[must_use]
    pub fn ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Behind TLS, with HTTP/2 by ALPN.
    #[must_use]
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// HTTP/1.1 only: no prior knowledge, no ALPN for HTTP/2.
    #[must_use]
    pub fn http1_only(mut self) -> Self {
        self.http2 = false;
        self
    }

    /// Starts the server.
    pub async fn try_start(self) -> io::Result<Server> {
        let ledger = match self.ledger {
            Some(ledger) => ledger,
            None => Ledger::temporary()?,
        };
        let shared = Shared::new(self.behaviour, ledger);
        let port = Port::reserve(self.address)?;
        let listener = port.listen()?;
        let server = Server {
            shared,
            port,
            tls: self.tls,
            http2: self.http2,
            accepting: Mutex::new(None),
        };
        server.accept(listener);
        Ok(server)
    }

    /// Starts the server; a failure fails the test.
    pub async fn start(self) -> Server {
        self.try_start().await.expect("a server on loopback starts")
    }
}

/// A running fake server. Dropping it resets its connections and frees the port.
pub struct Server {
    shared: Arc<Shared>,
    port: Port,
    tls: Option<Tls>,
    http2: bool,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1, with a temporary ledger.
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::builder(behaviour).start().await
    }

    /// For everything that [`Server::start`] leaves at its default.
    #[must_use]
    pub fn builder(behaviour: Behaviour) -> Builder {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Builder {
            behaviour,
            address,
            ledger: None,
            tls: None,
            http2: true,
        }
    }

    /// The endpoint's URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!(
            "{scheme}://{}{}",
            self.port.address(),
            self.shared.behaviour().path
        )
    }

    /// The URL under a host name, for TLS and the product's `network.resolve`.
    #[must_use]
    pub fn url_as(&self, host: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!(
            "{scheme}://{host}:{}{}",
            self.port.address().port(),
            self.shared.behaviour().path
        )
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// What it saw.
    #[must_use]
    pub fn log(&self) -> &RequestLog {
        &self.shared.log
    }

    /// Which tools ran.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// The rules that are asked before the behaviour.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.shared.script
    }

    /// The gates of scripts and slow tools.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.shared.gates
    }

    /// Opens a gate.
    pub fn open(&self, gate: &str) {
        self.shared.gates.open(gate);
    }

    /// Changes the behaviour for the requests that come from now on.
    pub fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(Arc::make_mut(&mut self.shared.behaviour.write()));
    }

    /// Replaces the tools without telling anyone; see [`Server::tools_changed`].
    pub fn set_tools(&self, tools: Vec<Tool>) {
        self.change(|behaviour| behaviour.tools = tools);
    }

    /// Tells every client that the tools have changed.
    pub fn tools_changed(&self) {
        self.notify(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    }

    /// Sends a notification on every listening stream: GET streams, and modern subscriptions whose filter asks for it.
    pub fn notify(&self, message: &Value) {
        for session in self.shared.sessions.all() {
            session.notify(message);
        }
        self.shared.sessionless.notify(message);
        for subscription in &*self.shared.subscriptions.lock() {
            notify_subscription(subscription, message);
        }
    }

    /// Forgets all sessions, as a restart does, with the connections left alone.
    pub fn forget_sessions(&self) {
        self.shared.sessions.forget_all();
    }

    /// Sessions that are neither deleted nor forgotten.
    #[must_use]
    pub fn live_sessions(&self) -> usize {
        self.shared.sessions.live()
    }

    /// The most sessions that were ever live together.
    #[must_use]
    pub fn peak_sessions(&self) -> usize {
        self.shared.sessions.peak()
    }

    /// Sessions ever made.
    #[must_use]
    pub fn sessions_created(&self) -> usize {
        self.shared.sessions.created()
    }

    /// Log level that a live session was given.
    #[must_use]
    pub fn log_level(&self, session: &str) -> Option<String> {
        self.shared.sessions.get(session)?.log_level.lock().clone()
    }

    /// Resources that a live session subscribed to.
    #[must_use]
    pub fn subscriptions(&self, session: &str) -> Vec<String> {
        self.shared
            .sessions
            .get(session)
            .map(|session| session.subscriptions.lock().clone())
            .unwrap_or_default()
    }

    /// Whether a live session has been told `notifications/initialized`.
    #[must_use]
    pub fn initialized(&self, session: &str) -> bool {
        self.shared
            .sessions
            .get(session)
            .is_some_and(|session| session.initialized.load(Ordering::Relaxed))
    }

    /// Listening streams open now: GET streams and modern subscriptions.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.shared.get_streams.now()
    }

    /// The most listening streams that were ever open together.
    #[must_use]
    pub fn peak_streams(&self) -> usize {
        self.shared.get_streams.peak()
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.connections.now()
    }

    /// What [`crate::reply::Step::Exit`] calls, such as the end of the process.
    pub fn on_exit(&self, hook: impl Fn() + Send + Sync + 'static) {
        *self.shared.exit_hook.lock() = Some(Arc::new(hook));
    }

    /// Resets every connection and closes the listener: the port refuses. Sessions and script are kept.
    pub async fn stop(&self) {
        self.shared.stop.send_modify(|stops| *stops += 1);
        let accepting = self.accepting.lock().take();
        if let Some(accepting) = accepting {
            let _ended = accepting.await;
        }
    }

    /// Listens again on the same port after [`Server::stop`].
    pub fn resume(&self) {
        let listener = self.port.listen();
        let listener = listener.expect("the port of a stopped server is held for it");
        self.accept(listener);
    }

    /// What a new deployment does: connections reset, sessions forgotten, back on the same port.
    pub async fn restart(&self) {
        self.stop().await;
        self.forget_sessions();
        self.resume();
    }

    /// Resets every connection; the listener stays.
    pub async fn reset_connections(&self) {
        self.stop().await;
        self.resume();
    }

    fn accept(&self, listener: Listening) {
        let (shared, tls, http2) = (Arc::clone(&self.shared), self.tls.clone(), self.http2);
        let mut stop = self.shared.stop.subscribe();
        // A clone has seen what this has seen: a stop that comes between accept and spawn is not lost.
        let connection_stop = stop.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((tcp, _)) = accepted else { break };
                        let stop = connection_stop.clone();
                        connections.spawn(connection(tcp, tls.clone(), http2, Arc::clone(&shared), stop));
                    }
                    Some(_) = connections.join_next() => {}
                    _ = stop.changed() => break,
                }
            }
            drop(listener);
            while connections.join_next().await.is_some() {}
        });
        *self.accepting.lock() = Some(accepting);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.send_modify(|stops| *stops += 1);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("url", &self.url())
            .field("log", &self.shared.log)
            .finish_non_exhaustive()
    }
}

async fn connection(
    tcp: TcpStream,
    tls: Option<Tls>,
    http2: bool,
    shared: Arc<Shared>,
    stop: watch::Receiver<u64>,
) {
    let number = shared.connection_numbers.fetch_add(1, Ordering::Relaxed) + 1;
    let open = shared.connections.enter();
    shared.log.event(Event::Opened { connection: number });
    serve(tcp, tls, http2, number, Arc::clone(&shared), stop).await;
    // Counted out first: whoever waits for the event may ask for the count.
    drop(open);
    shared.log.event(Event::Closed { connection: number });
}

async fn serve(
    tcp: TcpStream,
    tls: Option<Tls>,
    http2: bool,
    number: u64,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<u64>,
) {
    // Small writes must leave when they are made: cuts and drips are about single segments.
    let _already_closed = tcp.set_nodelay(true);
    let stopped = async move {
        let _server_gone = stop.changed().await;
    };
    tokio::pin!(stopped);
    let negotiated = tokio::select! {
        negotiated = negotiate(tcp, tls, http2) => negotiated,
        () = &mut stopped => return,
    };
    let Ok((stream, is_http2)) = negotiated else {
        return;
    };
    if is_http2 {
        return http2::serve(stream, number, shared, stopped).await;
    }
    let mut link = Link::new(stream, number);
    let outcome = tokio::select! {
        outcome = link.serve(&shared) => outcome,
        () = &mut stopped => Stop::Reset,
    };
    if outcome == Stop::Reset {
        link.stream.reset_on_drop();
    } else {
        let _peer_gone = link.stream.shutdown().await;
    }
}

/// Does the TLS handshake, if any, and finds out which HTTP version the peer speaks.
async fn negotiate(tcp: TcpStream, tls: Option<Tls>, http2: bool) -> io::Result<(Stream, bool)> {
    if let Some(tls) = tls {
        let stream = tls.acceptor(http2).accept(tcp).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        return Ok((Stream::Tls(Box::new(stream)), is_http2));
    }
    // RFC 9113, 3.3: with prior knowledge the client begins with the preface "PRI * HTTP/2.0".
    let mut start = [0; 4];
    let is_http2 = http2 && tcp.peek(&mut start).await? == start.len() && start == *b"PRI ";
    Ok((Stream::Plain(tcp), is_http2))
}
