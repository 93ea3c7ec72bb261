//! The keeper's own questions: `server/discover`, `initialize`, `ping`, lists. All are harmless, so
//! redirects within the origin are followed and the new address is learned.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use steadfast_core::identity::{GrantGeneration, RpcId};
use steadfast_core::now::Millis;
use steadfast_core::quirks::{self, Media};
use steadfast_core::wire::challenge::{self as challenges, ScopeNeeded};
use steadfast_core::wire::envelope::{self, Kind as MessageKind};
use steadfast_core::{Era, Fault, Kind, SessionId};

use super::events::{Events, Read};
use super::exchange::{Cut, Reply};
use crate::clock;
use crate::grants::Refused;
use crate::route::{Route, SESSION_ID, Upstream, redirect};

/// How long the body of a refusal may take.
const DRAIN: Duration = Duration::from_secs(2);

/// How many redirects of a harmless question are followed.
const MAX_REDIRECTS: usize = 3;

/// What came back.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) status: u16,
    pub(crate) session: Option<SessionId>,
    pub(crate) media: Media,
    challenge: Option<String>,
    retry_after: Option<Millis>,
    /// The JSON-RPC response where there is one, else the raw body.
    pub(crate) body: Bytes,
}

impl Asked {
    /// An answer that came on the stream of the old transport.
    pub(crate) fn on_stream(message: Bytes) -> Self {
        Self {
            status: 200,
            session: None,
            media: Media::Json,
            challenge: None,
            retry_after: None,
            body: message,
        }
    }

    /// As the rule tables look at it.
    pub(crate) fn answer(&self, session_attached: bool, era: Era) -> quirks::Answer<'_> {
        quirks::Answer {
            status: self.status,
            media: self.media,
            body: &self.body[..self.body.len().min(EXCERPT)],
            challenge: self.challenge.as_deref(),
            retry_after: self.retry_after,
            session_attached,
            era,
        }
    }

    /// The `result` of a successful answer.
    pub(crate) fn result(&self) -> Option<Bytes> {
        let envelope = envelope::read(&self.body).ok()?;
        Some(self.body.slice(envelope.result?))
    }
}

/// How much of a body the rule tables look at; a JSON-RPC answer is given to them whole.
const EXCERPT: usize = 4 << 20;

/// Asks one question. `aside` gets every message that comes before the answer (ST-09), with the
/// session id that the answer's headers carry.
pub(crate) async fn ask(
    upstream: &Upstream,
    headers: HeaderMap,
    (id, body): (i64, Bytes),
    aside: &(dyn Fn(Bytes, Option<SessionId>) + Sync),
) -> Result<Asked, Fault> {
    let limit = upstream.retry.request_timeout.duration();
    let mut path = None;
    let (mut redirects, mut refusals) = (0, 0);
    loop {
        upstream.ready().await?;
        let mut outgoing = upstream.post(headers.clone(), body.clone());
        let token = outgoing.token;
        outgoing.path = path.clone().unwrap_or(outgoing.path);
        let reply = upstream
            .exchange(outgoing, upstream.terms())
            .await
            .map_err(|unanswered| unanswered.fault)?;
        if let Some(token) = token {
            let is_newer = note_scope(upstream, Some(token), || method_of(&body), &reply).await;
            if refusals == 0 && (is_newer || is_unauthorized(&reply)) {
                refusals += 1;
                if !is_newer {
                    upstream.credential().refused(token).await?;
                }
                reply.body.drain(DRAIN);
                continue;
            }
            if reply.status.is_success() {
                upstream.credential().accepted(token);
            }
        }
        if reply.status.is_redirection() {
            path = Some(redirect(upstream, reply.headers.get(LOCATION))?);
            redirects += 1;
            if redirects > MAX_REDIRECTS {
                return Err(Fault::new(
                    Kind::Redirected,
                    "the server redirects in a circle",
                ));
            }
            continue;
        }
        let read = read_reply(upstream.max_message, reply, id, aside);
        let asked = tokio::time::timeout(limit, read).await.map_err(|_| {
            let message = format!("no whole answer within {} ms", limit.as_millis());
            Fault::new(Kind::Timeout, message)
        })??;
        let answered = envelope::read(&asked.body).is_ok();
        if let Some(path) = path.filter(|_| answered) {
            upstream.learn_path(path);
        }
        return Ok(asked);
    }
}

