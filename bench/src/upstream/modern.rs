//! 2026-07-28: every request stands alone.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

use super::body::Body;
use super::message::Message;
use super::{call, events, json, status, tools};
use crate::protocol::MODERN_REVISION;

/// What every result must say (2026-07-28, schema: Result).
const COMPLETE: &str = r#""resultType":"complete","#;
/// What a cacheable result must say besides (2026-07-28, schema: CacheableResult).
const CACHEABLE: &str = r#","ttlMs":3600000,"cacheScope":"public""#;

pub(super) fn answer(headers: &HeaderMap, body: &Bytes) -> Response<Body> {
    let Some(message) = Message::read(body) else {
        return status(StatusCode::BAD_REQUEST);
    };
    // 2026-07-28, basic/transports/streamable-http, protocol version header.
    if headers
        .get("mcp-protocol-version")
        .is_none_or(|revision| revision != MODERN_REVISION)
    {
        let supported = format!(r#"{{"supported":["{MODERN_REVISION}"]}}"#);
        let error = message.error(-32022, "Unsupported protocol version", Some(&supported));
        return json(StatusCode::BAD_REQUEST, error.into());
    }
    match message.method() {
        _ if !message.is_request() => status(StatusCode::ACCEPTED),
        "tools/call" => call(&message, COMPLETE),
        "tools/list" => {
            let result = message.result(&format!(
                r#"{COMPLETE}"tools":[{}]{CACHEABLE}}}}}"#,
                tools()
            ));
            json(StatusCode::OK, result.into())
        }
        "server/discover" => {
            let result = message.result(&format!(
                r#"{COMPLETE}"supportedVersions":["{MODERN_REVISION}"],"capabilities":{{"tools":{{}}}},"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"bench","version":"1.0.0"}}}}{CACHEABLE}}}}}"#
            ));
            json(StatusCode::OK, result.into())
        }
        "subscriptions/listen" => {
            let acknowledged = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}},"notifications":{{}}}}}}"#,
                message.id()
            );
            events(Body::open(super::body::event(&acknowledged)))
        }
        // 2026-07-28, basic/transports/streamable-http: an unknown method is 404 with -32601.
        _ => json(
            StatusCode::NOT_FOUND,
            message.error(-32601, "Method not found", None).into(),
        ),
    }
}
