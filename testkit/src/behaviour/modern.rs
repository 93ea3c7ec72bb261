//! Streamable HTTP of 2026-07-28.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Behaviour, call, methods};
use crate::exchange::Exchange;
use crate::log::Request;
use crate::session::Outbox;
use crate::shared::Subscription;
use crate::wire::Flow;

const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const CAPABILITIES: &str = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// Whether a request to a server of both eras is a modern one ("Backward Compatibility": it carries modern `_meta`).
pub(crate) fn is_modern(request: &Request) -> bool {
    request.pointer(VERSION).is_some()
}

pub(super) async fn answer(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    if exchange.request.method != "POST" {
        exchange.wire.header("allow", "POST");
        return exchange.empty(405).await;
    }
    let Some(message) = exchange.request.json.clone().filter(Value::is_object) else {
        return exchange.error(400, -32700, "Parse error", None).await;
    };
    let Some(method) = exchange.request.rpc_method().map(str::to_owned) else {
        return exchange.error(400, -32600, "Invalid Request", None).await;
    };
    if message.get("id").is_none() {
        return exchange.empty(202).await;
    }
    if method == "initialize" {
        // The error names what is spoken here: it may be all that a legacy client can show its user.
        let asked = exchange.request.pointer("/params/protocolVersion").cloned();
        return unsupported(exchange, behaviour, asked).await;
    }
    if let Err(mismatch) = check_headers(&exchange.request, behaviour) {
        let message = format!("Header mismatch: {mismatch}");
        return exchange.error(400, HEADER_MISMATCH, &message, None).await;
    }
    let version = exchange.request.pointer(VERSION).cloned();
    let supported = version.as_ref().and_then(Value::as_str);
    if !supported.is_some_and(|version| {
        behaviour
            .modern_revisions
            .iter()
            .any(|known| known == version)
    }) {
        return unsupported(exchange, behaviour, version).await;
    }
    if exchange.request.pointer(CAPABILITIES).is_none() {
        return exchange
            .error(
                400,
                -32602,
                "Invalid params: _meta lacks clientCapabilities",
                None,
            )
            .await;
    }
    request(exchange, behaviour, &method).await
}

async fn unsupported(
    exchange: &mut Exchange<'_>,
    behaviour: &Behaviour,
    requested: Option<Value>,
) -> Flow {
    let data = json!({ "supported": behaviour.all_revisions(), "requested": requested });
    exchange
        .error(
            400,
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            Some(data),
        )
        .await
}

async fn request(exchange: &mut Exchange<'_>, behaviour: &Behaviour, method: &str) -> Flow {
    match method {
        "server/discover" => {
            let mut result = json!({
                "resultType": "complete",
                "supportedVersions": behaviour.all_revisions(),
                "capabilities": behaviour.capabilities,
                "ttlMs": behaviour.ttl_ms,
                "cacheScope": "private",
                "_meta": { "io.modelcontextprotocol/serverInfo": methods::server_info() },
            });
            if let Some(instructions) = &behaviour.instructions {
                result["instructions"] = json!(instructions);
            }
            exchange.result(result).await
        }
        "tools/call" => {
            let tool = exchange
                .request
                .tool()
                .and_then(|name| behaviour.tool(name));
            let asks = tool.is_some_and(|tool| tool.action == crate::tool::Action::Ask);
            if asks
                && exchange
                    .request
                    .pointer(CAPABILITIES)
                    .is_none_or(|offered| offered.get("elicitation").is_none())
            {
                let data = json!({ "requiredCapabilities": { "elicitation": {} } });
                let message = "Server requires the elicitation capability for this request";
                return exchange
                    .error(400, MISSING_CAPABILITY, message, Some(data))
                    .await;
            }
            call(exchange, behaviour, None).await
        }
        "subscriptions/listen" => listen(exchange, behaviour).await,
        _ => match methods::result(behaviour, &exchange.request) {
            Some(Ok(mut result)) => {
                result["resultType"] = json!("complete");
                if method.ends_with("/list") || method == "resources/read" {
                    result["ttlMs"] = json!(behaviour.ttl_ms);
                    result["cacheScope"] = json!("private");
                }
                exchange.result(result).await
            }
            Some(Err((code, message))) => exchange.error(200, code, &message, None).await,
            None => exchange.error(404, -32601, "Method not found", None).await,
        },
    }
}

