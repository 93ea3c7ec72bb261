//! Agents without a session (2026-07-28): every request stands for itself, and a closed stream is a
//! cancellation (streamable-http, "Cancellation"): what is dropped here tells the keeper.

mod leg;
pub(crate) mod listen;
pub(crate) mod mirrored;
pub(crate) mod parked;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use steadfast::{Answer, Call, CallHandle, Link, Origin};
use steadfast_core::wire::envelope::{self, Kind};
use steadfast_core::wire::sse;
use steadfast_core::{Era, Revision, code};

use super::calling::{About, Calling, Listening, failed};
use super::endpoint::Caller;
use super::inbound::{self, Content, Inbound};
use super::legacy::json_answer;
use super::merged::{Asker, Placed};
use super::{covered, hello, merged, render, routing};
use crate::Gate;
use crate::body::Body;
use crate::problem::{
    INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, Problem, code_data, rpc_error,
    status_only,
};
use leg::{Asking, Leg};

pub(crate) use listen::Hub;

/// An error of at most this size is looked into for its code.
const LARGEST_ERROR: usize = 16 << 10;

/// Requests that 2026-07-28 has no more (changelog, major changes).
const REMOVED: [&str; 5] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];

/// A POST of a modern agent.
pub(crate) async fn post(
    gate: &Arc<Gate>,
    caller: &Caller,
    headers: &HeaderMap,
    content: Content,
) -> Response<Body> {
    let inbound = match content {
        Content::Message(inbound) => inbound,
        Content::Batch(_) => return inbound::refusal(envelope::Invalid::Batch),
    };
    match inbound.envelope.kind {
        Kind::Request => request(gate, caller, headers, inbound).await,
        Kind::Notification => Box::pin(notification(gate, caller, *inbound)).await,
        // streamable-http, "Sending Messages" 4: clients MUST NOT send responses.
        Kind::Result | Kind::Error => Problem::new(
            StatusCode::BAD_REQUEST,
            code::BAD_MESSAGE,
            "a response to a question that was never asked",
        )
        .rpc(None, INVALID_REQUEST),
    }
}

/// This revision defines no notification of a client; an extension may.
async fn notification(gate: &Gate, caller: &Caller, inbound: Inbound) -> Response<Body> {
    // Closing the stream is the way to cancel; this message is "not expected" and without effect.
    if inbound.method() != "notifications/cancelled" {
        let origin = Origin::Modern {
            revision: Revision::LATEST_MODERN,
        };
        let mut links = match &caller.link {
            Some(link) => vec![Arc::clone(link)],
            None => routing::links(gate, caller.agent(), None),
        };
        links.retain(|link| covered::touches(gate, &caller.access.reach, link.server()));
        merged::notify(&links, &inbound.message, &origin).await;
    }
    status_only(StatusCode::ACCEPTED)
}

async fn request(
    gate: &Arc<Gate>,
    caller: &Caller,
    headers: &HeaderMap,
    inbound: Box<Inbound>,
) -> Response<Body> {
    let revision = match mirrored::check(headers, &inbound) {
        Ok(revision) => revision,
        Err(refused) => return refused.response(&inbound),
    };
    match &caller.link {
        Some(link) => {
            let reach = &caller.access.reach;
            let id = inbound.id();
            match covered::cover(gate, reach, Era::Modern, Arc::clone(link), inbound) {
                Placed::At(link, inbound) => to_one(gate, &link, headers, inbound, revision).await,
                Placed::Here(message) => json_answer(StatusCode::OK, message),
                Placed::Lacking(missing) => gate.protected.lacking(&[missing], id.as_deref()),
            }
        }
        None => Box::pin(to_all(gate, caller, headers, inbound, revision)).await,
    }
}

