//! The methods that both eras have in common.

use serde_json::{Value, json};

use super::Behaviour;
use crate::log::Request;

/// A JSON-RPC error code and message.
pub(super) type Refused = (i64, String);

/// The result of a list, read or get; `None` where the method is not one of these.
pub(super) fn result(behaviour: &Behaviour, request: &Request) -> Option<Result<Value, Refused>> {
    let result = match request.rpc_method()? {
        "tools/list" => tools(behaviour, request),
        "resources/list" => Ok(json!({ "resources": [resource()] })),
        "resources/templates/list" => Ok(json!({ "resourceTemplates": [] })),
        "resources/read" => read(request),
        "prompts/list" => {
            Ok(json!({ "prompts": [{ "name": "greeting", "description": "A greeting" }] }))
        }
        "prompts/get" => prompt(request),
        "completion/complete" => {
            Ok(json!({ "completion": { "values": ["one", "two"], "hasMore": false } }))
        }
        _ => return None,
    };
    Some(result)
}

/// The server's capabilities.
pub(super) fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "prompts": { "listChanged": true },
        "logging": {},
        "completions": {},
    })
}

/// The server's name and version.
pub(super) fn server_info() -> Value {
    json!({ "name": "testkit", "version": "1.0.0" })
}

fn tools(behaviour: &Behaviour, request: &Request) -> Result<Value, Refused> {
    let start = match request
        .pointer("/params/cursor")
        .map(|cursor| cursor.as_str().and_then(|c| c.parse().ok()))
    {
        None => 0,
        Some(Some(start)) if start < behaviour.tools.len() => start,
        Some(_) => return Err((-32602, "Invalid cursor".to_owned())),
    };
    let size = behaviour.page_size.unwrap_or(usize::MAX);
    let page: Vec<_> = behaviour
        .tools
        .iter()
        .skip(start)
        .take(size)
        .map(|tool| tool.listing())
        .collect();
    let next = start + page.len();
    let mut result = json!({ "tools": page });
    if next < behaviour.tools.len() {
        result["nextCursor"] = json!(next.to_string());
    }
    Ok(result)
}

fn resource() -> Value {
    json!({ "uri": "test://note", "name": "note", "mimeType": "text/plain" })
}

fn read(request: &Request) -> Result<Value, Refused> {
    match request.pointer("/params/uri").and_then(Value::as_str) {
        Some("test://note") => Ok(
            json!({ "contents": [{ "uri": "test://note", "mimeType": "text/plain", "text": "a note" }] }),
        ),
        Some(_) | None => Err((-32602, "Resource not found".to_owned())),
    }
}

fn prompt(request: &Request) -> Result<Value, Refused> {
    match request.pointer("/params/name").and_then(Value::as_str) {
        Some("greeting") => Ok(
            json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "Hello" } }] }),
        ),
        Some(_) | None => Err((-32602, "Unknown prompt".to_owned())),
    }
}
