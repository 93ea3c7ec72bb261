//! What a monitor asks, without a token: whether this daemon lives, whether it can be given requests, and its numbers.
//! None of it names an agent or holds a secret.

use std::time::Duration;

use axum::Router;
use axum::extract::State as Given;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use steadfast_core::code;

use super::Shared;
use crate::metrics::Shown;
use crate::problem::Problem;

/// How long the store may take to answer.
const STORE_WAIT: Duration = Duration::from_secs(2);

/// A question that the store can answer whatever it holds.
const ANYTHING: &str = "readyz";

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(numbers))
}

/// It answers: it lives. Says nothing about the store, which no restart would mend.
async fn health() -> Response {
    text("text/plain; charset=utf-8", "ok\n".to_owned())
}

/// Whether it can serve. What is configured was loaded before the listener took its first connection.
async fn readiness(Given(state): Given<Shared>) -> Result<Response, Problem> {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    if state.ending.is_ending() {
        let detail = "this daemon has been told to stop";
        return Err(Problem::new(unavailable, code::STOPPING, detail));
    }
    let asked = tokio::time::timeout(STORE_WAIT, state.records.meta(ANYTHING)).await;
    match asked {
        Ok(Ok(_)) => Ok(text("text/plain; charset=utf-8", "ready\n".to_owned())),
        Ok(Err(error)) => {
            // Where the store is, and what it said, is for the log: this answer is for everybody.
            tracing::warn!(%error, "not ready");
            let detail = "the store refuses";
            Err(Problem::new(unavailable, error.code(), detail))
        }
        Err(_) => {
            let detail = "the store does not answer";
            Err(Problem::new(unavailable, code::STORE_UNAVAILABLE, detail))
        }
    }
}

async fn numbers(Given(state): Given<Shared>) -> Response {
    let shown = Shown {
        keeper: &state.keeper,
        store: &state.store,
        sessions: state.sessions.count(),
    };
    let rendered = state.settings.metrics.render(shown).await;
    // Prometheus, "Exposition formats", text-based format.
    text("text/plain; version=0.0.4; charset=utf-8", rendered)
}

fn text(content_type: &'static str, body: String) -> Response {
    let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}
