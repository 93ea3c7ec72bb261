//! Connections: what they are, what they were, and "now".

use std::time::Duration;

use axum::Json;
use axum::extract::State as Given;
use futures_util::future::join_all;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use steadfast::report::{FaultReport, rfc3339};
use steadfast::{Link, Report};
use steadfast_core::{AgentName, ServerName, code};
use steadfast_store::Transition;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Path, Query};
use super::openapi::NotFound;
use crate::problem::Problem;

/// How long a reload may take before it answers with what is there.
pub(crate) const RELOAD_LIMIT: Duration = Duration::from_secs(30);

/// How many transitions are shown where no number is asked for.
const HISTORY: usize = 100;
const LONGEST_HISTORY: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_connections))
        .routes(routes!(show_connection))
        .routes(routes!(connection_history))
        .routes(routes!(reload_connection))
        .routes(routes!(reload_agent))
}

/// Connections of agents with servers, by agent and server.
#[derive(Debug, Serialize, ToSchema)]
struct Connections {
    connections: Vec<Report>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Of this agent only.
    agent: Option<String>,
    /// With this server only.
    server: Option<String>,
    /// In this state only.
    state: Option<String>,
}

/// All connections, or some of them.
#[utoipa::path(get, path = "/connections", params(Filter), responses((status = 200, body = Connections)))]
async fn list_connections(
    Given(state): Given<Shared>,
    Query(filter): Query<Filter>,
) -> Json<Connections> {
    let wanted =
        |filter: &Option<String>, value: &str| filter.as_deref().is_none_or(|it| it == value);
    let connections = state
        .keeper
        .links()
        .iter()
        .filter(|link| {
            wanted(&filter.agent, link.agent().as_str())
                && wanted(&filter.server, link.server().as_str())
        })
        .map(|link| link.report())
        .filter(|report| wanted(&filter.state, &report.state))
        .collect();
    Json(Connections { connections })
}

pub(crate) fn link(state: &Shared, agent: &str, server: &str) -> Result<Arc<Link>, Problem> {
    let found = state
        .keeper
        .link(&AgentName::from(agent), &ServerName::from(server));
    found.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            code::NOT_FOUND,
            format!("there is no connection of agent `{agent}` with server `{server}`"),
        )
    })
}

/// One connection.
#[utoipa::path(get, path = "/connections/{agent}/{server}", responses((status = 200, body = Report), NotFound))]
async fn show_connection(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<Report>, Problem> {
    Ok(Json(link(&state, &agent, &server)?.report()))
}

/// Reconnects now, whatever the schedule says; answers once it has settled, or after 30 s.
#[utoipa::path(
    post,
    path = "/connections/{agent}/{server}/reload",
    responses((status = 200, body = Report), NotFound)
)]
async fn reload_connection(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<Report>, Problem> {
    let link = link(&state, &agent, &server)?;
    Ok(Json(link.reload(RELOAD_LIMIT).await))
}

/// The same for all connections of an agent.
#[utoipa::path(
    post,
    path = "/agents/{agent}/reload",
    responses((status = 200, body = Connections), NotFound)
)]
async fn reload_agent(
    Given(state): Given<Shared>,
    Path(agent): Path<String>,
) -> Result<Json<Connections>, Problem> {
    state.directory.agent(&agent).await?;
    let links: Vec<_> = state
        .keeper
        .links()
        .into_iter()
        .filter(|link| link.agent().as_str() == agent)
        .collect();
    let connections = join_all(links.iter().map(|link| link.reload(RELOAD_LIMIT))).await;
    Ok(Json(Connections { connections }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Limit {
    /// How many at most; 100 where it is not said, and no more than 1000.
    #[param(minimum = 0)]
    limit: Option<usize>,
}

/// What became of a connection, the newest first.
#[derive(Debug, Serialize, ToSchema)]
struct History {
    transitions: Vec<TransitionReport>,
}

/// One change of a connection's state.
#[derive(Debug, Serialize, ToSchema)]
struct TransitionReport {
    /// When (RFC 3339).
    time: String,
    from: String,
    to: String,
    fault: Option<FaultReport>,
    reason: String,
}

impl From<Transition> for TransitionReport {
    fn from(transition: Transition) -> Self {
        Self {
            time: rfc3339(transition.at),
            from: transition.from,
            to: transition.to,
            fault: transition.fault.as_ref().map(FaultReport::from),
            reason: transition.reason,
        }
    }
}

/// The transitions of a connection, the newest first; also of one that is not configured any more.
#[utoipa::path(
    get,
    path = "/connections/{agent}/{server}/history",
    params(Limit),
    responses((status = 200, body = History), NotFound)
)]
async fn connection_history(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
    Query(limit): Query<Limit>,
) -> Result<Json<History>, Problem> {
    let (agent, server) = (
        AgentName::from(agent.as_str()),
        ServerName::from(server.as_str()),
    );
    let limit = limit.limit.unwrap_or(HISTORY).min(LONGEST_HISTORY);
    let found = state.records.history(&agent, &server, limit).await?;
    // What is no longer configured still has its history.
    if found.is_empty() {
        link(&state, agent.as_str(), server.as_str())?;
    }
    let transitions = found.into_iter().map(TransitionReport::from).collect();
    Ok(Json(History { transitions }))
}
