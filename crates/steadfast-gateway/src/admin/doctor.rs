//! What is wrong with a connection, or with an address.

use axum::Json;
use axum::extract::State as Given;
use http::StatusCode;
use serde::Deserialize;
use steadfast::NotExamined;
use steadfast::doctor::Examination;
use steadfast_core::code;
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
        .routes(routes!(examine_connection))
        .routes(routes!(examine_address))
}

/// What is wrong with a connection, the proof, and who must act.
#[utoipa::path(
    post,
    path = "/connections/{agent}/{server}/doctor",
    responses((status = 200, body = Examination), NotFound)
)]
async fn examine_connection(
    Given(state): Given<Shared>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<Examination>, Problem> {
    let link = link(&state, &agent, &server)?;
    Ok(Json(state.keeper.examine(&link, &state.doors).await?))
}

/// The address of a server.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Address {
    #[schema(value_type = String, format = Uri)]
    url: url::Url,
}

/// The same for a server that is not configured.
// Read by hand: an address may hold a secret, which an error about it would quote.
#[utoipa::path(post, path = "/doctor", request_body = Address, responses((status = 200, body = Examination)))]
async fn examine_address(
    Given(state): Given<Shared>,
    Body(body): Body,
) -> Result<Json<Examination>, Problem> {
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
