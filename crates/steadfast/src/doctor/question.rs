//! Harmless MCP requests: how a server answers, and which era it speaks. Never a tool call.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use http::HeaderValue;
use steadfast_core::connection::handshake::{self, Ask, Known, Next, Offer, Reply};
use steadfast_core::{Era, Fault, Kind, SessionId, quirks};

use crate::drive::open::{discover, end, harmless, initialize_with};
use crate::legacy_sse::{self, NoStream};
use crate::link::Link;
use crate::perform::ask::{Asked, ask};
use crate::route::{MCP_METHOD, Route, Upstream};

/// What a server answered.
pub(super) struct Heard {
    /// What it speaks, or why that is not known.
    pub(super) outcome: Result<Known, Fault>,
    /// Each question and its answer.
    pub(super) lines: Vec<String>,
    /// The `WWW-Authenticate` of the last answer.
    pub(super) challenge: Option<String>,
}

/// What came back to one question.
enum Got {
    Answer(Asked),
    /// Whether the stream of the old transport named its endpoint.
    Endpoint(bool),
    Fault(Fault),
}

/// Asks what an opening of the connection would ask, and keeps nothing of it: a session that came of it is ended.
pub(super) async fn knock(upstream: &Upstream, ids: &AtomicI64) -> Heard {
    let mut heard = Heard {
        outcome: Err(Fault::new(Kind::ProtocolMismatch, "nothing was asked")),
        lines: Vec::new(),
        challenge: None,
    };
    let (mut state, mut question) = handshake::begin(None, Offer::default());
    loop {
        let id = ids.fetch_add(1, Ordering::Relaxed);
        let got = put(upstream, id, question).await;
        let era = era_of(question);
        let (after, next) = match &got {
            Got::Answer(asked) => handshake::next(state, &Reply::Answer(asked.answer(false, era))),
            Got::Endpoint(offered) => handshake::next(state, &Reply::Endpoint(*offered)),
            Got::Fault(fault) => handshake::next(state, &Reply::Fault(fault)),
        };
        heard
            .lines
            .push(format!("{}: {}", name(question), said(&got, era)));
        if let Got::Answer(asked) = &got {
            heard.challenge = asked.answer(false, era).challenge.map(str::to_owned);
            if let Some(session) = &asked.session {
                let revision = match &next {
                    Next::Open(known) if known.era == Era::Legacy => Some(known.revision),
                    Next::Open(_) | Next::Ask(_) | Next::Fail(_) => None,
                };
                end(upstream, revision, session).await;
                let line = "DELETE of the session that this opened";
                heard.lines.push(line.to_owned());
            }
        }
        state = after;
        match next {
            Next::Ask(next) => question = next,
            Next::Open(known) => heard.outcome = Ok(known),
            Next::Fail(fault) => heard.outcome = Err(fault),
        }
        if !matches!(
            state,
            handshake::State::Discovering { .. }
                | handshake::State::Initializing { .. }
                | handshake::State::SeekingEndpoint { .. }
        ) {
            return heard;
        }
    }
}

const fn era_of(question: Ask) -> Era {
    match question {
        Ask::Discover(_) => Era::Modern,
        Ask::Initialize { .. } | Ask::Endpoint => Era::Legacy,
    }
}

fn name(question: Ask) -> String {
    match question {
        Ask::Discover(revision) => format!("POST server/discover ({revision})"),
        Ask::Initialize { revision, .. } => format!("POST initialize ({revision})"),
        Ask::Endpoint => "GET of the old transport".to_owned(),
    }
}

fn said(got: &Got, era: Era) -> String {
    match got {
        Got::Answer(asked) if asked.result().is_some() => format!("{}, a result", asked.status),
        Got::Answer(asked) => quirks::fault_of(&asked.answer(false, era)).message,
        Got::Endpoint(true) => "the endpoint of the old transport".to_owned(),
        Got::Endpoint(false) => "not offered".to_owned(),
        Got::Fault(fault) => fault.message.clone(),
    }
}

async fn put(upstream: &Upstream, id: i64, question: Ask) -> Got {
    let (headers, body) = match question {
        Ask::Discover(revision) => {
            let mut headers = upstream.post_headers(Some(revision), None);
            headers.insert(MCP_METHOD, HeaderValue::from_static("server/discover"));
            (headers, discover(id, revision))
        }
        Ask::Initialize { revision, header } => {
            let headers = upstream.post_headers(header.then_some(revision), None);
            // Nothing is offered, so that nothing is asked back.
            (headers, initialize_with(id, revision, "{}"))
        }
        Ask::Endpoint => {
            return match legacy_sse::open(upstream).await {
                Ok(_) => Got::Endpoint(true),
                Err(NoStream::NotOffered) => Got::Endpoint(false),
                Err(NoStream::Fault(fault)) => Got::Fault(fault),
            };
        }
    };
    match ask(upstream, headers, (id, Bytes::from(body)), &|_, _| {}).await {
        Ok(asked) => Got::Answer(asked),
        Err(fault) => Got::Fault(fault),
    }
}

/// Asks in the open session whether it is known still.
pub(super) async fn in_session(
    link: &Link,
    upstream: &Upstream,
    (route, session): (&Route, &SessionId),
) -> Result<(), Fault> {
    let id = link.next_id();
    let headers = upstream.post_headers(Some(route.known.revision), Some(session));
    let asked = ask(upstream, headers, (id, harmless(link, id)), &|_, _| {}).await?;
    let answer = asked.answer(true, Era::Legacy);
    if quirks::unknown_session(&answer).is_some() {
        let message = format!("the server no longer knows the session ({})", asked.status);
        return Err(Fault::new(Kind::SessionLost, message));
    }
    if asked.result().is_some() || quirks::method_unknown(&answer).is_some() {
        return Ok(());
    }
    Err(quirks::fault_of(&answer))
}
