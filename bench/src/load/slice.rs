//! One slice: so many agents call, each as fast as it is answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinSet, LocalSet};

use super::agent::{Agent, Calls, Timing};
use crate::options::LoadOptions;
use crate::{Outcome, measure, threads};

/// What one slice measured. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Slice {
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    /// Median time to the first event, of streams.
    pub(crate) first_event: Option<u64>,
    /// CPU time of the watched processes.
    pub(crate) cpu: u64,
}

/// Runs one slice and prints it as JSON.
pub(crate) fn run(options: &LoadOptions) -> Outcome {
    let count = threads::half_of_the_machine().min(options.clients);
    let ready = Barrier::new(count);
    let window = OnceLock::new();
    let threads = threads::on_each(count, |index| {
        one_thread(options, index, count, &ready, &window)
    })?;
    let mut sum = Stats::new()?;
    let mut cpu = Duration::ZERO;
    for thread in threads {
        let (stats, watched) = thread?;
        sum.totals.add(&stats.totals)?;
        sum.first_events.add(&stats.first_events)?;
        cpu += watched;
    }
    if sum.totals.is_empty() {
        return Err("no call ended within the slice".into());
    }
    let streams = !sum.first_events.is_empty();
    let slice = Slice {
        calls: sum.totals.len(),
        seconds: Duration::from_millis(options.slice_ms).as_secs_f64(),
        p50: sum.totals.value_at_quantile(0.50),
        p99: sum.totals.value_at_quantile(0.99),
        first_event: streams.then(|| sum.first_events.value_at_quantile(0.50)),
        cpu: u64::try_from(cpu.as_nanos())?,
    };
    println!("{}", serde_json::to_string(&slice)?);
    Ok(())
}

/// The time that counts: after the warm-up, the same for all threads.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Instant,
    until: Instant,
}

/// The times of the calls that ended within the window.
#[derive(Debug)]
struct Stats {
    totals: Histogram<u64>,
    first_events: Histogram<u64>,
}

impl Stats {
    fn new() -> Outcome<Self> {
        // From 100 ns to a minute, in three digits.
        let histogram = || Histogram::new_with_bounds(100, 60_000_000_000, 3);
        Ok(Self {
            totals: histogram()?,
            first_events: histogram()?,
        })
    }

    fn record(&mut self, window: Window, timing: Timing) {
        let end = timing.start + timing.total;
        if window.from <= end && end <= window.until {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.totals.saturating_record(nanos(timing.total));
            if let Some(time) = timing.first_event {
                self.first_events.saturating_record(nanos(time));
            }
        }
    }
}

async fn one_thread(
    options: &LoadOptions,
    index: usize,
    count: usize,
    ready: &Barrier,
    window: &OnceLock<Window>,
) -> Outcome<(Stats, Duration)> {
    let agents = open(options, index, count).await;
    // Also where it failed: the other threads wait here.
    ready.wait();
    let window = *window.get_or_init(|| {
        let from = Instant::now() + Duration::from_millis(options.warm_up_ms);
        let until = from + Duration::from_millis(options.slice_ms);
        Window { from, until }
    });
    let stats = Rc::new(RefCell::new(Stats::new()?));
    let local = LocalSet::new();
    let mut running = JoinSet::new();
    for (agent, calls) in agents? {
        let stats = Rc::clone(&stats);
        running.spawn_local_on(call_until(window, agent, calls, stats), &local);
    }
    let watched: &[u32] = if index == 0 { &options.watch } else { &[] };
    let cpu = local.run_until(watch(window, watched)).await?;
    local
        .run_until(async {
            while let Some(agent) = running.join_next().await {
                agent??.close().await?;
            }
            Outcome::Ok(())
        })
        .await?;
    let stats = Rc::into_inner(stats).ok_or("an agent is still calling")?;
    Ok((stats.into_inner(), cpu))
}

/// The agents of one thread.
async fn open(options: &LoadOptions, index: usize, count: usize) -> Outcome<Vec<(Agent, Calls)>> {
    let mut agents = Vec::new();
    for client in (index..options.clients).step_by(count) {
        let agent = Agent::open(&options.target).await?;
        let calls = Calls::new(&agent, options.case, client, options.numbered);
        agents.push((agent, calls));
    }
    Ok(agents)
}

async fn call_until(
    window: Window,
    mut agent: Agent,
    mut calls: Calls,
    stats: Rc<RefCell<Stats>>,
) -> Outcome<Agent> {
    loop {
        let timing = agent.call(&mut calls).await?;
        stats.borrow_mut().record(window, timing);
        if timing.start + timing.total >= window.until {
            return Ok(agent);
        }
    }
}

/// The CPU time that processes spend in the window.
async fn watch(window: Window, pids: &[u32]) -> Outcome<Duration> {
    tokio::time::sleep_until(window.from.into()).await;
    let before = measure::cpu_time(pids)?;
    tokio::time::sleep_until(window.until.into()).await;
    Ok(measure::cpu_time(pids)?.saturating_sub(before))
}
