//! The workshop: `cargo xtask <command>`. Plain Rust and the programs that it names; nothing else to
//! learn or install.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what it prints is what it is for"
)]

mod bench;
mod ci;
mod counts;
mod diagrams;
mod setup;
mod shell;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <command>

  ci        formatting, lints, licences, documentation, and the project's own rules
  test      installs what the tests need, then runs all of them
  bench     measures Steadfast against a direct connection and nginx
  soak      soak gateway|operations [--calls N] [--seed N]: many agents, faults and restarts, for minutes
  diagrams  draws docs/machines/ anew from the tests of the core
  tidy      the project's own rules alone
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let outcome = match (command.as_str(), rest) {
        ("ci", []) => ci::run(),
        ("test", []) => test::run(),
        ("bench", rest) => bench::run(rest),
        ("soak", [what, rest @ ..]) => soak::run(what, rest),
        ("diagrams", []) => diagrams::run(),
        ("tidy", []) => tidy::run(),
        ("help" | "--help" | "-h", []) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nxtask {command}: {failure}");
            ExitCode::FAILURE
        }
    }
}
