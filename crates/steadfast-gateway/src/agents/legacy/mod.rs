//! Agents with a session (2025-03-26 to 2025-11-25): initialize, calls, notifications, answers to the
//! server's questions, the GET stream, DELETE.

mod batch;
pub(crate) mod call;
mod initialize;
mod interrupted;
pub(crate) mod resources;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use steadfast::{Link, Notice, Origin};
use steadfast_core::bridge::Level;
use steadfast_core::replay::Resource;
use steadfast_core::stream::subscription::Filter;
use steadfast_core::wire::envelope::{Invalid, Kind};
use steadfast_core::{Era, Revision, RpcId, code};

use super::endpoint::Caller;
use super::events::{About, NotResumed, Priming, Reader, Resumed};
use super::inbound::{self, Content, Inbound};
use super::merged::{self, Asker, Placed};
use super::session::Session;
use super::{covered, hello, render, routing, stream_body};
use crate::Gate;
use crate::body::Body;
use crate::clock;
use crate::problem::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Problem, rpc_error, status_only, whole,
};

pub(crate) use initialize::initialize;
pub(crate) use resources::updated;

pub(crate) static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a notification may hold up the acknowledgement: long enough to keep its place before what
/// the agent sends next, and no longer where the server is slow.
const NOTIFICATION_PATIENCE: Duration = Duration::from_millis(200);

/// A POST in a session.
pub(crate) async fn post(
    gate: &Arc<Gate>,
    caller: &Caller,
    headers: &HeaderMap,
    content: Content,
) -> Response<Body> {
    let id = match &content {
        Content::Message(inbound) => inbound.id(),
        Content::Batch(_) => None,
    };
    let session = match find(gate, caller, headers, id.as_deref()).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    let caller = &in_session(gate, caller, &session);
    match content {
        Content::Message(inbound) => message(gate, caller, &session, inbound).await,
        Content::Batch(body) if session.revision == Revision::V2025_03_26 => {
            match inbound::batch(&body) {
                // Boxed as everything rare is: each connection holds room for what is not.
                Ok(messages) => Box::pin(batch::post(gate, caller, &session, messages)).await,
                Err(invalid) => inbound::refusal(invalid),
            }
        }
        Content::Batch(_) => inbound::refusal(Invalid::Batch),
    }
}

/// The session that a request belongs to. `id` is the request's, for the refusal.
async fn find(
    gate: &Gate,
    caller: &Caller,
    headers: &HeaderMap,
    id: Option<&[u8]>,
) -> Result<Arc<Session>, Box<Response<Body>>> {
    let refuse = |status, code, detail: &str| {
        Box::new(Problem::new(status, code, detail).rpc(id, INVALID_REQUEST))
    };
    let Some(named) = headers.get(&SESSION_ID) else {
        // 2025-11-25 transports, "Session Management" 2.
        return Err(refuse(
            StatusCode::BAD_REQUEST,
            code::UNKNOWN_AGENT_SESSION,
            "this needs a session: initialize, and send its Mcp-Session-Id",
        ));
    };
    let found = match named.to_str() {
        Ok(named) => {
            let sessions = &gate.sessions;
            let server = caller.link.as_ref().map(|link| link.server());
            sessions.find(named, caller.agent(), server).await
        }
        Err(_) => Ok(None),
    };
    match found {
        Ok(Some(session)) => Ok(session),
        // Also where it is another agent's: that it exists is none of this agent's business.
        Ok(None) => Err(refuse(
            StatusCode::NOT_FOUND,
            code::UNKNOWN_AGENT_SESSION,
            "the session is not known",
        )),
        Err(error) => Err(Box::new(store_failed(id, &error))),
    }
}

/// The caller, with the connection that serves this session.
fn in_session(gate: &Gate, caller: &Caller, session: &Session) -> Caller {
    let access = caller.access.clone();
    let link = caller.link.as_ref().map(|link| {
        let own = routing::link(gate, &access.agent, link.server(), Some(session));
        own.unwrap_or_else(|| Arc::clone(link))
    });
    Caller { access, link }
}

/// The store does not answer: 503, so that nobody takes the session for lost.
pub(crate) fn store_failed(id: Option<&[u8]>, error: &steadfast_store::Error) -> Response<Body> {
    tracing::error!(%error, "the sessions of agents cannot be read or written");
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, error.code(), "the store is not available").rpc(id, INTERNAL_ERROR)
}

async fn message(
    gate: &Arc<Gate>,
    caller: &Caller,
    session: &Arc<Session>,
    inbound: Box<Inbound>,
) -> Response<Body> {
    match inbound.envelope.kind {
        Kind::Request => {
            let id = inbound.id();
            match place(gate, caller, session, inbound).await {
                Placed::Here(message) => json_answer(StatusCode::OK, message),
                Placed::Lacking(missing) => gate.protected.lacking(&[missing], id.as_deref()),
                Placed::At(link, inbound) => {
                    call::call(gate, &link, session, &caller.access, inbound).await
                }
            }
        }
        Kind::Notification => {
            Box::pin(notification(gate, caller, session, &inbound)).await;
            status_only(StatusCode::ACCEPTED)
        }
        Kind::Result | Kind::Error => {
            answered(session, &inbound);
            status_only(StatusCode::ACCEPTED)
        }
    }
}

