//! JSON-RPC 2.0 messages: kind, id and method, and the few parts of params that we look at.
//! All parts are ranges into the source; nothing is copied.

use std::borrow::Cow;
use std::ops::Range;

use super::json;
use crate::identity::RpcId;

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// method and id.
    Request,
    /// method and no id.
    Notification,
    /// id and result.
    Result,
    /// error, with an id or with null for none that could be read.
    Error,
}

/// One message, as ranges into its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Its kind.
    pub kind: Kind,
    /// The value of `id`; absent for notifications, and for errors whose id is null or missing.
    pub id: Option<Range<usize>>,
    /// The value of `method`, with its quotes.
    pub method: Option<Range<usize>>,
    /// The value of `params`: an object or an array.
    pub params: Option<Range<usize>>,
    /// The value of `result`.
    pub result: Option<Range<usize>>,
    /// The value of `error`.
    pub error: Option<Range<usize>>,
}

/// Why bytes are not one JSON-RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Not JSON: -32700.
    #[error("not JSON: {0}")]
    Json(json::Error),
    /// JSON, but not one JSON-RPC message: -32600.
    #[error("not a JSON-RPC message: {0}")]
    Message(&'static str),
    /// A JSON array: a batch, where it is valid JSON (allowed in 2025-03-26 only).
    #[error("a batch")]
    Batch,
}

/// Reads and fully validates one message. A top-level member that we look at and that stands there
/// twice is refused: two readers could see two values.
pub fn read(source: &[u8]) -> Result<Envelope, Invalid> {
    match source.iter().find(|byte| !json::is_space(**byte)) {
        Some(b'{') => {}
        first => {
            json::validate(source).map_err(Invalid::Json)?;
            return Err(match first {
                Some(b'[') => Invalid::Batch,
                _ => Invalid::Message("no object"),
            });
        }
    }
    let mut top = Top::default();
    json::members(source, 0..source.len(), |member| top.take(source, member))
        .map_err(Invalid::Json)?;
    if let Some(twice) = top.twice {
        return Err(Invalid::Message(twice));
    }
    // JSON-RPC 2.0 section 4: "MUST be exactly "2.0"".
    let version = top.jsonrpc.clone();
    if !version.is_some_and(|it| json::is_text(source, it, "2.0")) {
        return Err(Invalid::Message("jsonrpc is not \"2.0\""));
    }
    if top.method.is_some() {
        call(source, top.envelope())
    } else {
        answer(source, top.envelope())
    }
}

/// The messages of a batch, as ranges into the source. Fails on an empty batch.
pub fn read_batch(source: &[u8]) -> Result<Vec<Range<usize>>, Invalid> {
    if source.iter().find(|byte| !json::is_space(**byte)) != Some(&b'[') {
        json::validate(source).map_err(Invalid::Json)?;
        return Err(Invalid::Message("no batch"));
    }
    let mut messages = Vec::new();
    json::elements(source, 0..source.len(), |message| messages.push(message))
        .map_err(Invalid::Json)?;
    // JSON-RPC 2.0 section 6: an array "with at least one value".
    if messages.is_empty() {
        return Err(Invalid::Message("an empty batch"));
    }
    Ok(messages)
}

/// The top-level members that have a meaning, as they were found.
#[derive(Default)]
struct Top {
    jsonrpc: Option<Range<usize>>,
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    twice: Option<&'static str>,
}

impl Top {
    fn take(&mut self, source: &[u8], member: json::Member) {
        let (slot, twice) = match &*key(source, &member) {
            b"jsonrpc" => (&mut self.jsonrpc, "two members named jsonrpc"),
            b"id" => (&mut self.id, "two members named id"),
            b"method" => (&mut self.method, "two members named method"),
            b"params" => (&mut self.params, "two members named params"),
            b"result" => (&mut self.result, "two members named result"),
            b"error" => (&mut self.error, "two members named error"),
            _ => return,
        };
        if slot.replace(member.value).is_some() {
            self.twice = Some(twice);
        }
    }

    /// The envelope before its kind is known.
    fn envelope(self) -> Envelope {
        Envelope {
            kind: Kind::Notification,
            id: self.id,
            method: self.method,
            params: self.params,
            result: self.result,
            error: self.error,
        }
    }
}

