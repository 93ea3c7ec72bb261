//! Tables in Markdown.

use std::fmt::Write as _;

use super::ratios::{Row, find};
use crate::driver::{CLIENTS, Results};
use crate::protocol::{Case, Era};
use crate::routes::Route;

/// Everything.
pub(crate) fn tables(results: &Results) -> String {
    let mut out = format!("\n{}\n\n", conditions(results));
    for era in Era::ALL {
        if results.cells.iter().any(|cell| cell.era == era) {
            let _ = writeln!(out, "{} era\n\n{}", era.name(), cells(results, era));
        }
    }
    if !results.memory.is_empty() {
        let _ = writeln!(out, "{}", memory(results));
    }
    if !results.ratios.is_empty() {
        let _ = writeln!(out, "{}", ratios(results));
    }
    out
}

/// On what, and how.
pub(super) fn conditions(results: &Results) -> String {
    let machine = &results.machine;
    format!(
        "{} cores ({}), everything on them; medians of {} interleaved rounds of {} s.",
        machine.cores, machine.processor, results.rounds, results.slice_seconds
    )
}

fn cells(results: &Results, era: Era) -> String {
    let mut out = String::from(
        "| call | clients | way | p50 µs | p99 µs | calls/s | CPU ms per 1,000 calls | first event µs |\n\
         | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for case in Case::ALL {
        for clients in CLIENTS {
            for route in Route::ALL {
                let Some(cell) = find(results, route, era, case, clients) else {
                    continue;
                };
                let _ = writeln!(
                    out,
                    "| {case} | {clients} | {} | {:.0} | {:.0} | {:.0} | {} | {} |",
                    route.name(),
                    cell.p50_us,
                    cell.p99_us,
                    cell.calls_per_s,
                    optional(cell.cpu_ms_per_1000_calls, 1),
                    optional(cell.first_event_p50_us, 0),
                );
            }
        }
    }
    out
}

pub(super) fn memory(results: &Results) -> String {
    let mut out = String::from(
        "| memory | idle, RSS MiB | idle, PSS MiB | 1,000 idle sessions, MiB | the same with GET streams, MiB |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    for memory in &results.memory {
        // KiB per session are MiB per 1,024 sessions.
        let per_thousand = |kib_per_session: f64| kib_per_session * 1000.0 / 1024.0;
        let _ = writeln!(
            out,
            "| {} | {:.1} | {:.1} | {:.1} | {:.1} |",
            memory.route.name(),
            memory.idle.rss_kib as f64 / 1024.0,
            memory.idle.pss_kib as f64 / 1024.0,
            per_thousand(memory.per_session()),
            per_thousand(memory.per_session_with_stream()),
        );
    }
    out
}

/// One column for each proxy and era that was measured.
pub(super) fn ratios(results: &Results) -> String {
    let mut head = String::from("| small call as JSON, unless it says otherwise | reach |");
    let mut rule = String::from("| --- | ---: |");
    for ratios in &results.ratios {
        let _ = write!(head, " {}, {} |", ratios.route.name(), ratios.era.name());
        rule.push_str(" ---: |");
    }
    let mut out = format!("{head}\n{rule}\n");
    let Some(first) = results.ratios.first() else {
        return out;
    };
    for (index, Row { name, reach, .. }) in first.rows.iter().enumerate() {
        let _ = write!(out, "| {name} | {} |", reach.shown());
        for ratios in &results.ratios {
            let _ = write!(out, " {} |", judged(&ratios.rows[index], ratios.route));
        }
        out.push('\n');
    }
    out
}

/// The reference has nothing to reach.
fn judged(row: &Row, route: Route) -> String {
    match row.value {
        None => "–".to_owned(),
        Some(value) if route == Route::Steadfast && !row.reach.is_met_by(value) => {
            format!("{} (missed)", number(value))
        }
        Some(value) => number(value),
    }
}

fn number(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1}")
    }
}

pub(super) fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}
