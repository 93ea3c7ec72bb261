//! `cargo xtask soak gateway [--calls N] [--seed N]`: the soak that every test run plays a tenth of, in full and
//! with another seed each time.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::shell::{Failure, Outcome, cargo, step};

/// Runs it.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let mut calls = 10_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut seed = since.map_or(1, |since| u64::from(since.subsec_nanos()));
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--calls" => calls = number(value)?,
            [name, value] if name == "--seed" => seed = number(value)?,
            _ => return Err(Failure::new(format!("unknown: {}", pair.join(" ")))),
        }
    }
    let mut soak = cargo(&[
        "test",
        "--locked",
        "--package",
        "steadfast-cli",
        "--test",
        "cases",
        "operating::soak",
        "--",
        "--nocapture",
    ]);
    soak.env("SOAK_CALLS", calls.to_string())
        .env("SOAK_SEED", seed.to_string());
    step("soak", &mut soak)
}

fn number(text: &str) -> Outcome<u64> {
    text.parse()
        .map_err(|_| Failure::new(format!("`{text}` is no whole number")))
}
