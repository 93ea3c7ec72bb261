//! What a request needs to reach a server: the configured upstream, and the route that an opening of
//! the connection made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use parking_lot::{Mutex, RwLock};
use steadfast_core::connection::handshake::Known;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::reach::Reach;
use steadfast_core::{Era, EventCursor, Fault, Generation, Kind, Revision, SessionId, quirks};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use url::Url;

use crate::config;
use crate::cookies::Jar;
use crate::fleet::{Fleet, Member};
use crate::grants::Credential;
use crate::handle::CallHandle;
use crate::legacy_sse::Waiting;
use crate::perform::dial::{Dialer, Origin};
use crate::perform::exchange::{Outgoing, Reply, Terms, Unanswered, exchange};
use crate::perform::pool::Pool;
use crate::secrets::{References, Secrets};
use crate::send::Job;

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(crate) const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
pub(crate) const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("steadfast/", env!("CARGO_PKG_VERSION")));

/// One configured server, as one agent reaches it. Replaced as a whole when the configuration changes.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) config: config::Server,
    pub(crate) retry: Arc<config::Retry>,
    pub(crate) max_message: usize,
    pub(crate) pool: Arc<Pool>,
    /// Its part in the gate of the fleet.
    pub(crate) member: Member,
    path: RwLock<PathAndQuery>,
    headers: HeaderMap,
    /// What of the configuration names secrets: they are put in when a request leaves.
    references: References,
    secrets: Arc<Secrets>,
    /// A load balancer's cookies, where they are wanted.
    jar: Option<Jar>,
    /// The grant of the agent for this server.
    credential: Credential,
}

impl Upstream {
    pub(crate) fn new(
        config: config::Server,
        settings: &config::Settings,
        retry: Arc<config::Retry>,
        dialer: Arc<Dialer>,
        fleet: &Arc<Fleet>,
        credential: Credential,
        secrets: Arc<Secrets>,
    ) -> Result<Self, Fault> {
        let origin = Origin::of(&config.url)?;
        let mut headers = HeaderMap::with_capacity(config.headers.len() + 4);
        if let Ok(host) = HeaderValue::from_str(&origin.authority()) {
            headers.insert(HOST, host);
        }
        headers.insert(USER_AGENT, USER_AGENT_VALUE);
        let mut references = References::default();
        references.add_client(&config)?;
        for (written, text) in &config.headers {
            let (Ok(name), Ok(mut value)) = (
                HeaderName::try_from(written.as_str()),
                HeaderValue::try_from(text.as_str()),
            ) else {
                let message =
                    format!("the header {written} cannot be sent: check its name and value");
                return Err(Fault::new(Kind::Misconfigured, message));
            };
            if !references.add_header(&name, (written, text))? {
                // It may be a credential: not printed, and in no table of header compression (RFC 7541 section 7.1.3).
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        let path = path_of(&config.url);
        Ok(Self {
            pool: Arc::new(Pool::new(dialer, origin, Reach::Anywhere)),
            member: fleet.join(config.url.as_str()),
            path: RwLock::new(path),
            headers,
            references,
            secrets,
            jar: config.cookies.then(Jar::default),
            credential,
            config,
            retry,
            max_message: settings.max_message.0,
        })
    }

    /// With this credential as if it were configured: nothing is renewed where the server refuses it.
    pub(crate) fn carrying(mut self, bearer: HeaderValue) -> Self {
        self.headers.insert(AUTHORIZATION, bearer);
        self
    }

    /// The headers that may be credentials, as they are sent.
    pub(crate) fn sensitive_headers(&self) -> Vec<HeaderValue> {
        let outgoing = self.outgoing(Method::GET, self.headers.clone(), Bytes::new());
        let values = outgoing.headers.into_iter().map(|(_, value)| value);
        values.filter(HeaderValue::is_sensitive).collect()
    }

    /// The key under which what was learned about the server is remembered.
    pub(crate) fn address(&self) -> &str {
        self.config.url.as_str()
    }

    /// Whether both show the same server to the same identity (2026-07-28 server/utilities/caching, "Cache Scope
    /// Field": "MUST NOT be shared across authorization contexts").
    pub(crate) fn shows_the_same_as(&self, other: &Self) -> bool {
        self.config.url == other.config.url && self.config.headers == other.config.headers
    }

    /// Where requests go: the configured path, or the one that the server redirected to for good.
    pub(crate) fn path(&self) -> PathAndQuery {
        self.path.read().clone()
    }

    /// Remembers where the server redirected to, once something there answered as an MCP server.
    pub(crate) fn learn_path(&self, path: PathAndQuery) {
        *self.path.write() = path;
    }

    /// The headers of a POST in this revision. `session` never goes on `initialize` or
    /// `server/discover` (SE-05), and `revision` not on a first `initialize` (PV-05).
    pub(crate) fn post_headers(
        &self,
        revision: Option<Revision>,
        session: Option<&SessionId>,
    ) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, JSON);
        // 2025-11-25 transports, "Sending Messages" 2; 2026-07-28 likewise: both must be listed.
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        mark(&mut headers, revision, session);
        // Its place; the length itself comes with the body. So a copy need not grow when it is sent.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        headers
    }

