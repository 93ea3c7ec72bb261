//! Opens a connection: goes on with the session that is on record, or shakes hands as
//! `connection::handshake` says, one question at a time.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};
use steadfast_core::connection::handshake::{self, Ask, Known, Next, Offer, Reply, Transport};
use steadfast_core::wire::json;
use steadfast_core::{Era, Fault, Generation, Kind, Revision, SessionId, quirks};
use steadfast_store::{SessionRecord, SharedRecords};

use crate::legacy_sse::{self, NoStream};
use crate::link::{Hello, Link};
use crate::perform::ask::{Asked, ask, note_scope, post_for_stream, scope_needed};
use crate::perform::events::Events;
use crate::route::{MCP_METHOD, Route, Upstream};

/// How the history names a session whose ping was refused in words that no rule of the table knows.
const PING_REFUSED: &str = "ping-refused";

/// What an opening made.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) route: Arc<Route>,
    pub(crate) hello: Hello,
    /// The session on record was still known: nothing was lost.
    pub(crate) resumed: bool,
    /// The rule by which the session on record was found dead, if it was.
    pub(crate) refused: Option<&'static str>,
    /// The server speaks another era than the one remembered.
    pub(crate) era_changed: bool,
}

/// What the keeper says of itself in the modern era.
pub(crate) fn own_meta(revision: Revision) -> String {
    format!(
        r#"{{"io.modelcontextprotocol/protocolVersion":"{revision}","io.modelcontextprotocol/clientInfo":{OWN_INFO},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    )
}

pub(crate) const OWN_INFO: &str = concat!(
    r#"{"name":"steadfast","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// What the keeper offers in a legacy session. An agent that lacks one of these is answered for.
fn own_capabilities(revision: Revision) -> &'static str {
    if revision.since(Revision::V2025_11_25) {
        r#"{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}"#
    } else if revision.since(Revision::V2025_06_18) {
        r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#
    } else {
        r#"{"roots":{"listChanged":true},"sampling":{}}"#
    }
}

/// Opens a connection.
pub(crate) async fn open(
    link: &Arc<Link>,
    upstream: &Arc<Upstream>,
    generation: Generation,
    record: Option<SessionRecord>,
    store: &SharedRecords,
) -> Result<Opened, Fault> {
    let opened = open_once(link, upstream, generation, record.clone(), store).await;
    match opened {
        // The token for it was asked for before the secret came: what was missing then is no reason now.
        Err(fault) if fault.kind == Kind::VaultReference && upstream.check_secrets().is_ok() => {
            open_once(link, upstream, generation, record, store).await
        }
        opened => opened,
    }
}

async fn open_once(
    link: &Arc<Link>,
    upstream: &Arc<Upstream>,
    generation: Generation,
    record: Option<SessionRecord>,
    store: &SharedRecords,
) -> Result<Opened, Fault> {
    let address = upstream.address();
    let known = store.era(address).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "what was learned about the server cannot be read");
        None
    });
    if known.as_ref().is_some_and(|known| known.no_ping) {
        link.no_ping();
    }
    let mut refused = None;
    let mut doubtful: Option<SessionId> = None;
    if let (Some(record), Some(known)) = (record, &known)
        && record.address == address
        && known.era == Era::Legacy
        && known.transport == Transport::StreamableHttp
    {
        let known = Known {
            revision: record.revision,
            ..known.clone()
        };
        match go_on(link, upstream, generation, &record, known).await? {
            Ok(opened) => return Ok(opened),
            Err(rule) => refused = Some(rule),
        }
        doubtful = record.id.filter(|_| refused == Some(PING_REFUSED));
    }
    upstream.begin_generation();
    let mut opened = shake_hands(link, upstream, generation, known.as_ref()).await?;
    if let Some(session) = doubtful {
        // Perhaps the server still keeps it.
        abandon(upstream, Some(opened.route.known.revision), session);
    }
    opened.refused = refused;
    let learned = &opened.route.known;
    opened.era_changed = known.as_ref().is_some_and(|known| known.era != learned.era);
    if known.as_ref() != Some(learned)
        && let Err(error) = store.put_era(address, learned).await
    {
        tracing::warn!(%error, "what was learned about the server cannot be kept");
    }
    Ok(opened)
}

/// A question that changes nothing, for a legacy server: ping, or the list of tools where it is known
/// not to know ping (OP-05).
pub(crate) fn harmless(link: &Link, id: i64) -> Bytes {
    let method = if link.knows_no_ping() {
        "tools/list"
    } else {
        "ping"
    };
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#
    ))
}

