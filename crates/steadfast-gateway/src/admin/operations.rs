//! The ledger of operations: what became of consequential calls, and what a person decides about them.

use axum::extract::State as Given;
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use steadfast::{NotDecided, OperationDetails, OperationReport};
use steadfast_core::operation::Verdict;
use steadfast_core::{OperationId, code};
use steadfast_store::OperationFilter;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::audit::{ADMIN, Detail};
use super::extract::{Body, Path, Query};
use super::openapi::{Conflict, NotFound};
use crate::problem::Problem;

/// How many operations are listed where no number is asked for.
const LISTED: usize = 100;
const LONGEST_LIST: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_operations))
        .routes(routes!(show_operation))
        .routes(routes!(reconcile_operation))
        .routes(routes!(settle_operation))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Of this agent only.
    agent: Option<String>,
    /// At this server only.
    server: Option<String>,
    /// In this state only.
    state: Option<String>,
    /// Only those that are older than this one.
    before: Option<String>,
    /// How many at most; 100 where it is not said, and no more than 1000.
    #[param(minimum = 0)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Operations {
    operations: Vec<OperationReport>,
}

/// The consequential calls on record, the newest first.
#[utoipa::path(get, path = "/operations", params(Wanted), responses((status = 200, body = Operations)))]
async fn list_operations(
    Given(state): Given<Shared>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Operations>, Problem> {
    let filter = OperationFilter {
        agent: wanted.agent.as_deref().map(Into::into),
        server: wanted.server.as_deref().map(Into::into),
        state: wanted.state,
        before: wanted.before.as_deref().map(Into::into),
    };
    let limit = wanted.limit.unwrap_or(LISTED).min(LONGEST_LIST);
    let operations = state.keeper.operations(&filter, limit).await?;
    Ok(Json(Operations { operations }))
}

/// Everything on record of one of them.
#[utoipa::path(get, path = "/operations/{id}", responses((status = 200, body = OperationDetails), NotFound))]
async fn show_operation(
    Given(state): Given<Shared>,
    Path(id): Path<String>,
) -> Result<Json<OperationDetails>, Problem> {
    let found = state.keeper.operation(&OperationId::from(&*id)).await?;
    found.map(Json).ok_or_else(|| unknown(&id))
}

/// Looks it up at the provider now, whatever the schedule says. How it stands then.
#[utoipa::path(
    post,
    path = "/operations/{id}/reconcile",
    responses((status = 200, body = OperationReport), NotFound, Conflict)
)]
async fn reconcile_operation(
    Given(state): Given<Shared>,
    Path(id): Path<String>,
) -> Result<Json<OperationReport>, Problem> {
    let operation = OperationId::from(&*id);
    let asked = state.keeper.reconcile_operation(&operation, ADMIN).await;
    asked.map(Json).map_err(|error| refused(&id, error))
}

/// What a person decides.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Decision {
    outcome: Verdicts,
    /// With `no_effect` only: it is sent again, as the same operation.
    #[serde(default)]
    repeat: bool,
    /// Why, for the record.
    note: Option<String>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Verdicts {
    /// It happened.
    Confirmed,
    /// It did not.
    NoEffect,
    /// Nobody will ever know, or it does not matter any more.
    Abandoned,
}

impl Verdicts {
    fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::NoEffect => "no_effect",
            Self::Abandoned => "abandoned",
        }
    }
}

/// Decides what became of an operation whose outcome is not known.
#[utoipa::path(
    post,
    path = "/operations/{id}/settle",
    request_body = Decision,
    responses((status = 200, body = OperationReport), NotFound, Conflict)
)]
async fn settle_operation(
    Given(state): Given<Shared>,
    Path(id): Path<String>,
    Body(body): Body,
) -> Result<(Extension<Detail>, Json<OperationReport>), Problem> {
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, code::BAD_MESSAGE, detail);
    let decision: Decision = serde_json::from_slice(&body)
        .map_err(|error| bad(format!("the decision cannot be read: {error}")))?;
    let verdict = match (decision.outcome, decision.repeat) {
        (Verdicts::Confirmed, false) => Verdict::Confirmed,
        (Verdicts::NoEffect, repeat) => Verdict::NoEffect { repeat },
        (Verdicts::Abandoned, false) => Verdict::Abandoned,
        (Verdicts::Confirmed | Verdicts::Abandoned, true) => {
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
    let settled = settled.map_err(|error| refused(&id, error))?;
    let detail = Detail(decision.outcome.as_str().to_owned());
    Ok((Extension(detail), Json(settled)))
}

pub(crate) fn unknown(id: &str) -> Problem {
    let detail = format!("there is no operation `{id}`");
    Problem::new(StatusCode::NOT_FOUND, code::NOT_FOUND, detail)
}

pub(crate) fn refused(id: &str, error: NotDecided) -> Problem {
    match error {
        NotDecided::Unknown => unknown(id),
        NotDecided::Refused(why) => {
            let detail = format!("the operation `{id}` stays as it is: {why}");
            Problem::new(StatusCode::CONFLICT, code::OPERATION_NOT_DECIDED, detail)
        }
        NotDecided::Store(error) => error.into(),
    }
}
