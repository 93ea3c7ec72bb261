//! Calls whose outcome matters, their evidence, and a person's decision.

use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::extract::{Form, Path, Query, State as Given};
use axum::response::{Redirect, Response};
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use steadfast::{EvidenceReport, NotDecided, OperationReport, wording};
use steadfast_core::OperationId;
use steadfast_core::operation::Verdict;
use steadfast_store::OperationFilter;

use super::Shared;
use super::connections::{Bare, Event};
use super::frame::{Frame, Trouble, page};
use super::session::Session;
use crate::admin::audit::ADMIN;
use crate::admin::operations::{refused, unknown};
use crate::problem::Problem;

/// How many operations are listed.
const LISTED: usize = 200;
/// How long the longest bar is.
const WIDEST: usize = 200;
const BAR: usize = 22;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/operations", get(list))
        .route("/operations/{id}", get(one))
        .route("/operations/{id}/reconcile", post(reconcile))
        .route("/operations/{id}/settle", post(settle))
}

/// One operation in a line.
pub(super) struct Line {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) server: String,
    pub(super) agent: String,
    state: String,
    tone: &'static str,
    executed: &'static str,
    pub(super) at: String,
    /// Whether a person may decide.
    open: bool,
}

impl Line {
    pub(super) fn new(operation: &OperationReport) -> Self {
        Self {
            id: operation.id.clone(),
            tool: operation.tool.clone(),
            server: operation.server.clone(),
            agent: operation.agent.clone(),
            state: wording::operation_state(&operation.state),
            tone: tone(&operation.state),
            executed: wording::executed(operation).trim_start_matches("and "),
            at: operation.intended_at.clone(),
            open: matches!(
                operation.state.as_str(),
                "held" | "reconciling" | "not_observed"
            ),
        }
    }
}

fn tone(state: &str) -> &'static str {
    match state {
        "held" => "person",
        "observed" | "confirmed" => "good",
        "abandoned" | "no_effect" => "off",
        _ => "busy",
    }
}

struct Bar {
    what: String,
    tone: &'static str,
    number: usize,
    width: usize,
    y: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    state: String,
}

