//! What is configured, and the guided form that connects a server: its address is looked at first, then it is given to
//! agents.

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Form, Path, State as Given};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast::config;
use steadfast_core::code;
use steadfast_store::{AgentRecord, ServerRecord, Source};
use url::Url;

use super::Shared;
use super::changed::Target;
use super::connections::Bare;
use super::frame::{Frame, Trouble, page};
use super::session::Session;
use crate::directory::Error;
use crate::problem::Problem;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/servers", get(list))
        .route("/servers/probe", post(probe))
        .route("/servers/add", post(add))
        .route("/servers/{name}/enable", post(enable))
        .route("/servers/{name}/disable", post(disable))
        .route("/servers/{name}/remove", post(remove))
}

struct Shown {
    name: String,
    url: String,
    source: &'static str,
    writable: bool,
    enabled: bool,
    agents: String,
}

impl Shown {
    fn new(record: &ServerRecord, agents: &[AgentRecord]) -> Self {
        let name = record.name.as_str();
        let has = |agent: &&AgentRecord| match &agent.config["servers"] {
            Value::Array(names) => names.iter().any(|given| given == name),
            all => all == "*",
        };
        let agents: Vec<_> = agents
            .iter()
            .filter(has)
            .map(|agent| agent.name.as_str())
            .collect();
        Self {
            name: name.to_owned(),
            url: without_secrets(record.config["url"].as_str().unwrap_or_default()),
            source: match record.source {
                Source::File => "the file",
                Source::Admin => "the console or the command line",
            },
            writable: record.source == Source::Admin,
            enabled: record.config["enabled"] != false,
            agents: agents.join(", "),
        }
    }
}

/// An address may have a password or a key in it, neither of which is shown.
fn without_secrets(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return String::new();
    };
    // An address that can have neither has none.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    if url.query().is_some() {
        url.set_query(Some("…"));
    }
    url.to_string()
}

#[derive(Template)]
#[template(path = "servers.html")]
struct List {
    frame: Frame,
    csrf: String,
    servers: Vec<Shown>,
}

