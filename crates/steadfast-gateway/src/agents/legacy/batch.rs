//! Batches, which only 2025-03-26 has (basic/transports, "Sending Messages to the Server" 4 and 5).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, StatusCode};
use steadfast_core::wire::envelope::Kind;

use super::call::{Outcome, SessionCall, Step, begin};
use super::{answered, json_answer, notification, place};
use crate::Gate;
use crate::agents::endpoint::Caller;
use crate::agents::events::{Priming, Stream};
use crate::agents::inbound::Inbound;
use crate::agents::merged::Placed;
use crate::agents::session::Session;
use crate::agents::stream_body;
use crate::body::Body;
use crate::problem::status_only;

/// Serves all messages of a batch. Its requests are made together.
pub(super) async fn post(
    gate: &Arc<Gate>,
    caller: &Caller,
    session: &Arc<Session>,
    messages: Vec<Inbound>,
) -> Response<Body> {
    let mut requests = Vec::new();
    for inbound in messages {
        match inbound.envelope.kind {
            Kind::Request => requests.push(inbound),
            Kind::Notification => notification(gate, caller, session, &inbound).await,
            Kind::Result | Kind::Error => answered(session, &inbound),
        }
    }
    if requests.is_empty() {
        return status_only(StatusCode::ACCEPTED);
    }
    let progress = requests.iter().any(Inbound::wants_progress);
    let parts = requests
        .into_iter()
        .map(|it| part(gate, caller, session, it));
    let parts = join_all(parts).await;
    let streams = progress || parts.iter().any(|part| matches!(part, Outcome::Stream(_)));
    if streams {
        stream(gate, session, parts)
    } else {
        json_answer(StatusCode::OK, array(parts))
    }
}

async fn part(
    gate: &Arc<Gate>,
    caller: &Caller,
    session: &Arc<Session>,
    inbound: Inbound,
) -> Outcome {
    let (link, inbound) = match place(gate, caller, session, Box::new(inbound)).await {
        Placed::Here(message) => return Outcome::Whole(Some(message)),
        Placed::At(link, inbound) => (link, inbound),
    };
    let Some(begun) = begin(&link, session, *inbound) else {
        return Outcome::Whole(None);
    };
    begun.outcome(&link).await
}

/// The responses as a JSON array.
fn array(parts: Vec<Outcome>) -> Bytes {
    let mut out = vec![b'['];
    for part in parts {
        if let Outcome::Whole(Some(message)) = part {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(&message);
        }
    }
    out.push(b']');
    out.into()
}

/// The responses as one stream, each as it comes.
fn stream(gate: &Gate, session: &Session, parts: Vec<Outcome>) -> Response<Body> {
    let priming = Priming::of_answer(session.revision);
    let stream = gate.events.open(session.key, priming, None);
    let response = stream_body::response(stream.read(), gate.settings.keep_alive);
    let mut calls = Vec::new();
    for part in parts {
        match part {
            Outcome::Whole(Some(message)) => stream.append(message),
            Outcome::Whole(None) => {}
            Outcome::Stream(call) => calls.push(*call),
        }
    }
    tokio::spawn(async move {
        join_all(calls.into_iter().map(|call| pump(call, &stream))).await;
        stream.end();
    });
    response
}

async fn pump(mut call: SessionCall, stream: &Stream) {
    loop {
        match std::future::poll_fn(|cx| call.poll_step(cx)).await {
            Step::Message(message) => stream.append(message),
            Step::Last(message) => return stream.append(message),
            Step::End => return,
        }
    }
}