async fn listen(exchange: &mut Exchange<'_>, behaviour: &Behaviour) -> Flow {
    let id = exchange.request.rpc_id().cloned().unwrap_or_default();
    let mut filter = exchange
        .request
        .pointer("/params/notifications")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let (Some(honours), Some(asked)) = (&behaviour.honours, filter.as_object_mut()) {
        asked.retain(|member, _| honours.contains(member));
    }
    let outbox = Outbox::anonymous();
    let params = json!({ "_meta": { SUBSCRIPTION_ID: id }, "notifications": filter });
    let method = "notifications/subscriptions/acknowledged";
    outbox.push(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    let subscription = Subscription {
        id,
        filter,
        outbox: outbox.clone(),
    };
    let _open = exchange.shared.get_streams.enter();
    let _registered = exchange.shared.subscribe(subscription);
    exchange.begin_stream().await?;
    exchange.pump(&outbox, 0).await
}

/// Sends a notification to a subscription, if its filter asks for it.
pub(crate) fn notify_subscription(subscription: &Subscription, message: &Value) {
    let wanted = match message["method"].as_str().unwrap_or_default() {
        "notifications/tools/list_changed" => {
            subscription.filter["toolsListChanged"] == json!(true)
        }
        "notifications/prompts/list_changed" => {
            subscription.filter["promptsListChanged"] == json!(true)
        }
        "notifications/resources/list_changed" => {
            subscription.filter["resourcesListChanged"] == json!(true)
        }
        "notifications/resources/updated" => {
            let wanted = subscription.filter["resourceSubscriptions"].as_array();
            wanted.is_some_and(|uris| uris.contains(&message["params"]["uri"]))
        }
        _ => false,
    };
    if wanted {
        let mut message = message.clone();
        message["params"]["_meta"][SUBSCRIPTION_ID] = subscription.id.clone();
        subscription.outbox.push(&message);
    }
}

/// "Server Validation": headers must be there and say what the body says.
fn check_headers(request: &Request, behaviour: &Behaviour) -> Result<(), String> {
    let same = |header: &str, body: Option<&Value>| -> Result<(), String> {
        let value = request
            .header(header)
            .ok_or_else(|| format!("{header} is missing"))?;
        let body = body.and_then(Value::as_str).unwrap_or_default();
        match decoded(value) {
            Some(value) if value == body => Ok(()),
            _ => Err(format!(
                "{header} header value '{value}' does not match body value '{body}'"
            )),
        }
    };
    same("mcp-protocol-version", request.pointer(VERSION))?;
    same("mcp-method", request.pointer("/method"))?;
    match request.rpc_method() {
        Some("tools/call" | "prompts/get") => same("mcp-name", request.pointer("/params/name"))?,
        Some("resources/read") => same("mcp-name", request.pointer("/params/uri"))?,
        Some(_) | None => {}
    }
    let tool = request.tool().and_then(|name| behaviour.tool(name));
    tool.map_or(Ok(()), |tool| {
        check_parameters(
            request,
            &tool.definition["inputSchema"],
            request.arguments(),
        )
    })
}

/// The same for the parameters that a schema marks with `x-mcp-header`, also in nested objects.
fn check_parameters(request: &Request, schema: &Value, arguments: &Value) -> Result<(), String> {
    let Some(properties) = schema["properties"].as_object() else {
        return Ok(());
    };
    for (name, property) in properties {
        let argument = &arguments[name];
        check_parameters(request, property, argument)?;
        let Some(mark) = property["x-mcp-header"].as_str() else {
            continue;
        };
        let header = format!("mcp-param-{}", mark.to_ascii_lowercase());
        let sent = request.header(&header).map(decoded);
        let expected = match argument {
            Value::Null => None,
            Value::String(text) => Some(Some(text.clone())),
            other => Some(Some(other.to_string())),
        };
        if sent != expected {
            return Err(format!(
                "{header} header value {sent:?} does not match body value {argument}"
            ));
        }
    }
    Ok(())
}

/// "Value Encoding": plain, or Base64 between `=?base64?` and `?=`. `None` if that is broken.
fn decoded(value: &str) -> Option<String> {
    match value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="))
    {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}
