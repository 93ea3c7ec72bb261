//! Operations in words, for somebody who was not there.

use std::fmt::Write as _;

use serde_json::Value;
use steadfast::wording::{self, operation_state};
use steadfast::{EvidenceReport, OperationDetails, OperationReport};

use crate::output::{Cell, Look, Output, Table};

/// One line for each.
pub(super) fn table(operations: &[OperationReport]) -> Table {
    let mut table = Table::new(&["OPERATION", "AGENT", "SERVER", "TOOL", "STATE", "CHANGED"]);
    for operation in operations {
        table.row(vec![
            operation.id.as_str().into(),
            operation.agent.as_str().into(),
            operation.server.as_str().into(),
            operation.tool.as_str().into(),
            Cell::from(operation_state(&operation.state)).look(look(&operation.state)),
            operation.changed_at.as_str().into(),
        ]);
        if let Some(more) = wording::operation_next(operation) {
            table.line(Cell::from(more).look(Look::Dim));
        }
    }
    table
}

fn look(state: &str) -> Look {
    match state {
        "held" => Look::Bad,
        "not_observed" | "reconciling" | "abandoned" => Look::Warning,
        "observed" | "confirmed" => Look::Good,
        _ => Look::Plain,
    }
}

/// The whole story of one: what was meant, what was sent, what was seen, what was concluded and why, who decided.
pub(super) fn story(details: &OperationDetails, output: Output) -> String {
    let operation = &details.operation;
    let title = |text: &str| output.paint(Look::Bold, text);
    let mut story = format!(
        "{}\n\nIntended   {}: agent {} calls {} of server {}\n           arguments: SHA-256 {}\n",
        title(&operation.id),
        operation.intended_at,
        operation.agent,
        operation.tool,
        operation.server,
        operation.arguments_digest,
    );
    let _ = writeln!(story, "Sent       {}", sent(details));
    let _ = writeln!(story, "Known      {}", known(operation));
    let _ = writeln!(story, "Contract   {}", contract(&details.policy));
    let _ = writeln!(
        story,
        "Next       {}",
        wording::operation_next(operation).unwrap_or_else(|| "nothing".to_owned())
    );
    let _ = writeln!(story, "\n{}", title("What happened"));
    for evidence in &details.evidence {
        let _ = writeln!(story, "  {}  {}", evidence.at, happened(evidence));
        let _ = writeln!(
            story,
            "      {}",
            output.paint(
                Look::Dim,
                &format!(
                    "{} → {}",
                    evidence.decision,
                    operation_state(&evidence.state)
                )
            )
        );
    }
    if operation.state == "held" {
        let _ = writeln!(
            story,
            "\n{}\n  steadfast operations settle {id} confirmed --note …\n  \
             steadfast operations settle {id} no-effect [--repeat] --note …\n  \
             steadfast operations settle {id} abandoned --note …",
            title("To decide it, once you know"),
            id = operation.id,
        );
    }
    story
}

fn sent(details: &OperationDetails) -> String {
    let operation = &details.operation;
    let Some(at) = &operation.sent_at else {
        return "nothing has left".to_owned();
    };
    let times = match operation.attempts {
        1 => "once".to_owned(),
        several => format!("{several} times, the last time"),
    };
    let id = details
        .rpc_id
        .as_ref()
        .map_or_else(String::new, |id| format!(", as request {id}"));
    match operation.bytes_sent {
        // Answered, or nobody could count them.
        0 => format!("{times} at {at}{id}"),
        bytes => format!("{times} at {at}{id}; {bytes} bytes left"),
    }
}

fn known(operation: &OperationReport) -> String {
    let told = if operation.undelivered {
        "; its agent was not told yet"
    } else {
        ""
    };
    format!(
        "{}, {}{told}",
        operation_state(&operation.state),
        wording::executed(operation)
    )
}

fn contract(policy: &Value) -> String {
    let key = policy["duplicate_key"].is_object();
    let lookup = policy["lookup"]["tool"].as_str();
    match (key, lookup) {
        (true, Some(tool)) => format!("a duplicate-prevention key, and a lookup by {tool}"),
        (true, None) => "a duplicate-prevention key".to_owned(),
        (false, Some(tool)) => format!("a lookup by {tool}"),
        (false, None) => "none: neither a key nor a lookup is configured".to_owned(),
    }
}

