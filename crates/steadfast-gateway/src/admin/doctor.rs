//! What is wrong with a connection, or with an address.

use axum::body::Bytes;
use axum::extract::{Path, State as Given};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use steadfast::NotExamined;
use steadfast::doctor::Examination;
use steadfast_core::code;

use super::Shared;
use super::connections::link;
use crate::problem::Problem;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/connections/{agent}/{server}/doctor", post(connection))
        .route("/doctor", post(address))
}

async fn connection(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<Examination>, Problem> {
    let link = link(&state, &agent, &server)?;
    Ok(Json(state.keeper.examine(&link, &state.doors).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    url: url::Url,
}

/// Read by hand: an address may hold a secret, which an error about it would quote.
async fn address(Given(state): Given<Shared>, body: Bytes) -> Result<Json<Examination>, Problem> {
    let Address { url } = serde_json::from_slice(&body).map_err(|_| {
        let detail = "the request cannot be read: it is {\"url\": …} with the address of a server";
        Problem::new(StatusCode::BAD_REQUEST, code::BAD_MESSAGE, detail)
    })?;
    Ok(Json(state.keeper.examine_address(url, &state.doors).await?))
}

impl From<NotExamined> for Problem {
    fn from(error: NotExamined) -> Self {
        let detail = error.to_string();
        match error {
            NotExamined::Gone => Self::new(StatusCode::NOT_FOUND, code::NOT_FOUND, detail),
            NotExamined::Address(fault) => {
                Self::new(StatusCode::BAD_REQUEST, fault.kind.code(), fault.message)
            }
            NotExamined::Store(error) => error.into(),
        }
    }
}