/// Posts a question to a server of the old transport, which answers it on its stream.
pub(crate) async fn post_for_stream(
    route: &Route,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(), Fault> {
    let upstream = &route.upstream;
    let request = route.post(headers, body.clone());
    let token = request.token;
    let reply = upstream
        .exchange(request, upstream.terms())
        .await
        .map_err(|unanswered| unanswered.fault)?;
    note_scope(upstream, token, || method_of(&body), &reply).await;
    let needed = scope_needed(reply.status, &reply.headers);
    let status = reply.status.as_u16();
    needed.map_or(Ok(()), |it| Err(quirks::scope_insufficient(status, &it)))
}

pub(crate) fn method_of(message: &[u8]) -> String {
    let read = envelope::read(message);
    let method = read.map(|read| read.method(message).into_owned());
    method.unwrap_or_default()
}

/// 401, and not for a scope: a newer token may be taken (AU-02).
pub(crate) fn is_unauthorized(reply: &Reply) -> bool {
    reply.status == StatusCode::UNAUTHORIZED && scope_needed(reply.status, &reply.headers).is_none()
}

async fn read_reply(
    max: usize,
    reply: Reply,
    id: i64,
    aside: &(dyn Fn(Bytes, Option<SessionId>) + Sync),
) -> Result<Asked, Fault> {
    let mut asked = Asked {
        status: reply.status.as_u16(),
        session: session_of(&reply.headers),
        media: media_of(&reply.headers),
        challenge: challenge(&reply.headers),
        retry_after: retry_after(&reply.headers),
        body: Bytes::new(),
    };
    if asked.media != Media::EventStream {
        asked.body = match reply.body.collect(max).await {
            Ok(body) => body,
            Err(cut) => return Err(cut_fault(cut)),
        };
        return Ok(asked);
    }
    let mut events = Events::new(reply.body, max);
    loop {
        let message = match events.next().await {
            Read::Event(event) => Bytes::from(event.data.unwrap_or_default()),
            Read::PlainJson(body) => {
                asked.body = body;
                return Ok(asked);
            }
            Read::Heard => continue,
            Read::TooLarge => return Err(cut_fault(Cut::TooLarge)),
            // A stream that ends without the answer has no body to judge; its status stands.
            Read::End(how) => return Err(Fault::new(Kind::Network, how.evidence())),
        };
        let Ok(read) = envelope::read(&message) else {
            continue;
        };
        let is_answer = matches!(read.kind, MessageKind::Result | MessageKind::Error)
            && read
                .rpc_id(&message)
                .is_none_or(|answered| answered == RpcId::Integer(id));
        if is_answer {
            asked.body = message;
            events.finish();
            return Ok(asked);
        }
        aside(message, asked.session.clone());
    }
}

fn cut_fault(cut: Cut) -> Fault {
    match cut {
        Cut::Broken(how) => Fault::new(Kind::Network, how.evidence()),
        Cut::TooLarge => Fault::new(
            Kind::NotAnMcpAnswer,
            "the answer is larger than limits.max_message",
        ),
    }
}

pub(crate) fn media_of(headers: &HeaderMap) -> Media {
    Media::of(
        headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok()),
    )
}

pub(crate) fn session_of(headers: &HeaderMap) -> Option<SessionId> {
    let id = headers.get(SESSION_ID)?.to_str().ok()?;
    (!id.is_empty()).then(|| SessionId::new(id))
}

/// The lines of `WWW-Authenticate` as one (RFC 9110 section 5.3).
pub(crate) fn challenge(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(WWW_AUTHENTICATE).iter();
    let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// What a server wants that refuses a request for its scope.
pub(crate) fn scope_needed(status: StatusCode, headers: &HeaderMap) -> Option<ScopeNeeded> {
    challenges::scope_needed(status.as_u16(), challenge(headers).as_deref())
}

/// Takes note of how a server took the scope of a request that nobody waits for; whether there is a newer token by now,
/// worth another try.
pub(crate) async fn note_scope(
    upstream: &Upstream,
    token: Option<GrantGeneration>,
    operation: impl FnOnce() -> String,
    reply: &Reply,
) -> bool {
    // The operator's own credential is nothing that anybody could sign in for.
    let Some(generation) = token else {
        return false;
    };
    let credential = upstream.credential();
    if reply.status.is_success() {
        credential.scope_suffices(operation);
        return false;
    }
    match scope_needed(reply.status, &reply.headers) {
        Some(needed) => {
            let refused = Refused {
                generation,
                operation: operation(),
                needed,
            };
            credential.lacks_scope(refused, Duration::ZERO).await
        }
        None => false,
    }
}

/// Retry-After as a delay: seconds or an HTTP date (RFC 9110 section 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Millis(seconds.saturating_mul(1_000)));
    }
    let at = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    let left = at.as_millisecond() - clock::wall().0;
    Some(Millis(left.max(0).unsigned_abs()))
}
