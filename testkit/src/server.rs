//! The fake MCP server: its state, and what a test may ask and change.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::behaviour::{Behaviour, notify_subscription};
use crate::gate::Gates;
use crate::host::{Host, Place};
use crate::ledger::Ledger;
use crate::log::RequestLog;
use crate::protection::Protection;
use crate::script::Script;
use crate::shared::{Role, Shared};
use crate::tls::Tls;
use crate::tool::Tool;

/// How a server is to be started.
#[derive(Debug)]
pub struct Builder {
    behaviour: Behaviour,
    ledger: Option<Ledger>,
    place: Place,
}

impl Builder {
    /// On this address instead of a free port of 127.0.0.1.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.place.address = address;
        self
    }

    /// Known by this host name: [`Server::url`] has it, and what the server says about itself.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.place.host = Some(host.to_owned());
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
        self.place.tls = Some(tls.clone());
        self
    }

    /// HTTP/1.1 only: no prior knowledge, no ALPN for HTTP/2.
    #[must_use]
    pub fn http1_only(mut self) -> Self {
        self.place.http2 = false;
        self
    }

    /// Starts the server.
    pub async fn try_start(self) -> io::Result<Server> {
        let ledger = match self.ledger {
            Some(ledger) => ledger,
            None => Ledger::temporary()?,
        };
        let behaviour = self.behaviour;
        let host = self
            .place
            .open(|origin| Shared::new(behaviour, ledger, origin, Role::McpServer))?;
        Ok(Server { host })
    }

    /// Starts the server; a failure fails the test.
    pub async fn start(self) -> Server {
        self.try_start().await.expect("a server on loopback starts")
    }
}

/// A running fake server. Dropping it resets its connections and frees the port.
pub struct Server {
    host: Host,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1, with a temporary ledger.
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::builder(behaviour).start().await
    }

    /// For everything that [`Server::start`] leaves at its default.
    #[must_use]
    pub fn builder(behaviour: Behaviour) -> Builder {
        Builder {
            behaviour,
            ledger: None,
            place: Place::default(),
        }
    }

    /// The endpoint's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.host.shared.origin, self.behaviour().path)
    }

    /// The URL under a host name, for TLS and the product's `network.resolve`.
    #[must_use]
    pub fn url_as(&self, host: &str) -> String {
        format!("{}{}", self.host.origin_as(host), self.behaviour().path)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.host.address()
    }

    /// What it saw.
    #[must_use]
    pub fn log(&self) -> &RequestLog {
        &self.host.shared.log
    }

    /// Which tools ran.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.host.shared.ledger
    }

    /// The rules that are asked before the behaviour.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.host.shared.script
    }

    /// The gates of scripts and slow tools.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.host.shared.gates
    }

    /// Opens a gate.
    pub fn open(&self, gate: &str) {
        self.host.shared.gates.open(gate);
    }

    /// Changes the behaviour for the requests that come from now on.
    pub fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(Arc::make_mut(&mut self.host.shared.behaviour.write()));
    }

    /// Changes which tokens are wanted, where any are.
    pub fn change_protection(&self, change: impl FnOnce(&mut Protection)) {
        self.change(|behaviour| {
            let protection = behaviour.protection.as_mut();
            change(protection.expect("the behaviour is protected from the start"));
        });
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
        for session in self.host.shared.sessions.all() {
            session.notify(message);
        }
        self.host.shared.sessionless.notify(message);
        for subscription in &*self.host.shared.subscriptions.lock() {
            notify_subscription(subscription, message);
        }
    }

    /// Forgets all sessions, as a restart does, with the connections left alone.
    pub fn forget_sessions(&self) {
        self.host.shared.sessions.forget_all();
    }

    /// Sessions that are neither deleted nor forgotten.
    #[must_use]
    pub fn live_sessions(&self) -> usize {
        self.host.shared.sessions.live()
    }

    /// The most sessions that were ever live together.
    #[must_use]
    pub fn peak_sessions(&self) -> usize {
        self.host.shared.sessions.peak()
    }

    /// Sessions ever made.
    #[must_use]
    pub fn sessions_created(&self) -> usize {
        self.host.shared.sessions.created()
    }

    /// Log level that a live session was given.
    #[must_use]
    pub fn log_level(&self, session: &str) -> Option<String> {
        self.host
            .shared
            .sessions
            .get(session)?
            .log_level
            .lock()
            .clone()
    }

    /// Resources that a live session subscribed to.
    #[must_use]
    pub fn subscriptions(&self, session: &str) -> Vec<String> {
        self.host
            .shared
            .sessions
            .get(session)
            .map(|session| session.subscriptions.lock().clone())
            .unwrap_or_default()
    }

    /// Whether a live session has been told `notifications/initialized`.
    #[must_use]
    pub fn initialized(&self, session: &str) -> bool {
        self.host
            .shared
            .sessions
            .get(session)
            .is_some_and(|session| session.initialized.load(Ordering::Relaxed))
    }

    /// Listening streams open now: GET streams and modern subscriptions.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.host.shared.get_streams.now()
    }

    /// The most listening streams that were ever open together.
    #[must_use]
    pub fn peak_streams(&self) -> usize {
        self.host.shared.get_streams.peak()
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.host.shared.connections.now()
    }

    /// What [`crate::reply::Step::Exit`] calls, such as the end of the process.
    pub fn on_exit(&self, hook: impl Fn() + Send + Sync + 'static) {
        *self.host.shared.exit_hook.lock() = Some(Arc::new(hook));
    }

    /// Resets every connection and closes the listener: the port refuses. Sessions and script are kept.
    pub async fn stop(&self) {
        self.host.stop().await;
    }

    /// Listens again on the same port after [`Server::stop`].
    pub fn resume(&self) {
        self.host.resume();
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

    fn behaviour(&self) -> Arc<Behaviour> {
        self.host.shared.behaviour()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("url", &self.url())
            .field("log", &self.host.shared.log)
            .finish_non_exhaustive()
    }
}
