//! Batches, which only 2025-03-26 has (basic/transports, "Sending Messages to the Server" 4 and 5).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use steadfast_core::replay::{Access, Resource};
use steadfast_core::wire::envelope::Kind;

use super::call::{Outcome, SessionCall, Step, begin};
use super::{answered, json_answer, notification, place};
use crate::Gate;
use crate::agents::endpoint::Caller;
use crate::agents::events::{About, Priming, Stream};
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
    let placed = requests
        .into_iter()
        .map(|it| place(gate, caller, session, Box::new(it)));
    let placed = join_all(placed).await;
    // All or nothing: none of its calls is made where one of them is not covered.
    let missing: Vec<_> = placed.iter().filter_map(lacking).cloned().collect();
    if !missing.is_empty() {
        return gate.protected.lacking(&missing, None);
    }
    let parts = placed.into_iter().map(|it| part(session, it));
    let parts = join_all(parts).await;
    let streams = progress || parts.iter().any(|part| matches!(part, Outcome::Stream(_)));
    if streams {
        stream(gate, session, &caller.access, parts)
    } else {
        json_answer(StatusCode::OK, array(parts))
    }
}

fn lacking(placed: &Placed) -> Option<&Resource> {
    match placed {
        Placed::Lacking(missing) => Some(missing),
        Placed::Here(_) | Placed::At(..) => None,
    }
}

async fn part(session: &Arc<Session>, placed: Placed) -> Outcome {
    let (link, inbound) = match placed {
        Placed::Here(message) => return Outcome::Whole(Some(message)),
        Placed::At(link, inbound) => (link, inbound),
        Placed::Lacking(_) => return Outcome::Whole(None),
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
fn stream(gate: &Gate, session: &Session, access: &Access, parts: Vec<Outcome>) -> Response<Body> {
    let (mut whole, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Outcome::Whole(message) => whole.extend(message),
            Outcome::Stream(call) => calls.push(*call),
        }
    }
    let requires = calls.iter().map(|it| it.requires(&gate.events.public_url));
    let requires: Vec<Resource> = requires.collect();
    let about = About::answering(
        Priming::of_answer(session.revision),
        calls.iter().map(SessionCall::on_record).collect(),
    );
    let stream = gate.events.begin(session, about, requires.clone());
    let reader = stream.read(access.clone());
    for message in whole {
        stream.append(message);
    }
    let owing = Arc::new(Mutex::new(requires.clone()));
    let calls = calls.into_iter().zip(requires);
    let pumps = calls.map(|(call, requires)| {
        let (stream, owing) = (Arc::clone(&stream), Arc::clone(&owing));
        async move { pump(call, requires, &stream, &owing).await }
    });
    let pumps = join_all(pumps);
    tokio::spawn(async move {
        pumps.await;
        stream.end();
    });
    stream_body::response(reader, gate.settings.keep_alive)
}

/// Reads one call to its end. `owing` is what the calls require that have not been answered.
async fn pump(
    mut call: SessionCall,
    requires: Resource,
    stream: &Arc<Stream>,
    owing: &Mutex<Vec<Resource>>,
) {
    let id = call.on_record().id;
    loop {
        let step = std::future::poll_fn(|cx| {
            let polled = call.poll_step(cx);
            stream.know_operation(&id, call.operation());
            polled
        });
        let last = match step.await {
            Step::Message(message) => {
                stream.append(message);
                continue;
            }
            Step::Last(message) => Some(message),
            Step::End => None,
        };
        let mut owing = owing.lock();
        if let Some(at) = owing.iter().position(|it| *it == requires) {
            owing.swap_remove(at);
        }
        // Another call of the same tool may still be under way.
        let is_settled = !owing.contains(&requires);
        stream.append_answer(&id, last, is_settled.then_some(&requires));
        return;
    }
}
