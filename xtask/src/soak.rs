//! `cargo xtask soak gateway|operations [--calls N] [--seed N]`: the soaks that every test run plays a tenth of, in full and
//! with another seed each time. `soak operations --replay FILE` plays the one round again that left the file.

use std::path::absolute;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::shell::{Failure, Outcome, cargo, step};

/// A soak: the test that plays it, and how many calls it makes in full.
struct Soak {
    test: &'static str,
    calls: u64,
}

pub(crate) fn run(which: &str, arguments: &[String]) -> Outcome {
    let soak = match which {
        "gateway" => Soak {
            test: "operating::soak",
            calls: 10_000,
        },
        "operations" => Soak {
            test: "operations::soak",
            calls: 20_000,
        },
        _ => return Err(Failure::new(format!("no such soak: {which}"))),
    };
    let mut calls = soak.calls;
    let mut replay = None;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut seed = since.map_or(1, |since| u64::from(since.subsec_nanos()));
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--calls" => calls = number(value)?,
            [name, value] if name == "--seed" => seed = number(value)?,
            [name, file] if name == "--replay" && which == "operations" => {
                // The test runs in the folder of its crate.
                let file = absolute(file).map_err(|error| Failure::new(error.to_string()))?;
                replay = Some(file);
            }
            _ => return Err(Failure::new(format!("unknown: {}", pair.join(" ")))),
        }
    }
    let mut command = cargo(&[
        "test",
        "--locked",
        "--package",
        "steadfast-cli",
        "--test",
        "cases",
        soak.test,
        "--",
        "--nocapture",
    ]);
    command
        .env("SOAK_CALLS", calls.to_string())
        .env("SOAK_SEED", seed.to_string());
    if let Some(file) = replay {
        command.env("SOAK_REPLAY", file);
    }
    step("soak", &mut command)
}

fn number(text: &str) -> Outcome<u64> {
    text.parse()
        .map_err(|_| Failure::new(format!("`{text}` is no whole number")))
}
