//! A scriptable OAuth authorization server.

mod assertion;
mod authorize;
mod book;
mod client;
mod metadata;
pub mod policy;
mod register;
pub mod signing;
mod token;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

pub use book::{Counts, Kind, Token};
pub use client::Client;
pub use policy::Policy;

use crate::behaviour::Behaviour;
use crate::exchange::Exchange;
use crate::gate::Gates;
use crate::host::{Host, Place};
use crate::ledger::Ledger;
use crate::log::{Parameters, RequestLog};
use crate::script::Script;
use crate::shared::{Gauge, Role, Shared};
use crate::tls::Tls;
use crate::wire::Flow;
use book::{Book, Consented};

/// What every connection of an authorization server sees, and every server that asks it about tokens.
#[derive(Debug)]
pub(crate) struct State {
    identifier: String,
    /// Scheme, host and port.
    origin: String,
    /// Path of the identifier without a slash at its end.
    path: String,
    policy: RwLock<Arc<Policy>>,
    book: Mutex<Book>,
    token_requests: Arc<Gauge>,
}

impl State {
    pub(crate) fn identifier(&self) -> &str {
        &self.identifier
    }

    /// A live access token by its value.
    pub(crate) fn access_token(&self, value: &str) -> Option<Token> {
        let book = self.book.lock();
        let token = book.token(value)?;
        (token.kind == Kind::Access && token.is_live()).then(|| token.clone())
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin, self.path)
    }
}

/// Answers a request as an authorization server does.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, state: &State) -> Flow {
    let policy = state.policy();
    let request = Arc::clone(&exchange.request);
    let path = request.path_only();
    let method = request.method.as_str();
    if metadata::is_at(state, &policy, path) {
        let document = metadata::document(state, &policy);
        return policy.metadata.send(exchange, document).await;
    }
    let Some(endpoint) = path.strip_prefix(state.path.as_str()) else {
        return exchange.empty(404).await;
    };
    if let Some(status) = policy.paths.gone.get(endpoint) {
        return exchange.empty(*status).await;
    }
    let paths = &policy.paths;
    match method {
        "GET" | "POST" if endpoint == paths.authorize => {
            authorize::answer(exchange, state, &policy).await
        }
        "POST" if endpoint == paths.token => token::answer(exchange, state, &policy).await,
        "POST" if endpoint == paths.register && policy.registration.open => {
            register::answer(exchange, state, &policy).await
        }
        "POST" if endpoint == paths.revoke && policy.revocation => {
            token::revoke(exchange, state, &policy).await
        }
        "GET" if endpoint == "/keys" && !policy.keys.is_empty() => {
            if let Some(lasting) = &policy.keys_last {
                exchange.wire.header("cache-control", lasting);
            }
            exchange.json(200, &json!({ "keys": policy.keys })).await
        }
        "POST" if endpoint == "/introspect" => match &policy.introspection {
            Some(known) => {
                let token = request.form().get("token").unwrap_or_default().to_owned();
                let said = known.get(&token).cloned();
                let said = said.unwrap_or_else(|| json!({ "active": false }));
                exchange.json(200, &said).await
            }
            None => exchange.empty(404).await,
        },
        _ => exchange.empty(404).await,
    }
}

/// How an authorization server is to be started.
#[derive(Debug)]
pub struct Builder {
    path: String,
    prefix: String,
    policy: Policy,
    place: Place,
}

impl Builder {
    /// With this path in its identifier, such as `/t1`; also `/`, for an identifier that ends with a slash.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    /// Every client id, code and token begins with this: to tell apart what two servers issued.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// With these settings instead of the default ones.
    #[must_use]
    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// On this address instead of a free port of 127.0.0.1.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.place.address = address;
        self
    }

    /// Known by this host name.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.place.host = Some(host.to_owned());
        self
    }

    /// Behind TLS, with HTTP/2 by ALPN.
    #[must_use]
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.place.tls = Some(tls.clone());
        self
    }

    /// Starts the server.
    pub async fn try_start(self) -> io::Result<Issuer> {
        // Its rows are those that a script writes.
        let ledger = Ledger::temporary()?;
        let mut made = None;
        let host = self.place.open(|origin| {
            let state = Arc::new(State {
                identifier: format!("{origin}{}", self.path),
                origin: origin.clone(),
                path: self.path.trim_end_matches('/').to_owned(),
                policy: RwLock::new(Arc::new(self.policy)),
                book: Mutex::new(Book::new(self.prefix)),
                token_requests: Arc::default(),
            });
            made = Some(Arc::clone(&state));
            let behaviour = Behaviour::legacy_stateless();
            Shared::new(behaviour, ledger, origin, Role::Issuer(state))
        })?;
        let state = made.ok_or_else(|| io::Error::other("no state was made"))?;
        Ok(Issuer { host, state })
    }

    /// Starts the server; a failure fails the test.
    pub async fn start(self) -> Issuer {
        self.try_start().await.expect("a server on loopback starts")
    }
}

/// A running authorization server. Dropping it resets its connections and frees the port.
pub struct Issuer {
    host: Host,
    pub(crate) state: Arc<State>,
}

