//! Reading what an agent sends: a body within its limit, one JSON-RPC message in it, its parts.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use steadfast_core::code;
use steadfast_core::wire::envelope::{self, Envelope, Invalid, Kind, Params};
use steadfast_core::wire::splice;

use super::merged::After;

use crate::body::Body;
use crate::problem::{INVALID_REQUEST, PARSE_ERROR, Problem, sanitised};

/// The most messages that a batch may have. Each becomes a request of its own.
const LONGEST_BATCH: usize = 100;

/// One message of an agent with its parts.
#[derive(Clone, Debug)]
pub(crate) struct Inbound {
    pub(crate) message: Bytes,
    pub(crate) envelope: Envelope,
    pub(crate) params: Params,
    /// What is still to be done with the response.
    pub(crate) after: Option<Box<After>>,
}

/// What a body holds.
#[derive(Debug)]
pub(crate) enum Content {
    /// One message.
    Message(Box<Inbound>),
    /// A batch, valid as JSON and not looked into yet.
    Batch(Bytes),
}

impl Inbound {
    /// Reads one message.
    pub(crate) fn read(message: Bytes) -> Result<Self, Invalid> {
        let envelope = envelope::read(&message)?;
        let params = envelope::read_params(&message, &envelope);
        // Whoever reads the other one of the two would act on something else than we checked.
        if let Some(twice) = params.twice {
            return Err(Invalid::Message(twice));
        }
        Ok(Self {
            message,
            envelope,
            params,
            after: None,
        })
    }

    /// The URI under which the agent asked for a resource, where the server has another one.
    pub(crate) fn asked_uri(&self) -> Option<&str> {
        match self.after.as_deref() {
            Some(After::Uri { asked, .. }) => Some(asked),
            Some(After::Task { .. } | After::Shown(_)) | None => None,
        }
    }

    /// The same message with another text in one place.
    pub(crate) fn with_text(&self, range: Range<usize>, text: &str) -> Result<Self, Invalid> {
        let text = splice::quote(text);
        let mut edits = [splice::Edit {
            range,
            with: text.as_bytes(),
        }];
        Self::read(splice::apply(&self.message, &mut edits).into())
    }

    /// The method, decoded; empty for answers.
    pub(crate) fn method(&self) -> Cow<'_, str> {
        self.envelope.method(&self.message)
    }

    /// The raw JSON of the id, sharing the message's bytes.
    pub(crate) fn id(&self) -> Option<Bytes> {
        self.envelope.id.clone().map(|id| self.message.slice(id))
    }

    /// The raw JSON of the id.
    pub(crate) fn raw_id(&self) -> Option<&[u8]> {
        self.part(self.envelope.id.as_ref())
    }

    /// The raw JSON of a part.
    pub(crate) fn part(&self, range: Option<&Range<usize>>) -> Option<&[u8]> {
        self.message.get(range?.clone())
    }

    /// The text of a part that is a JSON string.
    pub(crate) fn text(&self, range: Option<&Range<usize>>) -> Option<Cow<'_, str>> {
        steadfast_core::wire::json::text(&self.message, range?.clone())
    }

    /// Whether it asks for an answer.
    pub(crate) fn is_request(&self) -> bool {
        self.envelope.kind == Kind::Request
    }

    /// Whether it asks to be told of progress: then the answer streams.
    pub(crate) fn wants_progress(&self) -> bool {
        self.params.progress_token.is_some()
    }
}

/// Reads a whole body and what it holds. The error is the answer to the agent.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: hyper::body::Incoming,
    limit: usize,
) -> Result<Content, Box<Response<Body>>> {
    check_content_type(headers)?;
    let bytes = collect(body, limit).await?;
    content(bytes).map_err(|invalid| Box::new(refusal(invalid)))
}

fn content(bytes: Bytes) -> Result<Content, Invalid> {
    match Inbound::read(bytes.clone()) {
        Ok(inbound) => Ok(Content::Message(Box::new(inbound))),
        Err(Invalid::Batch) => Ok(Content::Batch(bytes)),
        Err(invalid @ (Invalid::Json(_) | Invalid::Message(_))) => Err(invalid),
    }
}

/// A web page can send a form or plain text anywhere without asking first, JSON it cannot
/// (Fetch, "CORS-safelisted request-header").
fn check_content_type(headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let essence = value.as_bytes().split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let problem = Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        code::BAD_MESSAGE,
        format!(
            "the content type `{}` is not application/json",
            sanitised(essence)
        ),
    );
    Err(Box::new(problem.rpc(None, INVALID_REQUEST)))
}

/// All bytes of a body. The usual body comes in one piece and is not copied.
async fn collect(
    mut body: hyper::body::Incoming,
    limit: usize,
) -> Result<Bytes, Box<Response<Body>>> {
    let hint = body.size_hint();
    if hint.lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| broken())?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(
                    usize::try_from(hint.lower())
                        .unwrap_or_default()
                        .max(first.len() + data.len()),
                );
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
        if first.len().max(rest.len()) > limit {
            return Err(too_large(limit));
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

fn too_large(limit: usize) -> Box<Response<Body>> {
    let problem = Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        code::TOO_LARGE,
        format!("the message is larger than {limit} bytes"),
    );
    Box::new(problem.rpc(None, INVALID_REQUEST))
}

