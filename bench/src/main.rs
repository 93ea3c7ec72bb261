//! What a call costs on its way through Steadfast, beside a direct connection, nginx and a bare hyper hop.
//!
//! Every part is a process of its own, so that its CPU time and memory are its own:
//!
//! | module | process |
//! | --- | --- |
//! | [`upstream`] | a fast MCP server of both eras |
//! | [`hop`] | the reference: a proxy on hyper that only splices the RPC id |
//! | [`load`] | the agents that call, and (`hold`) the agents that merely stay connected |
//! | [`driver`] | starts the others, rotates through them in short slices, and reports |
//!
//! [`fleet`] is a run of its own: thousands of connections on one daemon. So is [`grants`]: a hundred thousand grants to
//! renew. And [`events`]: the event log beside SQLite alone. And [`operations`]: what it costs to have consequential calls on record. [`report`] turns what was measured into ratios: they carry over to other machines, the times do not.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what it prints is what it is for"
)]

mod bounds;
mod driver;
mod events;
mod fleet;
mod grants;
mod hop;
mod load;
mod measure;
mod operations;
mod options;
mod process;
mod protocol;
mod report;
mod routes;
mod threads;
mod upstream;

use std::process::ExitCode;

use clap::Parser;

use crate::options::{Arguments, Part};

/// Whatever stopped a part: said once, to a person.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let Arguments { part, run } = Arguments::parse();
    let outcome = match part {
        None => driver::run(&run),
        Some(Part::Fleet(options)) => fleet::run(&options),
        Some(Part::Grants(options)) => grants::run(&options),
        Some(Part::Operations(options)) => operations::run(&options),
        Some(Part::Events(options)) => events::run(&options),
        Some(Part::Issuers(options)) => grants::serve(&options),
        Some(Part::Upstream) => upstream::run(),
        Some(Part::Hop(options)) => hop::run(&options),
        Some(Part::Load(options)) => load::run(&options),
        Some(Part::Hold(options)) => load::hold(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("steadfast-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}
