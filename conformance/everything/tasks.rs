//! Tools that run as tasks (SEP-2663).

use std::time::Duration;

use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult,
    InputRequests, JsonObject,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

use crate::interaction::{Answers, Dialogue};

/// How long an unobserved task is kept, and how often clients should look.
const TTL_MS: u64 = 300_000;
const POLL_INTERVAL_MS: u64 = 100;
const LONGEST: Duration = Duration::from_secs(600);

pub(crate) fn declared(context: &RequestContext<RoleServer>) -> bool {
    context
        .client_capabilities()
        .is_some_and(|capabilities| capabilities.supports_tasks())
}

/// For tools that cannot be answered without a task.
pub(crate) fn require(context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    if declared(context) {
        return Ok(());
    }
    let required = ClientCapabilities::builder().enable_tasks().build();
    Err(ErrorData::missing_required_client_capability(required))
}

fn start(
    tasks: &TaskManager,
    operation: impl FnOnce(TaskContext) -> TaskFuture,
) -> CallToolResponse {
    let options = TaskOptions::new()
        .with_ttl_ms(TTL_MS)
        .with_poll_interval_ms(POLL_INTERVAL_MS);
    CreateTaskResult::new(tasks.spawn(options, operation)).into()
}

/// A task where the client knows tasks, else an ordinary call.
pub(crate) async fn slow_compute(
    tasks: &TaskManager,
    arguments: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> CallToolResponse {
    let seconds = arguments
        .get("seconds")
        .and_then(Value::as_f64)
        .unwrap_or(0.0);
    let duration = Duration::try_from_secs_f64(seconds)
        .unwrap_or_default()
        .min(LONGEST);
    let label = arguments
        .get("label")
        .and_then(Value::as_str)
        .unwrap_or("compute");
    let result = CallToolResult::success(vec![ContentBlock::text(format!(
        "{label}: done after {seconds} s"
    ))]);
    if !declared(context) {
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = tokio::time::sleep(duration) => {}
        }
        return result.into();
    }
    start(tasks, |task| {
        Box::pin(async move {
            tokio::select! {
                () = task.cancelled() => Err(TaskExit::Cancelled),
                () = tokio::time::sleep(duration) => Ok(result),
            }
        })
    })
}

/// The tool ran and failed: the task is completed, its result an error.
pub(crate) fn failing_job(tasks: &TaskManager) -> CallToolResponse {
    start(tasks, |_| {
        Box::pin(async {
            Ok(CallToolResult::error(vec![ContentBlock::text(
                "the job failed",
            )]))
        })
    })
}

/// The request itself failed: the task is failed.
pub(crate) fn protocol_error_job(tasks: &TaskManager) -> CallToolResponse {
    start(tasks, |_| {
        Box::pin(async {
            Err(TaskExit::Error(ErrorData::internal_error(
                "the job broke",
                None,
            )))
        })
    })
}

/// Asks everything at once and waits until all of it is answered.
pub(crate) fn ask(tasks: &TaskManager, dialogue: Dialogue) -> CallToolResponse {
    let questions: InputRequests = dialogue.rounds.into_iter().flatten().collect();
    start(tasks, |task| {
        Box::pin(async move {
            let asked =
                questions.into_iter().map(|(key, question)| {
                    let task = task.clone();
                    async move {
                        Ok::<_, TaskExit>((key.clone(), task.request_input(key, question).await?))
                    }
                });
            let answers: Answers = futures_util::future::try_join_all(asked)
                .await?
                .into_iter()
                .collect();
            Ok(answered(&answers))
        })
    })
}

/// What was asked before the task began is in its result.
pub(crate) fn go_on(tasks: &TaskManager, answers: Answers) -> CallToolResponse {
    start(tasks, |_| Box::pin(async move { Ok(answered(&answers)) }))
}

fn answered(answers: &Answers) -> CallToolResult {
    let text = serde_json::to_string(answers).unwrap_or_else(|error| error.to_string());
    CallToolResult::success(vec![ContentBlock::text(text)])
}
