//! Event streams of the server: those that answer a call, and the one that a session listens on.

mod answers;
mod cuts;
mod hello;
mod listening;
mod replay;
mod resuming;

use serde_json::{Value, json};
use testkit::reply::{event_stream, message_for, tool_text};
use testkit::{Reply, RequestLog, sse};

/// A stream with some bytes on it, still open.
fn stream_with(bytes: &str) -> Reply {
    event_stream().body(bytes.to_owned())
}

/// A notification that any server may send at any time.
fn log_message(text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": text } })
}

/// The same as an event with an id, after a `retry` field.
fn log_event(id: &str, retry: &str) -> String {
    let event = sse::event(Some(id), None, &log_message(id).to_string());
    format!("retry: {retry}\n{event}")
}

/// The event that 2025-11-25 asks of a stream that can be resumed: an id, and no data.
fn priming(id: &str, retry_ms: u64) -> String {
    format!("id: {id}\nretry: {retry_ms}\ndata: \n\n")
}

/// The answer to the last call of a tool, as an event; for a stream other than the call's own.
fn late_answer(log: &RequestLog, tool: &str, id: &str) -> String {
    let calls = log.calls(tool);
    let call = calls.last().unwrap();
    let message = message_for(call, &json!({ "result": tool_text("found") }));
    sse::event(Some(id), None, &message)
}

/// The GETs that ask for the stream of the session, or for the rest of another one.
fn gets(log: &RequestLog, last_event_id: Option<&str>) -> usize {
    let asked = |request: &testkit::Request| {
        request.method == "GET" && request.header("last-event-id") == last_event_id
    };
    log.matching(asked).len()
}
