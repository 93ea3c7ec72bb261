//! What an agent is told where the server says nothing: results of tools that the model can read, and
//! JSON-RPC errors for everything else.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steadfast::{KeptBack, NoSuchTool, NotObserved, OperationReport, Report, WhyKeptBack, wording};
use steadfast_core::effect::Executed;
use steadfast_core::{Era, code};

use super::calling::About;
use crate::problem::{INTERNAL_ERROR, INVALID_PARAMS, code_data, rpc_error};

/// `_meta` of a result that stands for a call whose own result was not observed.
const OPERATION: &str = "dev.steadfast/operation";
/// `_meta` of a result that stands for a server that is not available.
const CONNECTION: &str = "dev.steadfast/connection";

/// One JSON-RPC response. `id` and `result` are raw JSON.
pub(crate) fn result(id: &[u8], result: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(id.len() + result.len() + 40);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id);
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(result);
    out.push(b'}');
    out.into()
}

/// What is known of a server while it is down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Its last complete list of tools, where that is what was asked for.
    pub(crate) tools: Option<Bytes>,
    /// Whether the tool in question is in none of its lists.
    pub(crate) lacks_tool: bool,
    /// How it introduces itself to modern agents.
    pub(crate) discovered: Option<Bytes>,
}

/// The response to a call whose result was not observed.
pub(crate) fn not_observed(about: &About, what: &NotObserved) -> Bytes {
    let mut operation = operation(what);
    let text = not_observed_text(what);
    let connection = what.connection.as_ref();
    let connection = connection.and_then(|report| serde_json::to_value(report).ok());
    if about.method() == b"tools/call" {
        let mut meta = vec![(OPERATION, operation)];
        meta.extend(connection.map(|connection| (CONNECTION, connection)));
        return tool_error(about, &text, meta);
    }
    if let Some(members) = operation.as_object_mut() {
        let code = what
            .fault
            .as_ref()
            .map_or(code::NOT_OBSERVED, |fault| fault.kind.code());
        members.insert("code".to_owned(), code.to_string().into());
        members.insert("hint".to_owned(), code.hint.into());
        members.extend(connection.map(|it| ("connection".to_owned(), it)));
    }
    rpc_error(Some(&about.id), INTERNAL_ERROR, &text, Some(&operation))
}

/// The response to a call of a tool that this agent does not have (2025-11-25 server/tools, "Error Handling":
/// an unknown tool is a protocol error).
pub(crate) fn no_such_tool(about: &About, what: &NoSuchTool) -> Bytes {
    let mut message = format!("Unknown tool: {}", what.tool);
    if let Some(server) = &what.gone_from {
        message.push_str(&format!(
            ". The server `{server}` offered it before and does no more. The call was not sent"
        ));
    }
    rpc_error(Some(&about.id), INVALID_PARAMS, &message, None)
}

/// The response to a consequential call that the ledger keeps back.
pub(crate) fn kept_back(about: &About, what: &KeptBack) -> Bytes {
    let tool = &what.tool;
    let (text, first) = match &what.why {
        WhyKeptBack::PossibleRepeat(first) => (
            format!(
                "{tool} was not called: this may be a repeat of the operation {}, which is {}. Do not call it again \
                 before that one is settled. If a further call is meant, say so with `_meta` \
                 \"dev.steadfast/repeat\": \"intended\".",
                first.id,
                wording::operation_state(&first.state)
            ),
            Some(first),
        ),
        WhyKeptBack::Settled(first) => (
            format!(
                "{tool} was not called again: the operation {} is {}.",
                first.id,
                wording::operation_state(&first.state)
            ),
            Some(first),
        ),
        WhyKeptBack::KeyTaken(first) => {
            let text = format!(
                "the operation key belongs to the operation {}, of another tool or with other arguments",
                first.id
            );
            let data = code_data(code::OPERATION_KEY_TAKEN);
            return rpc_error(Some(&about.id), INVALID_PARAMS, &text, Some(&data));
        }
        WhyKeptBack::KeyNotText => {
            let text = "dev.steadfast/operationKey is not a string";
            let data = code_data(code::BAD_MESSAGE);
            return rpc_error(Some(&about.id), INVALID_PARAMS, text, Some(&data));
        }
        WhyKeptBack::StoreUnavailable(fault) => (
            format!(
                "{tool} was not called: {}. Nothing has changed at the server.",
                fault.message
            ),
            None,
        ),
    };
    let mut operation = json!({
        "executed": "no",
        "server": what.server.as_str(),
        "tool": tool,
        "evidence": text,
    });
    if let Some(members) = operation.as_object_mut() {
        match (&what.why, first) {
            (WhyKeptBack::Settled(first), _) => members.extend(object_of(first)),
            (_, Some(first)) => {
                members.insert("duplicate_of".to_owned(), first.id.clone().into());
                members.insert("state".to_owned(), first.state.clone().into());
                members.insert("next".to_owned(), first.next.clone().into());
                members.insert("held".to_owned(), true.into());
            }
            (_, None) => {
                members.insert("fault".to_owned(), json!({"kind": "store_unavailable"}));
            }
        }
    }
    tool_error(about, &text, vec![(OPERATION, operation)])
}

