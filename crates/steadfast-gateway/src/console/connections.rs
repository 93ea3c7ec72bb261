//! All connections, one with its history, and those of an agent.

use askama::Template;
use axum::Router;
use axum::extract::{Form, Path, Query, State as Given};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use futures_util::future::join_all;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use steadfast::Report;
use steadfast::report::{FaultReport, rfc3339};
use steadfast_core::{AgentName, ServerName};
use steadfast_store::Transition;
use url::Url;

use super::Shared;
use super::frame::{Frame, Trouble, page};
use super::overview::reports;
use super::row::Row;
use super::session::Session;
use crate::admin::connections::{RELOAD_LIMIT, link};
use crate::problem::Problem;

/// How many transitions a page shows.
const HISTORY: usize = 200;
/// The heartbeat strip: so many quarters of an hour.
const SLOTS: usize = 96;
const SLOT: SignedDuration = SignedDuration::from_mins(15);

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/connections", get(list))
        .route("/connections/{agent}/{server}", get(one))
        .route("/connections/{agent}/{server}/reload", post(reload))
        .route("/connections/{agent}/{server}/sign-in", post(sign_in))
        .route("/connections/{agent}/{server}/sign-out", post(sign_out))
        .route("/agents/{agent}", get(agent))
        .route("/agents/{agent}/reload", post(reload_agent))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    agent: String,
    server: String,
    state: String,
    sort: String,
}

