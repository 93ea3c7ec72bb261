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
        "resources/list" => Ok(json!({ "resources": behaviour.resources })),
        "resources/templates/list" => Ok(json!({ "resourceTemplates": behaviour.templates })),
        "resources/read" => read(behaviour, request),
        "prompts/list" => Ok(json!({ "prompts": behaviour.prompts })),
        "prompts/get" => prompt(behaviour, request),
        "completion/complete" => {
            Ok(json!({ "completion": { "values": ["one", "two"], "hasMore": false } }))
        }
        _ => return None,
    };
    Some(result)
}

/// The capabilities of a server that has everything.
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

/// The resource that a server has by default.
pub(super) fn note() -> Value {
    json!({ "uri": "test://note", "name": "note", "mimeType": "text/plain" })
}

/// The prompt that a server has by default.
pub(super) fn greeting() -> Value {
    json!({ "name": "greeting", "description": "A greeting" })
}

fn read(behaviour: &Behaviour, request: &Request) -> Result<Value, Refused> {
    let uri = request.pointer("/params/uri").and_then(Value::as_str);
    let uri = uri.unwrap_or_default();
    let listed = behaviour.resources.iter().find(|it| it["uri"] == *uri);
    let begins = |template: &&Value| {
        let template = template["uriTemplate"].as_str().unwrap_or_default();
        template
            .split('{')
            .next()
            .is_some_and(|start| uri.starts_with(start))
    };
    match listed.or_else(|| behaviour.templates.iter().find(begins)) {
        Some(found) => {
            let text = found["title"].as_str().unwrap_or("a note");
            Ok(json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] }))
        }
        None => Err((-32602, "Resource not found".to_owned())),
    }
}

fn prompt(behaviour: &Behaviour, request: &Request) -> Result<Value, Refused> {
    let name = request.pointer("/params/name").cloned().unwrap_or_default();
    let found = behaviour
        .prompts
        .iter()
        .find(|prompt| prompt["name"] == name);
    let Some(found) = found else {
        return Err((-32602, "Unknown prompt".to_owned()));
    };
    let text = found["title"].as_str().unwrap_or("Hello");
    Ok(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }))
}
