//! `steadfast demo`: the faults, played one after another against scripted servers.

use clap::Args;
use steadfast_core::code;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Whether the command is listed.
pub(crate) const BUILT: bool = false;

/// `demo [--exit]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Stop after the script
    #[arg(long)]
    exit: bool,
}

/// Runs the command.
pub(crate) async fn run(_context: &Context, _arguments: Arguments) -> Result<Exit, Failure> {
    Err(Failure::new(code::NOT_BUILT, "`steadfast demo` is not built yet"))
}
