//! The binary `steadfast`: configuration, wiring, terminal output.
//!
//! # Reading order
//!
//! 1. `cli`: what can be asked for.
//! 2. `commands`: one file for each command.
//! 3. `config`: `steadfast.toml`, and everything that can be wrong in it.
//! 4. `daemon`: store, keeper and gateway wired together.
//! 5. `client`, `directory`, `data_dir`: how commands reach a daemon, or its store.

mod cli;
mod client;
mod commands;
mod config;
mod context;
mod daemon;
mod data_dir;
mod directory;
mod failure;
mod logging;
mod output;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
