//! What a message of one era becomes in the other. Raw JSON in, raw JSON out; nothing but what the
//! eras differ in is touched.
//!
//! | from | to | what changes |
//! | --- | --- | --- |
//! | legacy request | modern | [`request_to_modern`]: version, client and log level go into `_meta` |
//! | modern request | legacy | [`request_to_legacy`]: and come out of it |
//! | legacy result | modern | [`result_to_modern`]: `resultType`, and hints for caching |
//! | modern result | legacy | [`result_to_legacy`]: `resultType` goes |
//! | error | either | [`error_to_modern`], [`error_to_legacy`]: "resource not found" |
//! | `initialize` result | `server/discover` | [`discover_result`], [`initialize_result`] |
//! | a server's question | either | [`questions`]: a request of its own, or a result and a second leg |
//! | log level | either | [`Level`]: of a session, or of one request |

mod level;
mod opening;
pub mod questions;

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::revision::Revision;
use crate::wire::envelope;
use crate::wire::json::{self, Member};
use crate::wire::splice::{self, Edit};

pub use level::Level;
pub use opening::{discover_result, initialize_result};

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What a modern client says of itself on every request (2026-07-28 basic/index, "Per-request
/// protocol fields").
const REQUEST_META: [&str; 4] = [
    PROTOCOL_VERSION,
    CLIENT_INFO,
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
];

/// The requests whose complete results carry hints for caching (2026-07-28
/// server/utilities/caching, "Cacheable Results"; those of the skills extension by SEP-2640).
const CACHEABLE: [&str; 8] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "skills/list",
    "skills/get",
];

/// "Resource not found" until 2025-11-25 (server/resources, "Error Handling").
const LEGACY_NOT_FOUND: &str = "-32002";
/// "Resource not found" from 2026-07-28 on (changelog, minor 6).
const MODERN_NOT_FOUND: &str = "-32602";

/// Who asks, in the words of the modern era: raw JSON, taken from the agent's own `initialize` or `_meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// `clientInfo`.
    pub info: String,
    /// `clientCapabilities`.
    pub capabilities: String,
    /// The log level that the agent asked for, as a JSON string; `None` for no log notifications.
    pub log_level: Option<String>,
}

/// A legacy request for a modern server: puts the metadata into `params._meta`, and takes nothing else
/// out. `message` is one valid JSON-RPC request; params in an array cannot carry any and stay as they are.
#[must_use]
pub fn request_to_modern(message: &[u8], revision: Revision, client: &Client) -> Vec<u8> {
    let version = splice::quote(revision.as_str());
    let mut ours = vec![
        (PROTOCOL_VERSION, version.as_str()),
        (CLIENT_INFO, client.info.as_str()),
        (CLIENT_CAPABILITIES, client.capabilities.as_str()),
    ];
    ours.extend(client.log_level.as_deref().map(|level| (LOG_LEVEL, level)));

    let whole = 0..message.len();
    let Some(params) = last_member(message, whole.clone(), "params") else {
        let params = format!("{{\"_meta\":{}}}", object_of(&ours));
        return change(message, whole, &[], &[("params", &params)]);
    };
    if !is_object(message, &params.value) {
        return message.to_vec();
    }
    match last_member(message, params.value.clone(), "_meta") {
        Some(meta) if is_object(message, &meta.value) => {
            // What an agent of the legacy era put there itself is not what it negotiated.
            let stale = members_named(message, meta.value.clone(), &REQUEST_META);
            change(message, meta.value, &stale, &ours)
        }
        Some(meta) => change(
            message,
            params.value,
            &[meta],
            &[("_meta", &object_of(&ours))],
        ),
        None => change(message, params.value, &[], &[("_meta", &object_of(&ours))]),
    }
}

/// A modern request for a legacy server: takes the `io.modelcontextprotocol/…` keys of this revision
/// (protocolVersion, clientInfo, clientCapabilities, logLevel) out of `_meta`, and an empty `_meta` with them.
#[must_use]
pub fn request_to_legacy(message: &[u8]) -> Vec<u8> {
    let Some(params) = last_member(message, 0..message.len(), "params") else {
        return message.to_vec();
    };
    let Some(meta) = last_member(message, params.value.clone(), "_meta") else {
        return message.to_vec();
    };
    let ours = members_named(message, meta.value.clone(), &REQUEST_META);
    without(message, params.value, meta, &ours)
}

/// A legacy server's result for a modern agent: `resultType: "complete"` where it is missing
/// (changelog, major 8), and for the results of `method` that are cacheable `ttlMs: 0` and
/// `cacheScope: "private"` where they are missing (server/utilities/caching). An error stays as it is.
#[must_use]
pub fn result_to_modern(method: &str, message: &[u8]) -> Vec<u8> {
    let Some(result) = result_object(message) else {
        return message.to_vec();
    };
    let found = members_named(
        message,
        result.clone(),
        &["resultType", "ttlMs", "cacheScope"],
    );
    let value = |key| {
        let last = found
            .iter()
            .rfind(|member| json::is_text(message, member.key.clone(), key));
        last.map(|member| member.value.clone())
    };
    let kind = value("resultType");
    // An interim result carries no hints.
    let complete = kind
        .as_ref()
        .is_none_or(|kind| json::is_text(message, kind.clone(), "complete"));
    let mut add = Vec::new();
    if kind.is_none() {
        add.push(("resultType", "\"complete\""));
    }
    if complete && CACHEABLE.contains(&method) {
        // A legacy server promises nothing: stale at once, and for this agent only.
        for (key, hint) in [("ttlMs", "0"), ("cacheScope", "\"private\"")] {
            if value(key).is_none() {
                add.push((key, hint));
            }
        }
    }
    change(message, result, &[], &add)
}