impl Issuer {
    /// Starts a server with the default [`Policy`] on a free port of 127.0.0.1.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// For everything that [`Issuer::start`] leaves at its default.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            path: String::new(),
            prefix: String::new(),
            policy: Policy::default(),
            place: Place::default(),
        }
    }

    /// The issuer identifier.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.state.identifier
    }

    /// An address under the issuer's path, such as that of `/token`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.state.url(path)
    }

    /// The token endpoint that the metadata names now, unless a test bent it.
    #[must_use]
    pub fn token_endpoint(&self) -> String {
        self.url(&self.state.policy().paths.token)
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

    /// The rules that are asked before the server itself.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.host.shared.script
    }

    /// The gates of scripts.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.host.shared.gates
    }

    /// Changes the settings for the requests that come from now on.
    pub fn change(&self, change: impl FnOnce(&mut Policy)) {
        change(Arc::make_mut(&mut self.state.policy.write()));
    }

    /// Moves the token endpoint; the old address answers with this status from now on.
    pub fn move_token_endpoint(&self, path: &str, status: u16) {
        self.change(|policy| {
            let old = std::mem::replace(&mut policy.paths.token, path.to_owned());
            policy.paths.gone.remove(path);
            policy.paths.gone.insert(old, status);
        });
    }

    /// Knows a client without registration.
    pub fn add_client(&self, client: Client) {
        self.state
            .book
            .lock()
            .clients
            .insert(client.id.clone(), client);
    }

    /// Forgets every client.
    pub fn forget_clients(&self) {
        self.state.book.lock().clients.clear();
    }

    /// Forgets one client.
    pub fn forget_client(&self, id: &str) {
        self.state.book.lock().clients.remove(id);
    }

    /// Issues tokens to a client as if a person had signed in, for tests that begin with a grant.
    ///
    /// The client is made known where it is not.
    pub fn issue(&self, client: Client, scopes: &[&str], resource: Option<&str>) -> Issued {
        let policy = self.state.policy();
        let consented = Consented {
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            resource: resource.map(str::to_owned),
            refresh: policy.tokens.refresh != policy::RefreshTokens::Never,
        };
        let mut book = self.state.book.lock();
        let handed = book.begin(&policy, &client.id, None, &consented);
        let client = book.clients.entry(client.id.clone()).or_insert(client);
        Issued {
            access_token: handed.access.value,
            refresh_token: handed.refresh,
            issued_at: SystemTime::now(),
            lifetime: policy.tokens.lifetime,
            scopes: consented.scopes,
            resource: consented.resource,
            client: client.clone(),
            issuer: self.identifier().to_owned(),
            token_endpoint: self.state.url(&policy.paths.token),
        }
    }

    /// Revokes every token.
    pub fn revoke_all(&self) {
        self.state.book.lock().end(|_| true);
    }

    /// Revokes the access tokens only, as where a key is rolled early.
    pub fn revoke_access_tokens(&self) {
        let is_access = |token: &Token| token.kind == Kind::Access;
        self.state.book.lock().end(is_access);
    }

    /// Lets every token of a kind expire now.
    pub fn expire(&self, kind: Kind) {
        self.state.book.lock().expire(kind);
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.book.lock().counts
    }

    /// The authorization requests, in order.
    #[must_use]
    pub fn authorizations(&self) -> Vec<Parameters> {
        self.state.book.lock().authorizations.clone()
    }

    /// Every refresh token that was presented at the token endpoint, in order, good or not.
    #[must_use]
    pub fn presented(&self) -> Vec<String> {
        self.state.book.lock().presented.clone()
    }

    /// Every token that was issued, family by family, in order.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token> {
        self.state.book.lock().tokens().cloned().collect()
    }

    /// One token.
    #[must_use]
    pub fn token(&self, value: &str) -> Option<Token> {
        self.state.book.lock().token(value).cloned()
    }

    /// How many tokens of a kind are live.
    #[must_use]
    pub fn live(&self, kind: Kind) -> usize {
        let book = self.state.book.lock();
        book.tokens()
            .filter(|token| token.kind == kind && token.is_live())
            .count()
    }

    /// What a token goes back to: the code, then each refresh token, then itself.
    #[must_use]
    pub fn lineage(&self, value: &str) -> Vec<String> {
        let book = self.state.book.lock();
        let parent = |value: &String| book.token(value)?.parent.clone();
        let mut line: Vec<_> = std::iter::successors(Some(value.to_owned()), parent).collect();
        line.reverse();
        line
    }

    /// The most requests that the token endpoint ever had under way together.
    #[must_use]
    pub fn peak_token_requests(&self) -> usize {
        self.state.token_requests.peak()
    }

    /// Resets every connection and closes the listener: the port refuses. What was issued is kept.
    pub async fn stop(&self) {
        self.host.stop().await;
    }

    /// Listens again on the same port after [`Issuer::stop`].
    pub fn resume(&self) {
        self.host.resume();
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer")
            .field("identifier", &self.identifier())
            .field("counts", &self.counts())
            .field("log", self.log())
            .finish_non_exhaustive()
    }
}

/// Tokens that were issued without a sign-in.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The access token.
    pub access_token: String,
    /// The refresh token.
    pub refresh_token: Option<String>,
    /// When.
    pub issued_at: SystemTime,
    /// Life of the access token.
    pub lifetime: Option<Duration>,
    /// What the tokens may do.
    pub scopes: Vec<String>,
    /// What they are good for.
    pub resource: Option<String>,
    /// Whose they are.
    pub client: Client,
    /// Who issued them.
    pub issuer: String,
    /// Where they are renewed.
    pub token_endpoint: String,
}

impl Issued {
    /// As the product's `PUT …/grant` takes it; what is unknown is null.
    #[must_use]
    pub fn import(&self) -> Value {
        let time = |at: SystemTime| jiff::Timestamp::try_from(at).ok().map(|at| at.to_string());
        let end = self.lifetime.map(|lifetime| self.issued_at + lifetime);
        json!({
            "access_token": self.access_token,
            "refresh_token": self.refresh_token,
            "expires_at": end.and_then(time),
            "scope": self.scopes.join(" "),
            "issuer": self.issuer,
            "token_endpoint": self.token_endpoint,
            "client_id": self.client.id,
            "client_secret": self.client.secret,
            "resource": self.resource,
        })
    }
}
