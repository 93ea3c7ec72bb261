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
mod panics;

use std::process::ExitCode;

/// A call makes many small allocations on whichever thread it is, between answers of any size. In the mix
/// of `cargo xtask bench` the system's allocator spends several microseconds of CPU more on a small call.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    panics::tell_without_messages();
    cli::main()
}
