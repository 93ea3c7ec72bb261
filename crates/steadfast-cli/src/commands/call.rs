//! `steadfast call`: one tool call through the gateway, for scripts. Arguments and results pass as they are
//! written: a number with more digits than a float has keeps them.

use std::io::Read as _;

use bytes::Bytes;
use clap::Args;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use steadfast_core::code::{self, Code};

use crate::client::{Client, Events, escaped};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Output, printable};

/// The revision in which a call needs no session.
const REVISION: &str = "2026-07-28";

/// `call AGENT SERVER TOOL [JSON]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The agent that calls
    agent: String,
    /// The server
    server: String,
    /// The tool
    tool: String,
    /// Its arguments, a JSON object; `-` reads them from standard input
    #[arg(default_value = "{}")]
    arguments: String,
    /// The agent's key; else the daemon lets the admin call in the agent's name
    #[arg(
        long,
        env = "STEADFAST_AGENT_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    key: Option<String>,
}

/// What the daemon is asked for where the admin calls.
#[derive(Serialize)]
struct Wanted<'w> {
    tool: &'w str,
    arguments: &'w RawValue,
}

/// The request where the agent calls.
#[derive(Serialize)]
struct Request<'r> {
    jsonrpc: &'static str,
    id: u32,
    method: &'static str,
    params: Params<'r>,
}

#[derive(Serialize)]
struct Params<'p> {
    #[serde(rename = "_meta")]
    meta: Value,
    name: &'p str,
    arguments: &'p RawValue,
}

/// A JSON-RPC response.
#[derive(Deserialize)]
struct Answer {
    result: Option<Box<RawValue>>,
    error: Option<Value>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    let given = given(&arguments.arguments)?;
    let answer = match &arguments.key {
        Some(key) => as_agent(context, &arguments, key, &given).await?,
        None => {
            let path = [
                "agents",
                &arguments.agent,
                "servers",
                &arguments.server,
                "call",
            ];
            let body = to_bytes(&Wanted {
                tool: &arguments.tool,
                arguments: &given,
            })?;
            let body = context.daemon()?.post_patiently(&path, body).await?;
            read(&body).ok_or_else(|| {
                Failure::new(
                    code::INTERNAL,
                    "the daemon's answer is no JSON-RPC response",
                )
            })?
        }
    };
    tell(context.output, &answer)
}

fn to_bytes(value: &impl Serialize) -> Result<Bytes, Failure> {
    let bytes = serde_json::to_vec(value);
    bytes
        .map(Bytes::from)
        .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))
}

fn given(text: &str) -> Result<Box<RawValue>, Failure> {
    let text = match text {
        "-" => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| wrong(&error))?;
            text
        }
        text => text.to_owned(),
    };
    let raw: Box<RawValue> = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if raw.get().starts_with('{') {
        Ok(raw)
    } else {
        Err(wrong(&"it is not an object"))
    }
}

/// Reads a response; `None` for anything else.
fn read(body: &[u8]) -> Option<Answer> {
    let answer: Answer = serde_json::from_slice(body).ok()?;
    (answer.result.is_some() || answer.error.is_some()).then_some(answer)
}

fn wrong(why: &dyn std::fmt::Display) -> Failure {
    let message = format!("the arguments of the tool cannot be read: {why}");
    Failure::hinted(
        code::CONFIG_BAD_VALUE,
        message,
        "Write a JSON object, such as '{\"id\": 7}'.",
    )
    .usage()
}

/// The call as the agent itself would make it.
async fn as_agent(
    context: &Context,
    arguments: &Arguments,
    key: &str,
    given: &RawValue,
) -> Result<Answer, Failure> {
    let gateway = context.gateway(key)?;
    let body = to_bytes(&Request {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: Params {
            meta: json!({
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientInfo": {
                    "name": "steadfast call",
                    "version": env!("CARGO_PKG_VERSION"),
                },
                "io.modelcontextprotocol/clientCapabilities": {},
            }),
            name: &arguments.tool,
            arguments: given,
        },
    })?;
    let path = format!("/mcp/{}", escaped(&arguments.server));
    let headers = headers(&arguments.tool)?;
    let response = gateway
        .send(Method::POST, &path, headers, Some(body))
        .await?;
    let is_stream = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    if is_stream {
        return last_of(Events::of(response)).await;
    }
    whole(&gateway, response).await
}

/// Mirrored from the body (2026-07-28 streamable-http, "Standard Request Headers").
fn headers(tool: &str) -> Result<HeaderMap, Failure> {
    let name = HeaderValue::try_from(tool).map_err(|_| {
        let message = format!("`{}` is not the name of a tool", printable(tool));
        Failure::new(code::CONFIG_BAD_VALUE, message).usage()
    })?;
    let mut headers = HeaderMap::new();
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
    headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
    headers.insert("mcp-name", name);
    Ok(headers)
}

/// The response at the end of a stream; what comes before is progress.
async fn last_of(mut events: Events) -> Result<Answer, Failure> {
    while let Some((_, data)) = events.next_data().await {
        if let Some(answer) = read(&data) {
            return Ok(answer);
        }
    }
    let message = "the gateway's answer broke off before the result";
    Err(Failure::new(code::NOT_OBSERVED, message))
}

