//! What a body says, as far as a decision looks at it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::revision::Revision;

/// How much text is searched for the fragments of a rule. Answers that mean something are short.
const SEARCHED: usize = 4 * 1024;

/// A JSON-RPC answer, or what is none.
#[derive(Clone, Debug)]
pub(crate) enum Message<'a> {
    /// A result, raw.
    Result(&'a RawValue),
    /// An error.
    Error(RpcError),
    /// Anything else.
    NotRpc,
}

/// A JSON-RPC error object.
#[derive(Clone, Debug)]
pub(crate) struct RpcError {
    /// Its code.
    pub(crate) code: i64,
    /// Its message; empty where there is none.
    pub(crate) message: String,
    /// Whether the answer carries the id of a request.
    pub(crate) has_id: bool,
    /// `data.supported`: the revisions that the server names.
    pub(crate) supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawError<'a> {
    // A code of another type is a server's own error format, not JSON-RPC (PV-02).
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Supported {
    supported: Vec<String>,
}

impl<'a> Message<'a> {
    /// Reads a body.
    pub(crate) fn read(body: &'a [u8]) -> Self {
        let Ok(message) = serde_json::from_slice::<RawMessage<'a>>(body) else {
            return Self::NotRpc;
        };
        if let Some(error) = message.error {
            return RpcError::read(error, message.id.is_some()).map_or(Self::NotRpc, Self::Error);
        }
        message.result.map_or(Self::NotRpc, Self::Result)
    }
}

impl RpcError {
    fn read(raw: &RawValue, has_id: bool) -> Option<Self> {
        let error: RawError<'_> = serde_json::from_str(raw.get()).ok()?;
        let supported = error
            .data
            .and_then(|data| serde_json::from_str::<Supported>(data.get()).ok())
            .map(|data| data.supported);
        Some(Self {
            code: error.code,
            message: error.message,
            has_id,
            supported,
        })
    }
}

/// What a rule looks at in a body: the code of a JSON-RPC error, and text in lower case.
#[derive(Debug)]
pub(crate) struct Said {
    /// The code; `None` where the body is no JSON-RPC error.
    pub(crate) code: Option<i64>,
    /// The message of the error, or the beginning of a body that is no JSON-RPC answer; empty for
    /// a result, whose text belongs to the tool.
    pub(crate) text: String,
}

impl Said {
    /// Reads a body.
    pub(crate) fn of(body: &[u8]) -> Self {
        match Message::read(body) {
            Message::Result(_) => Self {
                code: None,
                text: String::new(),
            },
            Message::Error(error) => Self {
                code: Some(error.code),
                text: error.message.to_ascii_lowercase(),
            },
            Message::NotRpc => Self {
                code: None,
                text: text(body).to_ascii_lowercase(),
            },
        }
    }
}

/// The beginning of a body as text.
pub(crate) fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..SEARCHED).unwrap_or(body)).into_owned()
}

/// The revisions that a refusal names besides the one that was asked for: in `data.supported`, or in
/// text that speaks of versions, as some SDKs write them.
pub(crate) fn named_revisions(body: &[u8], asked: Revision) -> Vec<Revision> {
    let mut names = match Message::read(body) {
        Message::Error(RpcError {
            supported: Some(supported),
            ..
        }) => supported
            .iter()
            .filter_map(|name| Revision::parse(name))
            .collect(),
        Message::Error(error) => in_text(&error.message),
        Message::NotRpc => in_text(&text(body)),
        Message::Result(_) => Vec::new(),
    };
    names.retain(|revision| *revision != asked);
    names
}

fn in_text(text: &str) -> Vec<Revision> {
    if !text.to_ascii_lowercase().contains("version") {
        return Vec::new();
    }
    Revision::ALL
        .into_iter()
        .filter(|revision| text.contains(revision.as_str()))
        .collect()
}
