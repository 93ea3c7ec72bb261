//! Signing in and out, as an operator asks for it. Where browsers come back to is [`super::oauth`].

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Given;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use steadfast::report::rfc3339;
use steadfast::{Link, NotOffered};
use steadfast_core::code;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::connections::link;
use super::extract::{Body, Path};
use super::openapi::{BadGateway, Conflict, NotFound};
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(sign_in))
        .routes(routes!(sign_out))
}

/// How to begin.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    /// A new attempt, also where one is open.
    restart: bool,
}

/// A sign-in that is open.
#[derive(Debug, Serialize, ToSchema)]
struct Attempt {
    /// Where a person signs in.
    url: String,
    attempt: String,
    /// When it ends (RFC 3339).
    expires_at: String,
}

/// A link to sign in with; the same as long as it is open.
#[utoipa::path(
    post,
    path = "/connections/{agent}/{server}/sign-in",
    request_body(content = Option<Wish>),
    responses((status = 200, body = Attempt), NotFound, Conflict, BadGateway)
)]
async fn sign_in(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
    Body(body): Body,
) -> Result<Json<Attempt>, Problem> {
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
    Ok(Json(Attempt {
        expires_at: rfc3339(offer.expires_at),
        url: offer.url,
        attempt: offer.attempt,
    }))
}

/// Signing in to a server that the agent does not have gives it to the agent first.
async fn link_or_new(state: &Shared, agent: &str, server: &str) -> Result<Arc<Link>, Problem> {
    if let Ok(link) = link(state, agent, server) {
        return Ok(link);
    }
    state.directory.give_server(agent, server).await?;
    link(state, agent, server)
}

/// What became of the grant at the provider. Here it is gone in any case.
#[derive(Debug, Serialize, ToSchema)]
struct SignedOut {
    /// `yes`, `no`, `not_supported` or `refused_address`.
    revoked: &'static str,
    /// The same in plain words.
    message: String,
}

/// Revokes the grant at the provider, and forgets it here.
#[utoipa::path(
    post,
    path = "/connections/{agent}/{server}/sign-out",
    responses((status = 200, body = SignedOut), NotFound)
)]
async fn sign_out(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<SignedOut>, Problem> {
    let link = link(&state, &agent, &server)?;
    let out = state.keeper.sign_out(&link).await?;
    Ok(Json(SignedOut {
        revoked: out.revoked.as_str(),
        message: out.message,
    }))
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
