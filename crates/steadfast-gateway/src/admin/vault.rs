//! The operator's secrets by name. A value comes in and never goes out.

use axum::body::Bytes;
use axum::extract::{Path, State as Given};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast::report::rfc3339;
use steadfast_core::code;
use steadfast_core::reference::is_secret_name;
use steadfast_store::SecretString;

use super::Shared;
use crate::problem::Problem;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/vault", get(list))
        .route("/vault/{name}", put(set).delete(remove))
        // Two segments: no secret can be named so.
        .route("/vault/key/rotate", post(rotate))
}

async fn list(Given(state): Given<Shared>) -> Result<Json<Value>, Problem> {
    let entries = state.store.vault_entries().await?;
    let shown: Vec<Value> = entries
        .iter()
        .map(|entry| json!({"name": entry.name, "set_at": rfc3339(entry.set_at)}))
        .collect();
    Ok(Json(json!({"secrets": shown})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    value: String,
}

async fn set(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let bad = |code, detail: &str| Problem::new(StatusCode::BAD_REQUEST, code, detail);
    if !is_secret_name(&name) {
        let detail = "the name of a secret is 1 to 64 of A-Z a-z 0-9 _ -";
        return Err(bad(code::CONFIG_BAD_VALUE, detail));
    }
    // What is wrong with the body is said without quoting it.
    let body: Put = serde_json::from_slice(&body).map_err(|_| {
        let detail = "a secret is put as {\"value\":\"…\"}, and this body is not of that form";
        bad(code::BAD_MESSAGE, detail)
    })?;
    if body.value.is_empty() {
        return Err(bad(code::CONFIG_BAD_VALUE, "the secret is empty"));
    }
    let is_new = state.store.vault_entry(&name).await?.is_none();
    let value = SecretString::from(body.value);
    state.keeper.set_secret(&name, &value).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(json!({"name": name}))))
}

async fn remove(
    Given(state): Given<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    if state.keeper.remove_secret(&name).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let shown: String = name.chars().take(64).collect();
    let detail = format!("there is no secret `{shown}` in the vault");
    Err(Problem::new(StatusCode::NOT_FOUND, code::NOT_FOUND, detail))
}

async fn rotate(Given(state): Given<Shared>) -> Result<Json<Value>, Problem> {
    let rotation = state.keeper.rotate_vault().await?;
    let failed: Vec<String> = rotation.failed.iter().map(ToString::to_string).collect();
    Ok(Json(
        json!({"resealed": rotation.resealed, "failed": failed}),
    ))
}
