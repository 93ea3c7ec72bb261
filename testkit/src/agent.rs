//! A bare MCP client, to stand for an agent: what it sends and gets can be asserted to the byte.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::{self, EventStream, Headers, Response, Seen, Sent};

const MODERN: &str = "2026-07-28";

/// An agent; may be shared, and makes one connection per request.
#[derive(Debug)]
pub struct Agent {
    address: SocketAddr,
    path: String,
    key: Option<String>,
    /// The revision asked for; after `initialize` the negotiated one.
    revision: Mutex<String>,
    modern: bool,
    capabilities: Value,
    session: Mutex<Option<String>>,
    /// Whether a revision has been negotiated: from then on it is in a header.
    initialized: AtomicBool,
    next_id: AtomicI64,
}

impl Agent {
    fn new(address: SocketAddr, path: &str, key: Option<&str>, revision: &str) -> Self {
        Self {
            address,
            path: path.to_owned(),
            key: key.map(str::to_owned),
            revision: Mutex::new(revision.to_owned()),
            modern: revision >= MODERN,
            capabilities: json!({ "elicitation": {}, "sampling": {}, "roots": {} }),
            session: Mutex::new(None),
            initialized: AtomicBool::new(false),
            next_id: AtomicI64::new(1),
        }
    }

    /// An agent of 2025-11-25. The path is such as `/mcp/booking`, the key what `steadfast agent key` printed.
    #[must_use]
    pub fn legacy(address: SocketAddr, path: &str, key: Option<&str>) -> Self {
        Self::new(address, path, key, "2025-11-25")
    }

    /// An agent of 2026-07-28.
    #[must_use]
    pub fn modern(address: SocketAddr, path: &str, key: Option<&str>) -> Self {
        Self::new(address, path, key, MODERN)
    }

    /// A legacy agent that asks for another revision.
    #[must_use]
    pub fn with_revision(self, revision: &str) -> Self {
        *self.revision.lock() = revision.to_owned();
        self
    }

    /// Offers these client capabilities instead of elicitation, sampling and roots.
    #[must_use]
    pub fn with_capabilities(self, capabilities: Value) -> Self {
        Self {
            capabilities,
            ..self
        }
    }

