//! Calls: every way in turn, round after round.

use std::time::Duration;

use serde::Serialize;

use super::Run;
use crate::Outcome;
use crate::load::Slice;
use crate::process::Process;
use crate::protocol::{Case, Era};
use crate::routes::{Open, Route};

/// How many agents call at a time.
pub(crate) const CLIENTS: [usize; 3] = [1, 16, 64];

/// What a slice may take beyond its own time until it counts as stuck.
const GRACE: Duration = Duration::from_secs(10);

/// What was measured of one kind of call on one way: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) era: Era,
    pub(crate) case: Case,
    pub(crate) clients: usize,
    pub(crate) route: Route,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) calls_per_s: f64,
    /// CPU time of what is between agent and upstream; the same number is µs per call.
    pub(crate) cpu_ms_per_1000_calls: Option<f64>,
    pub(crate) first_event_p50_us: Option<f64>,
    /// p50 beyond the direct way, each round against its own.
    pub(crate) added_p50_us: Option<f64>,
    pub(crate) rounds: usize,
}

/// One kind of call.
#[derive(Clone, Copy, Debug)]
struct Kind {
    era: Era,
    case: Case,
    clients: usize,
}

impl Run<'_> {
    pub(super) async fn slices(&mut self) -> Outcome<Vec<Cell>> {
        let mut ways = Vec::new();
        for route in Route::ALL {
            if self.selection.has_route(route) {
                ways.extend(self.open(route).await);
            }
        }
        let kinds = self.kinds();
        let rounds = self.options.rounds();
        // measured[kind][way][round]
        let mut measured = vec![vec![vec![None; rounds]; ways.len()]; kinds.len()];
        for round in 0..rounds {
            eprintln!("round {} of {rounds}", round + 1);
            for (kind, measured) in kinds.iter().zip(&mut measured) {
                // Another way begins in each round: none is always the one after the same other.
                for turn in 0..ways.len() {
                    let index = (turn + round) % ways.len();
                    let slice = self.slice(&ways[index], *kind).await;
                    measured[index][round] = self.kept(slice);
                }
            }
        }
        let mut cells = Vec::new();
        for (kind, measured) in kinds.iter().zip(&measured) {
            let direct = ways
                .iter()
                .position(|way| way.route == Route::Direct)
                .map(|index| measured[index].as_slice());
            for (way, slices) in ways.iter().zip(measured) {
                cells.extend(cell(*kind, way, slices, direct));
            }
        }
        for way in ways {
            let stopped = way.stop().await;
            self.kept(stopped);
        }
        Ok(cells)
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for case in Case::ALL {
            for clients in CLIENTS {
                // A call that takes 20 ms says nothing about throughput.
                if case == Case::Progress && clients > 1 {
                    continue;
                }
                for era in Era::ALL {
                    if self.selection.has_case(case)
                        && self.selection.has_clients(clients)
                        && self.selection.has_era(era)
                    {
                        kinds.push(Kind { era, case, clients });
                    }
                }
            }
        }
        kinds
    }

    async fn slice(&self, way: &Open, kind: Kind) -> Outcome<Slice> {
        let warm_up = self.options.warm_up();
        let slice = self.options.slice();
        let mut arguments = way.target(kind.era).arguments();
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--case", kind.case.name().to_owned());
        add("--clients", kind.clients.to_string());
        add("--warm-up-ms", warm_up.as_millis().to_string());
        add("--slice-ms", slice.as_millis().to_string());
        for pid in &way.pids {
            add("--watch", pid.to_string());
        }
        let within = warm_up + slice + GRACE;
        let read = async {
            let mut load = Process::start_part("load", &arguments)?;
            let line = load.line(within).await?;
            load.ended(GRACE).await?;
            Outcome::Ok(serde_json::from_str::<Slice>(&line)?)
        };
        read.await.map_err(|failure| {
            let Kind { era, case, clients } = kind;
            format!(
                "{}, {} {}, {clients} clients: {failure}",
                way.route.name(),
                era.name(),
                case.name()
            )
            .into()
        })
    }
}

/// The medians over the rounds that succeeded.
fn cell(
    kind: Kind,
    way: &Open,
    slices: &[Option<Slice>],
    direct: Option<&[Option<Slice>]>,
) -> Option<Cell> {
    let of = |value: fn(&Slice) -> f64| median(slices.iter().flatten().map(value).collect());
    let calls: u64 = slices.iter().flatten().map(|slice| slice.calls).sum();
    let cpu: u64 = slices.iter().flatten().map(|slice| slice.cpu).sum();
    let first_events = slices
        .iter()
        .flatten()
        .filter_map(|slice| slice.first_event);
    let added = direct.and_then(|direct| {
        let pairs = slices.iter().zip(direct);
        let added = pairs.filter_map(|(slice, direct)| {
            Some(slice.as_ref()?.p50 as f64 - direct.as_ref()?.p50 as f64)
        });
        median(added.collect())
    });
    Some(Cell {
        era: kind.era,
        case: kind.case,
        clients: kind.clients,
        route: way.route,
        p50_us: of(|slice| slice.p50 as f64)? / 1e3,
        p99_us: of(|slice| slice.p99 as f64)? / 1e3,
        calls_per_s: of(|slice| slice.calls as f64 / slice.seconds)?,
        // Summed up, because the kernel counts CPU time in steps of 10 ms; for a few slow calls that says nothing.
        cpu_ms_per_1000_calls: (way.route != Route::Direct
            && kind.case != Case::Progress
            && calls > 0)
            .then(|| cpu as f64 / calls as f64 / 1e3),
        first_event_p50_us: median(first_events.map(|time| time as f64 / 1e3).collect()),
        added_p50_us: (way.route != Route::Direct)
            .then(|| added.map(|added| added / 1e3))
            .flatten(),
        rounds: slices.iter().flatten().count(),
    })
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(values[middle - 1], upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
