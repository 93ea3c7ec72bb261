//! Names of secrets, and what is in force.

use askama::Template;
use axum::extract::{Form, Path, State as Given};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::StatusCode;
use serde::Deserialize;
use steadfast::report::rfc3339;
use steadfast_core::code;
use steadfast_core::reference::is_secret_name;
use steadfast_store::SecretString;

use super::Shared;
use super::changed::Target;
use super::connections::Bare;
use super::frame::{Frame, Trouble, page};
use super::session::Session;
use crate::problem::Problem;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/vault", get(vault).post(set))
        .route("/vault/{name}/remove", post(remove))
        .route("/settings", get(settings))
}

#[derive(Template)]
#[template(path = "vault.html")]
struct Vault {
    frame: Frame,
    csrf: String,
    secrets: Vec<(String, String)>,
}

async fn vault(Given(console): Given<Shared>, session: Session) -> Result<Response, Trouble> {
    let entries = console
        .admin
        .store
        .vault_entries()
        .await
        .map_err(Problem::from)?;
    let shown = Vault {
        frame: Frame::new(&console, &session, "Vault", "/vault").await?,
        csrf: session.csrf(),
        secrets: entries
            .into_iter()
            .map(|entry| (entry.name, rfc3339(entry.set_at)))
            .collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

/// Without `Debug`: it cannot print.
#[derive(Deserialize)]
struct Setting {
    csrf: String,
    name: String,
    value: String,
}

async fn set(
    Given(console): Given<Shared>,
    session: Session,
    Form(form): Form<Setting>,
) -> Result<Response, Trouble> {
    session.check(&form.csrf)?;
    let name = form.name.trim().to_owned();
    let bad = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, code::CONFIG_BAD_VALUE, detail);
    if !is_secret_name(&name) {
        return Err(bad("the name of a secret is 1 to 64 of A-Z a-z 0-9 _ -").into());
    }
    if form.value.is_empty() {
        return Err(bad("the secret is empty").into());
    }
    let set = console
        .admin
        .keeper
        .set_secret(&name, &SecretString::from(form.value))
        .await;
    set.map_err(Problem::from)?;
    let next = Redirect::to("/vault");
    Ok((Extension(Target(name)), next).into_response())
}

async fn remove(
    Given(console): Given<Shared>,
    session: Session,
    Path(name): Path<String>,
    Form(form): Form<Bare>,
) -> Result<Redirect, Trouble> {
    session.check(&form.csrf)?;
    let removed = console.admin.keeper.remove_secret(&name).await;
    if !removed.map_err(Problem::from)? {
        let shown: String = name.chars().take(64).collect();
        let detail = format!("there is no secret `{shown}` in the vault");
        return Err(Problem::new(StatusCode::NOT_FOUND, code::NOT_FOUND, detail).into());
    }
    Ok(Redirect::to("/vault"))
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    frame: Frame,
    facts: Vec<(&'static str, String)>,
    error: Option<String>,
}

async fn settings(Given(console): Given<Shared>, session: Session) -> Result<Response, Trouble> {
    let settings = &console.admin.settings;
    let file = settings.config_file.get();
    let seconds = |duration: std::time::Duration| format!("{} s", duration.as_secs());
    let facts = vec![
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "Configuration file",
            file.source.unwrap_or_else(|| "none".to_owned()),
        ),
        (
            "Applied",
            file.applied_at.unwrap_or_else(|| "never".to_owned()),
        ),
        ("Listens on", settings.listen.to_string()),
        (
            "Public address",
            settings
                .public_url
                .as_ref()
                .map_or_else(|| "the same".to_owned(), ToString::to_string),
        ),
        (
            "Without a credential",
            settings.anonymous_agent.as_ref().map_or_else(
                || "nobody is served".to_owned(),
                |agent| format!("a request is the agent {agent}"),
            ),
        ),
        (
            "Streams can be resumed for",
            seconds(settings.event_retention),
        ),
        (
            "A question waits for its agent for",
            seconds(settings.input_wait),
        ),
        ("Largest message", format!("{} bytes", settings.max_message)),
    ];
    let shown = Settings {
        frame: Frame::new(&console, &session, "Settings", "/settings").await?,
        facts,
        error: file.error,
    };
    Ok(page(StatusCode::OK, &shown))
}
