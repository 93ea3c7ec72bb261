//! What a script answers: a list of steps, down to the byte.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::log::Request;
use crate::sse;

/// How a response is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response ends as it should, as if nothing more had been planned; the connection stays.
    Clean,
    /// The connection is closed (FIN) with the response incomplete.
    Fin,
    /// The connection is reset (RST). On HTTP/2 this takes all its streams along.
    Rst,
    /// The connection is closed in the middle of a chunk that was announced longer. On HTTP/2: `RST_STREAM`.
    MidChunk,
    /// Nothing more is sent; the connection stays open and is read from until the peer leaves.
    BlackHole,
}

/// One step of a reply.
#[derive(Clone, Debug)]
pub enum Step {
    /// The status; 200 unless given. Comes before the first body byte.
    Status(u16),
    /// A response header. Comes before the first body byte.
    Header(String, String),
    /// Sends status and headers now, before any body.
    Head,
    /// Body bytes.
    Body(Bytes),
    /// A JSON-RPC message as the body; `jsonrpc`, and `id` where it is absent, are filled in from the request.
    Rpc(Value),
    /// The same as one server-sent event, with an event id if given.
    RpcEvent(Option<String>, Value),
    /// The same bytes again and again, with a pause before each, that many times or for ever.
    Repeat {
        /// The bytes.
        bytes: Bytes,
        /// The pause.
        every: Duration,
        /// How often; `None` is until the peer leaves.
        times: Option<u64>,
    },
    /// Waits.
    Delay(Duration),
    /// Waits until the test opens the gate.
    WaitFor(String),
    /// Writes the ledger row of the request's tool, as if the tool had run.
    Row,
    /// Lets the default behaviour answer; what it sends passes through `Cut` and `Drip`.
    Run,
    /// These bytes of an event stream go ahead of what the default behaviour answers, which becomes an event stream if
    /// it would have been JSON.
    Before(Bytes),
    /// Lets so many body bytes pass from here on, then ends the response.
    CutAfter(u64, End),
    /// Sends all body bytes from here on in pieces of so many bytes, with a pause after each.
    Drip(usize, Duration),
    /// The body ends with the connection: no length, no chunks (HTTP/1.1 only).
    UntilClose,
    /// Bytes straight onto the socket, outside all framing (HTTP/1.1 only). The connection is closed afterwards.
    Raw(Bytes),
    /// Ends the response now.
    End(End),
    /// Refuses the request before looking at it: `REFUSED_STREAM` on HTTP/2, a FIN without an answer on HTTP/1.1.
    Refuse,
    /// From now on this connection is closed when it has been idle so long.
    CloseIdleAfter(Duration),
    /// Calls the server's exit hook: the process is gone. Without a hook the server resets everything and stops.
    Exit,
}

/// A scripted reply, built step by step.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub(crate) steps: Vec<Step>,
}

