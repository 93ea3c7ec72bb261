//! What is said when something is refused: problem details for people and the admin API (RFC 9457),
//! JSON-RPC errors for agents. Both carry our code and its hint.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use steadfast_core::code::Code;
use utoipa::ToSchema;

use crate::body::Body;

/// JSON-RPC: the text is not JSON.
pub(crate) const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: it is JSON, but not a message that can be served.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: there is no such method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: the method does not take such params.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: it could not be done.
pub(crate) const INTERNAL_ERROR: i32 = -32603;
/// MCP 2026-07-28: headers and body disagree.
pub(crate) const HEADER_MISMATCH: i32 = -32020;
/// MCP 2026-07-28: the call needs what the agent does not say that it has.
pub(crate) const MISSING_CAPABILITY: i32 = -32021;
/// MCP 2026-07-28: the revision is not spoken here.
pub(crate) const UNSUPPORTED_VERSION: i32 = -32022;

/// What is said of a refusal (RFC 9457 section 3.1).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Details<'d> {
    /// `about:blank`: what kind of problem it is, `code` says.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The name of the status.
    title: &'static str,
    status: u16,
    /// One sentence: what was seen.
    detail: &'d str,
    /// `SF0007`: `steadfast explain` has a page about it.
    code: String,
    /// What to do.
    hint: &'static str,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    /// One sentence: what was seen.
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: Code, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
        }
    }

    /// As problem details.
    pub(crate) fn details(&self) -> Vec<u8> {
        let details = Details {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code.to_string(),
            hint: self.code.hint,
        };
        serde_json::to_vec(&details).unwrap_or_default()
    }

    /// The answer with problem details.
    pub(crate) fn response(&self) -> Response<Body> {
        whole(
            self.status,
            "application/problem+json",
            self.details().into(),
        )
    }

    /// The answer to an agent: a JSON-RPC error, with the id of the request where it is known
    /// (2025-11-25 transports: "MAY comprise a JSON-RPC error response that has no id").
    pub(crate) fn rpc(&self, id: Option<&[u8]>, rpc_code: i32) -> Response<Body> {
        let message = rpc_error(id, rpc_code, &self.detail, Some(&code_data(self.code)));
        whole(self.status, "application/json", message)
    }
}

/// `data` of a JSON-RPC error.
pub(crate) fn code_data(code: Code) -> Value {
    json!({"code": code.to_string(), "hint": code.hint})
}

/// One JSON-RPC error message. `id` is raw JSON.
pub(crate) fn rpc_error(
    id: Option<&[u8]>,
    code: i32,
    message: &str,
    data: Option<&Value>,
) -> Bytes {
    let mut out = Vec::with_capacity(160 + message.len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        out.extend_from_slice(id);
        out.push(b',');
    }
    let mut error = json!({"code": code, "message": message});
    if let (Some(data), Some(members)) = (data, error.as_object_mut()) {
        members.insert("data".to_owned(), data.clone());
    }
    out.extend_from_slice(br#""error":"#);
    out.extend_from_slice(error.to_string().as_bytes());
    out.push(b'}');
    out.into()
}

/// A whole answer that no cache may keep.
pub(crate) fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer that is a status and nothing else.
pub(crate) fn status_only(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = status;
    response
}

/// Text of a peer that is shown to people: printable ASCII, and not much of it.
pub(crate) fn sanitised(text: &[u8]) -> String {
    const LONGEST: usize = 100;
    let shown = text.iter().take(LONGEST).map(|byte| match byte {
        b' '..=b'~' if *byte != b'"' => char::from(*byte),
        _ => '?',
    });
    let mut shown: String = shown.collect();
    if text.len() > LONGEST {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use steadfast_core::code;

    use super::*;

    #[test]
    fn problem_details_carry_code_and_hint() {
        let problem = Problem::new(StatusCode::NOT_FOUND, code::NOT_FOUND, "no agent `x`");
        let value: Value = serde_json::from_slice(&problem.details()).unwrap();
        assert_eq!(value["status"], 404);
        assert_eq!(value["code"], "SF0007");
        assert_eq!(value["detail"], "no agent `x`");
        assert!(value["hint"].as_str().is_some_and(|hint| !hint.is_empty()));
    }

    #[test]
    fn an_error_keeps_the_id_as_it_was_written() {
        let message = rpc_error(Some(b"1.50"), -32603, "a \"quote\"", Some(&json!({"a": 1})));
        assert_eq!(
            std::str::from_utf8(&message).unwrap(),
            r#"{"jsonrpc":"2.0","id":1.50,"error":{"code":-32603,"message":"a \"quote\"","data":{"a":1}}}"#
        );
        let message = rpc_error(None, -32700, "not JSON", None);
        assert_eq!(
            std::str::from_utf8(&message).unwrap(),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not JSON"}}"#
        );
    }

    #[test]
    fn a_peers_text_cannot_break_out() {
        assert_eq!(sanitised(b"evil\r\n\x1b[31m\"x\""), "evil???[31m?x?");
        assert_eq!(sanitised(&[b'a'; 200]).chars().count(), 101);
    }
}
