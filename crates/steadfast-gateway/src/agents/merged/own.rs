//! What is ours at the address of all servers: a tool and a prompt that say how the connections are, and a tool that says
//! what became of an operation.

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::{Report, wording};
use steadfast_core::catalog::List;
use steadfast_core::wire::json as raw;
use steadfast_core::{Era, OperationId};

use super::Asker;
use crate::Gate;
use crate::agents::inbound::Inbound;
use crate::agents::render;
use crate::clock;

/// The tool for connections.
pub(super) const CONNECTIONS: &str = "steadfast__connections";
/// The tool for operations.
pub(super) const OPERATION: &str = "steadfast__operation";
/// The prompt.
pub(super) const MCPS: &str = "mcps";

const CONNECTIONS_TOOL: &str = r#"{"name":"steadfast__connections","title":"Connections","description":"Shows the MCP servers behind your tools: whether each is connected, what is wrong with it, and what happens next. Use it when a tool says that its server is not available, or when a tool is missing.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"outputSchema":{"type":"object","properties":{"connections":{"type":"array","items":{"type":"object"}}},"required":["connections"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

const OPERATION_TOOL: &str = r#"{"name":"steadfast__operation","title":"Operation","description":"Shows what is known of a call whose result was not observed: whether it was executed, what was seen, and what happens next. Use it with the id (op_…) that such a call was answered with, instead of calling the tool again.","inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"The id of the operation, which begins with op_"}},"required":["id"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"id":{"type":"string"},"state":{"type":"string"},"executed":{"enum":["no","unknown","yes"]}},"required":["id","state","executed"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

const PROMPT: &str = r#"{"name":"mcps","title":"MCP servers","description":"Shows whether each MCP server is connected, what is wrong with it, and what happens next."}"#;

/// What is ours in a list: names and definitions.
pub(super) const fn entries(list: List) -> &'static [(&'static str, &'static str)] {
    match list {
        List::Tools => &[(CONNECTIONS, CONNECTIONS_TOOL), (OPERATION, OPERATION_TOOL)],
        List::Prompts => &[(MCPS, PROMPT)],
        List::Resources | List::Templates => &[],
    }
}

/// All connections of the agent, those that are switched off as well: as `steadfast status AGENT` shows them.
fn reports(gate: &Gate, asker: &Asker<'_>) -> Vec<Report> {
    let links = gate.keeper.links_of(asker.agent);
    links.iter().map(|link| link.report()).collect()
}

/// The result of the tool.
pub(super) fn connections(gate: &Gate, asker: &Asker<'_>, inbound: &Inbound) -> Bytes {
    let reports = reports(gate, asker);
    let result = json!({
        "content": [{"type": "text", "text": wording::paragraphs(&reports, clock::timestamp())}],
        "structuredContent": {"connections": reports},
        "isError": false,
    });
    complete(asker, inbound, result)
}

/// The result of the tool for operations: of the agent's own ones only.
pub(super) async fn operation(gate: &Gate, asker: &Asker<'_>, inbound: &Inbound) -> Bytes {
    let params = inbound.params.whole.clone();
    let id = params
        .and_then(|params| raw::at_path(&inbound.message, params, &["arguments", "id"]))
        .and_then(|range| raw::text(&inbound.message, range));
    let Some(id) = id else {
        return failed(
            asker,
            inbound,
            "give the id of an operation, such as op_01J…".to_owned(),
        );
    };
    let found = match gate.keeper.operation(&OperationId::from(&*id)).await {
        Ok(found) => found.filter(|found| found.operation.agent == asker.agent.as_str()),
        Err(error) => return failed(asker, inbound, error.to_string()),
    };
    let Some(details) = found else {
        return failed(asker, inbound, format!("you have no operation {id}"));
    };
    let result = json!({
        "content": [{"type": "text", "text": wording::operation(&details.operation)}],
        "structuredContent": details,
        "isError": false,
    });
    complete(asker, inbound, result)
}

fn failed(asker: &Asker<'_>, inbound: &Inbound, text: String) -> Bytes {
    let content = json!([{"type": "text", "text": text}]);
    complete(asker, inbound, json!({"content": content, "isError": true}))
}

/// The result of the prompt.
pub(super) fn mcps(gate: &Gate, asker: &Asker<'_>, inbound: &Inbound) -> Bytes {
    let text = wording::paragraphs(&reports(gate, asker), clock::timestamp());
    let text = format!("These are my MCP servers. Tell me briefly how they are.\n\n{text}");
    let result = json!({
        "description": "The state of each MCP server",
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    });
    complete(asker, inbound, result)
}

/// What is ours takes no arguments that could be completed.
pub(super) fn no_completions(asker: &Asker<'_>, inbound: &Inbound) -> Bytes {
    complete(
        asker,
        inbound,
        json!({"completion": {"values": [], "hasMore": false}}),
    )
}

fn complete(asker: &Asker<'_>, inbound: &Inbound, mut result: Value) -> Bytes {
    if let (Era::Modern, Some(members)) = (asker.era(), result.as_object_mut()) {
        members.insert("resultType".to_owned(), "complete".into());
    }
    let id = inbound.raw_id().unwrap_or(b"null");
    render::result(id, result.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_defined_under_its_name() {
        for list in [List::Tools, List::Prompts] {
            for (name, definition) in entries(list) {
                let definition: Value = serde_json::from_str(definition).unwrap();
                assert_eq!(definition["name"], *name);
            }
        }
        assert!(entries(List::Resources).is_empty());
    }
}
