//! Writes whose answer is an error, or does not come: they are never sent twice. Declared reads are, once.

mod answers;
mod cancelled;
mod idempotency;
mod labels;
mod late;
pub(crate) mod ledger;
mod losses;
mod notices;
mod policies;
mod pool;
mod procedure;
mod statuses;
mod tasks;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Action, Answer, Behaviour, Reply, Server, Step, Tool};

use super::common::never;

/// What is not declared in the daemon's configuration, and so counts as a write.
const WRITE: &str = "create_order";
/// What a test declares as a read.
const READ: &str = "search";

/// A server whose tools all leave a row.
async fn server(behaviour: Behaviour) -> Server {
    let tools = [WRITE, READ].map(|name| Tool::new(name, Action::AddRow));
    Server::start(behaviour.with_tools(tools.to_vec())).await
}

/// The tool runs, and then this status comes.
fn ran(status: u16) -> Reply {
    Reply::new().row().step(Step::Status(status))
}

/// How often the tool ran for this key.
fn rows(server: &Server, tool: &str, key: &str) -> usize {
    let rows = server.ledger().rows_of(tool).unwrap();
    rows.iter().filter(|row| row.key == key).count()
}

/// How often the tool was called for this key.
fn calls(server: &Server, tool: &str, key: &str) -> usize {
    let calls = server.log().calls(tool);
    calls
        .iter()
        .filter(|call| call.arguments()["key"] == key)
        .count()
}

/// The answer stands for a call that was sent, and whose outcome is unknown.
fn assert_unknown(answer: &Answer, tool: &str, what: &str) {
    let operation = answer.operation();
    assert_eq!(answer.status, 200, "{what}: {answer:?}");
    assert!(answer.is_error(), "{what}: {answer:?}");
    assert_eq!(operation["state"], "not_observed", "{what}: {operation}");
    assert_eq!(operation["executed"], "unknown", "{what}: {operation}");
    assert_eq!(operation["server"], "fake", "{what}: {operation}");
    assert_eq!(operation["tool"], tool, "{what}: {operation}");
    assert!(
        operation["bytes_sent"].as_u64() > Some(0),
        "{what}: {operation}"
    );
    assert!(operation["sent_at"].is_string(), "{what}: {operation}");
    let evidence = operation["evidence"].as_str().unwrap_or_default();
    assert!(!evidence.is_empty(), "{what}: {operation}");
    let said = answer.message.to_string().to_lowercase();
    assert!(!said.contains("retryable"), "{what}: {said}");
}

/// Nothing follows that was called with these tools once everything has been answered.
async fn assert_nothing_follows(server: &Server) {
    let before = server.log().count("tools/call");
    let later = Duration::from_millis(300);
    never(server, later, |log| log.count("tools/call") > before).await;
}

fn key(key: &str) -> Value {
    json!({ "key": key })
}
