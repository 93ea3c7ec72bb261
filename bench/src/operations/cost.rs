//! The same call of the same server, declared as a read and as a write.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bounds::Bounds;
use crate::driver::{CLIENTS, median};
use crate::load::{Agent, Slice};
use crate::options::{OperationsOptions, Target};
use crate::process::Process;
use crate::protocol::Era;
use crate::{Outcome, routes};

const AGENT: &str = "bench";
/// The server of each name is the same; only what is said of its tool differs.
const READS: &str = "reads";
const WRITES: &str = "writes";

/// The bounds that the project has set itself: at 64 agents at least this share of the calls, and at the median of one
/// agent no more than one sync.
const SHARE: f64 = 0.60;
const SYNCS: f64 = 1.0;

const START_WITHIN: Duration = Duration::from_secs(10);
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);
const WARM_UP: Duration = Duration::from_millis(300);
/// How often a sync of the storage is measured in each round.
const SYNCED: usize = 200;
/// About what the record of one call adds to the write-ahead log.
const PAGES: [u8; 16 << 10] = [7; 16 << 10];

/// What was measured in one round, in nanoseconds and calls per second.
#[derive(Clone, Copy, Debug)]
struct Round {
    reads: Slice,
    writes: Slice,
    sync: f64,
}

pub(super) async fn measure(options: &OperationsOptions, bounds: &mut Bounds) -> Outcome {
    let binary = match &options.steadfast {
        Some(binary) => binary.clone(),
        None => routes::build_steadfast().await?,
    };
    let mut upstream = Process::start_part("upstream", &[])?;
    let address = upstream.address(START_WITHIN).await?;
    let era = Era::Modern.name();
    let configuration = format!(
        "[agents.{AGENT}]\nservers = \"*\"\n\
         [servers.{READS}]\nurl = \"http://{address}/{era}?server={READS}\"\n\
         [servers.{READS}.tools.json]\neffect = \"read\"\n\
         [servers.{WRITES}]\nurl = \"http://{address}/{era}?server={WRITES}\"\n"
    );
    let served = routes::serve(&binary, &configuration, START_WITHIN).await?;
    let key = routes::key(&binary, &served.data, AGENT).await?;
    let target = |server: &str| Target {
        address: served.address,
        path: format!("/mcp/{server}"),
        era: Era::Modern,
        key: Some(key.clone()),
    };
    let (reads, writes) = (target(READS), target(WRITES));
    for target in [&reads, &writes] {
        answers(target).await?;
    }
    println!(
        "| agents | calls/s, read | calls/s, write | share | p50, read | p50, write | added | one sync |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for clients in CLIENTS {
        let mut rounds = Vec::new();
        for _ in 0..options.rounds.max(1) {
            rounds.push(Round {
                reads: slice(&reads, clients, options).await?,
                writes: slice(&writes, clients, options).await?,
                sync: sync_time(served.folder.path())?,
            });
        }
        report(clients, &rounds, bounds);
    }
    served.process.stop().await?;
    upstream.stop().await
}

fn report(clients: usize, rounds: &[Round], bounds: &mut Bounds) {
    let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value).collect()).unwrap_or(0.0);
    let per_s = |slice: &Slice| slice.calls as f64 / slice.seconds;
    let micros = |nanos: f64| nanos / 1e3;
    // Each round against its own, so that whatever the machine did meanwhile hit both.
    let share = median(
        rounds
            .iter()
            .map(|it| per_s(&it.writes) / per_s(&it.reads))
            .collect(),
    );
    let share = share.unwrap_or(0.0);
    let added = of(|it| it.writes.p50 as f64 - it.reads.p50 as f64);
    let sync = of(|it| it.sync);
    println!(
        "| {clients} | {:.0} | {:.0} | {:.0} % | {:.0} µs | {:.0} µs | {:.0} µs | {:.0} µs |",
        of(|it| it.reads.calls as f64 / it.reads.seconds),
        of(|it| it.writes.calls as f64 / it.writes.seconds),
        share * 100.0,
        micros(of(|it| it.reads.p50 as f64)),
        micros(of(|it| it.writes.p50 as f64)),
        micros(added),
        micros(sync),
    );
    match clients {
        1 => bounds.keep("what a record adds at p50", added <= sync * SYNCS),
        64 => bounds.keep("writes per second at 64 agents", share >= SHARE),
        _ => {}
    }
}

/// Waits until calls are answered.
async fn answers(target: &Target) -> Outcome {
    let began = Instant::now();
    while let Err(failure) = Agent::probe(target).await {
        if began.elapsed() > CONNECTED_WITHIN {
            return Err(failure);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn slice(target: &Target, clients: usize, options: &OperationsOptions) -> Outcome<Slice> {
    let length = options.slice();
    let mut arguments = target.arguments();
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    add("--case", "json".to_owned());
    add("--clients", clients.to_string());
    add("--warm-up-ms", WARM_UP.as_millis().to_string());
    add("--slice-ms", length.as_millis().to_string());
    // Nobody does the same thing twice: identical calls are looked at as possible repeats.
    arguments.push("--numbered".to_owned());
    let mut load = Process::start_part("load", &arguments)?;
    let line = load.line(WARM_UP + length + START_WITHIN).await?;
    load.ended(START_WITHIN).await?;
    Ok(serde_json::from_str(&line)?)
}

/// How long the storage takes, at the median, to have what a call adds to the log.
fn sync_time(folder: &Path) -> Outcome<f64> {
    let mut file = File::create(folder.join("synced"))?;
    let mut times = Vec::with_capacity(SYNCED);
    for _ in 0..SYNCED {
        file.write_all(&PAGES)?;
        let began = Instant::now();
        file.sync_data()?;
        times.push(began.elapsed().as_nanos() as f64);
    }
    Ok(median(times).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(calls: u64, p50: u64) -> Slice {
        Slice {
            calls,
            seconds: 1.0,
            p50,
            p99: p50,
            first_event: None,
            cpu: 0,
        }
    }

    #[test]
    fn each_bound_is_judged_where_it_counts() {
        let judged = |clients, writes| {
            let mut bounds = Bounds::default();
            let round = Round {
                reads: slice(1_000, 100_000),
                writes,
                sync: 50_000.0,
            };
            report(clients, &[round], &mut bounds);
            bounds.kept().is_ok()
        };
        assert!(judged(1, slice(10, 150_000)));
        assert!(!judged(1, slice(1_000, 151_000)));
        assert!(judged(64, slice(600, 900_000)));
        assert!(!judged(64, slice(599, 100_000)));
        assert!(judged(16, slice(1, 900_000)));
    }
}
