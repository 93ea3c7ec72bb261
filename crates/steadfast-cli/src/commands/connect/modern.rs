//! A client of the era without sessions (2026-07-28). What its messages say of themselves goes into headers, and a
//! cancelled request is one whose connection is closed (transports/streamable-http, "Cancellation").

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use steadfast_core::wire::envelope;
use steadfast_core::wire::header::{ParamHeader, encode_value, param_headers, param_value};
use tokio::sync::Mutex;

use super::Out;
use super::door::{Door, Heard};
use super::message::{Message, answers};
use super::told;
use crate::client::Events;

/// How often a request that changes nothing is sent again.
const REPEATS: usize = 5;
/// A list of tools with more pages than this has no end.
const PAGES: usize = 1_000;
/// 2026-07-28 basic, "Error Codes": the headers do not say what the body says.
const HEADER_MISMATCH: i64 = -32020;

/// All requests of the client.
pub(super) struct Modern {
    door: Arc<Door>,
    out: Out,
    /// Which parameters each tool wants in headers, as far as that was asked for.
    mirrored: Mutex<HashMap<String, Vec<ParamHeader>>>,
}

impl Modern {
    pub(super) fn new(door: Arc<Door>, out: Out) -> Self {
        Self {
            door,
            out,
            mirrored: Mutex::default(),
        }
    }

    /// Sends a notification.
    pub(super) async fn post(&self, message: Message) {
        let headers = self.headers(&message).await;
        self.door
            .send(&Method::POST, &headers, Some(&message.bytes))
            .await;
    }

    /// Sends a request, and passes on what comes.
    pub(super) async fn ask(&self, message: Message) {
        let is_subscription = message.method() == "subscriptions/listen";
        let mut repeats = 0;
        let mut has_looked = false;
        let mut is_acknowledged = false;
        let told = loop {
            let headers = self.headers(&message).await;
            let sent = self
                .door
                .send(&Method::POST, &headers, Some(&message.bytes));
            match sent.await {
                Heard::Unsent(failure) => break told::unsent(&message, &failure),
                Heard::Answered(response) if is_stream(&response) => {
                    let events = Events::of(response);
                    if self.drain(events, &message, &mut is_acknowledged).await {
                        return;
                    }
                    // A subscription that was acknowledged goes on for as long as the client wants it.
                    repeats = if is_subscription && is_acknowledged {
                        0
                    } else {
                        repeats
                    };
                }
                Heard::Answered(response) => {
                    let status = response.status();
                    if let Ok(body) = response.into_body().collect().await {
                        let body = body.to_bytes();
                        let lacks_headers = status == StatusCode::BAD_REQUEST
                            && message.method() == "tools/call"
                            && is_mismatch(&body);
                        // Refused before anything was done with it ("Server Behavior for Custom Headers").
                        if lacks_headers && !has_looked {
                            has_looked = true;
                            self.look_at_tools(&message).await;
                            continue;
                        }
                        break Some(if answers(&body, message.id().as_ref()) {
                            body.to_vec()
                        } else {
                            told::refused(&message, status.as_u16(), &body).unwrap_or_default()
                        });
                    }
                }
                Heard::Lost => {}
            }
            if !message.may_be_repeated() || repeats >= REPEATS {
                break told::lost(&message, true);
            }
            repeats += 1;
        };
        if let Some(told) = told.filter(|told| !told.is_empty()) {
            // Where the client is gone, everything ends.
            let _ = self.out.send(told).await;
        }
    }

    /// Passes on events. Whether the answer was among them.
    async fn drain(
        &self,
        mut events: Events,
        message: &Message,
        is_acknowledged: &mut bool,
    ) -> bool {
        while let Some((_, data)) = events.next_data().await {
            if data.is_empty() {
                continue;
            }
            let is_answer = answers(&data, message.id().as_ref());
            // A subscription that was made again was acknowledged before.
            let is_again = is_acknowledgement(&data) && std::mem::replace(is_acknowledged, true);
            if !is_again {
                let _ = self.out.send(data).await;
            }
            if is_answer {
                return true;
            }
        }
        false
    }

