//! The proposal SEP-3182, "Request Idempotency" (pull request 3182 of the specification's repository, closed without
//! being merged): a server that advertises the capability `tools.idempotency` does not run a tool a second time for a
//! `tools/call` with an `idempotencyKey`, a sibling of `arguments`, that it has seen before. It is used only where
//! the operator says so; what the errors look like is taken from the proposal's reference implementation.

use crate::wire::envelope::{Envelope, Kind};
use crate::wire::json;

/// Where the key stands, from the params of the call on.
pub const PLACE: &str = "$.idempotencyKey";

/// Whether a server advertises the capability; `hello` is the result of `initialize` or `server/discover`.
#[must_use]
pub fn is_advertised(hello: &[u8]) -> bool {
    let path = ["capabilities", "tools", "idempotency"];
    let declared = json::at_path(hello, 0..hello.len(), &path);
    let value = declared.and_then(|range| hello.get(range));
    !matches!(value, None | Some(b"null" | b"false"))
}

/// What an error of the server says that is about the key and not about the call, in one clause: such an answer to a
/// repeat says nothing about what became of the first request.
#[must_use]
pub fn about_the_key(message: &[u8], read: &Envelope) -> Option<&'static str> {
    if read.kind != Kind::Error {
        return None;
    }
    let kind = json::at_path(message, read.error.clone()?, &["data", "type"])?;
    match &*json::text(message, kind)? {
        "idempotency_key_in_progress" => {
            Some("the server is still at work on an earlier request with this key")
        }
        "idempotency_key_conflict" => Some("the server has other arguments under this key"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::envelope;

    #[test]
    fn only_who_advertises_it_is_taken_at_their_word() {
        for (capabilities, expected) in [
            (r#"{"tools":{"idempotency":{}}}"#, true),
            (r#"{"tools":{"idempotency":true}}"#, true),
            (r#"{"tools":{"idempotency":false}}"#, false),
            (r#"{"tools":{"idempotency":null}}"#, false),
            (r#"{"tools":{"listChanged":true}}"#, false),
            (r#"{"idempotency":{}}"#, false),
        ] {
            let hello = format!(r#"{{"capabilities":{capabilities}}}"#);
            assert_eq!(is_advertised(hello.as_bytes()), expected, "{capabilities}");
        }
        assert!(!is_advertised(b"{}"));
    }

    #[test]
    fn an_error_about_the_key_is_told_from_an_error_of_the_call() {
        let says = |rest: &str| {
            let message = format!(r#"{{"jsonrpc":"2.0","id":1,{rest}}}"#);
            let read = envelope::read(message.as_bytes()).unwrap();
            about_the_key(message.as_bytes(), &read).is_some()
        };
        let error = |kind: &str| {
            format!(
                r#""error":{{"code":-32602,"message":"idempotency_key_in_progress","data":{{"type":"{kind}"}}}}"#
            )
        };
        assert!(says(&error("idempotency_key_in_progress")));
        assert!(says(&error("idempotency_key_conflict")));
        assert!(!says(&error("other")));
        assert!(!says(
            r#""error":{"code":-32602,"message":"idempotency_key_conflict"}"#
        ));
        assert!(!says(
            r#""result":{"data":{"type":"idempotency_key_conflict"}}"#
        ));
    }
}
