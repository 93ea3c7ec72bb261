//! Grants, masked, and the notices for people.

use axum::body::Bytes;
use axum::extract::{Path, State as Given};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};
use steadfast::report::{FaultReport, GrantReport, rfc3339};
use steadfast::{BadImport, Import, Report, wording};
use steadfast_core::code;
use steadfast_store::NoticeRecord;

use super::Shared;
use super::connections::link;
use crate::problem::Problem;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/connections/{agent}/{server}/grant", get(one).put(import))
        .route("/notices", get(notices))
}

async fn one(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<GrantReport>, Problem> {
    Ok(Json(link(&state, &agent, &server)?.report().grant))
}

/// Takes over tokens from elsewhere; the connection connects with them. Read by hand: what is wrong with a body
/// that holds tokens is said without quoting it.
async fn import(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<Report>, Problem> {
    let link = link(&state, &agent, &server)?;
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, code::BAD_MESSAGE, detail);
    let import: Import = serde_json::from_slice(&body).map_err(|error| {
        // The position, and the name of an unknown member; never a value.
        bad(format!(
            "the grant cannot be read: line {}, column {}{}",
            error.line(),
            error.column(),
            unknown_member(&error)
        ))
    })?;
    match state.keeper.import_grant(&link, import).await {
        Ok(()) => Ok(Json(link.report())),
        Err(BadImport::Member(detail)) => Err(bad(detail)),
        Err(BadImport::Store(error)) => Err(error.into()),
    }
}

fn unknown_member(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let is_name = text.starts_with("unknown field") || text.starts_with("missing field");
    let end = text.find(" at line").unwrap_or(text.len());
    if is_name {
        format!(": {}", &text[..end])
    } else {
        String::new()
    }
}

async fn notices(Given(state): Given<Shared>) -> Result<Json<Value>, Problem> {
    let notices = state.store.notices().await?;
    let shown = |notice| shown(notice, state.keeper.notice_link(notice));
    let shown: Vec<Value> = notices.iter().map(shown).collect();
    Ok(Json(json!({"notices": shown})))
}

/// Names server and agent, says whether reloading helps, and what to do; links to the fix.
fn shown(notice: &NoticeRecord, link: Option<String>) -> Value {
    let fault = FaultReport::from(&notice.fault);
    json!({
        "agent": notice.agent.as_str(),
        "server": notice.server.as_str(),
        "message": wording::notice(notice),
        "fault": fault,
        // Consent is not retried: a reload tries once, and a provider that said no says no again.
        "reload_helps": !notice.fault.person_needed(),
        "link": link,
        "opened_at": rfc3339(notice.opened_at),
        "cleared_at": notice.cleared_at.map(rfc3339),
    })
}