/// The operation object.
fn object_of(operation: &OperationReport) -> Map<String, Value> {
    match serde_json::to_value(operation) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// What is known of the operation. It has an id where it is on record.
fn operation(what: &NotObserved) -> Value {
    let mut operation = json!({
        "state": "not_observed",
        "executed": what.executed,
        "server": what.server,
        "tool": what.tool,
        "method": what.method,
        "sent_at": what.sent_at.map(steadfast::report::rfc3339),
        "bytes_sent": what.bytes_sent,
        "evidence": what.evidence,
        "next": null,
        "held": false,
    });
    if let (Some(on_record), Some(members)) = (&what.operation, operation.as_object_mut()) {
        members.insert("id".to_owned(), on_record.id.clone().into());
        members.insert("next".to_owned(), on_record.next.clone().into());
        members.insert("held".to_owned(), on_record.held.into());
    }
    // The server's Retry-After is the agent's to know: nothing is sent again for it (WR-05).
    let retry_after = what.fault.as_ref().and_then(|fault| fault.retry_after);
    if let (Some(wait), Some(members)) = (retry_after, operation.as_object_mut()) {
        members.insert("retry_after_s".to_owned(), wait.0.div_ceil(1_000).into());
    }
    operation
}

fn not_observed_text(what: &NotObserved) -> String {
    let name = what.tool.as_deref().unwrap_or(&what.method);
    let evidence = &what.evidence;
    let mut text = match what.executed {
        Executed::No => format!(
            "{name} was not executed by the server `{}`: {evidence}. Nothing has changed there.",
            what.server
        ),
        Executed::Unknown | Executed::Yes => format!(
            "The result of {name} was not observed: {evidence}. Whether it was executed is not known. {}",
            instead_of_a_repeat(what)
        ),
    };
    if let Some(report) = &what.connection {
        let fault = report.fault.as_ref().map(|fault| &fault.message);
        if let Some(message) = fault.filter(|message| *message != evidence) {
            text.push_str(&format!(" {}.", message.trim_end_matches('.')));
        }
        text.push_str(&person_needed(report));
    }
    text
}

/// What the model is to do instead of calling it again.
fn instead_of_a_repeat(what: &NotObserved) -> String {
    let server = &what.server;
    let Some(operation) = &what.operation else {
        return format!("Do not call it again before you have found out at the server `{server}`.");
    };
    let next = match &operation.next {
        Some(next) => next.clone(),
        None => format!("a person finds out at the server `{server}`"),
    };
    let id = &operation.id;
    format!("Do not call it again: it is on record as the operation {id}. Next: {next}.")
}

/// The response to a call while the server is not available.
pub(crate) fn unavailable(about: &About, report: &Report, known: &Known) -> Bytes {
    let list = known.tools.as_ref().filter(|_| !about.has_cursor);
    match about.method() {
        b"tools/call" => unavailable_tool(about, report, known),
        // A server that is down keeps its tools listed (architecture, connections 11).
        b"tools/list" => list.map_or_else(
            || unavailable_error(about, report),
            |tools| result(&about.id, &tool_list(about.era, tools)),
        ),
        b"server/discover" => known.discovered.as_ref().map_or_else(
            || unavailable_error(about, report),
            |discovered| result(&about.id, discovered),
        ),
        _ => unavailable_error(about, report),
    }
}

fn unavailable_tool(about: &About, report: &Report, known: &Known) -> Bytes {
    if known.lacks_tool {
        let message = format!("Unknown tool: {}", about.tool_name().unwrap_or_default());
        return rpc_error(Some(&about.id), INVALID_PARAMS, &message, None);
    }
    let connection = serde_json::to_value(report).unwrap_or_default();
    tool_error(
        about,
        &unavailable_text(report),
        vec![(CONNECTION, connection)],
    )
}

fn unavailable_error(about: &About, report: &Report) -> Bytes {
    let mut data = code_data(code::UNAVAILABLE);
    if let Some(members) = data.as_object_mut() {
        let connection = serde_json::to_value(report).unwrap_or_default();
        members.insert("connection".to_owned(), connection);
    }
    let text = unavailable_text(report);
    rpc_error(Some(&about.id), INTERNAL_ERROR, &text, Some(&data))
}

/// Which server, why, what happens next, and where a person must act.
fn unavailable_text(report: &Report) -> String {
    let mut text = format!("The server `{}` is not available", report.server);
    match &report.fault {
        Some(fault) => text.push_str(&format!(": {}.", fault.message.trim_end_matches('.'))),
        None => text.push_str(&format!(" ({}).", report.state.replace('_', " "))),
    }
    if let Some(next) = &report.next {
        text.push_str(&format!(" Next: {}, at {}.", next.reason, next.at));
    }
    text.push_str(&person_needed(report));
    text.push_str(" The call was not sent.");
    text
}

/// What a person must do, and where; empty where none is needed.
fn person_needed(report: &Report) -> String {
    let mut text = String::new();
    if let Some(fault) = report.fault.as_ref().filter(|fault| fault.person_needed) {
        text.push_str(&format!(" A person is needed: {}", fault.hint));
    }
    if let Some(url) = &report.sign_in_url {
        text.push_str(&format!(" Sign in at {url}."));
    }
    text
}

fn tool_list(era: Era, tools: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tools.len() + 80);
    out.extend_from_slice(match era {
        Era::Legacy => br#"{"tools":"#.as_slice(),
        // 2026-07-28 server/utilities/caching: stale at once, and for this agent only.
        Era::Modern => {
            br#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":"#.as_slice()
        }
    });
    out.extend_from_slice(tools);
    out.push(b'}');
    out
}

/// A result of a tool that says what went wrong, so that the model sees it.
fn tool_error(about: &About, text: &str, meta: Vec<(&str, Value)>) -> Bytes {
    let meta: Map<String, Value> = meta
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let mut body = json!({
        "content": [{"type": "text", "text": text}],
        "isError": true,
        "_meta": meta,
    });
    if let (Era::Modern, Some(members)) = (about.era, body.as_object_mut()) {
        members.insert("resultType".to_owned(), "complete".into());
    }
    result(&about.id, body.to_string().as_bytes())
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