fn broken() -> Box<Response<Body>> {
    let problem = Problem::new(
        StatusCode::BAD_REQUEST,
        code::BAD_MESSAGE,
        "the body ended before it was complete",
    );
    Box::new(problem.rpc(None, PARSE_ERROR))
}

/// The answer to what is not one JSON-RPC message. It goes nowhere.
pub(crate) fn refusal(invalid: Invalid) -> Response<Body> {
    let (rpc_code, detail) = match invalid {
        Invalid::Json(error) => (PARSE_ERROR, format!("the body is not JSON: {error}")),
        Invalid::Message(what) => (
            INVALID_REQUEST,
            format!("the body is not one JSON-RPC message: {what}"),
        ),
        // 2025-06-18 changelog, major 1: "Remove support for JSON-RPC batching".
        Invalid::Batch => (
            INVALID_REQUEST,
            "a batch is accepted in sessions of 2025-03-26 only".to_owned(),
        ),
    };
    Problem::new(StatusCode::BAD_REQUEST, code::BAD_MESSAGE, detail).rpc(None, rpc_code)
}

/// The messages of a batch: all of them are valid, or none is served.
pub(crate) fn batch(body: &Bytes) -> Result<Vec<Inbound>, Invalid> {
    let parts = envelope::read_batch(body)?;
    if parts.len() > LONGEST_BATCH {
        return Err(Invalid::Message("a batch of more than 100 messages"));
    }
    let messages: Result<Vec<_>, _> = parts
        .into_iter()
        .map(|part| Inbound::read(body.slice(part)))
        .collect();
    let messages = match messages {
        // A batch within a batch is no message.
        Err(Invalid::Batch) => return Err(Invalid::Message("a batch within a batch")),
        other => other?,
    };
    // 2025-03-26 lifecycle: "The initialize request MUST NOT be part of a JSON-RPC batch".
    if messages
        .iter()
        .any(|message| message.method() == "initialize")
    {
        return Err(Invalid::Message("initialize within a batch"));
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &'static str) -> Result<Inbound, Invalid> {
        Inbound::read(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_request_has_its_parts() {
        let inbound = message(
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","_meta":{"progressToken":1}}}"#,
        )
        .unwrap();
        assert!(inbound.is_request() && inbound.wants_progress());
        assert_eq!(inbound.method(), "tools/call");
        assert_eq!(inbound.id().unwrap(), &br#""a""#[..]);
        assert_eq!(inbound.text(inbound.params.name.as_ref()).unwrap(), "t");
    }

    #[test]
    fn another_text_leaves_every_other_byte() {
        let inbound =
            message(r#"{"jsonrpc":"2.0", "id":1.0,"method":"x","params":{"name":"a__t","n":1e2}}"#)
                .unwrap();
        let renamed = inbound.with_text(inbound.params.name.clone().unwrap(), "t\"");
        let renamed = renamed.unwrap();
        assert_eq!(
            renamed.message,
            &br#"{"jsonrpc":"2.0", "id":1.0,"method":"x","params":{"name":"t\"","n":1e2}}"#[..]
        );
        assert_eq!(renamed.text(renamed.params.name.as_ref()).unwrap(), "t\"");
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_code() {
        for (text, code) in [
            ("", "-32700"),
            ("{", "-32700"),
            ("null", "-32600"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600"),
            (r#"{"id":1,"method":"ping"}"#, "-32600"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
                "-32600",
            ),
        ] {
            let refused = refusal(message(text).unwrap_err());
            assert_eq!(refused.status(), 400);
            let Body::Whole(body) = refused.body() else {
                panic!("a whole body");
            };
            let body = std::str::from_utf8(body).unwrap();
            assert!(body.contains(code), "{text}: {body}");
        }
    }

    #[test]
    fn a_batch_is_all_or_nothing() {
        let good = Bytes::from_static(
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]"#,
        );
        assert!(matches!(content(good.clone()), Ok(Content::Batch(_))));
        assert_eq!(batch(&good).unwrap().len(), 2);
        for bad in [
            &b"[]"[..],
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},1]"#,
            br#"[{"jsonrpc":"2.0","id":1,"method":"initialize"}]"#,
            br#"[[{"jsonrpc":"2.0","id":1,"method":"ping"}]]"#,
        ] {
            assert!(batch(&Bytes::copy_from_slice(bad)).is_err());
        }
        let many = format!(
            "[{}]",
            vec![r#"{"jsonrpc":"2.0","method":"x"}"#; 101].join(",")
        );
        assert!(batch(&Bytes::from(many)).is_err());
    }

    #[test]
    fn only_json_is_read() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            check_content_type(&headers).map_err(|refused| refused.status().as_u16())
        };
        assert_eq!(with("application/json"), Ok(()));
        assert_eq!(with("Application/JSON; charset=utf-8"), Ok(()));
        assert_eq!(with("text/plain"), Err(415));
        assert_eq!(with("application/x-www-form-urlencoded"), Err(415));
    }
}
