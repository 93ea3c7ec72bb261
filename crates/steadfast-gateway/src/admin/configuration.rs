//! Agents and servers: what is configured. Shapes are those of `steadfast.toml`.

use std::collections::BTreeSet;

use axum::extract::State as Given;
use axum::{Extension, Json};
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use steadfast::config;
use steadfast_core::code;
use steadfast_store::{AgentRecord, ServerRecord, Source};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::audit::Detail;
use super::extract::{Body, Path};
use super::openapi::{Conflict, NotFound};
use crate::problem::Problem;
use crate::settings::ConfigFileStatus;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_agents))
        .routes(routes!(show_agent, put_agent, remove_agent))
        .routes(routes!(make_key))
        .routes(routes!(make_pass))
        .routes(routes!(list_servers))
        .routes(routes!(show_server, put_server, remove_server))
        .routes(routes!(show_config))
}

/// What is known of the configuration file.
#[utoipa::path(get, path = "/config", responses((status = 200, body = ConfigFileStatus)))]
async fn show_config(Given(state): Given<Shared>) -> Json<ConfigFileStatus> {
    Json(state.settings.config_file.get())
}

/// Where something was defined.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Origin {
    /// In the configuration file: it is read-only here.
    File,
    /// By this API, the command line or the console.
    Admin,
}

impl From<Source> for Origin {
    fn from(source: Source) -> Self {
        match source {
            Source::File => Self::File,
            Source::Admin => Self::Admin,
        }
    }
}

/// An agent: its configuration, and where it was defined.
#[derive(Debug, Serialize, ToSchema)]
struct AgentShown {
    name: String,
    source: Origin,
    /// Whether it has a key.
    has_key: bool,
    #[serde(flatten)]
    #[schema(value_type = config::Agent)]
    config: Value,
}

/// A server: its configuration, and where it was defined.
#[derive(Debug, Serialize, ToSchema)]
struct ServerShown {
    name: String,
    source: Origin,
    #[serde(flatten)]
    #[schema(value_type = config::Server)]
    config: Value,
}

#[derive(Debug, Serialize, ToSchema)]
struct Agents {
    agents: Vec<AgentShown>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Servers {
    servers: Vec<ServerShown>,
}

/// A new key. No `Debug`: it is shown this once, to whoever asked for it.
#[derive(Serialize, ToSchema)]
struct Made {
    agent: String,
    key: String,
}

impl From<AgentRecord> for AgentShown {
    fn from(record: AgentRecord) -> Self {
        Self {
            name: record.name.as_str().to_owned(),
            source: record.source.into(),
            has_key: record.key.is_some(),
            config: record.config,
        }
    }
}

impl From<ServerRecord> for ServerShown {
    fn from(record: ServerRecord) -> Self {
        Self {
            name: record.name.as_str().to_owned(),
            source: record.source.into(),
            config: record.config,
        }
    }
}

/// All agents.
#[utoipa::path(get, path = "/agents", responses((status = 200, body = Agents)))]
async fn list_agents(Given(state): Given<Shared>) -> Result<Json<Agents>, Problem> {
    let found = state.directory.agents().await?;
    let agents = found.into_iter().map(AgentShown::from).collect();
    Ok(Json(Agents { agents }))
}

/// One agent.
#[utoipa::path(get, path = "/agents/{name}", responses((status = 200, body = AgentShown), NotFound))]
async fn show_agent(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<AgentShown>, Problem> {
    Ok(Json(state.directory.agent(&name).await?.into()))
}

/// Adds an agent, or changes its configuration. Its key stays.
#[utoipa::path(
    put,
    path = "/agents/{name}",
    request_body = config::Agent,
    responses(
        (status = 200, description = "It was there", body = AgentShown),
        (status = 201, description = "It is new", body = AgentShown),
        Conflict
    )
)]
async fn put_agent(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
    Body(body): Body,
) -> Result<(StatusCode, Extension<Detail>, Json<AgentShown>), Problem> {
    let agent: config::Agent = read(&body)?;
    let before = state.directory.agent(&name).await.ok();
    let is_new = state
        .directory
        .put_agent(&name, agent, Source::Admin)
        .await?;
    let after = state.directory.agent(&name).await?;
    let changed = changed(before.map(|before| before.config), &after.config);
    Ok((put_status(is_new), Extension(changed), Json(after.into())))
}