async fn list(Given(console): Given<Shared>, session: Session) -> Result<Response, Trouble> {
    let directory = &console.admin.directory;
    let agents = directory.agents().await.map_err(Problem::from)?;
    let servers = directory.servers().await.map_err(Problem::from)?;
    let shown = List {
        frame: Frame::new(&console, &session, "Servers", "/servers").await?,
        csrf: session.csrf(),
        servers: servers
            .iter()
            .map(|record| Shown::new(record, &agents))
            .collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

#[derive(Deserialize)]
struct Looking {
    csrf: String,
    url: String,
}

#[derive(Template)]
#[template(path = "probe.html")]
struct Probed {
    frame: Frame,
    csrf: String,
    url: String,
    name: String,
    verdict: String,
    hint: Option<String>,
    trouble: bool,
    steps: Vec<(String, String)>,
    agents: Vec<(String, bool)>,
}

async fn probe(
    Given(console): Given<Shared>,
    session: Session,
    Form(form): Form<Looking>,
) -> Result<Response, Trouble> {
    session.check(&form.csrf)?;
    let url = Url::parse(form.url.trim()).map_err(|_| {
        // It may hold a secret, which an error about it would quote.
        let detail = "this is not an address of a server, such as https://booking.example.com/mcp";
        Problem::new(StatusCode::BAD_REQUEST, code::CONFIG_BAD_VALUE, detail)
    })?;
    let admin = &console.admin;
    let examined = admin
        .keeper
        .examine_address(url.clone(), &admin.doors)
        .await;
    let examined = examined.map_err(Problem::from)?;
    let verdict = match &examined.fault {
        Some(fault) => format!("{} {}", fault.code, fault.message),
        None => "An MCP server answers there.".to_owned(),
    };
    let agents = admin.directory.agents().await.map_err(Problem::from)?;
    let shown = Probed {
        frame: Frame::new(&console, &session, "Connect a server", "/servers")
            .await?
            .once(),
        csrf: session.csrf(),
        name: suggested(&url),
        url: url.to_string(),
        verdict,
        hint: examined.fault.as_ref().map(|fault| fault.hint.clone()),
        trouble: examined.fault.is_some(),
        steps: examined
            .steps
            .into_iter()
            .map(|step| (step.asked, step.answered))
            .collect(),
        agents: agents
            .iter()
            .map(|agent| {
                (
                    agent.name.as_str().to_owned(),
                    agent.source == Source::Admin,
                )
            })
            .collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

/// `booking` for `https://booking.example.com/mcp`.
fn suggested(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let labels = host
        .split('.')
        .filter(|label| !matches!(*label, "www" | "mcp" | "api"));
    let first = labels.into_iter().next().unwrap_or_default();
    let is_number = first
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'[');
    if is_number {
        String::new()
    } else {
        first.to_owned()
    }
}

/// The form of [`probe`]: `agent.NAME` is there for each agent that was chosen.
async fn add(
    Given(console): Given<Shared>,
    session: Session,
    Form(form): Form<HashMap<String, String>>,
) -> Result<Response, Trouble> {
    let field = |name: &str| form.get(name).map_or("", |value| value.trim());
    session.check(field("csrf"))?;
    let directory = &console.admin.directory;
    let name = field("name");
    if directory.server(name).await.is_ok() {
        let detail = format!("there is a server `{name}` already: choose another name");
        return Err(Problem::new(StatusCode::CONFLICT, code::CONFLICT, detail).into());
    }
    let tools: serde_json::Map<_, _> = field("reads")
        .lines()
        .map(str::trim)
        .filter(|tool| !tool.is_empty())
        .map(|tool| (tool.to_owned(), json!({"effect": "read"})))
        .collect();
    let server = json!({"url": field("url"), "tools": tools});
    let server: config::Server = serde_json::from_value(server).map_err(|error| bad(&error))?;
    directory
        .put_server(name, server, Source::Admin)
        .await
        .map_err(Problem::from)?;
    let mut agents: Vec<&str> = form
        .keys()
        .filter_map(|field| field.strip_prefix("agent."))
        .collect();
    let new = field("new_agent");
    if !new.is_empty() {
        if matches!(directory.agent(new).await, Err(Error::NotFound(..))) {
            let agent: config::Agent =
                serde_json::from_value(json!({"servers": []})).map_err(|error| bad(&error))?;
            directory
                .put_agent(new, agent, Source::Admin)
                .await
                .map_err(Problem::from)?;
        }
        agents.push(new);
    }
    for agent in &agents {
        directory
            .give_server(agent, name)
            .await
            .map_err(Problem::from)?;
    }
    let next = match agents.first() {
        Some(agent) => Redirect::to(&format!("/connections/{agent}/{name}")),
        None => Redirect::to("/servers"),
    };
    Ok((Extension(Target(name.to_owned())), next).into_response())
}

fn bad(error: &serde_json::Error) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        code::CONFIG_BAD_VALUE,
        error.to_string(),
    )
}

async fn enable(
    given: Given<Shared>,
    session: Session,
    name: Path<String>,
    form: Form<Bare>,
) -> Result<Redirect, Trouble> {
    switch(given, session, name, form, true).await
}

async fn disable(
    given: Given<Shared>,
    session: Session,
    name: Path<String>,
    form: Form<Bare>,
) -> Result<Redirect, Trouble> {
    switch(given, session, name, form, false).await
}

async fn switch(
    Given(console): Given<Shared>,
    session: Session,
    Path(name): Path<String>,
    Form(form): Form<Bare>,
    on: bool,
) -> Result<Redirect, Trouble> {
    session.check(&form.csrf)?;
    let directory = &console.admin.directory;
    let mut record = directory.server(&name).await.map_err(Problem::from)?;
    record.config["enabled"] = json!(on);
    let server: config::Server =
        serde_json::from_value(record.config).map_err(|error| bad(&error))?;
    directory
        .put_server(&name, server, Source::Admin)
        .await
        .map_err(Problem::from)?;
    Ok(Redirect::to("/servers"))
}

async fn remove(
    Given(console): Given<Shared>,
    session: Session,
    Path(name): Path<String>,
    Form(form): Form<Bare>,
) -> Result<Redirect, Trouble> {
    session.check(&form.csrf)?;
    let removed = console
        .admin
        .directory
        .remove_server(&name, Source::Admin)
        .await;
    removed.map_err(Problem::from)?;
    Ok(Redirect::to("/servers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_no_secret() {
        for (url, shown) in [
            (
                "https://user:pass@a.example/mcp?key=secret",
                "https://a.example/mcp?%E2%80%A6",
            ),
            ("https://a.example/mcp", "https://a.example/mcp"),
            ("not an address", ""),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn a_name_is_suggested_where_the_address_has_one() {
        for (url, name) in [
            ("https://booking.example.com/mcp", "booking"),
            ("https://mcp.booking.example.com/", "booking"),
            ("http://127.0.0.1:8080/mcp", ""),
            ("http://localhost/mcp", "localhost"),
        ] {
            assert_eq!(suggested(&url.parse().unwrap()), name, "{url}");
        }
    }
}
