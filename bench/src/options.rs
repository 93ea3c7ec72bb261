//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::protocol::{Case, Era};

#[derive(Debug, Parser)]
#[command(about = "Measures Steadfast beside a direct connection, nginx and a bare hyper hop")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// The parts of a run, each a process of its own. The driver starts them; a person need not. And another run.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// Thousands of connections on one daemon: cold start, memory, idle CPU, and a server that swallows everything
    Fleet(FleetOptions),
    /// Many grants that expire within one hour, at issuers that refuse more than so many token requests per second
    Grants(GrantsOptions),
    /// What it costs that a consequential call is on record before it leaves, and a ledger of many operations
    Operations(OperationsOptions),
    /// The event log beside SQLite alone: appending, replay, the first event of a replay
    Events(EventsOptions),
    /// The issuers of those grants
    #[command(hide = true)]
    Issuers(IssuersOptions),
    /// The MCP server behind everything
    #[command(hide = true)]
    Upstream,
    /// The reference proxy
    #[command(hide = true)]
    Hop(HopOptions),
    /// Agents that call; prints one slice as JSON
    #[command(hide = true)]
    Load(LoadOptions),
    /// Agents that stay connected
    #[command(hide = true)]
    Hold(HoldOptions),
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Under a minute: shorter slices, fewer rounds and sessions; for a look, not for quoting
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seconds that one slice is measured for
    #[arg(long)]
    slice: Option<f64>,
    /// How often every slice is repeated; medians over the rounds are reported
    #[arg(long)]
    rounds: Option<usize>,
    /// Idle sessions in the measurement of memory
    #[arg(long)]
    sessions: Option<usize>,
    /// Measures only what these words select: direct, nginx, hop, steadfast; legacy, modern; json, sse, large,
    /// progress; 1, 16, 64; calls, memory. Words of one kind widen, of several kinds narrow
    #[arg(long, value_delimiter = ',', value_name = "WORDS")]
    pub(crate) only: Vec<String>,
    /// Writes everything that was measured to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Writes the numbers of this run into README.md; needs a complete run
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    pub(crate) update_readme: bool,
    /// A binary to measure; by default the release build of this checkout is made and taken
    #[arg(long, value_name = "FILE")]
    pub(crate) steadfast: Option<PathBuf>,
}

impl RunOptions {
    pub(crate) fn slice(&self) -> Duration {
        let default = if self.quick { 0.2 } else { 0.65 };
        // A negative or endless slice is taken for the shortest one.
        Duration::try_from_secs_f64(self.slice.unwrap_or(default)).unwrap_or_default()
    }

    /// Measured only once connections, caches and branch predictors are warm.
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.quick { 40 } else { 100 })
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 }).max(1)
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions
            .unwrap_or(if self.quick { 200 } else { 1000 })
            .max(1)
    }
}

#[derive(Debug, Args)]
pub(crate) struct FleetOptions {
    /// How many agents there are; each has every server
    #[arg(long, default_value_t = 50)]
    pub(crate) agents: usize,
    /// How many servers there are, half of them of each era
    #[arg(long, default_value_t = 100)]
    pub(crate) servers: usize,
    /// Seconds for which the idle fleet is watched: longer than the minute between health checks
    #[arg(long, default_value_t = 90)]
    pub(crate) idle: u64,
    /// A binary to measure; by default the release build of this checkout is made and taken
    #[arg(long, value_name = "FILE")]
    pub(crate) steadfast: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// How many events there are
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) events: u64,
    /// How many bytes each has
    #[arg(long, default_value_t = 512)]
    pub(crate) size: usize,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct GrantsOptions {
    /// How many grants there are
    #[arg(long, default_value_t = 100_000)]
    pub(crate) grants: usize,
    /// How many issuers they are from
    #[arg(long, default_value_t = 50)]
    pub(crate) issuers: usize,
    /// In how many seconds an hour passes. The lifetime of tokens and the settings are scaled, the limit of issuers is not
    #[arg(long, default_value_t = 600)]
    pub(crate) hour: u64,
    /// How many token requests per second an issuer answers; it refuses more with 429 and Retry-After
    #[arg(long, default_value_t = 20)]
    pub(crate) rate: u32,
    /// When each grant expires follows from this number
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl GrantsOptions {
    /// The arguments from which they are read back.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self {
            grants,
            issuers,
            hour,
            rate,
            seed,
        } = self;
        vec![
            format!("--grants={grants}"),
            format!("--issuers={issuers}"),
            format!("--hour={hour}"),
            format!("--rate={rate}"),
            format!("--seed={seed}"),
        ]
    }
}

#[derive(Debug, Args)]
pub(crate) struct OperationsOptions {
    /// How many operations the ledger has whose speed is measured
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) operations: usize,
    /// Seconds that one slice of calls is measured for
    #[arg(long, default_value_t = 3.0)]
    slice: f64,
    /// How often every slice is repeated; medians over the rounds are reported
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// A binary to measure; by default the release build of this checkout is made and taken
    #[arg(long, value_name = "FILE")]
    pub(crate) steadfast: Option<PathBuf>,
}

impl OperationsOptions {
    pub(crate) fn slice(&self) -> Duration {
        // A negative or endless slice is taken for the shortest one.
        Duration::try_from_secs_f64(self.slice).unwrap_or_default()
    }
}

#[derive(Debug, Args)]
pub(crate) struct IssuersOptions {
    #[command(flatten)]
    pub(crate) grants: GrantsOptions,
    /// The data directory that is filled
    #[arg(long)]
    pub(crate) data: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct HopOptions {
    #[arg(long)]
    pub(crate) upstream: SocketAddr,
}

/// Where agents call, and as whom.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long)]
    pub(crate) path: String,
    #[arg(long)]
    pub(crate) era: Era,
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    #[command(flatten)]
    pub(crate) target: Target,
    #[arg(long)]
    pub(crate) case: Case,
    #[arg(long)]
    pub(crate) clients: usize,
    #[arg(long)]
    pub(crate) warm_up_ms: u64,
    #[arg(long)]
    pub(crate) slice_ms: u64,
    /// No two calls are the same
    #[arg(long)]
    pub(crate) numbered: bool,
    /// Processes whose CPU time in the slice is reported
    #[arg(long)]
    pub(crate) watch: Vec<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct HoldOptions {
    #[command(flatten)]
    pub(crate) target: Target,
    #[arg(long)]
    pub(crate) sessions: usize,
}

impl Target {
    /// The arguments from which it is read back.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "--address".to_owned(),
            self.address.to_string(),
            "--path".to_owned(),
            self.path.clone(),
            "--era".to_owned(),
            self.era.name().to_owned(),
        ];
        if let Some(key) = &self.key {
            arguments.extend(["--key".to_owned(), key.clone()]);
        }
        arguments
    }
}
