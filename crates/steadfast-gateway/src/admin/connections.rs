//! Connections: what they are, what they were, and "now".

use std::time::Duration;

use axum::extract::{Path, Query, State as Given};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::future::join_all;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use steadfast::report::{FaultReport, rfc3339};
use steadfast::{Link, Report};
use steadfast_core::{AgentName, ServerName, code};
use steadfast_store::Transition;

use super::Shared;
use crate::problem::Problem;

/// How long a reload may take before it answers with what is there.
const RELOAD_LIMIT: Duration = Duration::from_secs(30);

/// How many transitions are shown where no number is asked for.
const HISTORY: usize = 100;
const LONGEST_HISTORY: usize = 1_000;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/connections", get(list))
        .route("/connections/{agent}/{server}", get(one))
        .route("/connections/{agent}/{server}/history", get(history))
        .route("/connections/{agent}/{server}/reload", post(reload))
        .route("/agents/{agent}/reload", post(reload_agent))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    agent: Option<String>,
    server: Option<String>,
    state: Option<String>,
}

async fn list(Given(state): Given<Shared>, Query(filter): Query<Filter>) -> Json<Value> {
    let wanted =
        |filter: &Option<String>, value: &str| filter.as_deref().is_none_or(|it| it == value);
    let reports: Vec<Report> = state
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
    Json(json!({"connections": reports}))
}

pub(super) fn link(state: &Shared, agent: &str, server: &str) -> Result<Arc<Link>, Problem> {
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

async fn one(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<Report>, Problem> {
    Ok(Json(link(&state, &agent, &server)?.report()))
}

async fn reload(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<Report>, Problem> {
    let link = link(&state, &agent, &server)?;
    Ok(Json(link.reload(RELOAD_LIMIT).await))
}

async fn reload_agent(
    Given(state): Given<Shared>,
    Path(agent): Path<String>,
) -> Result<Json<Value>, Problem> {
    state.directory.agent(&agent).await?;
    let links: Vec<_> = state
        .keeper
        .links()
        .into_iter()
        .filter(|link| link.agent().as_str() == agent)
        .collect();
    let reports = join_all(links.iter().map(|link| link.reload(RELOAD_LIMIT))).await;
    Ok(Json(json!({"connections": reports})))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    limit: Option<usize>,
}

/// One transition, as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    time: String,
    from: String,
    to: String,
    fault: Option<FaultReport>,
    reason: String,
}

impl From<Transition> for Shown {
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

async fn history(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
    Query(limit): Query<Limit>,
) -> Result<Json<Value>, Problem> {
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
    let shown: Vec<Shown> = found.into_iter().map(Shown::from).collect();
    Ok(Json(json!({"transitions": shown})))
}