/// Asks whether the session on record is still known.
/// The inner error names the rule by which it was found dead.
async fn go_on(
    link: &Arc<Link>,
    upstream: &Arc<Upstream>,
    generation: Generation,
    record: &SessionRecord,
    known: Known,
) -> Result<Result<Opened, &'static str>, Fault> {
    let Some(session) = &record.id else {
        // A server without session ids remembers nothing that could be gone on with (SE-07).
        return Ok(Err("no-session-id"));
    };
    let route = Route::new(
        generation,
        Arc::clone(upstream),
        known,
        Some(session.clone()),
    );
    let route = Arc::new(route);
    let id = link.next_id();
    let question = harmless(link, id);
    let aside = |message, _| link.aside(&route, message);
    let asked = ask(upstream, route.headers.clone(), (id, question), &aside).await?;
    let answer = asked.answer(true, Era::Legacy);
    if let Some(rule) = quirks::unknown_session(&answer) {
        return Ok(Err(rule.name));
    }
    if asked.result().is_none() && quirks::method_unknown(&answer).is_none() {
        let fault = quirks::fault_of(&answer);
        if fault.kind != Kind::ProtocolMismatch {
            return Err(fault);
        }
        // Refused in words that no rule knows: this session does not work any more, and a new one may.
        return Ok(Err(PING_REFUSED));
    }
    link.heard();
    let hello = Hello {
        revision: record.revision,
        result: Bytes::from(record.initialize_result.clone()),
    };
    Ok(Ok(Opened {
        route,
        hello,
        resumed: true,
        refused: None,
        era_changed: false,
    }))
}

/// The handshake, as far as it has come.
struct Handshake<'a> {
    link: &'a Arc<Link>,
    upstream: &'a Arc<Upstream>,
    generation: Generation,
    /// The answer to the last question.
    asked: Option<Asked>,
    /// The stream of the old transport, once its endpoint is known.
    stream: Option<(Events, http::uri::PathAndQuery)>,
}

async fn shake_hands(
    link: &Arc<Link>,
    upstream: &Arc<Upstream>,
    generation: Generation,
    known: Option<&Known>,
) -> Result<Opened, Fault> {
    let mut shake = Handshake {
        link,
        upstream,
        generation,
        asked: None,
        stream: None,
    };
    let (mut state, mut question) = handshake::begin(known, Offer::default());
    loop {
        let (after, next) = match shake.ask(question).await {
            Ok(true) => match &shake.asked {
                Some(asked) => {
                    let era = match question {
                        Ask::Discover(_) => Era::Modern,
                        Ask::Initialize { .. } | Ask::Endpoint => Era::Legacy,
                    };
                    handshake::next(state, &Reply::Answer(asked.answer(false, era)))
                }
                None => handshake::next(state, &Reply::Endpoint(true)),
            },
            Ok(false) => handshake::next(state, &Reply::Endpoint(false)),
            Err(fault) => handshake::next(state, &Reply::Fault(&fault)),
        };
        state = after;
        match next {
            Next::Ask(next) => {
                shake.abandon_minted_session();
                question = next;
            }
            Next::Open(known) => return shake.finish(known).await,
            Next::Fail(fault) => {
                shake.abandon_minted_session();
                return Err(fault);
            }
        }
    }
}

