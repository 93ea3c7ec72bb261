//! Runs the official conformance suite and the real peers: `cargo run -p steadfast-conformance -- all`.
//!
//! - `direct`: the suite against the everything server alone.
//! - `gateway`: the same, and then through the gateway, which must come out equal.
//! - `clients`: the suite's client scenarios, with the keeper as the client.
//! - `pairings`: real clients through the gateway to real servers that are killed in mid-session.
//!
//! What is known to fail is in `exceptions.toml`, strict both ways.

mod clients;
mod exceptions;
mod gateway;
mod http;
mod pairings;
mod peer;
mod process;
mod programs;
mod report;
mod requirements;
mod suite;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exceptions::Exceptions;
use crate::process::Logs;
use crate::programs::Programs;
use crate::report::Report;

/// Whatever stops a run; scenarios that fail do not.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
#[command(about = "Runs the MCP conformance suite and the real peers")]
struct Args {
    #[command(subcommand)]
    leg: Leg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum Leg {
    /// The suite against the everything server.
    Direct,
    /// The suite against the everything server, directly and through the gateway.
    Gateway,
    /// The suite's client scenarios against the keeper.
    Clients,
    /// Real clients and real servers with the gateway between them.
    Pairings,
    /// All of the above.
    All,
}

#[tokio::main]
async fn main() -> ExitCode {
    let logs = match Logs::new() {
        Ok(logs) => logs,
        Err(failure) => {
            say(&format!("error: {failure}"));
            return ExitCode::FAILURE;
        }
    };
    let passed = match run(Args::parse().leg, &logs).await {
        Ok(report) => {
            say(&report.to_string());
            report.passed()
        }
        Err(failure) => {
            say(&format!("error: {failure}"));
            false
        }
    };
    if passed {
        return ExitCode::SUCCESS;
    }
    let logs = logs.keep();
    say(&format!(
        "The output of all programs is in {}",
        logs.display()
    ));
    ExitCode::FAILURE
}

async fn run(leg: Leg, logs: &Logs) -> Result<Report, Failure> {
    let exceptions = Exceptions::load()?;
    let programs = Programs::find(matches!(leg, Leg::Gateway | Leg::Pairings | Leg::All))?;
    let mut report = Report::default();
    if matches!(leg, Leg::Direct | Leg::Gateway | Leg::All) {
        report.servers = suite::run(&programs, logs, leg != Leg::Direct).await?;
    }
    if matches!(leg, Leg::Clients | Leg::All) {
        report.clients = clients::run(&programs, logs).await?;
    }
    if matches!(leg, Leg::Pairings | Leg::All) {
        report.pairings = pairings::run(&programs, logs).await?;
    }
    report.judge(&exceptions);
    Ok(report)
}

/// A line of the report; where nobody reads standard output there is nothing to do about it.
pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{line}");
    let _ = stdout.flush();
}
