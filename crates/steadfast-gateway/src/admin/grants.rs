//! Grants, masked, and the notices for people.

use axum::Json;
use axum::extract::State as Given;
use http::StatusCode;
use serde::Serialize;
use steadfast::report::{FaultReport, GrantReport, rfc3339};
use steadfast::{BadImport, Import, Report, wording};
use steadfast_core::code;
use steadfast_store::NoticeRecord;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::connections::link;
use super::extract::{Body, Path};
use super::openapi::NotFound;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(show_grant, import_grant))
        .routes(routes!(list_notices))
}

/// The grant of a connection, without its tokens.
#[utoipa::path(
    get,
    path = "/connections/{agent}/{server}/grant",
    responses((status = 200, body = GrantReport), NotFound)
)]
async fn show_grant(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<GrantReport>, Problem> {
    Ok(Json(link(&state, &agent, &server)?.report().grant))
}

/// Takes over tokens from elsewhere; the connection connects with them. Read by hand: what is wrong with a body
/// that holds tokens is said without quoting it.
#[utoipa::path(
    put,
    path = "/connections/{agent}/{server}/grant",
    request_body = Import,
    responses((status = 200, body = Report), NotFound)
)]
async fn import_grant(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
    Body(body): Body,
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

/// What a person must know of a connection: one for each.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NoticeReport {
    agent: String,
    server: String,
    /// All of it in plain words.
    message: String,
    fault: FaultReport,
    /// Consent is not retried: a reload tries once, and a provider that said no says no again.
    reload_helps: bool,
    /// Where a person signs in, where that mends it.
    link: Option<String>,
    /// When (RFC 3339).
    opened_at: String,
    /// When it was cleared; null while it is open.
    cleared_at: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Notices {
    notices: Vec<NoticeReport>,
}

/// The notices of all connections, open and cleared.
#[utoipa::path(get, path = "/notices", responses((status = 200, body = Notices)))]
async fn list_notices(Given(state): Given<Shared>) -> Result<Json<Notices>, Problem> {
    let notices = state.store.notices().await?;
    let shown = |notice| NoticeReport::new(notice, state.keeper.notice_link(notice));
    let notices = notices.iter().map(shown).collect();
    Ok(Json(Notices { notices }))
}

impl NoticeReport {
    /// Names server and agent, says whether reloading helps, and what to do; links to the fix.
    pub(crate) fn new(notice: &NoticeRecord, link: Option<String>) -> Self {
        Self {
            agent: notice.agent.as_str().to_owned(),
            server: notice.server.as_str().to_owned(),
            message: wording::notice(notice),
            fault: FaultReport::from(&notice.fault),
            reload_helps: !notice.fault.person_needed(),
            link,
            opened_at: rfc3339(notice.opened_at),
            cleared_at: notice.cleared_at.map(rfc3339),
        }
    }
}