impl Handshake<'_> {
    /// Asks one question. Whether it was answered; the answer is in `asked`, or the stream in `stream`.
    async fn ask(&mut self, question: Ask) -> Result<bool, Fault> {
        let id = self.link.next_id();
        let (headers, body) = match question {
            Ask::Discover(revision) => {
                let mut headers = self.upstream.post_headers(Some(revision), None);
                headers.insert(MCP_METHOD, HeaderValue::from_static("server/discover"));
                (headers, discover(id, revision))
            }
            Ask::Initialize { revision, header } => {
                let headers = self.upstream.post_headers(header.then_some(revision), None);
                (headers, initialize(self.link, id, revision))
            }
            Ask::Endpoint => {
                self.asked = None;
                return match legacy_sse::open(self.upstream).await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        Ok(true)
                    }
                    Err(NoStream::NotOffered) => Ok(false),
                    Err(NoStream::Fault(fault)) => Err(fault),
                };
            }
        };
        self.asked = None;
        let aside = |message: Bytes, session: Option<SessionId>| {
            self.during_initialize(message, session);
        };
        let asked = ask(self.upstream, headers, (id, Bytes::from(body)), &aside).await?;
        self.asked = Some(asked);
        Ok(true)
    }

    /// A message before the answer to `initialize` (ST-09): a ping is answered in the session that is
    /// being opened; notifications have nobody to go to yet.
    fn during_initialize(&self, message: Bytes, session: Option<SessionId>) {
        let known = Known {
            era: Era::Legacy,
            transport: Transport::StreamableHttp,
            revision: Revision::LATEST_LEGACY,
            initialize_header: false,
            no_ping: false,
        };
        let route = Route::new(self.generation, Arc::clone(self.upstream), known, session);
        self.link.aside(&Arc::new(route), message);
    }

    /// A server that minted a session for a question that it refused, or answered in a way that cannot
    /// be used, is told that the session is not wanted (PV-07).
    fn abandon_minted_session(&mut self) {
        let Some(session) = self.asked.take().and_then(|asked| asked.session) else {
            return;
        };
        abandon(self.upstream, None, session);
    }

    async fn finish(mut self, known: Known) -> Result<Opened, Fault> {
        if known.transport == Transport::HttpSse {
            return self.finish_http_sse(known).await;
        }
        let asked = self.asked.take();
        let hello = Hello {
            revision: known.revision,
            result: asked.as_ref().and_then(Asked::result).unwrap_or_default(),
        };
        let session = match known.era {
            Era::Legacy => asked.and_then(|asked| asked.session),
            // 2026-07-28: a session id is ignored.
            Era::Modern => None,
        };
        let upstream = Arc::clone(self.upstream);
        let route = Arc::new(Route::new(self.generation, upstream, known, session));
        if route.era() == Era::Legacy
            && let Err(fault) = initialized(&route).await
        {
            if let Some(session) = route.session.clone() {
                abandon(self.upstream, Some(route.known.revision), session);
            }
            return Err(fault);
        }
        Ok(self.opened(route, hello))
    }

    async fn finish_http_sse(mut self, known: Known) -> Result<Opened, Fault> {
        let Some((events, endpoint)) = self.stream.take() else {
            return Err(Fault::new(Kind::ProtocolMismatch, "the GET stream is gone"));
        };
        let revision = known.revision;
        let mut route = Route::new(self.generation, Arc::clone(self.upstream), known, None);
        route.endpoint = Some(endpoint);
        let route = Arc::new(route);
        legacy_sse::read(self.link, &route, events);
        let id = self.link.next_id();
        let answer = route.waiting.register(id);
        let body = Bytes::from(initialize(self.link, id, revision));
        self.upstream.ready().await?;
        post_for_stream(&route, route.headers.clone(), body).await?;
        let limit = self.upstream.retry.request_timeout.duration();
        let message = tokio::time::timeout(limit, answer)
            .await
            .map_err(|_| Fault::new(Kind::Timeout, "no answer to initialize on the stream"))?
            .map_err(|_| Fault::new(Kind::Network, "the stream ended before the answer"))?;
        let result = json::at_path(&message, 0..message.len(), &["result"]).ok_or_else(|| {
            Fault::new(
                Kind::ProtocolMismatch,
                "initialize was refused on the stream",
            )
        })?;
        let hello = Hello {
            revision,
            result: message.slice(result),
        };
        initialized(&route).await?;
        Ok(self.opened(route, hello))
    }

    fn opened(&self, route: Arc<Route>, hello: Hello) -> Opened {
        self.link.heard();
        Opened {
            route,
            hello,
            resumed: false,
            refused: None,
            era_changed: false,
        }
    }
}

pub(crate) fn discover(id: i64, revision: Revision) -> String {
    let meta = own_meta(revision);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{"_meta":{meta}}}}}"#
    )
}

fn initialize(link: &Link, id: i64, revision: Revision) -> String {
    // What only one conversation uses is offered with that one's own capabilities.
    let capabilities = match &link.private {
        Some(private) => private.client.capabilities.as_str(),
        None => own_capabilities(revision),
    };
    initialize_with(id, revision, capabilities)
}

pub(crate) fn initialize_with(id: i64, revision: Revision, capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{OWN_INFO}}}}}"#
    )
}

/// Servers acknowledge this in many ways; only an error status fails the handshake (HT-02).
async fn initialized(route: &Arc<Route>) -> Result<(), Fault> {
    let body = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let upstream = &route.upstream;
    upstream.ready().await?;
    let request = route.post(route.headers.clone(), body);
    let token = request.token;
    let reply = upstream
        .exchange(request, upstream.terms())
        .await
        .map_err(|unanswered| unanswered.fault)?;
    let operation = || "notifications/initialized".to_owned();
    note_scope(upstream, token, operation, &reply).await;
    let status = reply.status;
    if let Some(needed) = scope_needed(status, &reply.headers) {
        return Err(quirks::scope_insufficient(status.as_u16(), &needed));
    }
    if status.is_client_error() || status.is_server_error() {
        let message = format!("the server refused notifications/initialized ({status})");
        return Err(Fault::new(Kind::ProtocolMismatch, message));
    }
    reply.body.drain(std::time::Duration::from_secs(2));
    Ok(())
}

/// Ends a session, best effort: many servers answer 405, some not at all (OP-06). Nobody is asked to sign in for a scope
/// that only this would need.
pub(crate) async fn delete(route: &Route, session: &SessionId) {
    end(&route.upstream, Some(route.known.revision), session).await;
}

/// The same in the background, for a session that was never used or whose server does not use it.
fn abandon(upstream: &Arc<Upstream>, revision: Option<Revision>, session: SessionId) {
    let upstream = Arc::clone(upstream);
    tokio::spawn(async move { end(&upstream, revision, &session).await });
}

/// The same, where no route was made of it.
pub(crate) async fn end(upstream: &Upstream, revision: Option<Revision>, session: &SessionId) {
    let limit = std::time::Duration::from_secs(2);
    let ending = async {
        if upstream.ready().await.is_ok() {
            let request = upstream.delete(revision, session);
            debug_assert_eq!(request.method, Method::DELETE);
            let _ = upstream.exchange(request, upstream.terms()).await;
        }
    };
    let _ = tokio::time::timeout(limit, ending).await;
}
