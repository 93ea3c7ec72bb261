//! Headers that mirror the body must agree with it, so that whoever routes by a header sees what is
//! executed (2026-07-28 streamable-http, "Server Validation"; PV-08). What disagrees goes nowhere.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::{Link, Listing};
use steadfast_core::bridge::Level;
use steadfast_core::catalog::List;
use steadfast_core::code::{self, Code};
use steadfast_core::wire::header::{self, ParamHeader};
use steadfast_core::wire::{envelope, json as raw};
use steadfast_core::{AgentName, Era, Revision, ServerName};

use crate::agents::Connection;
use crate::agents::hello::MODERN;
use crate::agents::inbound::Inbound;
use crate::agents::legacy::json_answer;
use crate::body::Body;
use crate::problem::{
    HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION, code_data, rpc_error, sanitised,
};

pub(crate) static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");
static NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Why a request is refused.
#[derive(Debug, PartialEq)]
pub(crate) struct Refused {
    rpc_code: i32,
    code: Code,
    message: String,
    data: Option<Value>,
}

impl Refused {
    fn mismatch(message: String) -> Box<Self> {
        Box::new(Self {
            rpc_code: HEADER_MISMATCH,
            code: code::HEADER_MISMATCH,
            message: format!("Header mismatch: {message}"),
            data: None,
        })
    }

    fn malformed(message: &str) -> Box<Self> {
        Box::new(Self {
            rpc_code: INVALID_PARAMS,
            code: code::BAD_MESSAGE,
            message: format!("Invalid params: {message}"),
            data: None,
        })
    }

    /// 400 with the error, and the id of the request.
    pub(crate) fn response(&self, inbound: &Inbound) -> Response<Body> {
        let data = self.data.clone().unwrap_or_else(|| code_data(self.code));
        let id = inbound.raw_id();
        let message = rpc_error(id, self.rpc_code, &self.message, Some(&data));
        json_answer(StatusCode::BAD_REQUEST, message)
    }
}

/// Checks the standard headers and the metadata of a request.
pub(crate) fn check(headers: &HeaderMap, inbound: &Inbound) -> Result<Revision, Box<Refused>> {
    let params = &inbound.params;
    // basic/index, "Per-request protocol fields": both are required.
    let Some(version) = inbound.text(params.protocol_version.as_ref()) else {
        return Err(Refused::malformed(
            "_meta has no io.modelcontextprotocol/protocolVersion",
        ));
    };
    must_equal(headers, &PROTOCOL_VERSION, &version)?;
    let revision = Revision::parse(&version).filter(|known| known.era() == Era::Modern);
    let Some(revision) = revision else {
        return Err(unsupported(&version));
    };
    let method = inbound.method();
    must_equal(headers, &METHOD, &method)?;
    check_name(headers, inbound, &method)?;
    if params.client_capabilities.is_none() {
        return Err(Refused::malformed(
            "_meta has no io.modelcontextprotocol/clientCapabilities",
        ));
    }
    Ok(revision)
}

/// server/utilities/logging, "Error Handling": what is no level SHOULD be refused. A modern server does so
/// itself; for a legacy one it is done here.
pub(crate) fn check_level(inbound: &Inbound) -> Result<(), Box<Refused>> {
    match inbound.part(inbound.params.log_level.as_ref()) {
        Some(level) if Level::from_json(level).is_none() => {
            Err(Refused::malformed("_meta has a logLevel that is no level"))
        }
        Some(_) | None => Ok(()),
    }
}

fn unsupported(version: &str) -> Box<Refused> {
    let supported: Vec<_> = MODERN.iter().map(|revision| revision.as_str()).collect();
    let mut data = code_data(code::UNSUPPORTED_REVISION);
    if let Some(members) = data.as_object_mut() {
        members.insert("supported".to_owned(), json!(supported));
        members.insert("requested".to_owned(), json!(version));
    }
    Box::new(Refused {
        rpc_code: UNSUPPORTED_VERSION,
        code: code::UNSUPPORTED_REVISION,
        message: "Unsupported protocol version".to_owned(),
        data: Some(data),
    })
}