    /// A POST of this body.
    pub(crate) fn post(&self, headers: HeaderMap, body: Bytes) -> Outgoing {
        self.outgoing(Method::POST, headers, body)
    }

    fn outgoing(&self, method: Method, mut headers: HeaderMap, body: Bytes) -> Outgoing {
        if let Some(jar) = &self.jar {
            jar.add_to(&mut headers);
        }
        // What is missing by now was there when it was looked for: then the header is not sent.
        headers.extend(self.references.headers(&self.secrets).flatten());
        // The newest one, on every request (AU-01, AU-04); a header that the operator configured wins.
        let mut token = None;
        if !self.has_own_credential()
            && let Some((generation, bearer)) = self.credential.bearer()
        {
            headers.insert(AUTHORIZATION, bearer);
            token = Some(generation);
        }
        Outgoing {
            method,
            path: self.path(),
            headers,
            body,
            token,
        }
    }

    /// That every secret is there which the configuration names.
    pub(crate) fn check_secrets(&self) -> Result<(), Fault> {
        self.references.check(&self.secrets)
    }

    /// Whether the configuration names one of these secrets.
    pub(crate) fn names_any_of(&self, secrets: &BTreeSet<String>) -> bool {
        self.references.name_any_of(secrets)
    }

    /// Whether the configured client proves itself with one of these secrets.
    pub(crate) fn client_names_any_of(&self, secrets: &BTreeSet<String>) -> bool {
        self.references.client_names_any_of(secrets)
    }

    /// Whether [`ready`](Self::ready) has nothing to look up and nothing to wait for.
    pub(crate) fn is_ready(&self) -> bool {
        self.references.are_none() && (self.has_own_credential() || self.credential.is_ready())
    }

    /// Waits while the access token is being renewed and no other is good, as long as an answer may take. Asked before
    /// every request, so that none leaves without a token, or with one that is known to be dead (RT-07, EX-01).
    pub(crate) async fn ready(&self) -> Result<(), Fault> {
        self.check_secrets()?;
        if self.has_own_credential() {
            return Ok(());
        }
        let limit = self.retry.request_timeout.duration();
        self.credential.ready(limit).await
    }

    /// Whether a request that leaves now would carry an access token that is good.
    pub(crate) fn would_send_a_good_token(&self) -> bool {
        !self.has_own_credential() && self.credential.has_good_token()
    }

