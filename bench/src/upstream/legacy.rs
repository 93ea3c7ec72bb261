//! 2025-11-25: sessions, and a GET stream that stays open and silent.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::body::Body;
use super::message::Message;
use super::{SESSION, call, events, json, status, tools};
use crate::protocol::LEGACY_REVISION;

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", LEGACY_REVISION];

pub(super) fn answer(headers: &HeaderMap, body: &Bytes) -> Response<Body> {
    let Some(message) = Message::read(body) else {
        return status(StatusCode::BAD_REQUEST);
    };
    match message.method() {
        "initialize" => initialize(&message),
        // 2025-11-25, basic/transports, session management 2: without a session id it SHOULD be 400.
        _ if !headers.contains_key(SESSION) => json(
            StatusCode::BAD_REQUEST,
            message
                .error(
                    -32000,
                    "Bad Request: Mcp-Session-Id header is required",
                    None,
                )
                .into(),
        ),
        _ if !message.is_request() => status(StatusCode::ACCEPTED),
        "tools/call" => call(&message, ""),
        "tools/list" => {
            let result = message.result(&format!(r#""tools":[{}]}}}}"#, tools()));
            json(StatusCode::OK, result.into())
        }
        "ping" => json(StatusCode::OK, message.result("}}").into()),
        _ => json(
            StatusCode::OK,
            message.error(-32601, "Method not found", None).into(),
        ),
    }
}

/// GET listens, DELETE ends a session.
pub(super) fn answer_bodiless(method: &Method) -> Response<Body> {
    match *method {
        Method::GET => events(Body::open(Bytes::from_static(b": open\n\n"))),
        Method::DELETE => status(StatusCode::OK),
        _ => status(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn initialize(message: &Message<'_>) -> Response<Body> {
    static SESSIONS: AtomicU64 = AtomicU64::new(1);
    let revision = message
        .protocol_version()
        .filter(|revision| REVISIONS.contains(revision))
        .unwrap_or(LEGACY_REVISION);
    let result = message.result(&format!(
        r#""protocolVersion":"{revision}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"bench","version":"1.0.0"}}}}}}"#
    ));
    let mut response = json(StatusCode::OK, result.into());
    let session = format!("bench-{:016x}", SESSIONS.fetch_add(1, Ordering::Relaxed));
    if let Ok(session) = HeaderValue::from_str(&session) {
        response.headers_mut().insert(SESSION, session);
    }
    response
}