/// `Mcp-Name` mirrors `params.name` or `params.uri` ("Standard Request Headers"), and in the tasks
/// extension `params.taskId`.
fn check_name(headers: &HeaderMap, inbound: &Inbound, method: &str) -> Result<(), Box<Refused>> {
    let params = &inbound.params;
    let (named, required) = match method {
        "tools/call" | "prompts/get" => (inbound.text(params.name.as_ref()), true),
        "resources/read" => (inbound.text(params.uri.as_ref()), true),
        "tasks/get" | "tasks/update" | "tasks/cancel" => (task_id(inbound), false),
        _ => return Ok(()),
    };
    let seen = headers.get(&NAME);
    match (named, seen) {
        // Without a name in the body the server says what is missing.
        (None, None) => Ok(()),
        (Some(_), None) if !required => Ok(()),
        (Some(_), None) => Err(missing(&NAME)),
        (named, Some(seen)) => {
            let decoded = decoded(seen.as_bytes());
            if named.is_some() && decoded == named {
                return Ok(());
            }
            let body = named.as_deref().unwrap_or("nothing");
            Err(differs(&NAME, seen.as_bytes(), body))
        }
    }
}

fn task_id(inbound: &Inbound) -> Option<Cow<'_, str>> {
    let params = inbound.params.whole.clone()?;
    let range = raw::at_path(&inbound.message, params, &["taskId"])?;
    raw::text(&inbound.message, range)
}

/// A header value without the white space around it (RFC 9110 section 5.5), decoded.
fn decoded(value: &[u8]) -> Option<Cow<'_, str>> {
    header::decode_value(std::str::from_utf8(value.trim_ascii()).ok()?)
}

fn must_equal(headers: &HeaderMap, name: &HeaderName, body: &str) -> Result<(), Box<Refused>> {
    let mut values = headers.get_all(name).into_iter();
    let Some(seen) = values.next() else {
        return Err(missing(name));
    };
    // Two values are two sources of truth.
    if seen.as_bytes().trim_ascii() != body.as_bytes() || values.next().is_some() {
        return Err(differs(name, seen.as_bytes(), body));
    }
    Ok(())
}

fn missing(name: &HeaderName) -> Box<Refused> {
    Refused::mismatch(format!("there is no {name} header"))
}

fn differs(name: &HeaderName, seen: &[u8], body: &str) -> Box<Refused> {
    Refused::mismatch(format!(
        "{name} header value '{}' does not match body value '{}'",
        sanitised(seen),
        sanitised(body.as_bytes())
    ))
}

/// The parameters that each tool mirrors.
type Tools = HashMap<String, Vec<(HeaderName, ParamHeader)>>;

/// What was read of a list of tools, and the list, to see whether it is still the same.
type Read = (Arc<Listing>, Arc<Tools>);

/// Which parameters the tools of a connection mirror, read once per list of tools.
#[derive(Debug, Default)]
pub(crate) struct Mirrored {
    known: Mutex<HashMap<Connection, Read>>,
}

impl Mirrored {
    /// Checks `Mcp-Param-*` of a `tools/call` ("Server Behavior for Custom Headers").
    pub(crate) fn check_params(
        &self,
        headers: &HeaderMap,
        inbound: &Inbound,
        link: &Link,
    ) -> Result<(), Box<Refused>> {
        if inbound.method() != "tools/call" {
            return Ok(());
        }
        let Some(list) = link.listed(List::Tools) else {
            return Ok(());
        };
        let tools = self.tools(link, list);
        let name = inbound.text(inbound.params.name.as_ref());
        let Some(mirrored) = name.and_then(|name| tools.get(&*name)) else {
            return Ok(());
        };
        let arguments = inbound.part(inbound.params.arguments.as_ref());
        check_mirrored(headers, mirrored, arguments.unwrap_or(b"{}"))
    }