    fn has_own_credential(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION) || self.references.has_header(&AUTHORIZATION)
    }

    /// The grant of the agent for this server.
    pub(crate) fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Sends a request, and takes note of what the answer's headers say for later ones.
    pub(crate) async fn exchange(
        &self,
        outgoing: Outgoing,
        terms: Terms,
    ) -> Result<Reply, Unanswered> {
        let batch = self.cookie_batch();
        let reply = exchange(&self.pool, outgoing, terms).await?;
        self.note(batch, &reply.headers);
        Ok(reply)
    }

    /// Which cookies go along with a request that leaves now.
    fn cookie_batch(&self) -> u64 {
        self.jar.as_ref().map_or(0, Jar::batch)
    }

    /// Takes note of what an answer's headers say for later requests; `batch` is what its own request took along.
    fn note(&self, batch: u64, headers: &HeaderMap) {
        if let Some(jar) = &self.jar {
            jar.take(batch, headers);
        }
    }

    /// A new generation begins: nothing of the one before goes along.
    pub(crate) fn begin_generation(&self) {
        if let Some(jar) = &self.jar {
            jar.clear();
        }
    }

    /// A GET for events, with a cursor to resume from where there is one.
    pub(crate) fn get(
        &self,
        revision: Option<Revision>,
        session: Option<&SessionId>,
        cursor: Option<&EventCursor>,
    ) -> Outgoing {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, EVENTS);
        mark(&mut headers, revision, session);
        if let Some(value) = cursor.and_then(|cursor| HeaderValue::from_str(cursor.as_str()).ok()) {
            headers.insert(LAST_EVENT_ID, value);
        }
        self.outgoing(Method::GET, headers, Bytes::new())
    }

    /// A DELETE of a session.
    pub(crate) fn delete(&self, revision: Option<Revision>, session: &SessionId) -> Outgoing {
        let mut headers = self.headers.clone();
        mark(&mut headers, revision, Some(session));
        self.outgoing(Method::DELETE, headers, Bytes::new())
    }

    /// Terms for the keeper's own harmless questions: any idle connection will do.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            max_idle: None,
            headers_within: self.retry.request_timeout.duration(),
        }
    }
}

fn mark(headers: &mut HeaderMap, revision: Option<Revision>, session: Option<&SessionId>) {
    if let Some(revision) = revision {
        headers.insert(
            PROTOCOL_VERSION,
            HeaderValue::from_static(revision.as_str()),
        );
    }
    if let Some(value) = session.and_then(|id| HeaderValue::from_str(id.as_str()).ok()) {
        headers.insert(SESSION_ID, value);
    }
}

/// Path and query of a URL, as they go into a request.
pub(crate) fn path_of(url: &Url) -> PathAndQuery {
    let text = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    PathAndQuery::try_from(text).unwrap_or_else(|_| PathAndQuery::from_static("/"))
}

/// Where a redirect leads: a path of the same origin, or an explanation why it is not followed.
/// Never to another origin with our credentials, never from https to http (HT-01).
pub(crate) fn redirect(
    upstream: &Upstream,
    location: Option<&HeaderValue>,
) -> Result<PathAndQuery, Fault> {
    let refuse = |message: String| Err(Fault::new(Kind::Redirected, message));
    let Some(location) = location.and_then(|value| value.to_str().ok()) else {
        return refuse("the server redirects without saying where".into());
    };
    let Ok(target) = upstream.config.url.join(location) else {
        return refuse("the server redirects to something that is no address".into());
    };
    let shown = format!(
        "{}{}",
        target.origin().ascii_serialization(),
        quirks::sanitise(target.path())
    );
    match Origin::of(&target) {
        Ok(origin) if origin == *upstream.pool.origin() => Ok(path_of(&target)),
        Ok(origin) if upstream.pool.origin().tls && !origin.tls => refuse(format!(
            "the server redirects from https to plain http ({shown}), which is not followed: correct \
             the server's idea of its own scheme, or set the url to {}",
            shown.replacen("http:", "https:", 1)
        )),
        Ok(_) => refuse(format!(
            "the server redirects to another origin ({shown}), which is not followed with this \
             agent's credentials: set the url to it if you trust it"
        )),
        Err(_) => refuse(format!(
            "the server redirects to {shown}, which is not followed"
        )),
    }
}