async fn whole(
    gateway: &Client,
    response: http::Response<hyper::body::Incoming>,
) -> Result<Answer, Failure> {
    let (status, body) = gateway.whole(response).await?;
    if status == StatusCode::UNAUTHORIZED {
        return Err(Failure::new(
            code::BAD_CREDENTIAL,
            "the gateway refused the key",
        ));
    }
    read(&body).ok_or_else(|| {
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        let known = problem["code"].as_str().and_then(Code::find);
        let detail = problem["detail"].as_str().map(str::to_owned);
        let detail = detail.unwrap_or_else(|| format!("the gateway answered {status}"));
        Failure::new(known.unwrap_or(code::INTERNAL), detail)
    })
}

/// Prints the answer; how the command ends follows from it.
fn tell(output: Output, answer: &Answer) -> Result<Exit, Failure> {
    let Some(raw) = &answer.result else {
        return Err(refused(answer.error.as_ref()));
    };
    let result: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    if output.json {
        output.line(raw.get())?;
    } else {
        output.raw(&text_of(&result))?;
    }
    Ok(ending(&result))
}

fn refused(error: Option<&Value>) -> Failure {
    let error = error.cloned().unwrap_or_default();
    let message = error["message"].as_str().unwrap_or_default();
    let ours = error.pointer("/data/code").and_then(Value::as_str);
    match ours.and_then(Code::find) {
        Some(code) => Failure::new(code, message),
        None => Failure::hinted(
            code::FORBIDDEN,
            format!("the server refused the call ({}): {message}", error["code"]),
            "Check the name of the tool and its arguments.",
        ),
    }
}

/// The content as text, for people and for pipes.
fn text_of(result: &Value) -> String {
    let mut text = String::new();
    for item in result["content"].as_array().into_iter().flatten() {
        match item["text"]
            .as_str()
            .or_else(|| item.pointer("/resource/text")?.as_str())
        {
            Some(said) => text.push_str(said),
            None => text.push_str(&format!("[{}]", printable(&described(item)))),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    if text.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        text = format!("{structured:#}\n");
    }
    text
}

fn described(item: &Value) -> String {
    let kind = item["type"].as_str().unwrap_or("unknown content");
    let more = ["mimeType", "uri"]
        .into_iter()
        .find_map(|key| item[key].as_str());
    more.map_or_else(|| kind.to_owned(), |more| format!("{kind} {more}"))
}

fn ending(result: &Value) -> Exit {
    if result["resultType"] == "input_required" {
        return Exit::Person;
    }
    if result["isError"] != true {
        return Exit::Done;
    }
    let steadfast = |key: &str| result.pointer("/_meta").and_then(|meta| meta.get(key));
    let waits = steadfast("dev.steadfast/connection").is_some_and(|connection| {
        connection["fault"]["person_needed"] == true
            || connection["state"] == "awaiting_sign_in"
            || connection["state"] == "misconfigured"
    });
    // Whether it happened is not known, and only somebody who looks at the provider can tell.
    let is_unknown = steadfast("dev.steadfast/operation")
        .is_some_and(|operation| operation["executed"] == "unknown");
    if waits || is_unknown {
        Exit::Person
    } else {
        Exit::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(given(" {\"a\": 1.50}").unwrap().get(), "{\"a\": 1.50}");
        for bad in ["[]", "1", "{", ""] {
            assert!(
                matches!(given(bad), Err(Failure::Said(said)) if said.exit == Exit::Usage),
                "{bad}"
            );
        }
    }

    #[test]
    fn content_is_text() {
        let result = json!({"content": [
            {"type": "text", "text": "one"}, {"type": "image", "mimeType": "image/png", "data": "…"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "two\n"}},
        ]});
        assert_eq!(text_of(&result), "one\n[image image/png]\ntwo\n");
        assert_eq!(
            text_of(&json!({"content": [], "structuredContent": {"a": 1}})),
            "{\n  \"a\": 1\n}\n"
        );
    }

    #[test]
    fn how_it_ends_follows_from_the_result() {
        let with = |key: &str, value: Value| json!({"isError": true, "_meta": {key: value}});
        assert_eq!(ending(&json!({"content": []})), Exit::Done);
        assert_eq!(ending(&json!({"isError": true})), Exit::Failed);
        let connection = |value| ending(&with("dev.steadfast/connection", value));
        assert_eq!(
            connection(json!({"state": "retrying", "fault": {"person_needed": false}})),
            Exit::Failed
        );
        assert_eq!(
            connection(json!({"state": "retrying", "fault": {"person_needed": true}})),
            Exit::Person
        );
        assert_eq!(
            connection(json!({"state": "awaiting_sign_in", "fault": null})),
            Exit::Person
        );
        let operation = |executed| {
            ending(&with(
                "dev.steadfast/operation",
                json!({"executed": executed}),
            ))
        };
        assert_eq!(operation("no"), Exit::Failed);
        assert_eq!(operation("unknown"), Exit::Person);
    }
}
