//! Streamable HTTP of 2025-03-26, 2025-06-18 and 2025-11-25.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Behaviour, GetStream, call, methods};
use crate::exchange::Exchange;
use crate::log::Event;
use crate::session::Session;
use crate::wire::Flow;

pub(super) async fn answer(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    match exchange.request.method.as_str() {
        "POST" => post(exchange, behaviour).await,
        "GET" => get(exchange, behaviour).await,
        "DELETE" => delete(exchange, behaviour).await,
        _ => exchange.empty(405).await,
    }
}

async fn post(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    let accept = exchange.request.header("accept").unwrap_or_default();
    if !accepts(accept, "application/json") || !accepts(accept, "text/event-stream") {
        let message =
            "Not Acceptable: Client must accept both application/json and text/event-stream";
        return exchange.error(406, -32000, message, None).await;
    }
    let Some(message) = exchange.request.json.clone().filter(Value::is_object) else {
        return exchange.error(400, -32700, "Parse error", None).await;
    };
    if exchange.request.rpc_method() == Some("initialize") {
        return initialize(exchange, behaviour).await;
    }
    let Some(session) = session(exchange, behaviour).await? else {
        return Ok(());
    };
    match (
        exchange.request.rpc_method().map(str::to_owned),
        message.get("id"),
    ) {
        (None, _) => {
            session.answered(&message);
            exchange.empty(202).await
        }
        (Some(method), None) => notification(exchange, &session, &method).await,
        (Some(method), Some(_)) => request(exchange, behaviour, session, &method).await,
    }
}

fn accepts(accept: &str, wanted: &str) -> bool {
    accept.split(',').any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim();
        range == "*/*" || range == wanted
    })
}

async fn initialize(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    if let Some(id) = exchange.request.session() {
        return match exchange.shared.sessions.get(id) {
            Some(_) => {
                exchange
                    .error(
                        400,
                        -32600,
                        "Invalid Request: Server already initialized",
                        None,
                    )
                    .await
            }
            None => exchange.error(404, -32001, "Session not found", None).await,
        };
    }
    let asked = exchange
        .request
        .pointer("/params/protocolVersion")
        .and_then(Value::as_str);
    let known = |asked: &&str| {
        behaviour
            .legacy_revisions
            .iter()
            .any(|revision| revision == asked)
    };
    let preferred = behaviour
        .legacy_revisions
        .first()
        .map_or("2025-11-25", String::as_str);
    let negotiated = asked.filter(known).unwrap_or(preferred);
    let revision = behaviour
        .insists_on
        .as_deref()
        .unwrap_or(negotiated)
        .to_owned();
    let capabilities = exchange
        .request
        .pointer("/params/capabilities")
        .cloned()
        .unwrap_or_default();
    if behaviour.sessions {
        let session =
            exchange
                .shared
                .sessions
                .create(&behaviour.session_prefix, &revision, capabilities);
        exchange.wire.header("mcp-session-id", &session.id);
    }
    let mut result = json!({
        "protocolVersion": revision,
        "capabilities": behaviour.capabilities,
        "serverInfo": methods::server_info(),
    });
    if let Some(instructions) = &behaviour.instructions {
        result["instructions"] = json!(instructions);
    }
    exchange.result(result).await
}