/// One JSON-RPC message as an answer.
pub(crate) fn json_answer(status: StatusCode, message: Bytes) -> Response<Body> {
    whole(status, "application/json", message)
}

/// Answers a request that is not the server's business, or finds the server that it is for.
async fn place(gate: &Gate, caller: &Caller, session: &Session, inbound: Box<Inbound>) -> Placed {
    let reach = &caller.access.reach;
    let inbound = match &caller.link {
        Some(link) => match covered::cover(gate, reach, Era::Legacy, Arc::clone(link), inbound) {
            Placed::At(_, inbound) => inbound,
            elsewhere @ (Placed::Here(_) | Placed::Lacking(_)) => return elsewhere,
        },
        None => inbound,
    };
    let here = match &*inbound.method() {
        "ping" => inbound.raw_id().map(|id| render::result(id, b"{}")),
        "logging/setLevel" => Box::pin(set_level(gate, caller, session, &inbound)).await,
        _ => None,
    };
    let placed = match (here, &caller.link) {
        (Some(response), _) => Placed::Here(response),
        (None, Some(link)) => Placed::At(Arc::clone(link), inbound),
        (None, None) => {
            let asker = Asker::in_session(session, reach);
            Box::pin(merged::place(gate, &asker, inbound)).await
        }
    };
    match placed {
        Placed::At(link, inbound) if resources::is_subscription(&inbound) => {
            Box::pin(resources::place(gate, link, session, inbound)).await
        }
        placed => placed,
    }
}

/// Keeps the level. A modern server is told it with every request, by the keeper; only a legacy one is
/// asked to set it.
async fn set_level(
    gate: &Gate,
    caller: &Caller,
    session: &Session,
    inbound: &Inbound,
) -> Option<Bytes> {
    let id = inbound.raw_id()?;
    let level = level(inbound);
    let known = level.is_some();
    if let Some(level) = level
        && let Err(error) = gate.sessions.set_log_level(session, level).await
    {
        tracing::warn!(%error, "the log level of a session could not be kept");
    }
    let is_answered_here = match &caller.link {
        Some(link) => link.hello().is_some_and(|hello| hello.era() == Era::Modern),
        None => {
            if known {
                let mut links = routing::links(gate, caller.agent(), Some(session));
                links.retain(|link| covered::touches(gate, &caller.access.reach, link.server()));
                merged::set_level(&links, inbound, &origin(session)).await;
            }
            true
        }
    };
    is_answered_here.then(|| {
        if known {
            render::result(id, b"{}")
        } else {
            rpc_error(Some(id), INVALID_PARAMS, "no such level", None)
        }
    })
}

/// The level that `logging/setLevel` names, as the JSON string that it is.
fn level(inbound: &Inbound) -> Option<String> {
    use steadfast_core::wire::json;
    let params = inbound.params.whole.clone()?;
    let range = json::at_path(&inbound.message, params, &["level"])?;
    let level = Level::from_json(inbound.message.get(range)?)?;
    Some(format!("\"{}\"", level.as_str()))
}

/// Who asks, for the keeper.
pub(crate) fn origin(session: &Session) -> Origin {
    Origin::Legacy {
        revision: session.revision,
        client: session.client(),
    }
}

async fn notification(gate: &Gate, caller: &Caller, session: &Arc<Session>, inbound: &Inbound) {
    match &*inbound.method() {
        // The keeper has opened the upstream session itself.
        "notifications/initialized" => {}
        "notifications/cancelled" => cancelled(session, inbound),
        _ => {
            let mut links = match &caller.link {
                Some(link) => vec![Arc::clone(link)],
                None => addressed(gate, session, inbound),
            };
            links.retain(|link| covered::touches(gate, &caller.access.reach, link.server()));
            let (message, origin) = (inbound.message.clone(), origin(session));
            let passing =
                tokio::spawn(async move { merged::notify(&links, &message, &origin).await });
            let _ = tokio::time::timeout(NOTIFICATION_PATIENCE, passing).await;
        }
    }
}

/// The servers that a notification is for: progress for the one that asked, everything else for all.
fn addressed(gate: &Gate, session: &Session, inbound: &Inbound) -> Vec<Arc<Link>> {
    if inbound.method() != "notifications/progress" {
        return routing::links(gate, &session.agent, Some(session));
    }
    let token = inbound.part(inbound.params.progress_of.as_ref());
    let server = token.and_then(|token| session.asker_of(token));
    let link =
        server.and_then(|server| routing::link(gate, &session.agent, &server, Some(session)));
    link.into_iter().collect()
}

