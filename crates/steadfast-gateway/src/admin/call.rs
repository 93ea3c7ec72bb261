//! One tool call in the name of an agent: for `steadfast call`, and for the console. Whoever has the admin
//! token could make a key for the agent; this way the agent's own key stays as it is.

use axum::extract::State as Given;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use steadfast::{Answer, Call, CallHandle, Link, Message, Origin};
use steadfast_core::question::Refusal;
use steadfast_core::{Era, Revision, code};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::configuration::read;
use super::connections::link;
use super::extract::{Body, Path};
use super::openapi::NotFound;
use crate::agents::calling::{About, failed};
use crate::agents::inbound::Inbound;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(call_tool))
}

/// What is to be called.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    tool: String,
    /// Passed on as they are written.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Params<'p> {
    #[serde(rename = "_meta")]
    meta: Value,
    name: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'p RawValue>,
}

#[derive(Serialize)]
struct Request<'r> {
    jsonrpc: &'static str,
    id: u32,
    method: &'static str,
    params: Params<'r>,
}

/// Calls a tool in the name of an agent, and answers with the JSON-RPC response. A caller who goes away has
/// cancelled the call, as a modern agent has.
#[utoipa::path(
    post,
    path = "/agents/{agent}/servers/{server}/call",
    request_body = Wanted,
    responses((status = 200, description = "A JSON-RPC response", body = Value), NotFound)
)]
async fn call_tool(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
    Body(body): Body,
) -> Result<Response, Problem> {
    let link = link(&state, &agent, &server)?;
    let inbound = Inbound::read(request(&read(&body)?)?).map_err(|_| internal())?;
    let about = About::of(&inbound, Era::Modern).ok_or_else(internal)?;
    let call = Call {
        message: inbound.message,
        envelope: inbound.envelope,
        params: inbound.params,
        origin: Origin::Modern {
            revision: Revision::LATEST_MODERN,
        },
    };
    let answer = link.call(call, CallHandle::new()).await;
    let response = response(answer, &about, &link).await.ok_or_else(internal)?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, response).into_response())
}

fn request(wanted: &Wanted) -> Result<Bytes, Problem> {
    // 2026-07-28 schema, `CallToolRequestParams`: an object, or none.
    let arguments = wanted.arguments.as_deref().map(RawValue::get);
    if arguments.is_some_and(|text| !text.starts_with('{')) {
        let detail = "`arguments` must be an object";
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            code::CONFIG_BAD_VALUE,
            detail,
        ));
    }
    // 2026-07-28 basic, "Request metadata": all that a server needs to know of its client.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": Revision::LATEST_MODERN.as_str(),
        "io.modelcontextprotocol/clientInfo": {"name": "steadfast", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = Request {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: Params {
            meta,
            name: &wanted.tool,
            arguments: wanted.arguments.as_deref(),
        },
    };
    let text = serde_json::to_vec(&request).map_err(|_| internal())?;
    Ok(text.into())
}

/// The response at the end of whatever comes before it. Questions of the server are refused: nobody is
/// there to ask.
async fn response(answer: Answer, about: &About, link: &Link) -> Option<Bytes> {
    let mut stream = match answer {
        Answer::Whole { message, .. } => return Some(message),
        Answer::Failed(failure) => return failed(about, link, &failure),
        Answer::Stream(stream) => stream,
    };
    loop {
        match stream.next().await? {
            Message::Notification(_) => {}
            Message::Request(question) => question.refuse(Refusal::Unable),
            Message::Response(message) => return Some(message),
            Message::Failed(failure) => return failed(about, link, &failure),
        }
    }
}

fn internal() -> Problem {
    let detail = "the call ended without a response";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, detail)
}
