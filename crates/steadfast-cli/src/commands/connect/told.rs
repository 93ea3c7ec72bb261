//! What the client is told where no answer came: what is known, in the shape of an answer.

use serde_json::{Value, json};
use steadfast_core::code;
use steadfast_core::wire::envelope;

use super::message::Message;
use crate::failure::Failure;

/// JSON-RPC 2.0 section 5.1: an internal error.
const INTERNAL: i64 = -32603;

/// The request left, and its answer did not come. For a call of a tool this is a result, so that the model sees it.
pub(super) fn lost(message: &Message, is_modern: bool) -> Option<Vec<u8>> {
    let evidence = "the connection to the Steadfast daemon broke off before the answer";
    if message.method() != "tools/call" {
        return error(message, evidence, json!({ "executed": "unknown" }));
    }
    let tool = message.text(message.params().name).unwrap_or_default();
    let text = format!(
        "The result of {tool} was not observed: {evidence}. Do not call it again before you know whether it was executed."
    );
    let mut result = json!({
        "content": [{ "type": "text", "text": text }],
        "isError": true,
        "_meta": { "dev.steadfast/operation": {
            "state": "not_observed", "executed": "unknown", "tool": tool, "evidence": evidence,
        }},
    });
    if is_modern && let Some(members) = result.as_object_mut() {
        // 2026-07-28 schema, `Result`: every result says its type.
        members.insert("resultType".to_owned(), json!("complete"));
    }
    answer(message, "result", result)
}

/// The request never left.
pub(super) fn unsent(message: &Message, failure: &Failure) -> Option<Vec<u8>> {
    let why = match failure {
        Failure::Said(said) => said.message.as_str(),
        Failure::OutputClosed => "the output is closed",
    };
    let data = json!({ "code": code::NO_DAEMON.to_string(), "executed": "no" });
    error(message, &format!("nothing was sent: {why}"), data)
}

/// The gateway said something that is no answer to the request: passed on as one.
pub(super) fn refused(message: &Message, status: u16, body: &[u8]) -> Option<Vec<u8>> {
    let said = envelope::read(body).ok();
    let said = said.and_then(|envelope| envelope::read_error(body, &envelope));
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let data = problem.pointer("/error/data").cloned().unwrap_or_default();
    let (code, text) = said.unwrap_or((INTERNAL, format!("the gateway answered {status}")));
    answer(
        message,
        "error",
        json!({ "code": code, "message": text, "data": data }),
    )
}

fn error(message: &Message, text: &str, data: Value) -> Option<Vec<u8>> {
    let error = json!({ "code": INTERNAL, "message": text, "data": data });
    answer(message, "error", error)
}

/// `None` for what wants no answer.
fn answer(message: &Message, member: &str, value: Value) -> Option<Vec<u8>> {
    // The id as it is written: a number with more digits than a float has keeps them.
    let id = message.id()?.to_json();
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(method: &str) -> Message {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{"name":"t"}}}}"#);
        Message::read(line.into_bytes()).ok().unwrap()
    }

    fn value(told: Option<Vec<u8>>) -> Value {
        serde_json::from_slice(&told.unwrap()).unwrap()
    }

    #[test]
    fn a_lost_call_is_a_result_that_says_so() {
        let told = value(lost(&message("tools/call"), true));
        let operation = &told["result"]["_meta"]["dev.steadfast/operation"];
        assert_eq!(told["id"], "a");
        assert_eq!(told["result"]["isError"], true);
        assert_eq!(told["result"]["resultType"], "complete");
        assert_eq!(operation["executed"], "unknown");
        let legacy = value(lost(&message("tools/call"), false));
        assert!(legacy["result"].get("resultType").is_none());
        let other = value(lost(&message("tasks/update"), false));
        assert_eq!(other["error"]["data"]["executed"], "unknown");
    }

    #[test]
    fn what_the_gateway_refuses_keeps_its_words_and_gets_the_id() {
        let body = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no","data":{"code":"SF0031"}}}"#;
        let told = value(refused(&message("ping"), 404, body));
        assert_eq!(
            (&told["id"], &told["error"]["code"]),
            (&json!("a"), &json!(-32600))
        );
        assert_eq!(told["error"]["data"]["code"], "SF0031");
        let strange = value(refused(&message("ping"), 502, b"<html>"));
        assert_eq!(strange["error"]["message"], "the gateway answered 502");
    }
}