    /// 2026-07-28 transports/streamable-http, "Standard Request Headers": what the body says.
    async fn headers(&self, message: &Message) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        let (method, params) = (message.method(), message.params());
        let version = message.text(params.protocol_version.clone());
        add(&mut headers, "mcp-protocol-version", version.as_deref());
        add(&mut headers, "mcp-method", Some(&method));
        let named = match method.as_str() {
            "tools/call" | "prompts/get" => message.text(params.name.clone()),
            "resources/read" => message.text(params.uri.clone()),
            _ => None,
        };
        let name = named.as_deref().map(encode_value);
        add(&mut headers, "mcp-name", name.as_deref());
        if let Some(tool) = named.filter(|_| method == "tools/call") {
            let mirrored = self.mirrored.lock().await;
            let arguments = params.arguments.and_then(|at| message.bytes.get(at));
            for param in mirrored.get(&tool).into_iter().flatten() {
                let value = param_value(arguments.unwrap_or(b"{}"), param);
                add(&mut headers, &param.header, value.as_deref());
            }
        }
        headers
    }

    /// Asks which parameters tools want in headers: the client need not know, since it sends none.
    async fn look_at_tools(&self, message: &Message) {
        let version = message.text(message.params().protocol_version);
        let mut found = HashMap::new();
        let mut cursor = Value::Null;
        for _ in 0..PAGES {
            let Some(page) = self.page_of_tools(version.as_deref(), &cursor).await else {
                break;
            };
            let result = &page["result"];
            for tool in result["tools"].as_array().into_iter().flatten() {
                let name = tool["name"].as_str().unwrap_or_default().to_owned();
                let schema = tool["inputSchema"].to_string();
                // A tool with broken annotations is left out of lists.
                found.insert(name, param_headers(schema.as_bytes()).unwrap_or_default());
            }
            cursor = result["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        *self.mirrored.lock().await = found;
    }

    async fn page_of_tools(&self, version: Option<&str>, cursor: &Value) -> Option<Value> {
        let mut params = json!({ "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {
                "name": "steadfast connect", "version": env!("CARGO_PKG_VERSION"),
            },
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        if let Some(members) = params.as_object_mut().filter(|_| !cursor.is_null()) {
            members.insert("cursor".to_owned(), cursor.clone());
        }
        let request = json!({
            "jsonrpc": "2.0", "id": "steadfast", "method": "tools/list", "params": params,
        });
        let asked = Message::read(request.to_string().into_bytes()).ok()?;
        let mut headers = HeaderMap::new();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        add(&mut headers, "mcp-protocol-version", version);
        add(&mut headers, "mcp-method", Some("tools/list"));
        let sent = self.door.send(&Method::POST, &headers, Some(&asked.bytes));
        let Heard::Answered(response) = sent.await else {
            return None;
        };
        let answer = if is_stream(&response) {
            let mut events = Events::of(response);
            loop {
                let (_, data) = events.next_data().await?;
                if answers(&data, asked.id().as_ref()) {
                    break Bytes::from(data);
                }
            }
        } else {
            response.into_body().collect().await.ok()?.to_bytes()
        };
        serde_json::from_slice(&answer).ok()
    }
}

fn add(headers: &mut HeaderMap, name: &str, value: Option<&str>) {
    let name = HeaderName::try_from(name).ok();
    let value = value.and_then(|value| HeaderValue::try_from(value).ok());
    headers.extend(name.zip(value));
}

fn is_stream(response: &Response<Incoming>) -> bool {
    let media = response.headers().get(CONTENT_TYPE);
    media.is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

fn is_mismatch(body: &[u8]) -> bool {
    let read = envelope::read(body).ok();
    let error = read.and_then(|read| envelope::read_error(body, &read));
    error.is_some_and(|(code, _)| code == HEADER_MISMATCH)
}

fn is_acknowledgement(data: &[u8]) -> bool {
    envelope::read(data)
        .is_ok_and(|read| read.method(data) == "notifications/subscriptions/acknowledged")
}
