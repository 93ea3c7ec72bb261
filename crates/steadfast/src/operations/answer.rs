//! What an answer of the server says about its operation.

use bytes::Bytes;
use steadfast_core::bridge::questions;
use steadfast_core::operation::{Event, Said};
use steadfast_core::wire::envelope::Envelope;
use steadfast_core::wire::json;
use steadfast_core::{AgentName, ServerName};

use super::{Along, Ledger, Tracked, hash_leg};

/// `_meta` of what belongs to a task (2025-11-25 basic/utilities/tasks, "Associating Task-Related Messages").
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

impl Tracked {
    /// An answer with the id of the attempt under way was seen. It is kept where nobody is there who takes it.
    /// `gives`: whether its agent is given the wish for input, if it is one.
    pub(crate) fn answered(&self, message: &Bytes, read: &Envelope, gives: bool) {
        if let Some(task) = task_of(message, read) {
            self.post(Event::TaskStarted { task }, Along::default());
        }
        self.note_response(message);
        let said = said(message, read);
        let awaited = !self.has_left();
        let along = Along {
            response: Some(message.clone()),
            is_awaited: awaited && (gives || said != Said::InputRequired),
            undelivered: !awaited,
            leg_hash: (said == Said::InputRequired)
                .then(|| state_of(message, read))
                .flatten(),
        };
        self.post(Event::Answered { said, awaited }, along);
    }

    /// A notification on the stream of the call: it may name the task that the server made of it.
    pub(crate) fn notified(&self, message: &[u8], read: &Envelope) {
        let Some(params) = read.params.clone() else {
            return;
        };
        let task = match &*read.method(message) {
            // SEP-2663 (the tasks extension), "Task Status Notifications"; 2025-11-25 tasks, "Task Status Notification".
            "notifications/tasks" | "notifications/tasks/status" => {
                json::at_path(message, params, &["taskId"])
            }
            _ => json::at_path(message, params, &["_meta", RELATED_TASK, "taskId"]),
        };
        if let Some(task) = task.and_then(|task| json::text(message, task)) {
            let task = task.into_owned();
            self.post(Event::TaskStarted { task }, Along::default());
        }
    }
}

impl Ledger {
    /// An answer that no call waits for: it may be the one to an operation that is not resolved.
    pub(crate) async fn came_late(
        &self,
        owner: (&AgentName, &ServerName),
        rpc_id: i64,
        message: &Bytes,
        read: &Envelope,
    ) {
        let event = Event::Answered {
            said: said(message, read),
            awaited: false,
        };
        let along = Along {
            response: Some(message.clone()),
            is_awaited: false,
            undelivered: true,
            leg_hash: None,
        };
        if let Err(error) = self.late_answer(owner, rpc_id, event, along).await {
            tracing::error!(%error, "a late answer cannot be written");
        }
    }
}

/// What a response says.
pub(super) fn said(message: &[u8], read: &Envelope) -> Said {
    let Some(result) = read.result.clone() else {
        return Said::RpcError;
    };
    if questions::input_required(message).is_some() {
        return Said::InputRequired;
    }
    let is_error = json::at_path(message, result, &["isError"]);
    match is_error.and_then(|range| message.get(range)) {
        Some(b"true") => Said::ToolError,
        Some(_) | None => Said::Result,
    }
}

/// The handle of the task that a result is instead of the tool's own: flat since the extension (SEP-2663, "Creating
/// Tasks"), under `task` in 2025-11-25.
fn task_of(message: &[u8], read: &Envelope) -> Option<String> {
    let result = read.result.clone()?;
    let kind = json::at_path(message, result.clone(), &["resultType"]);
    let id = match kind {
        Some(kind) if json::is_text(message, kind.clone(), "task") => {
            json::at_path(message, result, &["taskId"])
        }
        Some(_) => None,
        None => json::at_path(message, result, &["task", "taskId"]),
    };
    Some(json::text(message, id?)?.into_owned())
}

/// What the next leg will continue it with.
fn state_of(message: &[u8], read: &Envelope) -> Option<steadfast_store::Digest> {
    let state = json::at_path(message, read.result.clone()?, &["requestState"])?;
    json::text(message, state).map(|state| hash_leg(&state))
}

#[cfg(test)]
mod tests {
    use steadfast_core::wire::envelope;

    use super::*;

    fn read(message: &str) -> Envelope {
        envelope::read(message.as_bytes()).unwrap()
    }

    #[test]
    fn an_answer_says_one_of_four_things() {
        for (message, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
                Said::Result,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"isError":false}}"#,
                Said::Result,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#,
                Said::ToolError,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
                Said::RpcError,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}"#,
                Said::InputRequired,
            ),
        ] {
            assert_eq!(
                said(message.as_bytes(), &read(message)),
                expected,
                "{message}"
            );
        }
    }

    #[test]
    fn a_task_is_recognised_in_both_forms() {
        for (message, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t1","status":"working"}}"#,
                Some("t1"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t2"}}}"#,
                Some("t2"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","task":{"taskId":"t3"}}}"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"t4"}}"#, None),
        ] {
            assert_eq!(
                task_of(message.as_bytes(), &read(message)).as_deref(),
                expected,
                "{message}"
            );
        }
    }

    #[test]
    fn a_state_is_the_same_however_it_is_written() {
        let plain = r#"{"jsonrpc":"2.0","id":1,"result":{"requestState":"aA"}}"#;
        let escaped = r#"{"jsonrpc":"2.0","id":1,"result":{"requestState":"a\u0041"}}"#;
        let state = |message: &str| state_of(message.as_bytes(), &read(message));
        assert_eq!(state(plain), Some(hash_leg("aA")));
        assert_eq!(state(plain), state(escaped));
    }
}