/// The session of a request; answers the request itself where there is none.
async fn session(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow<Option<Arc<Session>>> {
    let version = exchange
        .request
        .header("mcp-protocol-version")
        .map(str::to_owned);
    let found = match (exchange.request.session(), behaviour.sessions) {
        (None, false) => Arc::clone(&exchange.shared.sessionless),
        (Some(_), false) => {
            exchange
                .error(
                    400,
                    -32000,
                    "Bad Request: this server has no sessions",
                    None,
                )
                .await?;
            return Ok(None);
        }
        (None, true) => {
            exchange
                .error(
                    400,
                    -32000,
                    "Bad Request: Mcp-Session-Id header is required",
                    None,
                )
                .await?;
            return Ok(None);
        }
        (Some(id), true) => match exchange.shared.sessions.get(id) {
            Some(session) => session,
            None => {
                exchange
                    .error(404, -32001, "Session not found", None)
                    .await?;
                return Ok(None);
            }
        },
    };
    let negotiated = |version: &String| {
        if behaviour.sessions {
            *version == found.revision
        } else {
            behaviour.legacy_revisions.contains(version)
        }
    };
    // 2025-06-18, "Protocol Version Header": a missing one is allowed, a wrong one is not.
    if version.as_ref().is_some_and(|version| !negotiated(version)) {
        let message = format!(
            "Bad Request: Unsupported protocol version: {}",
            version.unwrap_or_default()
        );
        exchange.error(400, -32000, &message, None).await?;
        return Ok(None);
    }
    Ok(Some(found))
}

async fn notification(exchange: &mut Exchange<'_>, session: &Session, method: &str) -> Flow {
    if method == "notifications/initialized" {
        session.initialized.store(true, Ordering::Relaxed);
    }
    note_cancellation(exchange, session);
    exchange.empty(202).await
}

/// Stops the run that a `notifications/cancelled` names.
pub(super) fn note_cancellation(exchange: &Exchange<'_>, session: &Session) {
    let request = &exchange.request;
    if request.rpc_method() == Some("notifications/cancelled")
        && let Some(id) = request.pointer("/params/requestId")
        && let Some(index) = session.cancel(id)
    {
        exchange.shared.log.event(Event::Cancelled { index });
    }
}

async fn request(
    exchange: &mut Exchange<'_>,
    behaviour: &Behaviour,
    session: Arc<Session>,
    method: &str,
) -> Flow {
    let uri = exchange
        .request
        .pointer("/params/uri")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    match method {
        "ping" => exchange.result(json!({})).await,
        "tools/call" => call(exchange, behaviour, Some(session)).await,
        "logging/setLevel" => {
            let level = exchange
                .request
                .pointer("/params/level")
                .and_then(Value::as_str);
            *session.log_level.lock() = level.map(str::to_owned);
            exchange.result(json!({})).await
        }
        "resources/subscribe" => {
            session.subscriptions.lock().push(uri);
            exchange.result(json!({})).await
        }
        "resources/unsubscribe" => {
            session
                .subscriptions
                .lock()
                .retain(|subscribed| *subscribed != uri);
            exchange.result(json!({})).await
        }
        _ => match methods::result(behaviour, &exchange.request) {
            Some(Ok(result)) => exchange.result(result).await,
            Some(Err((code, message))) => exchange.error(200, code, &message, None).await,
            None => exchange.error(200, -32601, "Method not found", None).await,
        },
    }
}

async fn get(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    if behaviour.get_stream == GetStream::Refused {
        exchange.wire.header("allow", "POST, DELETE");
        return exchange.empty(405).await;
    }
    if !accepts(
        exchange.request.header("accept").unwrap_or_default(),
        "text/event-stream",
    ) {
        return exchange
            .error(
                406,
                -32000,
                "Not Acceptable: Client must accept text/event-stream",
                None,
            )
            .await;
    }
    let Some(session) = session(exchange, behaviour).await? else {
        return Ok(());
    };
    if let Some(cursor) = exchange.request.header("last-event-id") {
        return match session.resume(cursor) {
            Some((outbox, from)) => {
                exchange.begin_stream().await?;
                exchange.pump(&outbox, from).await
            }
            None => {
                exchange
                    .error(400, -32000, "Bad Request: unknown event id", None)
                    .await
            }
        };
    }
    let outbox = session.open_stream(behaviour.resumable, behaviour.retry_ms);
    let previous = session.listening.lock().replace(Arc::clone(&outbox));
    if let (GetStream::One, Some(previous)) = (behaviour.get_stream, previous) {
        previous.close();
    }
    let _open = exchange.shared.get_streams.enter();
    exchange.begin_stream().await?;
    exchange.pump(&outbox, 0).await
}

async fn delete(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    let Some(session) = session(exchange, behaviour).await? else {
        return Ok(());
    };
    exchange.shared.sessions.remove(&session.id);
    exchange.empty(200).await
}