/// A modern server's result for a legacy agent: unknown members are harmless there, so only
/// `resultType: "complete"` is taken out; `None` for `input_required`, which is for [`questions`].
/// An error stays as it is.
#[must_use]
pub fn result_to_legacy(message: &[u8]) -> Option<Vec<u8>> {
    let kind = result_object(message)
        .and_then(|result| Some((last_member(message, result.clone(), "resultType")?, result)));
    match kind {
        Some((kind, _)) if json::is_text(message, kind.value.clone(), "input_required") => None,
        Some((kind, result)) if json::is_text(message, kind.value.clone(), "complete") => {
            Some(change(message, result, &[kind], &[]))
        }
        Some(_) | None => Some(message.to_vec()),
    }
}

/// A legacy server's error for a modern agent: "resource not found" gets its modern code. The old one
/// MUST NOT be emitted any more (2026-07-28 basic/index, "Error Codes").
#[must_use]
pub fn error_to_modern(method: &str, message: &[u8]) -> Vec<u8> {
    recode(method, message, LEGACY_NOT_FOUND, MODERN_NOT_FOUND, |_| {
        true
    })
}

/// A modern server's error for a legacy agent: "resource not found" gets its old code, where `data`
/// names the resource; otherwise -32602 is what it says, invalid params.
#[must_use]
pub fn error_to_legacy(method: &str, message: &[u8]) -> Vec<u8> {
    recode(
        method,
        message,
        MODERN_NOT_FOUND,
        LEGACY_NOT_FOUND,
        |error| json::at_path(message, error, &["data", "uri"]).is_some(),
    )
}

/// Replaces one error code of `resources/read` by another.
fn recode(
    method: &str,
    message: &[u8],
    from: &str,
    to: &str,
    applies: impl Fn(Range<usize>) -> bool,
) -> Vec<u8> {
    // -32002 has other meanings elsewhere, such as "server not initialized".
    let code = (method == "resources/read")
        .then(|| json::at_path(message, 0..message.len(), &["error"]))
        .flatten()
        .filter(|error| applies(error.clone()))
        .and_then(|error| json::at_path(message, error, &["code"]))
        .filter(|code| message.get(code.clone()) == Some(from.as_bytes()));
    match code {
        Some(range) => splice::apply(
            message,
            &mut [Edit {
                range,
                with: to.as_bytes(),
            }],
        ),
        None => message.to_vec(),
    }
}

/// The result of a message, where it is an object.
fn result_object(message: &[u8]) -> Option<Range<usize>> {
    envelope::read(message)
        .ok()?
        .result
        .filter(|result| is_object(message, result))
}

/// `message` with some members of one object taken out and others put in.
fn change(message: &[u8], object: Range<usize>, cut: &[Member], add: &[(&str, &str)]) -> Vec<u8> {
    let change = splice::change_members(message, object, cut, add);
    let mut edits: Vec<Edit<'_>> = change.edits().collect();
    splice::apply(message, &mut edits)
}

/// `message` without some members of `_meta`, and without `_meta` where nothing else was in it.
fn without(message: &[u8], parent: Range<usize>, meta: Member, cut: &[Member]) -> Vec<u8> {
    if cut.is_empty() {
        return message.to_vec();
    }
    let mut count = 0;
    let whole = json::members(message, meta.value.clone(), |_| count += 1);
    if whole.is_ok() && count == cut.len() {
        return change(message, parent, &[meta], &[]);
    }
    change(message, meta.value, cut, &[])
}

/// The members of an object with one of these keys, in their order. Nothing is found in what is no object.
fn members_named(source: &[u8], object: Range<usize>, keys: &[&str]) -> Vec<Member> {
    let mut found = Vec::new();
    let valid = json::members(source, object, |member| {
        if keys
            .iter()
            .any(|key| json::is_text(source, member.key.clone(), key))
        {
            found.push(member);
        }
    });
    valid.map_or_else(|_| Vec::new(), |()| found)
}

/// Of members with the same key the last counts, as everywhere in `wire`.
fn last_member(source: &[u8], object: Range<usize>, key: &str) -> Option<Member> {
    members_named(source, object, &[key]).pop()
}

fn is_object(source: &[u8], range: &Range<usize>) -> bool {
    source.get(range.start) == Some(&b'{')
}

/// A JSON object of keys as text and values as JSON.
fn object_of(members: &[(&str, &str)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{}:{value}", splice::quote(key)))
        .collect();
    format!("{{{}}}", members.join(","))
}