    /// The session id, once there is one.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        self.session.lock().clone()
    }

    /// Pretends to be in another session, or in none.
    pub fn set_session(&self, session: Option<&str>) {
        *self.session.lock() = session.map(str::to_owned);
    }

    /// The negotiated revision.
    #[must_use]
    pub fn revision(&self) -> String {
        self.revision.lock().clone()
    }

    /// Legacy handshake: `initialize`, then `notifications/initialized`.
    pub async fn initialize(&self) -> io::Result<Answer> {
        let params = json!({
            "protocolVersion": self.revision(),
            "capabilities": self.capabilities,
            "clientInfo": { "name": "testkit-agent", "version": "1.0.0" },
        });
        let answer = self.request("initialize", params).await?;
        if let Some(revision) = answer.result()["protocolVersion"].as_str() {
            *self.session.lock() = answer.header("mcp-session-id").map(str::to_owned);
            *self.revision.lock() = revision.to_owned();
            self.initialized.store(true, Ordering::Relaxed);
            self.notify("notifications/initialized", json!({})).await?;
        }
        Ok(answer)
    }

    /// Calls a tool and waits for the answer.
    pub async fn call(&self, tool: &str, arguments: Value) -> io::Result<Answer> {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    /// Calls a tool with `_meta` of the request, such as a progress token.
    pub async fn call_with_meta(
        &self,
        tool: &str,
        arguments: Value,
        meta: Value,
    ) -> io::Result<Answer> {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments, "_meta": meta }),
        )
        .await
    }

    /// Sends any request and waits for the answer.
    pub async fn request(&self, method: &str, params: Value) -> io::Result<Answer> {
        self.start(method, params).await?.finish().await
    }

    /// Sends a request and returns once it has left.
    pub async fn start(&self, method: &str, params: Value) -> io::Result<Pending> {
        let id = json!(self.next_id.fetch_add(1, Ordering::Relaxed));
        self.start_with_id(id, method, params).await
    }

    /// The same under an id of the test's choice.
    pub async fn start_with_id(
        &self,
        id: Value,
        method: &str,
        mut params: Value,
    ) -> io::Result<Pending> {
        if self.modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(self.revision());
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({ "name": "testkit-agent", "version": "1.0.0" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let began = Instant::now();
        let sent = self.post(&message).await?;
        Ok(Pending {
            id,
            began,
            state: State::Sent(sent),
        })
    }

    /// Sends a notification; the HTTP status of its answer.
    pub async fn notify(&self, method: &str, params: Value) -> io::Result<u16> {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        Ok(self.post(&message).await?.response().await?.status)
    }

    /// Cancels a request the legacy way; a modern agent drops its [`Pending`] instead.
    pub async fn cancel(&self, id: &Value) -> io::Result<u16> {
        self.notify(
            "notifications/cancelled",
            json!({ "requestId": id, "reason": "no longer wanted" }),
        )
        .await
    }

    /// Answers a request of the server's.
    pub async fn respond(&self, id: &Value, result: Value) -> io::Result<u16> {
        let message = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        Ok(self.post(&message).await?.response().await?.status)
    }

    /// Answers a request of the server's with an error.
    pub async fn respond_error(&self, id: &Value, code: i64, text: &str) -> io::Result<u16> {
        let error = json!({ "code": code, "message": text });
        let message = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        Ok(self.post(&message).await?.response().await?.status)
    }

    /// Opens the GET stream, or resumes a stream after an event.
    pub async fn open_get(&self, last_event_id: Option<&str>) -> io::Result<EventStream> {
        let mut headers = self.headers(None);
        headers.retain(|(name, _)| name != "Accept" && name != "Content-Type");
        headers.push(("Accept".to_owned(), "text/event-stream".to_owned()));
        if let Some(id) = last_event_id {
            headers.push(("Last-Event-ID".to_owned(), id.to_owned()));
        }
        Ok(self
            .raw("GET", &headers, b"")
            .await?
            .response()
            .await?
            .events())
    }

    /// Ends the session; the HTTP status.
    pub async fn delete(&self) -> io::Result<u16> {
        Ok(self
            .raw("DELETE", &self.headers(None), b"")
            .await?
            .response()
            .await?
            .status)
    }

    /// Posts these bytes with exactly these headers, besides `Host`, `Connection` and `Content-Length`.
    pub async fn raw_post(&self, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Response> {
        client::send(self.address, "POST", &self.path, headers, body)
            .await?
            .response()
            .await
    }

    /// The headers that the agent would send with this message (or with none): a base for [`Agent::raw_post`].
    #[must_use]
    pub fn headers(&self, message: Option<&Value>) -> Headers {
        let mut headers = vec![
            (
                "Accept".to_owned(),
                "application/json, text/event-stream".to_owned(),
            ),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ];
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        if let Some(key) = &self.key {
            add("Authorization", format!("Bearer {key}"));
        }
        let session = self.session();
        if self.modern || self.initialized.load(Ordering::Relaxed) {
            add("MCP-Protocol-Version", self.revision());
        }
        if let Some(session) = session {
            add("Mcp-Session-Id", session);
        }
        if let (true, Some(message)) = (self.modern, message) {
            add(
                "Mcp-Method",
                message["method"].as_str().unwrap_or_default().to_owned(),
            );
            let name = match message["method"].as_str() {
                Some("tools/call" | "prompts/get") => message["params"]["name"].as_str(),
                Some("resources/read") => message["params"]["uri"].as_str(),
                _ => None,
            };
            if let Some(name) = name {
                add("Mcp-Name", encoded(name));
            }
        }
        headers
    }

    async fn post(&self, message: &Value) -> io::Result<Sent> {
        self.raw(
            "POST",
            &self.headers(Some(message)),
            message.to_string().as_bytes(),
        )
        .await
    }

    async fn raw(&self, method: &str, headers: &Headers, body: &[u8]) -> io::Result<Sent> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        client::send(self.address, method, &self.path, &headers, body).await
    }
}

/// 2026-07-28, "Value Encoding".
fn encoded(value: &str) -> String {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && value.trim() == value;
    if plain && !value.starts_with("=?base64?") {
        value.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(value))
    }
}

