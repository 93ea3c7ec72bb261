//! What each tool does.
#![allow(
    deprecated,
    reason = "logging is deprecated by SEP-2577, and still spoken"
)]

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequestParams,
    InputRequest, JsonObject, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, SamplingMessage,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::changes::Change;
use crate::content::{PNG, WAV, from_wire, text};
use crate::interaction::{Answers, Dialogue, Input, Outcome, is_modern};
use crate::server::Everything;
use crate::sessions::CloseStream;
use crate::tasks;

/// Between two notifications of one call, so that a hop that collects them is found out.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn call(
    server: &Everything,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let name = request.name.as_ref();
    let input = Input {
        responses: request.input_responses,
        state: request.request_state,
    };
    if let Some(contents) = fixed(name) {
        return success(contents).map(Into::into);
    }
    match name {
        "greet" | "test_x_mcp_header" | "json_schema_2020_12_tool" => {
            success(vec![text(&echo(name, &arguments)?)]).map(Into::into)
        }
        "test_error_handling" => {
            let message = "This tool intentionally returns an error for testing";
            Ok(CallToolResult::error(vec![ContentBlock::text(message)]).into())
        }
        "test_tool_with_logging" | "test_logging_tool" => {
            log_thrice(server, &context).await.map(Into::into)
        }
        "test_tool_with_progress" => progress(&context).await.map(Into::into),
        "test_reconnection" => reconnect(&context).await.map(Into::into),
        "test_trigger_tool_change" => announce(server, Change::Tools).map(Into::into),
        "test_trigger_prompt_change" => announce(server, Change::Prompts).map(Into::into),
        "test_trigger_resource_update" => announce(server, Change::WatchedResource).map(Into::into),
        "wait_for_cancellation" | "count_cancellations" => {
            let key = text_argument(&arguments, "key")?;
            if name == "wait_for_cancellation" {
                server.waits().wait(&key, &context).await;
            }
            success(vec![text(&server.waits().report(&key))]).map(Into::into)
        }
        "slow_compute" => Ok(tasks::slow_compute(server.tasks(), &arguments, &context).await),
        "failing_job"
        | "protocol_error_job"
        | "confirm_delete"
        | "multi_input"
        | "test_tool_with_task" => {
            tasks::require(&context)?;
            run_as_task(server, name, input, &context).await
        }
        _ => match server.interactions().dialogue(name) {
            Some(dialogue) => {
                let dialogue = with_arguments(name, dialogue, &arguments)?;
                converse(server, name, dialogue, input, &context).await
            }
            None => Err(ErrorData::invalid_params(
                format!("unknown tool: {name}"),
                None,
            )),
        },
    }
}

fn success(contents: Vec<Value>) -> Result<CallToolResult, ErrorData> {
    let contents = contents
        .into_iter()
        .map(from_wire)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(CallToolResult::success(contents))
}

fn fixed(name: &str) -> Option<Vec<Value>> {
    let image = || json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    let resource = |uri: &str, mime_type: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } });
    Some(match name {
        "test_simple_text" => vec![text("This is a simple text response for testing.")],
        "test_image_content" => vec![image()],
        "test_audio_content" => {
            vec![json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" })]
        }
        "test_embedded_resource" => vec![resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )],
        "test_multiple_content_types" => vec![
            text("Multiple content types test:"),
            image(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ],
        _ => return None,
    })
}

fn echo(name: &str, arguments: &JsonObject) -> Result<String, ErrorData> {
    if name != "greet" {
        return Ok(Value::Object(arguments.clone()).to_string());
    }
    let whom = arguments.get("name").and_then(Value::as_str);
    whom.map(|whom| format!("Hello, {whom}!"))
        .ok_or_else(|| ErrorData::invalid_params("argument name is required", None))
}

fn announce(server: &Everything, change: Change) -> Result<CallToolResult, ErrorData> {
    server.changes().announce(change);
    success(vec![text("changed")])
}

