//! Agents and servers: what is configured. Shapes are those of `steadfast.toml`.

use axum::body::Bytes;
use axum::extract::{Path, State as Given};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast::config;
use steadfast_core::code;
use steadfast_store::{AgentRecord, ServerRecord, Source};

use super::Shared;
use crate::problem::Problem;
use crate::settings::ConfigFileStatus;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/agents", get(agents))
        .route(
            "/agents/{name}",
            get(agent).put(put_agent).delete(remove_agent),
        )
        .route("/agents/{name}/key", post(make_key))
        .route("/agents/{name}/pass", post(make_pass))
        .route("/servers", get(servers))
        .route(
            "/servers/{name}",
            get(server).put(put_server).delete(remove_server),
        )
        .route("/config", get(config_file))
}

async fn config_file(Given(state): Given<Shared>) -> Json<ConfigFileStatus> {
    Json(state.settings.config_file.get())
}

/// An agent or a server, as it is shown: its configuration, and where it was defined.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    source: &'static str,
    /// For an agent: whether it has a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_key: Option<bool>,
    #[serde(flatten)]
    config: Value,
}

fn source(source: Source) -> &'static str {
    match source {
        Source::File => "file",
        Source::Admin => "admin",
    }
}

impl From<AgentRecord> for Shown {
    fn from(record: AgentRecord) -> Self {
        Self {
            name: record.name.as_str().to_owned(),
            source: source(record.source),
            has_key: Some(record.key.is_some()),
            config: record.config,
        }
    }
}

impl From<ServerRecord> for Shown {
    fn from(record: ServerRecord) -> Self {
        Self {
            name: record.name.as_str().to_owned(),
            source: source(record.source),
            has_key: None,
            config: record.config,
        }
    }
}

async fn agents(Given(state): Given<Shared>) -> Result<Json<Value>, Problem> {
    let found = state.directory.agents().await?;
    let shown: Vec<Shown> = found.into_iter().map(Shown::from).collect();
    Ok(Json(json!({"agents": shown})))
}

async fn agent(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Shown>, Problem> {
    Ok(Json(state.directory.agent(&name).await?.into()))
}

async fn put_agent(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Shown>), Problem> {
    let agent: config::Agent = read(&body)?;
    let is_new = state
        .directory
        .put_agent(&name, agent, Source::Admin)
        .await?;
    let shown = state.directory.agent(&name).await?.into();
    Ok((put_status(is_new), Json(shown)))
}

async fn remove_agent(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    state.directory.remove_agent(&name, Source::Admin).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A new key. It is shown this once.
async fn make_key(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let key = state.directory.make_key(&name).await?;
    Ok(Json(json!({"agent": name, "key": key.reveal()})))
}

/// A pass for a while, beside the key.
async fn make_pass(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let pass = state.directory.make_pass(&name).await?;
    Ok(Json(json!({"agent": name, "pass": pass.reveal()})))
}

async fn servers(Given(state): Given<Shared>) -> Result<Json<Value>, Problem> {
    let found = state.directory.servers().await?;
    let shown: Vec<Shown> = found.into_iter().map(Shown::from).collect();
    Ok(Json(json!({"servers": shown})))
}

async fn server(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Shown>, Problem> {
    Ok(Json(state.directory.server(&name).await?.into()))
}

async fn put_server(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Shown>), Problem> {
    let server: config::Server = read(&body)?;
    let is_new = state
        .directory
        .put_server(&name, server, Source::Admin)
        .await?;
    let shown = state.directory.server(&name).await?.into();
    Ok((put_status(is_new), Json(shown)))
}

async fn remove_server(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    state.directory.remove_server(&name, Source::Admin).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn put_status(is_new: bool) -> StatusCode {
    if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

/// Reads what is to be put. The message names the place, the value stays out of it: it may be a secret.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let text = error.to_string();
        let unknown = text.starts_with("unknown field");
        Problem::new(
            StatusCode::BAD_REQUEST,
            if unknown {
                code::CONFIG_UNKNOWN_KEY
            } else {
                code::CONFIG_BAD_VALUE
            },
            text,
        )
    })
}