#[derive(Template)]
#[template(path = "connections.html")]
struct List {
    frame: Frame,
    csrf: String,
    rows: Vec<Row>,
    total: usize,
    wanted: Wanted,
    states: [&'static str; 6],
    sorts: [&'static str; 3],
}

async fn list(
    Given(console): Given<Shared>,
    session: Session,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Trouble> {
    let now = Timestamp::now();
    let all = reports(&console);
    let fits = |wanted: &str, value: &str| wanted.is_empty() || value.contains(wanted);
    let state = wanted.state.replace(' ', "_");
    let mut found: Vec<&Report> = all
        .iter()
        .filter(|report| {
            fits(&wanted.agent, &report.agent)
                && fits(&wanted.server, &report.server)
                && (state.is_empty() || report.state == state)
        })
        .collect();
    match wanted.sort.as_str() {
        "server" => found.sort_by_key(|report| (report.server.clone(), report.agent.clone())),
        "longest in its state" => found.sort_by(|one, other| one.since.cmp(&other.since)),
        _ => found.sort_by_key(|report| (report.agent.clone(), report.server.clone())),
    }
    let shown = List {
        frame: Frame::new(&console, &session, "Connection health", "/connections").await?,
        csrf: session.csrf(),
        rows: found.iter().map(|report| Row::new(report, now)).collect(),
        total: all.len(),
        wanted,
        states: [
            "connected",
            "connecting",
            "retrying",
            "awaiting sign in",
            "misconfigured",
            "disabled",
        ],
        sorts: ["agent", "server", "longest in its state"],
    };
    Ok(page(StatusCode::OK, &shown))
}

/// One thing that happened.
pub(super) struct Event {
    pub(super) time: String,
    pub(super) tone: &'static str,
    pub(super) what: String,
    pub(super) why: Option<String>,
    pub(super) fault: Option<String>,
}

impl From<&Transition> for Event {
    fn from(transition: &Transition) -> Self {
        let fault = transition.fault.as_ref().map(FaultReport::from);
        Self {
            time: rfc3339(transition.at),
            tone: tone(&transition.to),
            what: transition.to.replace('_', " "),
            why: Some(transition.reason.clone()).filter(|why| !why.is_empty()),
            fault: fault.map(|fault| format!("{} {}", fault.code, fault.message)),
        }
    }
}

fn tone(state: &str) -> &'static str {
    match state {
        "connected" => "good",
        "awaiting_sign_in" | "misconfigured" => "person",
        "disabled" => "off",
        _ => "busy",
    }
}

#[derive(Template)]
#[template(path = "connection.html")]
struct One {
    frame: Frame,
    csrf: String,
    row: Row,
    hint: Option<String>,
    has_grant: bool,
    facts: Vec<(&'static str, String)>,
    strip: Vec<&'static str>,
    strip_text: String,
    events: Vec<Event>,
}

async fn one(
    Given(console): Given<Shared>,
    session: Session,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Response, Trouble> {
    let link = link(&console.admin, &agent, &server)?;
    let report = link.report();
    let now = Timestamp::now();
    let (agent_name, server_name) = (AgentName::from(&*agent), ServerName::from(&*server));
    let records = &console.admin.records;
    let history = records.history(&agent_name, &server_name, HISTORY).await;
    let history = history.map_err(Problem::from)?;
    let strip = strip(&history, &report.state, now);
    let up = strip.iter().filter(|slot| **slot == "good").count();
    let known = strip.iter().filter(|slot| !slot.is_empty()).count();
    let shown = One {
        frame: Frame::new(
            &console,
            &session,
            format!("{server} of {agent}"),
            "/connections",
        )
        .await?,
        csrf: session.csrf(),
        row: Row::new(&report, now),
        hint: report.fault.as_ref().map(|fault| fault.hint.clone()),
        has_grant: report.grant.state != "none",
        facts: facts(&report),
        strip_text: format!(
            "Connected in {up} of {known} quarters of an hour that are on record; now is at the right."
        ),
        strip,
        events: history.iter().map(Event::from).collect(),
    };
    Ok(page(StatusCode::OK, &shown))
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let grant = &report.grant;
    let facts = [
        ("Protocol", report.revision.clone()),
        (
            "Session open for",
            report.session_age_s.map(|age| format!("{age} s")),
        ),
        ("Its own stream", report.stream.clone()),
        ("Last answer", report.last_answer_at.clone()),
        ("Tools", report.tools.map(|tools| tools.to_string())),
        ("Signed in at", grant.issuer.clone()),
        ("Token ends", grant.expires_at.clone()),
        ("Token is renewed", grant.renews_at.clone()),
        (
            "Granted",
            grant.scopes.as_ref().map(|scopes| scopes.join(" ")),
        ),
        (
            "Last renewal",
            grant
                .last_renewal
                .as_ref()
                .map(|last| format!("{} ({})", last.outcome.replace('_', " "), last.at)),
        ),
    ];
    facts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
        .collect()
}

/// The worst state in each quarter of an hour, oldest first; empty where nothing is on record. `history` has the newest
/// first.
fn strip(history: &[Transition], state: &str, now: Timestamp) -> Vec<&'static str> {
    let rank = |tone: &str| match tone {
        "person" => 3,
        "busy" => 2,
        "good" => 1,
        _ => 0,
    };
    let mut slots = vec![""; SLOTS];
    let mut until = now;
    let mut current = tone(state);
    let oldest = now - SLOT * i32::try_from(SLOTS).unwrap_or(i32::MAX);
    let mut paint = |from: Timestamp, until: Timestamp, tone: &'static str| {
        for (index, slot) in slots.iter_mut().enumerate() {
            let begins = oldest + SLOT * i32::try_from(index).unwrap_or(i32::MAX);
            if begins < until && begins + SLOT > from && rank(tone) >= rank(slot) {
                *slot = tone;
            }
        }
    };
    for transition in history {
        let Ok(at) = rfc3339(transition.at).parse::<Timestamp>() else {
            continue;
        };
        paint(at.max(oldest), until, current);
        until = at;
        current = tone(&transition.from);
        if at < oldest {
            break;
        }
    }
    slots
}

/// A form with nothing but its proof.
#[derive(Deserialize)]
pub(super) struct Bare {
    pub(super) csrf: String,
}

async fn reload(
    Given(console): Given<Shared>,
    session: Session,
    Path((agent, server)): Path<(String, String)>,
    Form(form): Form<Bare>,
) -> Result<Redirect, Trouble> {
    session.check(&form.csrf)?;
    link(&console.admin, &agent, &server)?
        .reload(RELOAD_LIMIT)
        .await;
    Ok(Redirect::to(&format!("/connections/{agent}/{server}")))
}

async fn reload_agent(
    Given(console): Given<Shared>,
    session: Session,
    Path(agent): Path<String>,
    Form(form): Form<Bare>,
) -> Result<Redirect, Trouble> {
    session.check(&form.csrf)?;
    let links = console.admin.keeper.links_of(&AgentName::from(&*agent));
    join_all(links.iter().map(|link| link.reload(RELOAD_LIMIT))).await;
    Ok(Redirect::to(&format!("/agents/{agent}")))
}

#[derive(Template)]
#[template(path = "go_on.html")]
struct GoOn {
    frame: Frame,
    url: String,
    at: String,
}

/// Leads on to the authorization server. By a page, not by a redirect: a form of ours goes nowhere else.
async fn sign_in(
    Given(console): Given<Shared>,
    session: Session,
    Path((agent, server)): Path<(String, String)>,
    Form(form): Form<Bare>,
) -> Result<Response, Trouble> {
    session.check(&form.csrf)?;
    let link = link(&console.admin, &agent, &server)?;
    let offer = console.admin.keeper.begin_sign_in(&link, false).await;
    let offer = offer.map_err(Problem::from)?;
    let host = Url::parse(&offer.url).ok();
    let host = host.and_then(|url| url.host_str().map(str::to_owned));
    let title = format!("Sign in to {server} for {agent}");
    let shown = GoOn {
        frame: Frame::new(&console, &session, title, "/connections")
            .await?
            .once(),
        url: offer.url,
        at: host.unwrap_or_else(|| "the provider".to_owned()),
    };
    Ok(page(StatusCode::OK, &shown))
}

async fn sign_out(
    Given(console): Given<Shared>,
    session: Session,
    Path((agent, server)): Path<(String, String)>,
    Form(form): Form<Bare>,
) -> Result<Redirect, Trouble> {
    session.check(&form.csrf)?;
    let link = link(&console.admin, &agent, &server)?;
    console
        .admin
        .keeper
        .sign_out(&link)
        .await
        .map_err(Problem::from)?;
    Ok(Redirect::to(&format!("/connections/{agent}/{server}")))
}

#[derive(Template)]
#[template(path = "agent.html")]
struct Agent {
    frame: Frame,
    csrf: String,
    name: String,
    address: String,
    has_key: bool,
    rows: Vec<Row>,
}

async fn agent(
    Given(console): Given<Shared>,
    session: Session,
    Path(name): Path<String>,
) -> Result<Response, Trouble> {
    let record = console
        .admin
        .directory
        .agent(&name)
        .await
        .map_err(Problem::from)?;
    let now = Timestamp::now();
    let links = console.admin.keeper.links_of(&record.name);
    let callback = console.admin.doors.callback.as_str();
    let base = callback.trim_end_matches("/oauth/callback");
    let shown = Agent {
        frame: Frame::new(&console, &session, format!("Agent {name}"), "/connections").await?,
        csrf: session.csrf(),
        address: format!("{base}/mcp"),
        has_key: record.key.is_some(),
        rows: links
            .iter()
            .map(|link| Row::new(&link.report(), now))
            .collect(),
        name,
    };
    Ok(page(StatusCode::OK, &shown).into_response())
}

#[cfg(test)]
mod tests {
    use steadfast_core::Wall;

    use super::*;

    #[test]
    fn the_strip_shows_the_worst_of_each_quarter() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let at = |minutes: i64| {
            let at = now - SignedDuration::from_mins(minutes);
            Wall(at.as_millisecond())
        };
        let moved = |minutes, from: &str, to: &str| Transition {
            agent: AgentName::from("a"),
            server: ServerName::from("s"),
            at: at(minutes),
            from: from.to_owned(),
            to: to.to_owned(),
            fault: None,
            reason: String::new(),
        };
        let history = [
            moved(5, "retrying", "connected"),
            moved(20, "connected", "retrying"),
            moved(60, "connecting", "connected"),
        ];
        let strip = strip(&history, "connected", now);
        assert_eq!(strip[SLOTS - 5..], ["", "good", "good", "busy", "busy"]);
        assert!(strip[..SLOTS - 4].iter().all(|slot| slot.is_empty()));
    }
}
