//! Signing in and out, as an operator asks for it. Where browsers come back to is [`super::oauth`].

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State as Given};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast::report::rfc3339;
use steadfast::{Link, NotOffered};
use steadfast_core::code;

use super::Shared;
use super::connections::link;
use crate::problem::Problem;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/connections/{agent}/{server}/sign-in", post(sign_in))
        .route("/connections/{agent}/{server}/sign-out", post(sign_out))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    restart: bool,
}

/// A link to sign in with; the same as long as it is open.
async fn sign_in(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let wish: Wish = if body.is_empty() {
        Wish::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| {
            let detail = format!("the request cannot be read: {error}");
            Problem::new(StatusCode::BAD_REQUEST, code::BAD_MESSAGE, detail)
        })?
    };
    let link = link_or_new(&state, &agent, &server).await?;
    let offer = state.keeper.begin_sign_in(&link, wish.restart).await?;
    Ok(Json(json!({
        "url": offer.url,
        "attempt": offer.attempt,
        "expires_at": rfc3339(offer.expires_at),
    })))
}

/// Signing in to a server that the agent does not have gives it to the agent first.
async fn link_or_new(state: &Shared, agent: &str, server: &str) -> Result<Arc<Link>, Problem> {
    if let Ok(link) = link(state, agent, server) {
        return Ok(link);
    }
    state.directory.give_server(agent, server).await?;
    link(state, agent, server)
}

async fn sign_out(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let link = link(&state, &agent, &server)?;
    let out = state.keeper.sign_out(&link).await?;
    Ok(Json(
        json!({"revoked": out.revoked.as_str(), "message": out.message}),
    ))
}

impl From<NotOffered> for Problem {
    fn from(error: NotOffered) -> Self {
        match error {
            // It is the server, or what it relies on, that does not play along.
            NotOffered::Fault(fault) => {
                Self::new(StatusCode::BAD_GATEWAY, fault.kind.code(), fault.message)
            }
            NotOffered::Store(error) => error.into(),
        }
    }
}
