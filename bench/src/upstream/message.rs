//! The little of a JSON-RPC message that the upstream looks at.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A message, borrowed from the body.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    protocol_version: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    progress_token: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// The method of a request; empty for a response.
    pub(super) fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// Whether it waits for an answer.
    pub(super) fn is_request(&self) -> bool {
        self.id.is_some() && self.method.is_some()
    }

    pub(super) fn tool(&self) -> Option<&str> {
        self.params.as_ref()?.name.as_deref()
    }

    /// The revision that an `initialize` asks for.
    pub(super) fn protocol_version(&self) -> Option<&str> {
        self.params.as_ref()?.protocol_version.as_deref()
    }

    pub(super) fn progress_token(&self) -> &str {
        self.params
            .as_ref()
            .and_then(|params| params.meta.as_ref()?.progress_token)
            .map_or("null", RawValue::get)
    }

    /// The id as it was written.
    pub(super) fn id(&self) -> &str {
        self.id.map_or("null", RawValue::get)
    }

    /// The beginning of a response, up to and into its result: `members` must close it.
    pub(super) fn result(&self, members: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{{members}"#,
            self.id()
        )
    }

    pub(super) fn error(&self, code: i32, text: &str, data: Option<&str>) -> String {
        let data = data
            .map(|data| format!(r#","data":{data}"#))
            .unwrap_or_default();
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"{text}"{data}}}}}"#,
            self.id()
        )
    }
}