/// A request at the address of one server.
async fn to_one(
    gate: &Arc<Gate>,
    link: &Arc<Link>,
    headers: &HeaderMap,
    inbound: Box<Inbound>,
    revision: Revision,
) -> Response<Body> {
    if let Err(refused) = gate.mirrored.check_params(headers, &inbound, link) {
        return refused.response(&inbound);
    }
    let id = inbound.raw_id().unwrap_or(b"null");
    let translated = link.hello().is_some_and(|hello| hello.era() == Era::Legacy);
    let listens = inbound.method() == "subscriptions/listen";
    if listens && (translated || !listen::is_of_extension(&inbound)) {
        return Box::pin(listen::serve(gate, link, &inbound)).await;
    }
    if translated {
        match &*inbound.method() {
            "server/discover" => {
                if let Some(result) = hello::discover(link) {
                    return json_answer(StatusCode::OK, render::result(id, &result));
                }
            }
            method if REMOVED.contains(&method) => return no_such_method(id, method),
            _ => {}
        }
    }
    leg_of_call(gate, link, inbound, revision).await
}

/// A request at the address of all servers of the agent. Its headers agree with what the agent wrote; what
/// goes to a server gets headers of its own (PV-08).
async fn to_all(
    gate: &Arc<Gate>,
    caller: &Caller,
    headers: &HeaderMap,
    inbound: Box<Inbound>,
    revision: Revision,
) -> Response<Body> {
    let asker = Asker {
        agent: caller.agent(),
        session: None,
        revision,
        reach: &caller.access.reach,
    };
    let id = inbound.raw_id().unwrap_or(b"null");
    match &*inbound.method() {
        "server/discover" => {
            let result = merged::discover(gate, &asker).await;
            return json_answer(StatusCode::OK, render::result(id, &result));
        }
        // Whatever is heard there is of all servers.
        "subscriptions/listen" => {
            return match covered::everything(gate, asker.reach) {
                Ok(()) => merged::listen(gate, &asker, &inbound).await,
                Err(missing) => gate.protected.lacking(&[missing], Some(id)),
            };
        }
        method if REMOVED.contains(&method) => return no_such_method(id, method),
        _ => {}
    }
    let progress = inbound.wants_progress();
    let id = inbound.id();
    let (link, inbound) = match merged::place(gate, &asker, inbound).await {
        Placed::At(link, inbound) => (link, inbound),
        Placed::Lacking(missing) => return gate.protected.lacking(&[missing], id.as_deref()),
        Placed::Here(message) => {
            let status = whole_status(200, &message, true);
            return if progress && status == StatusCode::OK {
                events([message].into_iter())
            } else {
                json_answer(status, message)
            };
        }
    };
    if let Err(refused) = gate.mirrored.check_params(headers, &inbound, &link) {
        return refused.response(&inbound);
    }
    leg_of_call(gate, &link, inbound, revision).await
}

/// A request for one server: the first leg of a call, or a later one.
async fn leg_of_call(
    gate: &Arc<Gate>,
    link: &Arc<Link>,
    inbound: Box<Inbound>,
    revision: Revision,
) -> Response<Body> {
    // Only a legacy server asks in the middle of a call; one that was never seen may be one.
    let may_ask = |link: &Link| link.hello().is_none_or(|hello| hello.era() == Era::Legacy);
    if may_ask(link)
        && let Err(refused) = mirrored::check_level(&inbound)
    {
        return refused.response(&inbound);
    }
    if leg::is_later(&inbound) && Box::pin(leg::is_ours(gate, link)).await {
        return Box::pin(leg::go_on(gate, link, inbound, revision)).await;
    }
    let asking = may_ask(link).then(|| Asking::of(gate, link, inbound.clone()));
    call(gate, link, inbound, revision, asking).await
}

/// streamable-http, "Protocol Version Header": 404 with -32601 for a method that is not implemented.
fn no_such_method(id: &[u8], method: &str) -> Response<Body> {
    let text = format!("Method not found: {method}");
    let data = code_data(code::BAD_MESSAGE);
    let message = rpc_error(Some(id), METHOD_NOT_FOUND, &text, Some(&data));
    json_answer(StatusCode::NOT_FOUND, message)
}

