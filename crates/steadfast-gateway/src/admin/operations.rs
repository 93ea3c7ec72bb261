//! The ledger of operations: what became of consequential calls, and what a person decides about them.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Given};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast::{NotDecided, OperationDetails, OperationReport};
use steadfast_core::operation::Verdict;
use steadfast_core::{OperationId, code};
use steadfast_store::OperationFilter;

use super::Shared;
use crate::problem::Problem;

/// How many operations are listed where no number is asked for.
const LISTED: usize = 100;
const LONGEST_LIST: usize = 1_000;

/// As whom a decision of the API's user is recorded: whoever has the admin token.
const ADMIN: &str = "admin";

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/operations", get(list))
        .route("/operations/{id}", get(one))
        .route("/operations/{id}/reconcile", post(reconcile))
        .route("/operations/{id}/settle", post(settle))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    agent: Option<String>,
    server: Option<String>,
    state: Option<String>,
    /// Only those that are older than this one.
    before: Option<String>,
    limit: Option<usize>,
}

async fn list(
    Given(state): Given<Shared>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>, Problem> {
    let filter = OperationFilter {
        agent: wanted.agent.as_deref().map(Into::into),
        server: wanted.server.as_deref().map(Into::into),
        state: wanted.state,
        before: wanted.before.as_deref().map(Into::into),
    };
    let limit = wanted.limit.unwrap_or(LISTED).min(LONGEST_LIST);
    let operations = state.keeper.operations(&filter, limit).await?;
    Ok(Json(json!({"operations": operations})))
}

async fn one(
    Given(state): Given<Shared>,
    Path(id): Path<String>,
) -> Result<Json<OperationDetails>, Problem> {
    let found = state.keeper.operation(&OperationId::from(&*id)).await?;
    found.map(Json).ok_or_else(|| unknown(&id))
}

async fn reconcile(
    Given(state): Given<Shared>,
    Path(id): Path<String>,
) -> Result<Json<OperationReport>, Problem> {
    let operation = OperationId::from(&*id);
    let asked = state.keeper.reconcile_operation(&operation, ADMIN).await;
    asked.map(Json).map_err(|error| refused(&id, error))
}

/// What a person decides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    outcome: Outcome,
    #[serde(default)]
    repeat: bool,
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Confirmed,
    NoEffect,
    Abandoned,
}

async fn settle(
    Given(state): Given<Shared>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<OperationReport>, Problem> {
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, code::BAD_MESSAGE, detail);
    let decision: Decision = serde_json::from_slice(&body)
        .map_err(|error| bad(format!("the decision cannot be read: {error}")))?;
    let verdict = match (decision.outcome, decision.repeat) {
        (Outcome::Confirmed, false) => Verdict::Confirmed,
        (Outcome::NoEffect, repeat) => Verdict::NoEffect { repeat },
        (Outcome::Abandoned, false) => Verdict::Abandoned,
        (Outcome::Confirmed | Outcome::Abandoned, true) => {
            let detail =
                "`repeat` goes with `no_effect` only: what may have happened is not sent again";
            return Err(bad(detail.to_owned()));
        }
    };
    let operation = OperationId::from(&*id);
    let settled = state
        .keeper
        .settle_operation(&operation, verdict, ADMIN, decision.note)
        .await;
    settled.map(Json).map_err(|error| refused(&id, error))
}

fn unknown(id: &str) -> Problem {
    let detail = format!("there is no operation `{id}`");
    Problem::new(StatusCode::NOT_FOUND, code::NOT_FOUND, detail)
}

fn refused(id: &str, error: NotDecided) -> Problem {
    match error {
        NotDecided::Unknown => unknown(id),
        NotDecided::Refused(why) => {
            let detail = format!("the operation `{id}` stays as it is: {why}");
            Problem::new(StatusCode::CONFLICT, code::OPERATION_NOT_DECIDED, detail)
        }
        NotDecided::Store(error) => error.into(),
    }
}
