//! The first page, and the bell.

use askama::Template;
use axum::Router;
use axum::extract::State as Given;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use jiff::Timestamp;
use steadfast::report::rfc3339;
use steadfast::{Report, wording};
use steadfast_store::{NoticeRecord, OperationFilter};

use super::Shared;
use super::frame::{Frame, Trouble, page};
use super::operations::Line;
use super::row::Row;
use super::session::Session;
use crate::problem::Problem;

/// How many of each kind the first page shows.
const SHOWN: usize = 20;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/", get(overview))
        .route("/notices", get(notices))
}

struct Count {
    path: &'static str,
    tone: &'static str,
    number: usize,
    what: &'static str,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    csrf: String,
    counts: Vec<Count>,
    all: Vec<Row>,
    waiting: Vec<Row>,
    troubled: Vec<Row>,
    held: Vec<Line>,
    renewals: Vec<(String, String)>,
}

async fn overview(Given(console): Given<Shared>, session: Session) -> Result<Response, Trouble> {
    let now = Timestamp::now();
    let reports = reports(&console);
    let all: Vec<Row> = reports.iter().map(|report| Row::new(report, now)).collect();
    let of = |tone: &'static str| all.iter().filter(move |row| row.tone == tone);
    let filter = OperationFilter {
        state: Some("held".to_owned()),
        ..OperationFilter::default()
    };
    let held = console.admin.keeper.operations(&filter, SHOWN).await;
    let held: Vec<Line> = held.map_err(Problem::from)?.iter().map(Line::new).collect();
    let count = |path, tone, number, what| Count {
        path,
        tone: if number > 0 { tone } else { "off" },
        number,
        what,
    };
    let counts = vec![
        count("/connections", "good", of("good").count(), "connected"),
        count(
            "/connections",
            "busy",
            of("busy").count(),
            "come back by themselves",
        ),
        count("/notices", "person", of("person").count(), "wait for you"),
        count(
            "/operations",
            "person",
            held.len(),
            "calls of unknown outcome",
        ),
    ];
    let shown = Overview {
        frame: Frame::new(&console, &session, "Overview", "/").await?,
        csrf: session.csrf(),
        counts,
        waiting: of("person").take(SHOWN).cloned().collect(),
        troubled: of("busy").take(SHOWN).cloned().collect(),
        held,
        renewals: renewals(&reports, now),
        all,
    };
    Ok(page(StatusCode::OK, &shown))
}

/// All connections as they are now.
pub(super) fn reports(console: &Shared) -> Vec<Report> {
    let links = console.admin.keeper.links();
    links.iter().map(|link| link.report()).collect()
}

/// Whose sign-in is renewed next.
fn renewals(reports: &[Report], now: Timestamp) -> Vec<(String, String)> {
    let planned = |report: &Report| {
        Some((
            report.grant.renews_at.clone()?,
            report.agent.clone(),
            report.server.clone(),
        ))
    };
    let mut planned: Vec<_> = reports.iter().filter_map(planned).collect();
    planned.sort();
    planned.truncate(SHOWN);
    let shown = |(at, agent, server): (String, String, String)| {
        (format!("{agent} at {server}"), wording::until(&at, now))
    };
    planned.into_iter().map(shown).collect()
}

struct Notice {
    agent: String,
    server: String,
    path: String,
    fault: String,
    hint: &'static str,
    reload_helps: bool,
    sign_in: Option<&'static str>,
    at: String,
    until: String,
}

impl Notice {
    fn new(notice: &NoticeRecord, report: Option<&Report>) -> Self {
        let code = notice.fault.kind.code();
        let row = report.map(|report| Row::new(report, Timestamp::now()));
        Self {
            agent: notice.agent.as_str().to_owned(),
            server: notice.server.as_str().to_owned(),
            path: format!("/connections/{}/{}", notice.agent, notice.server),
            fault: format!("{code} {}", notice.fault.message),
            hint: code.hint,
            // Consent is not retried: a provider that said no says no again.
            reload_helps: !notice.fault.person_needed(),
            sign_in: row.filter(|row| row.can_sign_in).map(|row| row.sign_in),
            at: rfc3339(notice.opened_at),
            until: notice.cleared_at.map(rfc3339).unwrap_or_default(),
        }
    }
}

#[derive(Template)]
#[template(path = "notices.html")]
struct Notices {
    frame: Frame,
    csrf: String,
    open: Vec<Notice>,
    cleared: Vec<Notice>,
}

async fn notices(Given(console): Given<Shared>, session: Session) -> Result<Response, Trouble> {
    let found = console.admin.store.notices().await.map_err(Problem::from)?;
    let report = |notice: &NoticeRecord| {
        let link = console.admin.keeper.link(&notice.agent, &notice.server);
        link.map(|link| link.report())
    };
    let (open, cleared): (Vec<_>, Vec<_>) =
        found.iter().partition(|notice| notice.cleared_at.is_none());
    let shown = |notices: Vec<&NoticeRecord>| {
        let shown = |notice: &NoticeRecord| Notice::new(notice, report(notice).as_ref());
        notices.into_iter().map(shown).collect()
    };
    let page_of = Notices {
        frame: Frame::new(&console, &session, "What waits for you", "/notices").await?,
        csrf: session.csrf(),
        open: shown(open),
        cleared: shown(cleared),
    };
    Ok(page(StatusCode::OK, &page_of))
}