fn cancelled(session: &Session, inbound: &Inbound) {
    let Some(range) = inbound.params.request_id.clone() else {
        return;
    };
    let id = inbound.part(Some(&range));
    let id = id.and_then(|id| RpcId::from_json(std::str::from_utf8(id).ok()?));
    // An unknown or finished request is no error (2025-11-25 cancellation, "Error Handling").
    if let Some(id) = id {
        // Whatever else the agent wrote is what the server reads.
        let notice = Notice {
            message: inbound.message.clone(),
            id: range,
        };
        session.cancel(&id, &notice);
    }
}

/// The agent answers a question of the server.
fn answered(session: &Session, inbound: &Inbound) {
    let id = inbound.envelope.rpc_id(&inbound.message);
    // One that nobody asked, or no longer asks, is late rather than wrong.
    if let Some(question) = id.and_then(|id| session.take_question(&id)) {
        let message = inbound.message.clone();
        tokio::spawn(async move { question.answer(message).await });
    }
}

/// GET: the listening stream, or the rest of a stream that broke.
pub(crate) async fn get(gate: &Arc<Gate>, caller: &Caller, headers: &HeaderMap) -> Response<Body> {
    let session = match find(gate, caller, headers, None).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    let reader = match headers.get(&LAST_EVENT_ID) {
        Some(last) => resume(gate, caller, &session, last.to_str().unwrap_or_default()).await,
        None => listen(gate, caller, &session),
    };
    match reader {
        Ok(reader) => stream_body::response(reader, gate.settings.keep_alive),
        Err(refused) => *refused,
    }
}

/// The stream that the session listens on. Its reader must be allowed to use every server that is heard on it.
fn listen(
    gate: &Arc<Gate>,
    caller: &Caller,
    session: &Arc<Session>,
) -> Result<Reader, Box<Response<Body>>> {
    let public_url = &gate.events.public_url;
    let heard = match &caller.link {
        Some(link) => vec![Arc::clone(link)],
        None => routing::links(gate, caller.agent(), Some(session)),
    };
    let heard = heard
        .iter()
        .map(|it| Resource::server(public_url, it.server()));
    let heard: Vec<Resource> = heard.collect();
    let missing = caller.access.missing(&heard, clock::wall());
    if !missing.is_empty() {
        return Err(Box::new(gate.protected.lacking(&missing, None)));
    }
    let about = About::listening(Priming::of_listening(session.revision));
    let stream = session.listening(|| gate.events.begin(session, about, heard));
    listens(gate, caller, session);
    Ok(stream.read(caller.access.clone()))
}

/// From now on the agent hears what its servers say by themselves.
fn listens(gate: &Arc<Gate>, caller: &Caller, session: &Arc<Session>) {
    gate.sessions.listens(session);
    resources::restore(gate, &in_session(gate, caller, session), session);
}

/// The rest of a stream that broke.
async fn resume(
    gate: &Arc<Gate>,
    caller: &Caller,
    session: &Arc<Session>,
    last_event_id: &str,
) -> Result<Reader, Box<Response<Body>>> {
    let resumed = gate.events.resume(session, last_event_id, &caller.access);
    match resumed.await {
        Ok(Resumed::Held(reader)) => Ok(reader),
        Ok(Resumed::Listening(reader)) => {
            listens(gate, caller, session);
            Ok(reader)
        }
        Ok(Resumed::Interrupted {
            stream,
            calls,
            reader,
        }) => {
            for call in &calls {
                let answer = interrupted::answer(gate, call).await;
                stream.append_answer(&call.id, Some(answer), None);
            }
            stream.end();
            Ok(reader)
        }
        Err(NotResumed::NotCovered(missing)) => {
            Err(Box::new(gate.protected.lacking(&missing, None)))
        }
        Err(NotResumed::Store(error)) => Err(Box::new(store_failed(None, &error))),
        Err(NotResumed::Unknown) => {
            let problem = Problem::new(
                StatusCode::BAD_REQUEST,
                code::UNKNOWN_EVENT,
                "the event id is unknown, of another session, or expired",
            );
            Err(Box::new(problem.rpc(None, INVALID_REQUEST)))
        }
    }
}

/// DELETE: the agent ends its session.
pub(crate) async fn delete(gate: &Gate, caller: &Caller, headers: &HeaderMap) -> Response<Body> {
    let session = match find(gate, caller, headers, None).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    match gate.sessions.remove(&session).await {
        Ok(()) => {
            gate.events.forget_session(session.key);
            status_only(StatusCode::NO_CONTENT)
        }
        Err(error) => store_failed(None, &error),
    }
}

/// The server is there again, or for the first time.
pub(crate) fn reopened(session: &Session, link: &Link) {
    use std::sync::atomic::Ordering;
    let Some(stream) = session.listening_now() else {
        return;
    };
    let announces = if session.unseen.swap(false, Ordering::Relaxed) {
        Filter::all_lists()
    } else {
        link.hello()
            .map_or_else(Filter::default, |hello| Filter::declared(&hello.result))
    };
    for method in announces.list_methods() {
        stream.append(hello::notification(method));
    }
}
