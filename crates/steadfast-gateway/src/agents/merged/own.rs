//! What is ours at the address of all servers: a tool and a prompt that say how the connections are.

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::{Report, wording};
use steadfast_core::Era;
use steadfast_core::catalog::List;

use super::Asker;
use crate::Gate;
use crate::agents::inbound::Inbound;
use crate::agents::render;
use crate::clock;

/// The tool.
pub(super) const CONNECTIONS: &str = "steadfast__connections";
/// The prompt.
pub(super) const MCPS: &str = "mcps";

const TOOL: &str = r#"{"name":"steadfast__connections","title":"Connections","description":"Shows the MCP servers behind your tools: whether each is connected, what is wrong with it, and what happens next. Use it when a tool says that its server is not available, or when a tool is missing.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"outputSchema":{"type":"object","properties":{"connections":{"type":"array","items":{"type":"object"}}},"required":["connections"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

const PROMPT: &str = r#"{"name":"mcps","title":"MCP servers","description":"Shows whether each MCP server is connected, what is wrong with it, and what happens next."}"#;

/// What is ours in a list: its name and its definition.
pub(super) fn entry(list: List) -> Option<(&'static str, &'static str)> {
    match list {
        List::Tools => Some((CONNECTIONS, TOOL)),
        List::Prompts => Some((MCPS, PROMPT)),
        List::Resources | List::Templates => None,
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
            let (name, definition) = entry(list).unwrap();
            let definition: Value = serde_json::from_str(definition).unwrap();
            assert_eq!(definition["name"], name);
        }
        assert!(entry(List::Resources).is_none());
    }
}
