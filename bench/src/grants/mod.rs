//! Many grants that expire within one hour, renewed by what the keeper renews them with, and no connections beside it, which
//! would cost far more: whether any expires unrenewed, what that costs, and whether the search for due grants takes longer the more there are.
//!
//! The issuers are a process of their own, which also fills the store: what is measured of this one is the keeper's.
//! The hour is shorter than an hour, and the settings with it; the limit of the issuers is not, so that they refuse more.

mod issuers;
mod plan;
mod store;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use steadfast::config::{Agent, Server};
use steadfast::{Renewals, clock};
use steadfast_core::Wall;
use tokio::time::sleep;

use self::issuers::{Issuers, Seen};
use self::plan::{Plan, SERVER};
use crate::Outcome;
use crate::bounds::Bounds;
use crate::measure::{self, Memory};
use crate::options::{GrantsOptions, IssuersOptions};
use crate::process::Process;

/// So long the filling may take before the hour begins: a second, and one more for each so many grants.
const FILLED_PER_SECOND: usize = 4_000;
const PREPARED_WITHIN: Duration = Duration::from_secs(300);
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How often the memory is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A hundred times as many grants may make the search so many times as slow: what noise amounts to.
const SLOWER: f64 = 2.0;

/// What the issuers say once they are there.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    address: SocketAddr,
    begins: i64,
    /// How many grants there were, and how many microseconds one search took.
    searched: Vec<(usize, f64)>,
}

/// What the keeper needed, and left.
#[derive(Debug)]
struct Kept {
    took: Duration,
    cpu: Duration,
    memory: Memory,
    never_renewed: usize,
    expired: usize,
}

/// Measures, prints, and fails where a bound is exceeded.
pub(crate) fn run(options: &GrantsOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            measured = measure(options) => measured,
            // Dropping the run ends what it started.
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    })
}

async fn measure(options: &GrantsOptions) -> Outcome {
    let folder = tempfile::Builder::new()
        .prefix("steadfast-bench-")
        .tempdir()?;
    let mut arguments = options.arguments();
    arguments.push(format!("--data={}", folder.path().display()));
    let mut issuers = Process::start_part("issuers", &arguments)?;
    let ready: Ready = serde_json::from_str(&issuers.line(PREPARED_WITHIN).await?)?;
    println!(
        "{} grants of {} issuers that answer {} token requests per second; an hour is {} s",
        options.grants, options.issuers, options.rate, options.hour
    );
    for (grants, micros) in &ready.searched {
        println!("search for due grants among {grants}: {micros:.0} µs");
    }
    let plan = Plan {
        options: options.clone(),
        begins: Wall(ready.begins),
    };
    let kept = keep(&plan, folder.path(), ready.address).await?;
    issuers.go_on().await?;
    let seen: Seen = serde_json::from_str(&issuers.line(ANSWERS_WITHIN).await?)?;
    issuers.ended(ANSWERS_WITHIN).await?;
    report(&plan, &kept, &seen);
    judge(&plan, &ready, &kept, &seen).kept()
}

fn report(plan: &Plan, kept: &Kept, seen: &Seen) {
    // As it would be on a clock that is not scaled.
    let minutes = |millis: u64| millis as f64 * 60.0 / plan.hour() as f64;
    let [least, most_had, half_had] = seen.left.map(minutes);
    println!(
        "{} renewals in {:.0} s, {} late; {} requests refused with 429; {} grants never renewed, {} expired",
        seen.renewed,
        kept.took.as_secs_f64(),
        seen.late,
        seen.refused,
        kept.never_renewed,
        kept.expired
    );
    println!(
        "left of the access token's life when it was renewed, in minutes of that hour: least {least:.1}, 99 of 100 at least {most_had:.1}, median {half_had:.1}"
    );
    println!(
        "keeper: {:.0} MiB resident at most, {:.1} s of CPU, {:.0} µs per renewal",
        kept.memory.rss_kib as f64 / 1024.0,
        kept.cpu.as_secs_f64(),
        kept.cpu.as_micros() as f64 / seen.renewed.max(1) as f64
    );
}