    /// Forgets the tools of all connections but some.
    pub(crate) fn retain(&self, still_there: impl Fn(&AgentName, &ServerName) -> bool) {
        let mut known = self.known.lock();
        known.retain(|(agent, server), _| still_there(agent, server));
    }

    fn tools(&self, link: &Link, list: Arc<Listing>) -> Arc<Tools> {
        let connection = (link.agent().clone(), link.server().clone());
        let mut known = self.known.lock();
        if let Some((read, tools)) = known.get(&connection)
            && Arc::ptr_eq(read, &list)
        {
            return Arc::clone(tools);
        }
        let entries = list.entries.iter();
        let tools = read_tools(entries.map(|entry| (&*entry.key, &entry.definition[..])));
        let tools = Arc::new(tools);
        known.insert(connection, (list, Arc::clone(&tools)));
        tools
    }
}

fn read_tools<'t>(list: impl IntoIterator<Item = (&'t str, &'t [u8])>) -> Tools {
    let mut tools = Tools::new();
    for (name, tool) in list {
        let schema =
            raw::at_path(tool, 0..tool.len(), &["inputSchema"]).and_then(|at| tool.get(at));
        let Some(schema) = schema else {
            continue;
        };
        // A tool with broken annotations is left out of the list by whoever reads it, and is not called.
        let mirrored: Vec<_> = header::param_headers(schema)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|param| Some((param.header.parse().ok()?, param)))
            .collect();
        if !mirrored.is_empty() {
            tools.insert(name.to_owned(), mirrored);
        }
    }
    tools
}

fn check_mirrored(
    headers: &HeaderMap,
    mirrored: &[(HeaderName, ParamHeader)],
    arguments: &[u8],
) -> Result<(), Box<Refused>> {
    for (name, param) in mirrored {
        let expected = header::param_value(arguments, param);
        match (headers.get(name), expected) {
            (None, None) => {}
            (None, Some(_)) => return Err(missing(name)),
            (Some(seen), None) => return Err(differs(name, seen.as_bytes(), "nothing")),
            (Some(seen), Some(expected)) => {
                let (seen_text, text) = (decoded(seen.as_bytes()), decoded(expected.as_bytes()));
                let equal = seen_text.is_some() && seen_text == text;
                if !equal && !equal_numbers(arguments, param, seen_text.as_deref()) {
                    return Err(differs(name, seen.as_bytes(), &expected));
                }
            }
        }
    }
    Ok(())
}

/// "servers SHOULD compare the header value and the body value numerically" ("Server Validation").
fn equal_numbers(arguments: &[u8], param: &ParamHeader, seen: Option<&str>) -> bool {
    let path: Vec<_> = param.path.iter().map(String::as_str).collect();
    let number = || {
        let place = raw::at_path(arguments, 0..arguments.len(), &path)?;
        let body: f64 = std::str::from_utf8(arguments.get(place)?)
            .ok()?
            .parse()
            .ok()?;
        let seen: f64 = seen?.parse().ok()?;
        Some((body, seen))
    };
    number().is_some_and(|(body, seen)| body.total_cmp(&seen).is_eq())
}

/// Whether a request without metadata is of a modern agent all the same, by its header.
pub(crate) fn header_is_modern(headers: &HeaderMap) -> bool {
    header_revision(headers).is_some_and(|revision| revision.era() == Era::Modern)
}

/// The revision that the header names, where we speak it.
pub(crate) fn header_revision(headers: &HeaderMap) -> Option<Revision> {
    Revision::parse(headers.get(&PROTOCOL_VERSION)?.to_str().ok()?.trim())
}

/// Whether `message` may be one of a modern agent.
pub(crate) fn is_modern(params: &envelope::Params) -> bool {
    params.protocol_version.is_some()
}

#[cfg(test)]
#[path = "mirrored_tests.rs"]
mod tests;
