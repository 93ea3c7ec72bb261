//! The part of README.md that is written from a run.

use std::fmt::Write as _;
use std::path::Path;

use super::ratios::find;
use super::tables;
use crate::Outcome;
use crate::driver::{CLIENTS, Results};
use crate::protocol::{Case, Era};
use crate::routes::Route;

const BEGIN: &str = "<!-- bench:begin";
const END: &str = "<!-- bench:end -->";

/// The columns: the ways that both eras share are shown in the legacy era, to which they are indifferent.
const COLUMNS: [(&str, Route, Era); 5] = [
    ("direct", Route::Direct, Era::Legacy),
    ("nginx", Route::Nginx, Era::Legacy),
    ("bare hyper hop", Route::Hop, Era::Legacy),
    ("Steadfast, legacy", Route::Steadfast, Era::Legacy),
    ("Steadfast, modern", Route::Steadfast, Era::Modern),
];

/// Replaces what is between the marks.
pub(crate) fn update(results: &Results) -> Outcome {
    if !results.failures.is_empty() {
        return Err("README.md is unchanged: the run is not complete".into());
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(&file)?;
    let text = replaced(&text, &part(results)).ok_or("README.md has no marks of the bench")?;
    std::fs::write(&file, text)?;
    Ok(())
}

fn replaced(text: &str, part: &str) -> Option<String> {
    let begin = text.find(BEGIN)?;
    let begin = begin + text[begin..].find('\n')?;
    let end = begin + text[begin..].find(END)?;
    Some(format!("{}\n\n{part}\n{}", &text[..begin], &text[end..]))
}

fn part(results: &Results) -> String {
    format!(
        "{}\n\n{}\n{}\n{}",
        tables::conditions(results),
        tables::ratios(results),
        calls(results),
        tables::memory(results)
    )
}

fn calls(results: &Results) -> String {
    let mut out = String::from("| p50 / p99 µs, calls/s, CPU per call |");
    for (name, ..) in COLUMNS {
        let _ = write!(out, " {name} |");
    }
    let _ = writeln!(out, "\n| --- |{}", " ---: |".repeat(COLUMNS.len()));
    for case in [Case::Json, Case::Sse, Case::Large] {
        for clients in CLIENTS {
            let plural = if clients == 1 { "" } else { "s" };
            let _ = write!(out, "| {case}, {clients} client{plural} |");
            for (_, route, era) in COLUMNS {
                let _ = write!(out, " {} |", cell(results, route, era, case, clients));
            }
            out.push('\n');
        }
    }
    let _ = write!(out, "| first event, result 20 ms later, µs |");
    for (_, route, era) in COLUMNS {
        let cell = find(results, route, era, Case::Progress, 1);
        let first = cell.and_then(|cell| cell.first_event_p50_us);
        let _ = write!(out, " {} |", tables::optional(first, 0));
    }
    out.push('\n');
    out
}

fn cell(results: &Results, route: Route, era: Era, case: Case, clients: usize) -> String {
    let Some(cell) = find(results, route, era, case, clients) else {
        return "–".to_owned();
    };
    let cpu = cell
        .cpu_ms_per_1000_calls
        .map(|cpu| format!(", {cpu:.0} µs"))
        .unwrap_or_default();
    format!(
        "{:.0} / {:.0}, {:.0}{cpu}",
        cell.p50_us, cell.p99_us, cell.calls_per_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = "# A\n\n<!-- bench:begin (x) -->\n\nold\n\n<!-- bench:end -->\n\nrest\n";
        let new = replaced(text, "new\n").unwrap();
        assert_eq!(
            new,
            "# A\n\n<!-- bench:begin (x) -->\n\nnew\n\n<!-- bench:end -->\n\nrest\n"
        );
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        assert_eq!(replaced("# A\n", "new\n"), None);
    }
}