/// What one opening of a connection made: requests of this generation go this way.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) generation: Generation,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) known: Known,
    pub(crate) session: Option<SessionId>,
    /// The headers of every POST on this route.
    pub(crate) headers: HeaderMap,
    /// Where POSTs go, where that is not the upstream's own path (HTTP+SSE).
    pub(crate) endpoint: Option<PathAndQuery>,
    /// Who waits for an answer on the stream of HTTP+SSE.
    pub(crate) waiting: Waiting,
    /// What reads that stream: ends with the route.
    carrier: Mutex<JoinSet<()>>,
    /// The calls that the server owes an answer, by the id that it knows them by.
    in_flight: Mutex<BTreeMap<i64, Arc<Job>>>,
    /// Whether a stream was refused with 401 and none accepted since.
    stream_refused: AtomicBool,
    drained: Notify,
}

impl Route {
    pub(crate) fn new(
        generation: Generation,
        upstream: Arc<Upstream>,
        known: Known,
        session: Option<SessionId>,
    ) -> Self {
        let headers = upstream.post_headers(Some(known.revision), session.as_ref());
        Self {
            generation,
            upstream,
            known,
            session,
            headers,
            endpoint: None,
            waiting: Waiting::default(),
            carrier: Mutex::default(),
            in_flight: Mutex::default(),
            stream_refused: AtomicBool::new(false),
            drained: Notify::new(),
        }
    }

    /// The server refused the token of a stream with 401: whether there is a newer one by now. Asked for once until a
    /// stream is accepted, for some servers refuse streams alone, whatever the token (AU-04).
    pub(crate) async fn renewed_for_stream(&self, token: Option<GrantGeneration>) -> bool {
        let Some(token) = token else {
            return false;
        };
        if self.stream_refused.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.upstream.credential().refused(token).await.is_ok()
    }

    /// The server takes the token of a stream.
    pub(crate) fn stream_accepted(&self) {
        self.stream_refused.store(false, Ordering::Relaxed);
    }

    /// A POST of this body.
    pub(crate) fn post(&self, headers: HeaderMap, body: Bytes) -> Outgoing {
        let mut outgoing = self.upstream.post(headers, body);
        if let Some(endpoint) = &self.endpoint {
            outgoing.path = endpoint.clone();
        }
        outgoing
    }

    pub(crate) fn era(&self) -> Era {
        self.known.era
    }

    /// Notes that the route owes the answer to a call, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, id: i64, job: &Arc<Job>) -> Busy {
        self.in_flight.lock().insert(id, Arc::clone(job));
        Busy {
            route: Arc::clone(self),
            id,
        }
    }

    /// The call that the server knows by this id.
    pub(crate) fn call(&self, id: i64) -> Option<Arc<Job>> {
        self.in_flight.lock().get(&id).cloned()
    }

    /// The calls that the server owes an answer, oldest first: ids only grow.
    pub(crate) fn in_flight(&self) -> Vec<CallHandle> {
        let in_flight = self.in_flight.lock();
        in_flight.values().map(|job| job.handle().clone()).collect()
    }

    /// Runs a task that ends with the route, or when it is closed.
    pub(crate) fn carry(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.carrier.lock().spawn(task);
    }

    /// Ends what was carried: the stream of HTTP+SSE is closed.
    pub(crate) fn close(&self) {
        self.carrier.lock().abort_all();
        self.waiting.clear();
    }

    /// Waits until no answer is owed any more, at most this long.
    pub(crate) async fn drained(&self, limit: Duration) {
        let idle = async {
            loop {
                let notified = self.drained.notified();
                if self.in_flight.lock().is_empty() {
                    return;
                }
                notified.await;
            }
        };
        let _ = tokio::time::timeout(limit, idle).await;
    }
}

/// The answer to a call is owed on a route.
#[derive(Debug)]
pub(crate) struct Busy {
    route: Arc<Route>,
    id: i64,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut in_flight = self.route.in_flight.lock();
        let answered = in_flight.remove(&self.id);
        let is_idle = in_flight.is_empty();
        drop(in_flight);
        // Dropping a call may end questions, which are answered on routes.
        drop(answered);
        if is_idle {
            self.route.drained.notify_waiters();
        }
    }
}
