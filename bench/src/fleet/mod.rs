//! A fleet on one daemon: how soon all connections are up after a cold start, what they cost while nobody calls, and
//! whether a server that swallows everything changes the times of the others.

mod daemon;
mod hole;

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::{sleep, timeout};

use self::daemon::Daemon;
use self::hole::Hole;
use crate::bounds::Bounds;
use crate::load::Slice;
use crate::options::{FleetOptions, Target};
use crate::process::Process;
use crate::protocol::Era;
use crate::{Outcome, measure, routes};

/// The bounds that the project has set itself.
const CONNECTED_WITHIN: Duration = Duration::from_secs(60);
const IDLE_SHARE: f64 = 0.03;
const SLOWER: f64 = 0.20;

/// Until allocations and handshakes have settled.
const SETTLED_AFTER: Duration = Duration::from_secs(10);
const START_WITHIN: Duration = Duration::from_secs(10);
/// How often the calls are measured with and without the hole.
const ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_secs(3);
const CALLERS: usize = 16;

/// Measures, prints, and fails where a bound is exceeded.
pub(crate) fn run(options: &FleetOptions) -> Outcome {
    allow_all_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
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

/// The processes that are started inherit it.
fn allow_all_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        eprintln!("the limit of open files stays: {error}");
    }
}

async fn measure(options: &FleetOptions) -> Outcome {
    let binary = match &options.steadfast {
        Some(binary) => binary.clone(),
        None => routes::build_steadfast().await?,
    };
    let mut upstream = Process::start_part("upstream", &[])?;
    let address = upstream.address(START_WITHIN).await?;
    let hole = Hole::before(address)?;
    let links = options.agents * options.servers;
    let mut bounds = Bounds::default();

    let began = Instant::now();
    let daemon = Daemon::start(&binary, options, address, hole.address()).await?;
    let limit = CONNECTED_WITHIN * 3;
    timeout(limit, daemon.connected(links))
        .await
        .map_err(|_| format!("not all {links} connections were up after {limit:?}"))??;
    let took = began.elapsed();
    println!(
        "{links} connections ({} agents, {} servers) up {:.1} s after a cold start",
        options.agents,
        options.servers,
        took.as_secs_f64()
    );
    bounds.keep("connected", took <= CONNECTED_WITHIN);

    sleep(SETTLED_AFTER).await;
    let memory = measure::memory(&[daemon.pid()])?;
    println!(
        "{:.0} MiB resident, {:.1} KiB per connection",
        memory.rss_kib as f64 / 1024.0,
        memory.rss_kib as f64 / links as f64
    );
    let idle = Duration::from_secs(options.idle);
    let before = measure::cpu_time(&[daemon.pid()])?;
    sleep(idle).await;
    let spent = measure::cpu_time(&[daemon.pid()])?.saturating_sub(before);
    let share = spent.as_secs_f64() / idle.as_secs_f64();
    println!(
        "{:.2} % of a core while nobody calls, over {} s",
        share * 100.0,
        options.idle
    );
    bounds.keep("idle CPU", share < IDLE_SHARE);

    let (without, with) = beside_a_hole(&daemon, &hole).await?;
    let slower = with / without - 1.0;
    println!(
        "p99 of {CALLERS} callers of another server: {:.2} ms, and {:.2} ms ({:+.0} %) beside a server that swallows everything",
        without / 1e6,
        with / 1e6,
        slower * 100.0
    );
    bounds.keep("p99 beside a black hole", slower <= SLOWER);
    daemon.stop().await?;
    upstream.stop().await?;
    bounds.kept()
}

/// The median p99, without and with calls that a black hole swallows: in turns, so that whatever the machine does
/// meanwhile hits both.
async fn beside_a_hole(daemon: &Daemon, hole: &Hole) -> Outcome<(f64, f64)> {
    let key = daemon.key().await?;
    let others = daemon.target("server1", Era::of(1), &key);
    let swallowed = daemon.target("hole", Era::Legacy, &key);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(p99(&others).await?);
        let mut calling = load(&swallowed, SLICE * 4)?;
        // They have begun, and wait for answers that do not come.
        sleep(Duration::from_secs(1)).await;
        hole.swallow(true);
        sleep(Duration::from_secs(1)).await;
        with.push(p99(&others).await?);
        hole.swallow(false);
        calling.kill().await?;
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok((median(without), median(with)))
}

fn load(target: &Target, slice: Duration) -> Outcome<Process> {
    let mut arguments = target.arguments();
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    add("--case", "json".to_owned());
    add("--clients", CALLERS.to_string());
    add("--warm-up-ms", "300".to_owned());
    add("--slice-ms", slice.as_millis().to_string());
    Process::start_part("load", &arguments)
}

async fn p99(target: &Target) -> Outcome<f64> {
    let mut load = load(target, SLICE)?;
    let line = load.line(SLICE + START_WITHIN).await?;
    load.ended(START_WITHIN).await?;
    Ok(serde_json::from_str::<Slice>(&line)?.p99 as f64)
}