/// A request whose answer has not been read. Dropping it closes the connection.
#[derive(Debug)]
pub struct Pending {
    /// Its JSON-RPC id.
    pub id: Value,
    began: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    Sent(Sent),
    Stream(Box<EventStream>),
    Failed,
}

impl Pending {
    /// The next message on the answer's stream: a notification, a request of the server's, or the response.
    ///
    /// Fails where the answer is not a stream.
    pub async fn message(&mut self) -> io::Result<Option<Value>> {
        self.stream().await?.message().await
    }

    /// The answer's stream, once its head is here.
    pub async fn stream(&mut self) -> io::Result<&mut EventStream> {
        if let State::Sent(_) = self.state {
            let State::Sent(sent) = std::mem::replace(&mut self.state, State::Failed) else {
                return Err(io::Error::other("not sent"));
            };
            let response = sent.response().await?;
            if !response.is_event_stream() {
                return Err(io::Error::other(format!("not a stream: {response:?}")));
            }
            self.state = State::Stream(Box::new(response.events()));
        }
        match &mut self.state {
            State::Stream(stream) => Ok(stream),
            State::Sent(_) | State::Failed => Err(io::Error::other("the request failed")),
        }
    }

    /// Reads the answer to its end.
    pub async fn finish(self) -> io::Result<Answer> {
        let mut response = match self.state {
            State::Stream(stream) => return Answer::from_stream(self.began, *stream).await,
            State::Failed => return Err(io::Error::other("the request failed")),
            State::Sent(sent) => sent.response().await?,
        };
        if response.is_event_stream() {
            return Answer::from_stream(self.began, response.events()).await;
        }
        let body = response.bytes().await?;
        Ok(Answer {
            status: response.status,
            headers: response.headers,
            message: serde_json::from_slice(&body).unwrap_or_default(),
            body,
            events: Vec::new(),
            took: self.began.elapsed(),
        })
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Headers,
    /// The body's bytes.
    pub body: Bytes,
    /// What came on the stream from the last read of a [`Pending`] on, with times; empty for a JSON answer.
    pub events: Vec<Seen>,
    /// The JSON-RPC response; null where there was none.
    pub message: Value,
    /// From before the request was sent until the answer was complete.
    pub took: Duration,
}

impl Answer {
    async fn from_stream(began: Instant, mut stream: EventStream) -> io::Result<Self> {
        let (mut events, mut message) = (Vec::new(), Value::Null);
        while let Some(seen) = stream.next().await? {
            let response = seen
                .message()
                .filter(|message| message.get("method").is_none());
            events.push(seen);
            message = response.unwrap_or(message);
        }
        let (status, headers) = (stream.response.status, stream.response.headers.clone());
        let body = Bytes::copy_from_slice(stream.raw());
        Ok(Self {
            status,
            headers,
            body,
            events,
            message,
            took: began.elapsed(),
        })
    }

    /// First value of a header; the name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The result; null for an error.
    #[must_use]
    pub fn result(&self) -> &Value {
        &self.message["result"]
    }

    /// The error's code.
    #[must_use]
    pub fn error_code(&self) -> Option<i64> {
        self.message["error"]["code"].as_i64()
    }

    /// The text of the first content block of a tool result.
    #[must_use]
    pub fn text(&self) -> &str {
        self.result()["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
    }

    /// Whether it is a tool result that says `isError`.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.result()["isError"] == json!(true)
    }

    /// The operation object of an outcome that was not observed; null where there is none.
    #[must_use]
    pub fn operation(&self) -> &Value {
        match &self.result()["_meta"]["dev.steadfast/operation"] {
            Value::Null => &self.message["error"]["data"],
            operation => operation,
        }
    }

    /// The notifications that came before the response.
    #[must_use]
    pub fn notifications(&self) -> Vec<Value> {
        let messages = self.events.iter().filter_map(Seen::message);
        messages
            .filter(|message| message.get("method").is_some() && message.get("id").is_none())
            .collect()
    }
}