/// The key of a member of valid JSON, unescaped. A key that is not text is no key that we know.
fn key<'a>(source: &'a [u8], member: &json::Member) -> Cow<'a, [u8]> {
    let quoted = source.get(member.key.clone()).unwrap_or_default();
    if !quoted.contains(&b'\\') {
        return Cow::Borrowed(quoted.get(1..quoted.len() - 1).unwrap_or_default());
    }
    match json::text(source, member.key.clone()) {
        Some(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
        Some(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(quoted),
    }
}

fn first_byte(source: &[u8], value: &Range<usize>) -> u8 {
    source.get(value.start).copied().unwrap_or_default()
}

/// A string or a number (MCP base protocol, "Requests": not null).
fn check_id(source: &[u8], id: &Range<usize>) -> Result<(), Invalid> {
    match first_byte(source, id) {
        b'"' | b'-' | b'0'..=b'9' => Ok(()),
        b'n' => Err(Invalid::Message("a null id")),
        _ => Err(Invalid::Message("an id that is neither string nor number")),
    }
}

/// A request or a notification.
fn call(source: &[u8], mut envelope: Envelope) -> Result<Envelope, Invalid> {
    if envelope.result.is_some() || envelope.error.is_some() {
        return Err(Invalid::Message("both a method and an answer"));
    }
    let method = envelope.method.clone().unwrap_or_default();
    if json::text(source, method).is_none() {
        return Err(Invalid::Message("a method that is not text"));
    }
    if let Some(params) = &envelope.params
        && !matches!(first_byte(source, params), b'{' | b'[')
    {
        return Err(Invalid::Message("params that are neither object nor array"));
    }
    envelope.kind = match &envelope.id {
        Some(id) => {
            check_id(source, id)?;
            Kind::Request
        }
        None => Kind::Notification,
    };
    Ok(envelope)
}

/// A result or an error.
fn answer(source: &[u8], mut envelope: Envelope) -> Result<Envelope, Invalid> {
    // It has no meaning here, and `Envelope::params` promises an object or an array.
    envelope.params = None;
    match (&envelope.result, &envelope.error) {
        (Some(_), None) => {
            let id = envelope.id.as_ref();
            check_id(
                source,
                id.ok_or(Invalid::Message("a result without an id"))?,
            )?;
            envelope.kind = Kind::Result;
        }
        (None, Some(error)) => {
            if first_byte(source, error) != b'{' {
                return Err(Invalid::Message("an error that is no object"));
            }
            // JSON-RPC 2.0 section 5: null where the id of the request could not be read.
            envelope.id = envelope.id.filter(|id| first_byte(source, id) != b'n');
            if let Some(id) = &envelope.id {
                check_id(source, id)?;
            }
            envelope.kind = Kind::Error;
        }
        (Some(_), Some(_)) => return Err(Invalid::Message("both a result and an error")),
        (None, None) => return Err(Invalid::Message("no method, no result and no error")),
    }
    Ok(envelope)
}

impl Envelope {
    /// The id, decoded.
    #[must_use]
    pub fn rpc_id(&self, source: &[u8]) -> Option<RpcId> {
        let id = source.get(self.id.clone()?)?;
        RpcId::from_json(std::str::from_utf8(id).ok()?)
    }

    /// The method, decoded; empty for answers.
    #[must_use]
    pub fn method<'a>(&self, source: &'a [u8]) -> Cow<'a, str> {
        self.method
            .clone()
            .and_then(|method| json::text(source, method))
            .unwrap_or_default()
    }
}