fn judge(plan: &Plan, ready: &Ready, kept: &Kept, seen: &Seen) -> Bounds {
    let mut bounds = Bounds::default();
    bounds.keep("late renewals", seen.late == 0);
    bounds.keep("grants never renewed", kept.never_renewed == 0);
    bounds.keep("expired grants", kept.expired == 0);
    bounds.keep("refresh tokens presented twice", seen.wrong == 0);
    // Where there are enough for one look, so that each finds the same.
    let mut looks = ready.searched.iter();
    let enough = looks.find(|(grants, _)| store::fill_a_look(plan, *grants));
    if let (Some((_, few)), Some((_, many))) = (enough, ready.searched.last()) {
        bounds.keep("search for due grants", *many <= few * SLOWER);
    }
    bounds
}

/// Runs the keeper for the hour.
async fn keep(plan: &Plan, data: &Path, address: SocketAddr) -> Outcome<Kept> {
    store::wait_until(plan.begins).await;
    let own = [std::process::id()];
    let (began, spent) = (Instant::now(), measure::cpu_time(&own)?);
    let (store, vault) = store::open(data).await?;
    let server = Server::at(format!("http://{address}/mcp").parse()?);
    let agents =
        (0..plan.options.grants).map(|number| (plan::agent(number), Agent::with_servers([SERVER])));
    let servers = [(SERVER.into(), server)];
    let renewals = Renewals::start(&plan.settings(), Arc::clone(&store), vault, agents, servers)
        .await
        .map_err(|fault| fault.message)?;
    let mut memory = Memory::default();
    while clock::wall() < plan.ends() {
        sleep(LOOK_EVERY).await;
        let now = measure::memory(&own)?;
        if now.rss_kib > memory.rss_kib {
            memory = now;
        }
    }
    let took = began.elapsed();
    let cpu = measure::cpu_time(&own)?.saturating_sub(spent);
    let (never_renewed, expired) = store::neglected(&store, clock::wall()).await?;
    renewals.shutdown().await;
    store.close().await;
    Ok(Kept {
        took,
        cpu,
        memory,
        never_renewed,
        expired,
    })
}

/// The issuers' part: fills the store, answers until a line comes in, and says what it saw.
pub(crate) fn serve(options: &IssuersOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (ready, issuers) = prepare(&options.grants, &options.data).await?;
        println!("{}", serde_json::to_string(&ready)?);
        // Also where the driver is gone.
        tokio::task::spawn_blocking(|| io::stdin().read(&mut [0])).await??;
        println!("{}", serde_json::to_string(&issuers.seen())?);
        Ok(())
    })
}

async fn prepare(options: &GrantsOptions, data: &Path) -> Outcome<(Ready, Arc<Issuers>)> {
    let (listener, address) = issuers::listen().await?;
    let filling = Duration::from_secs(1 + (options.grants / FILLED_PER_SECOND) as u64);
    let begins = clock::wall().0 + i64::try_from(filling.as_millis())?;
    let plan = Plan {
        options: options.clone(),
        begins: Wall(begins),
    };
    let searched = store::fill(&plan, data, address).await?;
    let micros = |took: Duration| took.as_secs_f64() * 1e6;
    let searched = searched
        .into_iter()
        .map(|(count, took)| (count, micros(took)));
    let issuers = Issuers::new(plan)?;
    tokio::spawn(Arc::clone(&issuers).serve(listener));
    let ready = Ready {
        address,
        begins,
        searched: searched.collect(),
    };
    Ok((ready, issuers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The run that is measured, smaller: the hour is a few seconds, and one issuer has more at once than it answers in a second.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_grant_expires_unrenewed() {
        let options = GrantsOptions {
            grants: 60,
            issuers: 5,
            hour: 12,
            rate: 5,
            seed: 1,
        };
        let folder = tempfile::tempdir().unwrap();
        let (ready, issuers) = prepare(&options, folder.path()).await.unwrap();
        let plan = Plan {
            options,
            begins: Wall(ready.begins),
        };
        let kept = keep(&plan, folder.path(), ready.address).await.unwrap();
        let seen = issuers.seen();
        assert_eq!((kept.never_renewed, kept.expired), (0, 0), "{seen:?}");
        assert_eq!((seen.late, seen.wrong), (0, 0), "{seen:?}");
        assert!(seen.renewed >= 60, "{seen:?}");
    }
}