/// From 2026-07-28 on a request says which messages it wants, and none is the default; before, the session says it.
async fn log_thrice(
    server: &Everything,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let level = if is_modern(context) {
        context.meta.log_level()
    } else {
        Some(server.log_level())
    };
    let steps = [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ];
    for (number, step) in steps.into_iter().enumerate() {
        if number > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        if level.is_some_and(|level| LoggingLevel::Info as u8 >= level as u8) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(step));
            // The result matters more than a log message that nobody waits for.
            let _ = context.peer.notify_logging_message(message).await;
        }
    }
    success(vec![text("Logged three steps.")])
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            let _ = context.peer.notify_progress(progress).await;
        }
        // After the last one, too: SDKs handle a notification later than they read it, and a result that is read
        // together with it, as on stdio, is handled first.
        tokio::time::sleep(PAUSE).await;
    }
    success(vec![text("Progress was reported.")])
}

async fn reconnect(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    if let Some(stream) = context.extensions.get::<CloseStream>() {
        tokio::time::sleep(PAUSE).await;
        stream.close();
        tokio::time::sleep(PAUSE).await;
    }
    success(vec![text("The result came after the stream was closed.")])
}

async fn run_as_task(
    server: &Everything,
    name: &str,
    input: Input,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let Some(dialogue) = server.interactions().dialogue(name) else {
        return Ok(match name {
            "failing_job" => tasks::failing_job(server.tasks()),
            _ => tasks::protocol_error_job(server.tasks()),
        });
    };
    if name != "test_tool_with_task" {
        return Ok(tasks::ask(server.tasks(), dialogue));
    }
    Ok(
        match server
            .interactions()
            .run(name, dialogue, input, context)
            .await?
        {
            Outcome::Ask(question) => question.into(),
            Outcome::Answered(answers) => tasks::go_on(server.tasks(), answers),
        },
    )
}

fn text_argument(arguments: &JsonObject, key: &str) -> Result<String, ErrorData> {
    arguments
        .get(key)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| ErrorData::invalid_params(format!("argument {key} is required"), None))
}

/// Two tools ask what their arguments say.
fn with_arguments(
    name: &str,
    mut dialogue: Dialogue,
    arguments: &JsonObject,
) -> Result<Dialogue, ErrorData> {
    let argument = |key: &str| text_argument(arguments, key);
    for question in dialogue
        .rounds
        .iter_mut()
        .flat_map(|round| round.values_mut())
    {
        match (name, question) {
            ("test_sampling", InputRequest::CreateMessage(request)) => {
                request.params.messages = vec![SamplingMessage::user_text(argument("prompt")?)];
            }
            ("test_elicitation", InputRequest::Elicitation(request)) => {
                if let ElicitRequestParams::FormElicitationParams { message, .. } =
                    &mut request.params
                {
                    *message = argument("message")?;
                }
            }
            _ => {}
        }
    }
    Ok(dialogue)
}

async fn converse(
    server: &Everything,
    name: &str,
    dialogue: Dialogue,
    input: Input,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    match server
        .interactions()
        .run(name, dialogue, input, context)
        .await?
    {
        Outcome::Ask(question) => Ok(question.into()),
        Outcome::Answered(answers) => {
            success(vec![text(&conclusion(name, &answers))]).map(Into::into)
        }
    }
}

fn conclusion(name: &str, answers: &Answers) -> String {
    let action = |key: &str| {
        answers
            .get(key)
            .and_then(|answer| answer.get("action"))
            .unwrap_or(&Value::Null)
    };
    let content = |key: &str| {
        answers
            .get(key)
            .and_then(|answer| answer.get("content"))
            .unwrap_or(&Value::Null)
    };
    match name {
        "test_sampling" => format!("LLM response: {}", content("sample")),
        "test_elicitation" => format!(
            "User response: action={}, content={}",
            action("user"),
            content("user")
        ),
        "test_input_required_result_elicitation" => {
            format!(
                "Hello, {}!",
                content("user_name")
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or("stranger")
            )
        }
        "test_input_required_result_request_state" => "state-ok".to_owned(),
        _ => {
            let answers: Vec<String> = answers
                .keys()
                .map(|key| format!("{key}: action={}, content={}", action(key), content(key)))
                .collect();
            format!("Elicitation completed: {}", answers.join("; "))
        }
    }
}