/// The parts of `params` that we look at, as ranges into the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// `params` itself.
    pub whole: Option<Range<usize>>,
    /// `_meta`.
    pub meta: Option<Range<usize>>,
    /// `_meta.progressToken`.
    pub progress_token: Option<Range<usize>>,
    /// `_meta["io.modelcontextprotocol/protocolVersion"]`: its presence makes a request modern.
    pub protocol_version: Option<Range<usize>>,
    /// `_meta["io.modelcontextprotocol/clientInfo"]`.
    pub client_info: Option<Range<usize>>,
    /// `_meta["io.modelcontextprotocol/clientCapabilities"]`.
    pub client_capabilities: Option<Range<usize>>,
    /// `_meta["io.modelcontextprotocol/logLevel"]`.
    pub log_level: Option<Range<usize>>,
    /// Members of `_meta` whose key begins with `dev.steadfast/`: for us, taken out before a request goes on.
    pub ours: Vec<json::Member>,
    /// `name` (tools/call, prompts/get).
    pub name: Option<Range<usize>>,
    /// `uri` (resources/read, subscribe).
    pub uri: Option<Range<usize>>,
    /// `arguments`.
    pub arguments: Option<Range<usize>>,
    /// `inputResponses` (2026-07-28 basic/patterns/mrtr): with `requestState` they make a second leg.
    pub input_responses: Option<Range<usize>>,
    /// `requestState`.
    pub request_state: Option<Range<usize>>,
    /// `task` (tools/call, from 2025-11-25 on): asks for a task.
    pub task: Option<Range<usize>>,
    /// `requestId` (notifications/cancelled).
    pub request_id: Option<Range<usize>>,
    /// `progressToken` of a notifications/progress, which is a direct member of params.
    pub progress_of: Option<Range<usize>>,
    /// A member above that stands there twice: two readers could see two values, so that whoever acts
    /// on one of them must refuse the message.
    pub twice: Option<&'static str>,
}

/// Reads the parts of the params of a message that [`read`] found valid.
#[must_use]
pub fn read_params(source: &[u8], envelope: &Envelope) -> Params {
    let mut params = Params {
        whole: envelope.params.clone(),
        ..Params::default()
    };
    let Some(whole) = envelope.params.clone() else {
        return params;
    };
    // Params in an array have no members, and MCP defines none: nothing is found in them.
    let _ = json::members(source, whole, |member| params.take(source, member));
    if let Some(meta) = params.meta.clone() {
        let _ = json::members(source, meta, |member| params.take_meta(source, member));
    }
    params
}

impl Params {
    fn take(&mut self, source: &[u8], member: json::Member) {
        let (slot, name) = match &*key(source, &member) {
            b"_meta" => (&mut self.meta, "_meta"),
            b"name" => (&mut self.name, "name"),
            b"uri" => (&mut self.uri, "uri"),
            b"arguments" => (&mut self.arguments, "arguments"),
            b"inputResponses" => (&mut self.input_responses, "inputResponses"),
            b"requestState" => (&mut self.request_state, "requestState"),
            b"task" => (&mut self.task, "task"),
            b"requestId" => (&mut self.request_id, "requestId"),
            b"progressToken" => (&mut self.progress_of, "progressToken"),
            _ => return,
        };
        if slot.replace(member.value).is_some() {
            self.twice = Some(name);
        }
    }

    fn take_meta(&mut self, source: &[u8], member: json::Member) {
        let (slot, name) = match &*key(source, &member) {
            b"progressToken" => (&mut self.progress_token, "progressToken"),
            b"io.modelcontextprotocol/protocolVersion" => {
                (&mut self.protocol_version, "protocolVersion")
            }
            b"io.modelcontextprotocol/clientInfo" => (&mut self.client_info, "clientInfo"),
            b"io.modelcontextprotocol/clientCapabilities" => {
                (&mut self.client_capabilities, "clientCapabilities")
            }
            b"io.modelcontextprotocol/logLevel" => (&mut self.log_level, "logLevel"),
            key if key.starts_with(b"dev.steadfast/") => return self.ours.push(member),
            _ => return,
        };
        if slot.replace(member.value).is_some() {
            self.twice = Some(name);
        }
    }
}

/// The `code` and `message` of an error message. Without a whole number as its code it is none; a
/// missing message is empty.
#[must_use]
pub fn read_error(source: &[u8], envelope: &Envelope) -> Option<(i64, String)> {
    let error = envelope.error.clone()?;
    let code = json::at_path(source, error.clone(), &["code"])?;
    let code = std::str::from_utf8(source.get(code)?).ok()?.parse().ok()?;
    let message = json::at_path(source, error, &["message"])
        .and_then(|message| json::text_lossy(source, message))
        .unwrap_or_default();
    Some((code, message.into_owned()))
}

#[cfg(test)]
mod tests;
