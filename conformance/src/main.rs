//! Runs the official conformance suite and the real peers: `cargo run -p steadfast-conformance -- all`.
//!
//! - `direct`: the suite against the everything server alone.
//! - `gateway`: the same, and then through the gateway, which must come out equal.
//! - `merged`: the same through the address of all servers.
//! - `bridge`: each revision through the gateway to a server of the other era.
//! - `clients`: the suite's client scenarios, with the keeper as the client, and with the whole product in those of
//!   authorization.
//! - `pairings`: real clients through the gateway to real servers that are killed in mid-session.
//! - `grants`: real authorization servers, a real browser, and restarts of everything.
//! - `api`: schemathesis against the admin API.
//! - `across`: real clients through the gateway to servers of the other era, and to several servers at one address.
//!
//! What is known to fail is in `exceptions.toml`, strict both ways.

mod across;
mod api;
mod clients;
mod exceptions;
mod gateway;
mod grants;
mod http;
mod outcome;
mod pairings;
mod peer;
mod peers;
mod process;
mod programs;
mod report;
mod requirements;
mod suite;
mod ways;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exceptions::{Exceptions, Place};
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
    /// The suite, directly and through the address of all servers.
    Merged,
    /// The suite, directly and through the gateway to servers of the other era.
    Bridge,
    /// The suite's client scenarios, those of authorization against the whole product.
    Clients,
    /// Real clients and real servers with the gateway between them.
    Pairings,
    /// Real clients on servers of the other era, and at the address of all servers.
    Across,
    /// A sign-in in a real browser at real authorization servers, and what keeps it alive.
    Grants,
    /// The admin API against its own description.
    Api,
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
    let programs = Programs::find(leg != Leg::Direct)?;
    let mut report = Report::default();
    let places: Option<&[Place]> = match leg {
        Leg::Direct => Some(&[]),
        Leg::Gateway => Some(&[Place::Gateway]),
        Leg::Merged => Some(&[Place::Merged]),
        Leg::Bridge => Some(&[Place::Bridge]),
        Leg::All => Some(&[Place::Gateway, Place::Merged, Place::Bridge]),
        Leg::Clients | Leg::Pairings | Leg::Across | Leg::Grants | Leg::Api => None,
    };
    if let Some(places) = places {
        report.servers = suite::run(&programs, logs, places).await?;
    }
    if matches!(leg, Leg::Clients | Leg::All) {
        report.clients = clients::run(&programs, logs).await?;
    }
    if matches!(leg, Leg::Pairings | Leg::All) {
        report.pairings = pairings::run(&programs, logs).await?;
    }
    if matches!(leg, Leg::Across | Leg::All) {
        report.across = across::run(&programs, logs).await?;
    }
    if matches!(leg, Leg::Grants | Leg::All) {
        report.grants = grants::run(&programs, logs).await?;
    }
    if matches!(leg, Leg::Api | Leg::All) {
        report.api = Some(api::run(&programs, logs).await);
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
