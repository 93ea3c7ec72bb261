//! The keeper's own questions: `server/discover`, `initialize`, `ping`, lists. All are harmless, so
//! redirects within the origin are followed and the new address is learned.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use steadfast_core::identity::RpcId;
use steadfast_core::now::Millis;
use steadfast_core::quirks::{self, Media};
use steadfast_core::wire::envelope::{self, Kind as MessageKind};
use steadfast_core::{Era, Fault, Kind, SessionId};

use super::events::{Events, Read};
use super::exchange::{Cut, Reply, exchange};
use crate::clock;
use crate::route::{SESSION_ID, Upstream, redirect};

/// How long the body of a refusal may take.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(2);

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
        let reply = exchange(&upstream.pool, outgoing, upstream.terms())
            .await
            .map_err(|unanswered| unanswered.fault)?;
        upstream.note(&reply.headers);
        if let Some(token) = token {
            if reply.status == StatusCode::UNAUTHORIZED && refusals == 0 {
                refusals += 1;
                reply.body.drain(DRAIN);
                upstream.credential().refused(token).await?;
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
        challenge: text(&reply.headers, &WWW_AUTHENTICATE),
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

pub(crate) fn text(headers: &HeaderMap, name: &http::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
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
