//! The ratios that are the goal: they hold on other machines, too.

use serde::Serialize;

use crate::driver::{Cell, Results};
use crate::protocol::{Case, Era};
use crate::routes::Route;

/// One proxy in one era against nginx.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ratios {
    pub(crate) route: Route,
    pub(crate) era: Era,
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) value: Option<f64>,
    pub(crate) reach: Reach,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reach {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
}

impl Reach {
    pub(crate) fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
            Self::Below(limit) => value < limit,
        }
    }

    pub(crate) fn shown(self) -> String {
        match self {
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::AtLeast(limit) => format!("≥ {limit}"),
            Self::Below(limit) => format!("< {limit}"),
        }
    }
}

/// The ratios of Steadfast and of the reference in both eras, as far as they were measured.
pub(crate) fn ratios(results: &Results) -> Vec<Ratios> {
    let mut all = Vec::new();
    for route in [Route::Hop, Route::Steadfast] {
        for era in Era::ALL {
            let rows = rows(results, route, era);
            if rows.iter().any(|row| row.value.is_some()) {
                all.push(Ratios { route, era, rows });
            }
        }
    }
    all
}

fn rows(results: &Results, route: Route, era: Era) -> Vec<Row> {
    let cell = |route, case, clients| find(results, route, era, case, clients);
    let against_nginx = |case, clients, value: fn(&Cell) -> Option<f64>| {
        let nginx = value(cell(Route::Nginx, case, clients)?)?;
        // Where nginx seems to add nothing, the machine was too busy to say.
        (nginx > 0.0).then_some(value(cell(route, case, clients)?)? / nginx)
    };
    // Sessions are a thing of the legacy era.
    let memory = (era == Era::Legacy)
        .then(|| results.memory.iter().find(|memory| memory.route == route))
        .flatten();
    let row = |name, value, reach| Row { name, value, reach };
    vec![
        row(
            "latency added at p50 / added by nginx, 1 client",
            against_nginx(Case::Json, 1, |cell| cell.added_p50_us),
            Reach::AtMost(1.5),
        ),
        row(
            "latency added at p50 / added by nginx, 16 clients",
            against_nginx(Case::Json, 16, |cell| cell.added_p50_us),
            Reach::AtMost(1.5),
        ),
        row(
            "calls/s / nginx's, 16 clients",
            against_nginx(Case::Json, 16, |cell| Some(cell.calls_per_s)),
            Reach::AtLeast(0.8),
        ),
        row(
            "CPU per small call, 16 clients, µs",
            cell(route, Case::Json, 16).and_then(|cell| cell.cpu_ms_per_1000_calls),
            Reach::AtMost(22.0),
        ),
        row(
            "p50 of 100 KB / nginx's, 1 client",
            against_nginx(Case::Large, 1, |cell| Some(cell.p50_us)),
            Reach::Below(1.0),
        ),
        row(
            "KiB per idle session",
            memory.map(|memory| memory.per_session()),
            Reach::AtMost(25.0),
        ),
        row(
            "KiB per idle session with its GET stream",
            memory.map(|memory| memory.per_session_with_stream()),
            Reach::AtMost(50.0),
        ),
    ]
}

pub(super) fn find(
    results: &Results,
    route: Route,
    era: Era,
    case: Case,
    clients: usize,
) -> Option<&Cell> {
    results.cells.iter().find(|cell| {
        cell.route == route && cell.era == era && cell.case == case && cell.clients == clients
    })
}