/// `asking` is there where the server may be a legacy one.
async fn call(
    gate: &Gate,
    link: &Arc<Link>,
    inbound: Box<Inbound>,
    revision: Revision,
    asking: Option<Asking>,
) -> Response<Body> {
    let Some(about) = About::of(&inbound, Era::Modern) else {
        return status_only(StatusCode::BAD_REQUEST);
    };
    let progress = inbound.wants_progress();
    let handle = CallHandle::new();
    let listening = Listening::to(handle.clone());
    match ask(link, inbound, revision, handle).await {
        Answer::Whole { status, message } if progress => {
            let message = about.finish(message);
            let status = whole_status(status, &message, asking.is_some());
            if status == StatusCode::OK {
                events(listening.notifications().chain([message]))
            } else {
                json_answer(status, message)
            }
        }
        answer => respond(gate, answer, listening, about, link, asking).await,
    }
}

/// The answer to a leg of a call.
async fn respond(
    gate: &Gate,
    answer: Answer,
    listening: Listening,
    about: About,
    link: &Arc<Link>,
    asking: Option<Asking>,
) -> Response<Body> {
    match answer {
        Answer::Whole { status, message } => {
            let message = about.finish(message);
            json_answer(whole_status(status, &message, asking.is_some()), message)
        }
        Answer::Failed(failure) => failed(&about, link, &failure).map_or_else(
            || status_only(StatusCode::ACCEPTED),
            |message| json_answer(StatusCode::OK, message),
        ),
        Answer::Stream(answer) => {
            let calling = Calling::streaming(answer, listening, about, Arc::clone(link));
            Leg::reading(calling, asking)
                .response(gate.settings.keep_alive)
                .await
        }
    }
}

/// Not async, so that nothing but the future itself is kept while it is awaited.
fn ask(
    link: &Arc<Link>,
    inbound: Box<Inbound>,
    revision: Revision,
    handle: CallHandle,
) -> impl Future<Output = Answer> + Send + use<> {
    link.call(call_of(*inbound, revision), handle)
}

fn call_of(inbound: Inbound, revision: Revision) -> Call {
    Call {
        message: inbound.message,
        envelope: inbound.envelope,
        params: inbound.params,
        origin: Origin::Modern { revision },
    }
}

/// The status of an answer. A modern server's own passes; a legacy one does not tell an unknown method
/// by its status, a modern agent expects that (streamable-http, "Protocol Version Header"), and that of a missing
/// capability (basic/index, "Per-request protocol fields").
fn whole_status(status: u16, message: &[u8], translated: bool) -> StatusCode {
    if translated && message.len() <= LARGEST_ERROR {
        let read = envelope::read(message).ok();
        let error = read.and_then(|read| envelope::read_error(message, &read));
        match error.and_then(|(code, _)| i32::try_from(code).ok()) {
            Some(METHOD_NOT_FOUND) => return StatusCode::NOT_FOUND,
            Some(MISSING_CAPABILITY) => return StatusCode::BAD_REQUEST,
            Some(_) | None => {}
        }
    }
    match status {
        400 => StatusCode::BAD_REQUEST,
        404 => StatusCode::NOT_FOUND,
        // An upstream's 401 never reaches an agent: it would renew the wrong token (architecture,
        // connections 10).
        _ => StatusCode::OK,
    }
}

/// A whole answer to an agent that asked for progress, after what progress there was.
fn events(messages: impl Iterator<Item = Bytes>) -> Response<Body> {
    let mut out = Vec::new();
    for message in messages {
        out.reserve(message.len() + 16);
        sse::encode(&mut out, None, None, &message);
    }
    let mut response = json_answer(StatusCode::OK, out.into());
    let headers = response.headers_mut();
    let event_stream = HeaderValue::from_static("text/event-stream");
    headers.insert(http::header::CONTENT_TYPE, event_stream);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_method_has_its_status_in_this_era() {
        let unknown = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}"#;
        let other = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}"#;
        assert_eq!(whole_status(200, unknown, true), 404);
        assert_eq!(whole_status(200, other, true), 200);
        assert_eq!(
            whole_status(200, unknown, false),
            200,
            "a modern server's own status passes"
        );
        assert_eq!(whole_status(400, other, false), 400);
        assert_eq!(whole_status(401, other, false), 200, "401 never passes");
    }
}
