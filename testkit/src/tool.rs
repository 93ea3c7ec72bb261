//! The tools of the fake server, and their runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::log::Request;
use crate::questions::Question;
use crate::session::{Outbox, Session};
use crate::shared::Shared;

/// What a tool does when it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Answers with its arguments as text, byte for byte as the JSON has them.
    Echo,
    /// Answers with the text "done"; the point is its ledger row.
    AddRow,
    /// Waits for the gate named by the argument `gate` (else "slow"), or the milliseconds of the argument `ms`.
    Slow,
    /// Sends so many progress notifications as the argument `steps` says (else 3), if the request has a token.
    Progress,
    /// Answers with as many bytes of text as the argument `bytes` says.
    Big,
    /// Asks the client a question and answers with what the client said.
    Ask,
    /// Asks the client round after round, all questions of a round at once, and answers with what the client
    /// said in the last. After each round it reports progress, if the request has a token, and logs a line. A
    /// round without questions is a modern result with nothing but a state.
    Questions(Vec<Vec<Question>>),
    /// Answers with this result.
    Fixed(Value),
}

/// One tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its entry in `tools/list`, without the name.
    pub definition: Value,
    /// What it does.
    pub action: Action,
    /// Whether a run writes a ledger row.
    pub recorded: bool,
}

impl Tool {
    /// A tool without annotations that takes any object.
    #[must_use]
    pub fn new(name: &str, action: Action) -> Self {
        let definition = json!({ "description": format!("Test tool {name}"), "inputSchema": { "type": "object" } });
        Self {
            name: name.to_owned(),
            definition,
            action,
            recorded: true,
        }
    }

    /// Sets the annotations, such as `{"readOnlyHint":true}`.
    #[must_use]
    pub fn annotations(mut self, annotations: Value) -> Self {
        self.definition["annotations"] = annotations;
        self
    }

    /// Sets the input schema.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.definition["inputSchema"] = schema;
        self
    }

    /// Runs are not written to the ledger: for load tests, which need no disk.
    #[must_use]
    pub fn unrecorded(mut self) -> Self {
        self.recorded = false;
        self
    }

    /// The default set: `echo`, `add_row`, `slow`, `progress`, `big` and `ask`.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        vec![
            Self::new("echo", Action::Echo),
            Self::new("add_row", Action::AddRow),
            Self::new("slow", Action::Slow),
            Self::new("progress", Action::Progress),
            Self::new("big", Action::Big),
            Self::new("ask", Action::Ask),
        ]
    }

    pub(crate) fn listing(&self) -> Value {
        let mut entry = json!({ "name": self.name });
        if let (Value::Object(entry), Value::Object(definition)) = (&mut entry, &self.definition) {
            entry.extend(definition.clone());
        }
        entry
    }
}

/// One run of a tool. Its messages go to the outbox, the last of them the response.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) request: Arc<Request>,
    /// The legacy session; `None` for a modern request.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) tool: Tool,
}

impl Drop for Run {
    /// Also where the run was stopped: its stream ends then without a response.
    fn drop(&mut self) {
        self.outbox.close();
    }
}

impl Run {
    /// Starts the run; in a session it can be cancelled by its request's id.
    pub(crate) fn spawn(self) -> JoinHandle<()> {
        let session = self.session.clone();
        let (id, index) = (self.request.rpc_id().cloned(), self.request.index);
        // Held until the run is registered, so that its end cannot come before that.
        let (start, started) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            if started.await.is_ok() {
                self.run().await;
            }
        });
        if let (Some(session), Some(id)) = (session, id) {
            session.started(&id, index, task.abort_handle());
        }
        let _waiting = start.send(());
        task
    }

    async fn run(self) {
        // The second leg of a modern question is part of the same run; a question may come without a state, and a
        // state without a question.
        let is_later = |member: &str| self.request.pointer(member).is_some();
        let continues = self.session.is_none()
            && (is_later("/params/requestState") || is_later("/params/inputResponses"));
        if self.tool.recorded && !continues {
            self.shared.row(&self.tool.name, &self.request);
        }
        let mut result = self.result().await;
        if self.session.is_none() && result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        let id = self.request.rpc_id().cloned().unwrap_or_default();
        self.outbox
            .push(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        if let Some(session) = &self.session {
            session.finished(&id);
        }
    }

    async fn result(&self) -> Value {
        let arguments = self.request.arguments();
        match &self.tool.action {
            Action::Echo => text(&arguments.to_string()),
            Action::AddRow => text("done"),
            Action::Slow => {
                match arguments.get("ms").and_then(Value::as_u64) {
                    Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                    None => {
                        self.shared
                            .gates
                            .wait(arguments["gate"].as_str().unwrap_or("slow"))
                            .await
                    }
                }
                text("slow is done")
            }
            Action::Progress => {
                let steps = arguments.get("steps").and_then(Value::as_u64).unwrap_or(3);
                for step in 1..=steps {
                    self.progress(step, steps);
                }
                text("progress is done")
            }
            Action::Big => {
                let bytes = arguments.get("bytes").and_then(Value::as_u64).unwrap_or(0);
                text(&"x".repeat(usize::try_from(bytes).unwrap_or(0)))
            }
            Action::Questions(rounds) => self.ask_rounds(rounds).await,
            Action::Ask if self.session.is_some() => self.ask_on_stream().await,
            Action::Ask => self.ask_by_result(),
            Action::Fixed(result) => result.clone(),
        }
    }

    pub(crate) fn progress(&self, progress: u64, total: u64) {
        if let Some(token) = self.request.pointer("/params/_meta/progressToken") {
            let params = json!({ "progressToken": token, "progress": progress, "total": total });
            let method = "notifications/progress";
            self.outbox
                .push(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        }
    }

    /// Legacy: a request of the server's own on the stream of the call.
    async fn ask_on_stream(&self) -> Value {
        let Some(session) = &self.session else {
            return Value::Null;
        };
        if session.capabilities.lock().get("elicitation").is_none() {
            return refusal("the client did not offer elicitation");
        }
        let (id, answer) = session.question();
        let method = "elicitation/create";
        self.outbox
            .push(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": question() }));
        match answer.await {
            Ok(response) if response.get("error").is_some() => {
                refusal(&response["error"].to_string())
            }
            Ok(response) => text(&response["result"].to_string()),
            Err(_) => refusal("the question was dropped"),
        }
    }

    /// 2026-07-28, multi round-trip requests: the question is a result, the answer comes with the next request.
    fn ask_by_result(&self) -> Value {
        match self.request.pointer("/params/inputResponses/answer") {
            Some(answer) => text(&answer.to_string()),
            None => json!({
                "resultType": "input_required",
                "inputRequests": { "answer": { "method": "elicitation/create", "params": question() } },
                "requestState": "state-of-ask",
            }),
        }
    }
}

fn question() -> Value {
    json!({
        "mode": "form",
        "message": "Which room?",
        "requestedSchema": { "type": "object", "properties": { "room": { "type": "string" } }, "required": ["room"] },
    })
}

pub(crate) fn text(text: &str) -> Value {
    crate::reply::tool_text(text)
}

pub(crate) fn refusal(why: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": why }], "isError": true })
}