impl Reply {
    /// No step yet; as it stands, an empty 200.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds any step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The steps of another reply after these.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self
    }

    /// See [`Step::Header`].
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.step(Step::Header(name.to_owned(), value.to_owned()))
    }

    /// See [`Step::Head`].
    #[must_use]
    pub fn head(self) -> Self {
        self.step(Step::Head)
    }

    /// See [`Step::Body`]. In an event stream these are raw bytes of it.
    #[must_use]
    pub fn body(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Body(bytes.into()))
    }

    /// See [`Step::Rpc`].
    #[must_use]
    pub fn rpc(self, message: Value) -> Self {
        self.step(Step::Rpc(message))
    }

    /// See [`Step::RpcEvent`].
    #[must_use]
    pub fn rpc_event(self, message: Value) -> Self {
        self.step(Step::RpcEvent(None, message))
    }

    /// [`Step::RpcEvent`] with an event id.
    #[must_use]
    pub fn rpc_event_with_id(self, id: &str, message: Value) -> Self {
        self.step(Step::RpcEvent(Some(id.to_owned()), message))
    }

    /// See [`Step::Repeat`].
    #[must_use]
    pub fn repeat(self, bytes: impl Into<Bytes>, every: Duration, times: Option<u64>) -> Self {
        self.step(Step::Repeat {
            bytes: bytes.into(),
            every,
            times,
        })
    }

    /// See [`Step::Delay`].
    #[must_use]
    pub fn delay(self, time: Duration) -> Self {
        self.step(Step::Delay(time))
    }

    /// See [`Step::WaitFor`].
    #[must_use]
    pub fn wait_for(self, gate: &str) -> Self {
        self.step(Step::WaitFor(gate.to_owned()))
    }

    /// See [`Step::Row`].
    #[must_use]
    pub fn row(self) -> Self {
        self.step(Step::Row)
    }

    /// See [`Step::Run`].
    #[must_use]
    pub fn run(self) -> Self {
        self.step(Step::Run)
    }

    /// See [`Step::Before`]; the behaviour's answer follows at once.
    #[must_use]
    pub fn run_after(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Before(bytes.into())).run()
    }

    /// See [`Step::CutAfter`].
    #[must_use]
    pub fn cut_after(self, bytes: u64, end: End) -> Self {
        self.step(Step::CutAfter(bytes, end))
    }

    /// See [`Step::Drip`].
    #[must_use]
    pub fn drip(self, bytes: usize, every: Duration) -> Self {
        self.step(Step::Drip(bytes, every))
    }

    /// See [`End::Rst`].
    #[must_use]
    pub fn rst(self) -> Self {
        self.step(Step::End(End::Rst))
    }

    /// See [`End::Fin`].
    #[must_use]
    pub fn fin(self) -> Self {
        self.step(Step::End(End::Fin))
    }

    /// See [`End::MidChunk`].
    #[must_use]
    pub fn mid_chunk(self) -> Self {
        self.step(Step::End(End::MidChunk))
    }

    /// See [`End::BlackHole`].
    #[must_use]
    pub fn black_hole(self) -> Self {
        self.step(Step::End(End::BlackHole))
    }

    /// See [`Step::Exit`].
    #[must_use]
    pub fn exit(self) -> Self {
        self.step(Step::Exit)
    }

    /// The steps with every JSON-RPC message turned into the bytes that answer this request.
    pub(crate) fn resolve(&self, request: &Request) -> Vec<Step> {
        let bytes = |message: &Value| message_for(request, message);
        let resolve = |step: &Step| match step {
            Step::Rpc(message) => Step::Body(bytes(message).into()),
            Step::RpcEvent(id, message) => {
                Step::Body(sse::event(id.as_deref(), None, &bytes(message)).into())
            }
            other => other.clone(),
        };
        self.steps.iter().map(resolve).collect()
    }
}

/// The text of a JSON-RPC message that answers a request: `jsonrpc` and, where absent, the request's `id` are filled in.
///
/// For bodies that a script wants to put together by itself, with [`crate::script::NewRule::reply_with`].
#[must_use]
pub fn message_for(request: &Request, message: &Value) -> String {
    let Value::Object(given) = message else {
        return message.to_string();
    };

    let mut whole = serde_json::Map::new();
    whole.insert("jsonrpc".to_owned(), json!("2.0"));
    if !given.contains_key("method") {
        whole.insert(
            "id".to_owned(),
            request.rpc_id().cloned().unwrap_or(Value::Null),
        );
    }
    whole.extend(given.clone());
    Value::Object(whole).to_string()
}

/// An empty response with this status.
#[must_use]
pub fn status(status: u16) -> Reply {
    Reply::new().step(Step::Status(status))
}

/// A response with this status, content type and body.
#[must_use]
pub fn content(code: u16, content_type: &str, body: impl Into<Bytes>) -> Reply {
    status(code).header("content-type", content_type).body(body)
}

/// A JSON body that is not made into a JSON-RPC message.
#[must_use]
pub fn json_body(code: u16, body: &Value) -> Reply {
    content(code, "application/json", body.to_string())
}

/// A JSON-RPC result with HTTP 200 and the request's id.
#[must_use]
pub fn json_rpc_result(result: Value) -> Reply {
    status(200)
        .header("content-type", "application/json")
        .rpc(json!({ "result": result }))
}

/// A JSON-RPC error with the request's id.
#[must_use]
pub fn json_rpc_error(code: u16, error: i64, message: &str) -> Reply {
    json_rpc_error_data(code, error, message, Value::Null)
}

/// A JSON-RPC error with `data` and the request's id.
#[must_use]
pub fn json_rpc_error_data(code: u16, error: i64, message: &str, data: Value) -> Reply {
    let mut body = json!({ "code": error, "message": message });
    if !data.is_null() {
        body["data"] = data;
    }
    status(code)
        .header("content-type", "application/json")
        .rpc(json!({ "error": body }))
}

/// The head of an event stream, sent at once; its events follow.
#[must_use]
pub fn event_stream() -> Reply {
    status(200)
        .header("content-type", "text/event-stream")
        .header("cache-control", "no-store")
        .head()
}

/// The default behaviour.
#[must_use]
pub fn run() -> Reply {
    Reply::new().run()
}

/// A tool result with one text.
#[must_use]
pub fn tool_text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": false })
}
