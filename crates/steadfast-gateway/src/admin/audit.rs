//! `GET /audit`: who changed what, and when; and how it comes on record. Every call of the API that is no question is
//! put on record once it has succeeded, under the name that the document has for it, so that no new one can be
//! forgotten. What was put is never quoted: it may be a secret.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State as Given};
use axum::middleware::Next;
use axum::response::Response;
use http::header::USER_AGENT;
use http::{HeaderMap, Method};
use serde::{Deserialize, Serialize};
use steadfast::report::rfc3339;
use steadfast_core::Wall;
use steadfast_store::{AuditEntry, AuditRecord, SharedStore, Via};
use utoipa::openapi::OpenApi;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::Query;
use super::openapi::operations;
use crate::clock;
use crate::problem::{Problem, sanitised};

/// Whoever has the admin token.
pub(crate) const ADMIN: &str = "admin";

/// The header in which the command line says which user of its machine ran it.
const USER: &str = "steadfast-user";

/// How many changes are listed where no number is asked for.
const LISTED: usize = 100;
const LONGEST_LIST: usize = 1_000;

/// How often old changes are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

/// Calls that change nothing, although they are no GET.
const QUESTIONS: [&str; 2] = ["examine_connection", "examine_address"];

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_changes_of_people))
}

/// Puts changes on record. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    store: SharedStore,
}

/// What a handler says of its change, besides its name and what it was done to.
#[derive(Clone, Debug)]
pub(super) struct Detail(pub(super) String);

impl Audit {
    pub(crate) fn new(store: SharedStore) -> Self {
        Self { store }
    }

    /// Puts one change on record. It has happened by now: that it cannot be recorded does not undo it, and is said in
    /// the log.
    pub(crate) async fn record(
        &self,
        who: String,
        via: Via,
        action: &str,
        target: String,
        detail: String,
    ) {
        let record = AuditRecord {
            at: clock::wall(),
            who,
            via,
            action: action.to_owned(),
            target,
            detail,
        };
        tracing::info!(who = %record.who, via = via.as_str(), action, target = %record.target, "changed");
        if let Err(error) = self.store.append_audit(&record).await {
            tracing::error!(%error, action, target = %record.target, "a change cannot be put on record");
        }
    }

    /// Forgets what is older than this, now and every hour.
    pub(crate) async fn forget(self, older_than: Duration) {
        loop {
            let kept = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
            let before = Wall(clock::wall().0.saturating_sub(kept));
            if let Err(error) = self.store.remove_old_audit(before).await {
                tracing::warn!(%error, "old changes cannot be forgotten");
            }
            tokio::time::sleep(FORGET_EVERY).await;
        }
    }
}

/// What the calls of the API are named, by method and path.
#[derive(Debug, Default)]
pub(super) struct Actions(HashMap<(Method, String), String>);

impl Actions {
    /// As the document names them. `root` is where the API stands.
    pub(super) fn of(document: &mut OpenApi, root: &str) -> Self {
        let mut actions = HashMap::new();
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in operations(item) {
                let named = operation.operation_id.clone().unwrap_or_default();
                actions.insert((method, format!("{root}{path}")), named);
            }
        }
        Self(actions)
    }

    fn find(&self, method: &Method, path: &MatchedPath) -> Option<&str> {
        let known = self.0.get(&(method.clone(), path.as_str().to_owned()));
        known
            .map(String::as_str)
            .filter(|action| *method != Method::GET && !QUESTIONS.contains(action))
    }
}

/// Wraps every call of the API.
pub(super) async fn recorded(
    Given((state, actions)): Given<(Shared, Arc<Actions>)>,
    path: Option<MatchedPath>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let action = path.and_then(|path| actions.find(request.method(), &path).map(str::to_owned));
    let Some(action) = action else {
        return next.run(request).await;
    };
    let (who, via) = who(request.headers());
    let target = match &parameters {
        Ok(parameters) => {
            let names: Vec<&str> = parameters.iter().map(|(_, value)| value).collect();
            sanitised(names.join("/").as_bytes())
        }
        // The handler refuses it.
        Err(_) => String::new(),
    };
    let audit = state.audit.clone();
    // Goes on when whoever asked goes away: what was done must be on record.
    let done = tokio::spawn(async move {
        let mut response = next.run(request).await;
        if response.status().is_success() {
            let detail = response.extensions_mut().remove::<Detail>();
            let detail = detail.map(|detail| detail.0).unwrap_or_default();
            audit.record(who, via, &action, target, detail).await;
        }
        response
    });
    match done.await {
        Ok(response) => response,
        Err(_) => axum::response::IntoResponse::into_response(super::broken()),
    }
}

/// Who it is: the one admin token names nobody, so what the command line says of its user stands beside it.
fn who(headers: &HeaderMap) -> (String, Via) {
    let is_cli = headers
        .get(USER_AGENT)
        .is_some_and(|agent| agent.as_bytes().starts_with(b"steadfast-cli/"));
    let via = if is_cli { Via::Cli } else { Via::Api };
    let who = match headers.get(USER) {
        Some(user) => format!("{ADMIN} ({})", sanitised(user.as_bytes())),
        None => ADMIN.to_owned(),
    };
    (who, via)
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Only those before the one with this number.
    before: Option<i64>,
    /// How many at most; 100 where it is not said, and no more than 1000.
    #[param(minimum = 0)]
    limit: Option<usize>,
}

/// One change.
#[derive(Debug, Serialize, ToSchema)]
struct ChangeShown {
    /// Grows from one to the next.
    number: u64,
    /// When (RFC 3339).
    at: String,
    /// `admin`, and in brackets what the command line says of its user.
    who: String,
    /// `api`, `cli`, `offline`, `console`, `file` or `browser`.
    via: &'static str,
    /// What was done, by the name that this document has for it.
    action: String,
    /// To what: names, apart by `/`.
    target: String,
    /// What of it was changed; never what it was changed to.
    detail: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct ChangesShown {
    audit: Vec<ChangeShown>,
}

impl From<AuditEntry> for ChangeShown {
    fn from(entry: AuditEntry) -> Self {
        let record = entry.record;
        Self {
            number: entry.number,
            at: rfc3339(record.at),
            who: record.who,
            via: record.via.as_str(),
            action: record.action,
            target: record.target,
            detail: record.detail,
        }
    }
}

/// Who changed what, the newest first.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "list_audit",
    params(Wanted),
    responses((status = 200, body = ChangesShown))
)]
async fn list_changes_of_people(
    Given(state): Given<Shared>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<ChangesShown>, Problem> {
    let limit = wanted.limit.unwrap_or(LISTED).min(LONGEST_LIST);
    // Numbers begin with 1: before all of them there is nothing.
    let before = wanted
        .before
        .map(|before| u64::try_from(before).unwrap_or(0));
    let entries = state.store.audit(before, limit).await?;
    let audit = entries.into_iter().map(ChangeShown::from).collect();
    Ok(Json(ChangesShown { audit }))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_the_command_line_says_of_its_user_cannot_break_out() {
        let mut headers = HeaderMap::new();
        assert_eq!(who(&headers), ("admin".to_owned(), Via::Api));
        headers.insert(USER_AGENT, HeaderValue::from_static("steadfast-cli/1"));
        headers.insert(USER, HeaderValue::from_static("ann\"e"));
        assert_eq!(who(&headers), ("admin (ann?e)".to_owned(), Via::Cli));
    }
}
