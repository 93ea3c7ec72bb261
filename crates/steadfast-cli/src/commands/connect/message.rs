//! One line from the client, or one message for it.

use bytes::Bytes;
use serde_json::json;
use steadfast_core::RpcId;
use steadfast_core::wire::envelope::{self, Envelope, Invalid, Kind, Params};
use steadfast_core::wire::json as raw;

/// One message of the client.
pub(super) struct Message {
    pub(super) bytes: Bytes,
    /// `None` for a batch.
    envelope: Option<Envelope>,
}

impl Message {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// What the client is answered that wrote something else.
    pub(super) fn read(line: Vec<u8>) -> Result<Self, Vec<u8>> {
        let bytes = Bytes::from(line);
        match envelope::read(&bytes) {
            Ok(envelope) => Ok(Self {
                bytes,
                envelope: Some(envelope),
            }),
            Err(Invalid::Batch) => Ok(Self {
                bytes,
                envelope: None,
            }),
            // JSON-RPC 2.0 section 5.1.
            Err(error @ Invalid::Json(_)) => Err(refusal(-32700, &error)),
            Err(error @ Invalid::Message(_)) => Err(refusal(-32600, &error)),
        }
    }

    /// What it is; `None` for a batch.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.envelope.as_ref().map(|envelope| envelope.kind)
    }

    /// Its id.
    pub(super) fn id(&self) -> Option<RpcId> {
        self.envelope.as_ref()?.rpc_id(&self.bytes)
    }

    /// Its method; empty for answers and batches.
    pub(super) fn method(&self) -> String {
        let method = self
            .envelope
            .as_ref()
            .map(|envelope| envelope.method(&self.bytes));
        method.unwrap_or_default().into_owned()
    }

    /// The parts of its `params`.
    pub(super) fn params(&self) -> Params {
        self.envelope
            .as_ref()
            .map(|envelope| envelope::read_params(&self.bytes, envelope))
            .unwrap_or_default()
    }

    /// One part of it as text, where it is a string.
    pub(super) fn text(&self, part: Option<std::ops::Range<usize>>) -> Option<String> {
        raw::text(&self.bytes, part?).map(std::borrow::Cow::into_owned)
    }

    /// Which request it cancels, if that is what it does.
    pub(super) fn cancelled(&self) -> Option<RpcId> {
        if self.method() != "notifications/cancelled" {
            return None;
        }
        let id = raw::at_path(&self.bytes, self.params().whole?, &["requestId"])?;
        RpcId::from_json(std::str::from_utf8(self.bytes.get(id)?).ok()?)
    }

    /// Whether it may be sent again where it is not known whether it was taken: it changes nothing at any server.
    pub(super) fn may_be_repeated(&self) -> bool {
        matches!(
            self.method().as_str(),
            "ping"
                | "server/discover"
                | "tools/list"
                | "prompts/list"
                | "prompts/get"
                | "resources/list"
                | "resources/templates/list"
                | "resources/read"
                | "resources/subscribe"
                | "resources/unsubscribe"
                | "subscriptions/listen"
                | "completion/complete"
                | "logging/setLevel"
        )
    }
}

fn refusal(code: i64, error: &Invalid) -> Vec<u8> {
    // Whose id could not be read has none.
    let answer = json!({
        "jsonrpc": "2.0", "id": null,
        "error": { "code": code, "message": error.to_string() },
    });
    answer.to_string().into_bytes()
}

/// Whether this message answers the request with that id.
pub(super) fn answers(message: &[u8], id: Option<&RpcId>) -> bool {
    let Ok(envelope) = envelope::read(message) else {
        return false;
    };
    matches!(envelope.kind, Kind::Result | Kind::Error)
        && id.is_some()
        && envelope.rpc_id(message).as_ref() == id
}

/// A message without line breaks, and one at its end. In JSON they stand between tokens only (RFC 8259 section 7:
/// control characters in strings are escaped).
pub(super) fn in_one_line(mut message: Vec<u8>) -> Vec<u8> {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let pretty = b"{\r\n  \"a\": \"b\\n\"\n}".to_vec();
        assert_eq!(in_one_line(pretty), b"{    \"a\": \"b\\n\" }\n");
    }

    #[test]
    fn what_is_no_message_is_answered() {
        for (line, code) in [("{", "-32700"), ("7", "-32600"), ("{\"a\":1}", "-32600")] {
            let answer = Message::read(line.into()).err().unwrap();
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.contains(code) && answer.contains("\"id\":null"));
        }
        assert!(Message::read(b"[]".to_vec()).unwrap().kind().is_none());
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let read = |text: &str| Message::read(text.into()).unwrap();
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}"#;
        assert_eq!(read(cancel).cancelled(), RpcId::from_json("\"7\""));
        let other = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"requestId":7}}"#;
        assert_eq!(read(other).cancelled(), None);
    }

    #[test]
    fn an_answer_has_the_id_of_its_request() {
        let id = RpcId::from_json("1");
        let answer = |text: &str| answers(text.as_bytes(), id.as_ref());
        assert!(answer(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        for other in [
            r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#,
            "{",
        ] {
            assert!(!answer(other), "{other}");
        }
    }
}