/// Removes an agent, its key and its connections; its grants are revoked and forgotten.
#[utoipa::path(delete, path = "/agents/{name}", responses((status = 204), NotFound, Conflict))]
async fn remove_agent(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    state.directory.remove_agent(&name, Source::Admin).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A new key. It is shown this once; the one before is worth nothing from then on.
#[utoipa::path(post, path = "/agents/{name}/key", responses((status = 200, body = Made), NotFound))]
async fn make_key(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Made>, Problem> {
    let key = state.directory.make_key(&name).await?;
    Ok(Json(Made {
        agent: name,
        key: key.reveal().to_owned(),
    }))
}

/// A pass. No `Debug`: it is as good as a key.
#[derive(Serialize, ToSchema)]
struct Passed {
    agent: String,
    pass: String,
}

/// A pass for a while, beside the key: for whoever speaks for the agent on this machine.
#[utoipa::path(post, path = "/agents/{name}/pass", responses((status = 200, body = Passed), NotFound))]
async fn make_pass(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<Passed>, Problem> {
    let pass = state.directory.make_pass(&name).await?;
    Ok(Json(Passed {
        agent: name,
        pass: pass.reveal().to_owned(),
    }))
}

/// All servers.
#[utoipa::path(get, path = "/servers", responses((status = 200, body = Servers)))]
async fn list_servers(Given(state): Given<Shared>) -> Result<Json<Servers>, Problem> {
    let found = state.directory.servers().await?;
    let servers = found.into_iter().map(ServerShown::from).collect();
    Ok(Json(Servers { servers }))
}

/// One server.
#[utoipa::path(get, path = "/servers/{name}", responses((status = 200, body = ServerShown), NotFound))]
async fn show_server(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<Json<ServerShown>, Problem> {
    Ok(Json(state.directory.server(&name).await?.into()))
}

/// Adds a server, or changes its configuration: its address, which tools agents may see, what each tool may do.
#[utoipa::path(
    put,
    path = "/servers/{name}",
    request_body = config::Server,
    responses(
        (status = 200, description = "It was there", body = ServerShown),
        (status = 201, description = "It is new", body = ServerShown),
        Conflict
    )
)]
async fn put_server(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
    Body(body): Body,
) -> Result<(StatusCode, Extension<Detail>, Json<ServerShown>), Problem> {
    let server: config::Server = read(&body)?;
    let before = state.directory.server(&name).await.ok();
    let is_new = state
        .directory
        .put_server(&name, server, Source::Admin)
        .await?;
    let after = state.directory.server(&name).await?;
    let changed = changed(before.map(|before| before.config), &after.config);
    Ok((put_status(is_new), Extension(changed), Json(after.into())))
}

/// Removes a server and its connections; their grants are revoked and forgotten.
#[utoipa::path(delete, path = "/servers/{name}", responses((status = 204), NotFound, Conflict))]
async fn remove_server(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    state.directory.remove_server(&name, Source::Admin).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// For the record: the keys that differ. What they were and are may be secrets.
fn changed(before: Option<Value>, after: &Value) -> Detail {
    let Some(before) = before else {
        return Detail("new".to_owned());
    };
    let keys = |value: &Value| {
        let members = value.as_object();
        members
            .map(|members| members.keys().cloned().collect())
            .unwrap_or_default()
    };
    let all: BTreeSet<String> = [&before, after]
        .into_iter()
        .flat_map(|value| -> Vec<String> { keys(value) })
        .collect();
    let differ: Vec<String> = all
        .into_iter()
        .filter(|key| before.get(key) != after.get(key))
        .collect();
    Detail(differ.join(", "))
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
