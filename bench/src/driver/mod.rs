//! The driver: starts everything, measures memory in fresh processes, then rotates through the ways in short
//! slices, so that whatever the machine does meanwhile hits all of them alike.

mod memory;
mod selection;
mod slices;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::selection::{Part, Selection};
use crate::measure::Machine;
use crate::options::RunOptions;
use crate::process::Process;
use crate::report::{self, Ratios};
use crate::routes::{self, Open, Route};
use crate::{Outcome, measure};

pub(crate) use self::memory::MemoryOf;
pub(crate) use self::slices::{CLIENTS, Cell, median};

const START_WITHIN: Duration = Duration::from_secs(10);

/// Everything that one run found out.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) rounds: usize,
    pub(crate) slice_seconds: f64,
    pub(crate) sessions: usize,
    pub(crate) cells: Vec<Cell>,
    pub(crate) memory: Vec<MemoryOf>,
    pub(crate) ratios: Vec<Ratios>,
    pub(crate) failures: Vec<String>,
}

/// Measures, prints and writes what was asked for.
pub(crate) fn run(options: &RunOptions) -> Outcome {
    let selection = Selection::read(&options.only)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let results = runtime.block_on(async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        // Dropping the run ends what it started.
        tokio::select! {
            results = measure_all(options, &selection) => results,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            _ = terminate.recv() => Err("terminated".into()),
        }
    })?;
    println!("{}", report::tables(&results));
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&results)?)?;
    }
    if options.update_readme {
        report::update_readme(&results)?;
    }
    if results.failures.is_empty() {
        Ok(())
    } else {
        Err(format!("not measured:\n  {}", results.failures.join("\n  ")).into())
    }
}

async fn measure_all(options: &RunOptions, selection: &Selection) -> Outcome<Results> {
    let start = Instant::now();
    let mut upstream = Process::start_part("upstream", &[])?;
    let mut run = Run {
        options,
        selection,
        upstream: upstream.address(START_WITHIN).await?,
        binary: None,
        failures: Vec::new(),
    };
    if selection.has_route(Route::Steadfast) {
        match &options.steadfast {
            Some(binary) => run.binary = Some(binary.clone()),
            None => run.binary = run.kept(routes::build_steadfast().await),
        }
    }
    let mut memory = Vec::new();
    if selection.has_part(Part::Memory) {
        memory = run.memory().await;
    }
    let mut cells = Vec::new();
    if selection.has_part(Part::Calls) {
        cells = run.slices().await?;
    }
    upstream.stop().await?;
    eprintln!("measured in {:.0} s", start.elapsed().as_secs_f64());
    let mut results = Results {
        machine: measure::machine(),
        rounds: options.rounds(),
        slice_seconds: options.slice().as_secs_f64(),
        sessions: options.sessions(),
        ratios: Vec::new(),
        cells,
        memory,
        failures: run.failures,
    };
    results.ratios = report::ratios(&results);
    Ok(results)
}

/// What the steps of a run share.
#[derive(Debug)]
struct Run<'a> {
    options: &'a RunOptions,
    selection: &'a Selection,
    upstream: SocketAddr,
    /// The binary of Steadfast, where it could be built.
    binary: Option<PathBuf>,
    failures: Vec<String>,
}

impl Run<'_> {
    /// A failure is said at once and at the end, and stops nothing else.
    fn kept<T>(&mut self, outcome: Outcome<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(failure) => {
                let failure = failure.to_string();
                eprintln!("not measured: {failure}");
                if !self.failures.contains(&failure) {
                    self.failures.push(failure);
                }
                None
            }
        }
    }

    async fn open(&mut self, route: Route) -> Option<Open> {
        if route == Route::Steadfast && self.binary.is_none() {
            return None; // said where it was built
        }
        let opened = Open::start(route, self.upstream, self.binary.as_ref()).await;
        self.kept(opened)
    }
}
