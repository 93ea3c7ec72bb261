//! `/api/v1`, for the command line and the console; and what a monitor asks.

pub(crate) mod audit;
mod call;
mod changes;
mod configuration;
pub(crate) mod connections;
mod doctor;
mod extract;
pub(crate) mod feed;
mod grants;
mod monitoring;
pub(crate) mod oauth;
mod openapi;
pub(crate) mod operations;
mod sign_in;
mod vault;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Given};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use steadfast::{Doors, Keeper};
use steadfast_core::code;
use steadfast_store::{SharedRecords, SharedStore};
use utoipa_axum::router::OpenApiRouter;

use audit::{Actions, Audit};
use feed::Feed;

use crate::agents::sessions::Sessions;
use crate::credential::bearer;
use crate::directory::{self, Directory};
use crate::ending::Ending;
use crate::problem::Problem;
use crate::settings::Settings;

/// What the handlers need.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) keeper: Keeper,
    pub(crate) records: SharedRecords,
    pub(crate) store: SharedStore,
    pub(crate) directory: Directory,
    /// Where browsers reach this daemon.
    pub(crate) doors: Doors,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) ending: Ending,
    pub(crate) audit: Audit,
    pub(crate) feed: Feed,
}

type Shared = Arc<State>;

/// Where the API stands.
const ROOT: &str = "/api/v1";

/// All paths that are not an agent's business.
pub(crate) fn router(state: State) -> Router {
    let state = Arc::new(state);
    let (api, mut document) = api().split_for_parts();
    let actions = Arc::new(Actions::of(&mut document, ROOT));
    let document = Bytes::from(openapi::complete(document).to_json().unwrap_or_default());
    let api = api
        .route("/openapi.json", get(move || described(document.clone())))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(
            (Arc::clone(&state), actions),
            audit::recorded,
        ))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&state),
            authorised,
        ))
        .with_state(Arc::clone(&state));
    Router::new()
        .merge(crate::console::router(Arc::clone(&state)))
        .merge(monitoring::routes().with_state(Arc::clone(&state)))
        .merge(oauth::routes().with_state(state))
        .nest(ROOT, api)
        .fallback(not_found)
}

/// What is described by its own functions.
fn api() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(connections::routes())
        .merge(configuration::routes())
        .merge(grants::routes())
        .merge(operations::routes())
        .merge(doctor::routes())
        .merge(vault::routes())
        .merge(sign_in::routes())
        .merge(call::routes())
        .merge(changes::routes())
        .merge(audit::routes())
}

async fn described(document: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], document).into_response()
}

/// Every call of the API carries the admin token.
async fn authorised(Given(state): Given<Shared>, request: Request, next: Next) -> Response {
    let token = request.headers().get(AUTHORIZATION).and_then(bearer);
    if token.is_some_and(|token| state.settings.admin_token.accepts(token.as_bytes())) {
        return next.run(request).await;
    }
    let detail = match token {
        Some(_) => "the admin token is not the right one",
        None => "the admin token is missing",
    };
    let mut response =
        Problem::new(StatusCode::UNAUTHORIZED, code::BAD_ADMIN_TOKEN, detail).into_response();
    let challenge = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

async fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        code::NOT_FOUND,
        "there is nothing at this path",
    )
}

/// A handler panicked.
fn broken() -> Problem {
    let detail = "the request could not be served to its end";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, detail)
}

async fn not_allowed() -> Problem {
    let detail = "this path does not take this method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, code::NOT_FOUND, detail)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let content_type = [(CONTENT_TYPE, "application/problem+json")];
        (self.status, content_type, self.details()).into_response()
    }
}

impl From<directory::Error> for Problem {
    fn from(error: directory::Error) -> Self {
        let status = match &error {
            directory::Error::BadName(_)
            | directory::Error::Reserved(_)
            | directory::Error::Wrong(..) => StatusCode::BAD_REQUEST,
            directory::Error::NotFound(..) => StatusCode::NOT_FOUND,
            directory::Error::ReadOnly(..) => StatusCode::CONFLICT,
            directory::Error::BadRecord(..) => StatusCode::INTERNAL_SERVER_ERROR,
            directory::Error::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.code(), error.to_string())
    }
}

impl From<steadfast_store::Error> for Problem {
    fn from(error: steadfast_store::Error) -> Self {
        directory::Error::from(error).into()
    }
}
