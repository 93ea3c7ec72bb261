//! The bench measures: every kind of call in both eras, and memory, on the ways that need nothing installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn bench(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast-bench"));
    command.args(arguments).output().unwrap()
}

#[test]
fn every_kind_of_call_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.json");
    let output = bench(&[
        "--only=direct,hop,1,16",
        "--rounds=1",
        "--slice=0.3",
        "--sessions=20",
        "--json",
        file.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    let results: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let cells = results["cells"].as_array().unwrap();
    // Two ways, two eras; three kinds of call by two numbers of clients, and progress.
    assert_eq!(cells.len(), 2 * 2 * (3 * 2 + 1));
    for cell in cells {
        assert!(cell["calls_per_s"].as_f64().unwrap() > 0.0, "{cell}");
        let streams = cell["case"] == "sse" || cell["case"] == "progress";
        assert_eq!(cell["first_event_p50_us"].is_f64(), streams, "{cell}");
    }
    assert_eq!(results["memory"].as_array().unwrap().len(), 1);
    assert!(String::from_utf8_lossy(&output.stdout).contains("| KiB per idle session |"));
}

#[test]
fn what_cannot_be_measured_is_said_and_the_rest_is_measured() {
    let output = bench(&[
        "--only=direct,steadfast,json,1,legacy",
        "--rounds=1",
        "--slice=0.3",
        "--sessions=1",
        "--steadfast=/no/such/program",
    ]);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("steadfast serve cannot be started"),
        "{errors}"
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("| small call, JSON | 1 | direct |"));
}

/// What the record of a write costs is measured against the real binary, which is beside this one in a run of all tests.
#[test]
fn the_cost_of_the_record_is_measured() {
    let binary = Path::new(env!("CARGO_BIN_EXE_steadfast-bench")).with_file_name("steadfast");
    if !binary.exists() {
        eprintln!("skipped: {} is not built", binary.display());
        return;
    }
    let output = bench(&[
        "operations",
        "--operations=500",
        "--rounds=1",
        "--slice=0.3",
        "--steadfast",
        binary.to_str().unwrap(),
    ]);
    // Whether a bound is kept is for a release build on a quiet machine to say.
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || errors.contains("beyond its bound"),
        "{output:?}"
    );
    for clients in [1, 16, 64] {
        assert!(said.contains(&format!("\n| {clients} | ")), "{said}");
    }
    assert!(said.contains("the check for repeats: median"), "{said}");
}

#[test]
fn the_event_log_is_measured_beside_sqlite() {
    let output = bench(&["events", "--events=3000", "--size=200"]);
    // Whether a bound is kept is for a release build on a quiet machine to say.
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || errors.contains("beyond its bound"),
        "{output:?}"
    );
    for what in ["appended:", "replayed:", "first event of a replay: median"] {
        assert!(said.contains(what), "{said}");
    }
}