#[derive(Template)]
#[template(path = "operations.html")]
struct List {
    frame: Frame,
    rows: Vec<Line>,
    bars: Vec<Bar>,
    wanted: String,
    states: [&'static str; 9],
}

async fn list(
    Given(console): Given<Shared>,
    session: Session,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Trouble> {
    let keeper = &console.admin.keeper;
    let all = keeper.operations(&OperationFilter::default(), LISTED).await;
    let all = all.map_err(Problem::from)?;
    let found = if wanted.state.is_empty() {
        // What is unresolved comes first, however old it is.
        let mut found = of_state(&console, "held").await?;
        found.extend(
            all.iter()
                .filter(|operation| operation.state != "held")
                .cloned(),
        );
        found
    } else {
        of_state(&console, &wanted.state).await?
    };
    let shown = List {
        frame: Frame::new(&console, &session, "Operations", "/operations").await?,
        rows: found.iter().map(Line::new).collect(),
        bars: bars(&all),
        wanted: wanted.state,
        states: [
            "held",
            "reconciling",
            "not_observed",
            "sent",
            "intended",
            "observed",
            "confirmed",
            "no_effect",
            "abandoned",
        ],
    };
    Ok(page(StatusCode::OK, &shown))
}

async fn of_state(console: &Shared, state: &str) -> Result<Vec<OperationReport>, Problem> {
    let filter = OperationFilter {
        state: Some(state.to_owned()),
        ..OperationFilter::default()
    };
    Ok(console.admin.keeper.operations(&filter, LISTED).await?)
}

/// How the latest operations ended.
fn bars(all: &[OperationReport]) -> Vec<Bar> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for operation in all {
        *counts.entry(&operation.state).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(1);
    let bar = |(index, (state, number)): (usize, (&str, usize))| Bar {
        what: wording::operation_state(state),
        tone: tone(state),
        number,
        width: (number * WIDEST / most).max(2),
        y: index * BAR + 4,
    };
    counts.into_iter().enumerate().map(bar).collect()
}

#[derive(Template)]
#[template(path = "operation.html")]
struct One {
    frame: Frame,
    csrf: String,
    row: Line,
    sentence: String,
    facts: Vec<(&'static str, String)>,
    events: Vec<Event>,
    result: Option<String>,
}

async fn one(
    Given(console): Given<Shared>,
    session: Session,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let found = console
        .admin
        .keeper
        .operation(&OperationId::from(&*id))
        .await;
    let found = found.map_err(Problem::from)?;
    let details = found.ok_or_else(|| unknown(&id))?;
    let operation = &details.operation;
    let title = format!("{} at {}", operation.tool, operation.server);
    let shown = One {
        frame: Frame::new(&console, &session, title, "/operations").await?,
        csrf: session.csrf(),
        row: Line::new(operation),
        sentence: wording::operation(operation),
        facts: facts(operation, details.decision.as_deref()),
        events: details.evidence.iter().map(event).collect(),
        result: details
            .result
            .as_ref()
            .and_then(|result| serde_json::to_string_pretty(result).ok()),
    };
    Ok(page(StatusCode::OK, &shown))
}

fn facts(operation: &OperationReport, decision: Option<&str>) -> Vec<(&'static str, String)> {
    let facts = [
        ("Concluded", decision.map(str::to_owned)),
        ("Agent", Some(operation.agent.clone())),
        ("Put on record", Some(operation.intended_at.clone())),
        ("Last left", operation.sent_at.clone()),
        ("Times sent", Some(operation.attempts.to_string())),
        ("Bytes that left", Some(operation.bytes_sent.to_string())),
        (
            "Arguments (SHA-256)",
            Some(operation.arguments_digest.clone()),
        ),
        ("Id", Some(operation.id.clone())),
    ];
    facts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn event(evidence: &EvidenceReport) -> Event {
    let details = evidence.what.as_object().filter(|what| !what.is_empty());
    Event {
        time: evidence.at.clone(),
        tone: tone(&evidence.state),
        what: wording::operation_state(&evidence.state),
        why: Some(evidence.decision.clone()).filter(|why| !why.is_empty()),
        fault: details.and_then(|what| serde_json::to_string(what).ok()),
    }
}

async fn reconcile(
    Given(console): Given<Shared>,
    session: Session,
    Path(id): Path<String>,
    Form(form): Form<Bare>,
) -> Result<Redirect, Trouble> {
    session.check(&form.csrf)?;
    let operation = OperationId::from(&*id);
    let asked = console
        .admin
        .keeper
        .reconcile_operation(&operation, ADMIN)
        .await;
    asked.map_err(|error| refused(&id, error))?;
    Ok(Redirect::to(&format!("/operations/{id}")))
}

/// What a person decides.
#[derive(Deserialize)]
struct Decision {
    csrf: String,
    outcome: Outcome,
    #[serde(default)]
    note: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Confirmed,
    NoEffect,
    Repeat,
    Abandoned,
}

async fn settle(
    Given(console): Given<Shared>,
    session: Session,
    Path(id): Path<String>,
    Form(decision): Form<Decision>,
) -> Result<Redirect, Trouble> {
    session.check(&decision.csrf)?;
    let verdict = match decision.outcome {
        Outcome::Confirmed => Verdict::Confirmed,
        Outcome::NoEffect => Verdict::NoEffect { repeat: false },
        Outcome::Repeat => Verdict::NoEffect { repeat: true },
        Outcome::Abandoned => Verdict::Abandoned,
    };
    let note = Some(decision.note).filter(|note| !note.trim().is_empty());
    let operation = OperationId::from(&*id);
    let settled = console
        .admin
        .keeper
        .settle_operation(&operation, verdict, ADMIN, note)
        .await;
    settled.map_err(|error: NotDecided| refused(&id, error))?;
    Ok(Redirect::to(&format!("/operations/{id}")))
}
