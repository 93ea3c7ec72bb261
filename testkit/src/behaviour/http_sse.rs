//! The HTTP+SSE transport of 2024-11-05: a GET opens the stream and names the address to post to; every answer comes
//! on the stream.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Behaviour, legacy, methods};
use crate::exchange::Exchange;
use crate::session::{Frame, Session};
use crate::tool::Run;
use crate::wire::Flow;

pub(super) const MESSAGES: &str = "/messages";

pub(super) async fn answer(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    let path = exchange.request.path.clone();
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    match exchange.request.method.as_str() {
        "GET" if path == behaviour.path => open(exchange, behaviour).await,
        "POST" if path == MESSAGES => {
            let session = query
                .strip_prefix("session=")
                .and_then(|id| exchange.shared.sessions.get(id));
            match session {
                Some(session) => message(exchange, behaviour, session).await,
                None => exchange.empty(404).await,
            }
        }
        _ if path == behaviour.path => exchange.empty(405).await,
        _ => exchange.empty(404).await,
    }
}

async fn open(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    let revision = behaviour
        .legacy_revisions
        .first()
        .map_or("2024-11-05", String::as_str);
    let session = exchange
        .shared
        .sessions
        .create(&behaviour.session_prefix, revision, Value::Null);
    let outbox = session.open_stream(false, None);
    *session.listening.lock() = Some(Arc::clone(&outbox));
    let endpoint = format!("{MESSAGES}?session={}", session.id);
    outbox.add(Frame {
        name: Some("endpoint".to_owned()),
        data: endpoint,
        ..Frame::default()
    });
    let _open = exchange.shared.get_streams.enter();
    exchange.begin_stream().await?;
    let outcome = exchange.pump(&outbox, 0).await;
    // The session is the stream.
    exchange.shared.sessions.remove(&session.id);
    outcome
}

async fn message(
    exchange: &mut Exchange<'_>,
    behaviour: &Behaviour,
    session: Arc<Session>,
) -> Flow {
    let Some(method) = exchange.request.rpc_method().map(str::to_owned) else {
        if let Some(response) = &exchange.request.json {
            session.answered(response);
        }
        return exchange.empty(202).await;
    };
    let Some(id) = exchange.request.rpc_id().cloned() else {
        legacy::note_cancellation(exchange, &session);
        return exchange.empty(202).await;
    };
    if let Some(capabilities) = exchange.request.pointer("/params/capabilities") {
        *session.capabilities.lock() = capabilities.clone();
    }
    let answer = match method.as_str() {
        "initialize" => Ok(json!({
            "protocolVersion": session.revision,
            "capabilities": methods::capabilities(),
            "serverInfo": methods::server_info(),
        })),
        "ping" => Ok(json!({})),
        "tools/call" => {
            run(exchange, behaviour, &session);
            return exchange.empty(202).await;
        }
        _ => methods::result(behaviour, &exchange.request)
            .unwrap_or_else(|| Err((-32601, "Method not found".to_owned()))),
    };
    session.notify(&match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    });
    exchange.empty(202).await
}

fn run(exchange: &Exchange<'_>, behaviour: &Behaviour, session: &Arc<Session>) {
    let name = exchange.request.tool().unwrap_or_default();
    let id = exchange.request.rpc_id().cloned();
    let Some(tool) = behaviour.tool(name).cloned() else {
        let error = json!({ "code": -32602, "message": format!("Unknown tool: {name}") });
        session.notify(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        return;
    };
    let outbox = session.open_stream(false, None);
    let run = Run {
        shared: Arc::clone(&exchange.shared),
        request: Arc::clone(&exchange.request),
        session: Some(Arc::clone(session)),
        outbox: Arc::clone(&outbox),
        tool,
    };
    run.spawn();
    let session = Arc::clone(session);
    tokio::spawn(async move {
        let mut position = 0;
        while let Some(frame) = outbox.frame(position).await {
            if let Some(listening) = &*session.listening.lock() {
                listening.add(frame);
            }
            position += 1;
        }
    });
}
