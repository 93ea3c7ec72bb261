//! The operator's secrets by name. A value comes in and never goes out.

use axum::Json;
use axum::extract::State as Given;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use steadfast::report::rfc3339;
use steadfast_core::code;
use steadfast_core::reference::is_secret_name;
use steadfast_store::SecretString;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Body, Path};
use super::openapi::NotFound;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_secrets))
        .routes(routes!(set_secret, remove_secret))
        // Two segments: no secret can be named so.
        .routes(routes!(rotate_key))
}

/// A secret, without its value.
#[derive(Debug, Serialize, ToSchema)]
struct SecretShown {
    name: String,
    /// When it was last set (RFC 3339).
    set_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct SecretsShown {
    secrets: Vec<SecretShown>,
}

/// The names of all secrets. Their values are never shown.
#[utoipa::path(get, path = "/vault", responses((status = 200, body = SecretsShown)))]
async fn list_secrets(Given(state): Given<Shared>) -> Result<Json<SecretsShown>, Problem> {
    let entries = state.store.vault_entries().await?;
    let shown = entries.into_iter().map(|entry| SecretShown {
        name: entry.name,
        set_at: rfc3339(entry.set_at),
    });
    Ok(Json(SecretsShown {
        secrets: shown.collect(),
    }))
}

/// A secret as it is put.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Secret {
    #[schema(min_length = 1, write_only)]
    value: String,
}

/// The name of a secret.
#[derive(Debug, Serialize, ToSchema)]
struct Named {
    name: String,
}

/// Sets a secret: `${vault:NAME}` in headers and in `oauth` of servers stands for it.
#[utoipa::path(
    put,
    path = "/vault/{name}",
    request_body = Secret,
    responses(
        (status = 200, description = "It was there", body = Named),
        (status = 201, description = "It is new", body = Named)
    )
)]
async fn set_secret(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
    Body(body): Body,
) -> Result<(StatusCode, Json<Named>), Problem> {
    let bad = |code, detail: &str| Problem::new(StatusCode::BAD_REQUEST, code, detail);
    if !is_secret_name(&name) {
        let detail = "the name of a secret is 1 to 64 of A-Z a-z 0-9 _ -";
        return Err(bad(code::CONFIG_BAD_VALUE, detail));
    }
    // What is wrong with the body is said without quoting it.
    let body: Secret = serde_json::from_slice(&body).map_err(|_| {
        let detail = "a secret is put as {\"value\":\"…\"}, and this body is not of that form";
        bad(code::BAD_MESSAGE, detail)
    })?;
    if body.value.is_empty() {
        return Err(bad(code::CONFIG_BAD_VALUE, "the secret is empty"));
    }
    let is_new = state.store.vault_entry(&name).await?.is_none();
    let value = SecretString::from(body.value);
    state.keeper.set_secret(&name, &value).await?;
    state.directory.tell("secret", &name, "put");
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(Named { name })))
}

/// Removes a secret.
#[utoipa::path(delete, path = "/vault/{name}", responses((status = 204), NotFound))]
async fn remove_secret(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    if state.keeper.remove_secret(&name).await? {
        state.directory.tell("secret", &name, "removed");
        return Ok(StatusCode::NO_CONTENT);
    }
    let shown: String = name.chars().take(64).collect();
    let detail = format!("there is no secret `{shown}` in the vault");
    Err(Problem::new(StatusCode::NOT_FOUND, code::NOT_FOUND, detail))
}

/// What a new key of the vault was put to.
#[derive(Debug, Serialize, ToSchema)]
struct Rotated {
    /// How many values were sealed anew.
    resealed: u64,
    /// Those that could not be.
    failed: Vec<String>,
}

/// Makes a new key for the vault, and seals with it what is sealed.
#[utoipa::path(post, path = "/vault/key/rotate", responses((status = 200, body = Rotated)))]
async fn rotate_key(Given(state): Given<Shared>) -> Result<Json<Rotated>, Problem> {
    let rotation = state.keeper.rotate_vault().await?;
    Ok(Json(Rotated {
        resealed: rotation.resealed,
        failed: rotation.failed.iter().map(ToString::to_string).collect(),
    }))
}