/// One piece of evidence.
fn happened(evidence: &EvidenceReport) -> String {
    let what = &evidence.what;
    let text = |name: &str| what[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| what[name].as_u64().unwrap_or_default();
    match what["kind"].as_str().unwrap_or_default() {
        "leaving" => format!(
            "attempt {} leaves as request {}",
            number("attempt"),
            text("rpc_id")
        ),
        "refused" => format!("refused before execution: {}", text("proof")),
        "given_up" => format!("not tried again: {}", text("why")),
        "lost" => match number("bytes_sent") {
            // What is known not to have left at all is refused, and not lost.
            0 => format!(
                "the result was not observed: {} (it is not known how much had left)",
                text("evidence")
            ),
            bytes => format!(
                "the result was not observed: {} ({bytes} bytes had left)",
                text("evidence")
            ),
        },
        "task_started" => format!("the server made a task of it: {}", text("task")),
        "answered" => match (what["said"].as_str(), what["late"].as_bool()) {
            (Some("result"), Some(true)) => "the result came late".to_owned(),
            (Some("result"), _) => "the result came".to_owned(),
            (Some("tool_error"), _) => "the tool answered with an error".to_owned(),
            (Some("rpc_error"), _) => "the server answered with an error".to_owned(),
            (Some("input_required"), _) => "the server asked for input".to_owned(),
            (Some(_) | None, _) => "an answer came".to_owned(),
        },
        "agent_left" => "the agent went away".to_owned(),
        "meant_as_further" => {
            "its agent says that it means a further call, not a repeat".to_owned()
        }
        "delivered" => "its agent asked for it, and was given what is known".to_owned(),
        "looking_up" => format!("lookup {} begins", number("tries") + 1),
        "looked_up" => format!(
            "lookup {}: {}",
            number("tries") + 1,
            found(&what["finding"])
        ),
        "asked" => format!("{} asked for a lookup", text("name")),
        "settled" => {
            let note = what["note"].as_str();
            let note =
                note.map_or_else(|| ", without a note".to_owned(), |note| format!(": {note}"));
            format!("{} decided{note}", text("name"))
        }
        "interrupted" => "the Steadfast that looked after it ended".to_owned(),
        other => other.replace('_', " "),
    }
}

fn found(finding: &Value) -> String {
    match finding["kind"].as_str().unwrap_or_default() {
        "found" => format!(
            "one record of it was found ({})",
            finding["record"].as_str().unwrap_or_default()
        ),
        "absent" => "nothing was found".to_owned(),
        "working" => "the server is still at work on its task".to_owned(),
        "unclear" => finding["why"].as_str().unwrap_or_default().to_owned(),
        "unreachable" => format!(
            "not possible: {}",
            finding["fault"]["message"].as_str().unwrap_or_default()
        ),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn details() -> OperationDetails {
        serde_json::from_value(json!({
            "id": "op_1", "agent": "support", "server": "booking", "tool": "create_booking",
            "state": "held", "executed": "unknown", "intended_at": "2026-11-30T10:00:00Z",
            "sent_at": "2026-11-30T10:00:00Z", "changed_at": "2026-11-30T10:00:05Z", "bytes_sent": 412,
            "attempts": 1, "next": null, "next_at": null, "held": true,
            "why": "no contract says how to find out, or that a repeat is safe",
            "undelivered": false, "arguments_digest": "ab12",
            "rpc_id": 17, "decision": "held for a person", "result": null,
            "policy": {"duplicate_key": null, "lookup": null},
            "evidence": [
                {"at": "2026-11-30T10:00:00Z", "kind": "leaving", "attempt": 1, "rpc_id": "17",
                 "state": "sent", "decision": "it is on record, and leaves"},
                {"at": "2026-11-30T10:00:05Z", "kind": "lost", "bytes_sent": 412,
                 "evidence": "the stream ended before the response",
                 "state": "held", "decision": "held for a person"},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn somebody_who_was_not_there_can_read_what_happened() {
        assert_eq!(
            story(&details(), Output::new(false)),
            "op_1\n\n\
             Intended   2026-11-30T10:00:00Z: agent support calls create_booking of server booking\n           \
             arguments: SHA-256 ab12\n\
             Sent       once at 2026-11-30T10:00:00Z, as request 17; 412 bytes left\n\
             Known      held, and nobody knows whether it was executed\n\
             Contract   none: neither a key nor a lookup is configured\n\
             Next       a person must decide: no contract says how to find out, or that a repeat is safe\n\n\
             What happened\n  \
             2026-11-30T10:00:00Z  attempt 1 leaves as request 17\n      \
             it is on record, and leaves → sent\n  \
             2026-11-30T10:00:05Z  the result was not observed: the stream ended before the response (412 bytes had left)\n      \
             held for a person → held\n\n\
             To decide it, once you know\n  \
             steadfast operations settle op_1 confirmed --note …\n  \
             steadfast operations settle op_1 no-effect [--repeat] --note …\n  \
             steadfast operations settle op_1 abandoned --note …\n"
        );
    }

    #[test]
    fn a_list_says_what_happens_next_or_who_must_decide() {
        let mut looked_up = details().operation;
        looked_up.state = "reconciling".to_owned();
        looked_up.next = Some("looking it up at the provider".to_owned());
        looked_up.next_at = Some("2026-11-30T10:00:35Z".to_owned());
        let text = table(&[details().operation, looked_up]).render(Output::new(false));
        assert!(text.contains("create_booking  held "), "{text}");
        assert!(
            text.contains("\n  a person must decide: no contract"),
            "{text}"
        );
        assert!(
            text.contains("\n  next: looking it up at the provider, at 2026-11-30T10:00:35Z"),
            "{text}"
        );
    }
}
