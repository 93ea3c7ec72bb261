//! `cargo xtask test`: makes the machine ready and runs every test there is.

use crate::counts::Counts;
use crate::setup;
use crate::shell::{Failure, Outcome, cargo, command, output, step, step_with_lines};

/// Installs what is missing, builds, and runs all suites: a failure of one does not hide the next.
pub(crate) fn run() -> Outcome {
    let peers = setup::peers()?;
    step("build", &mut cargo(&["build", "--locked", "--workspace"]))?;

    let mut counts = Counts::default();
    let tests = step_with_lines(
        "tests",
        &mut cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]),
        |line| counts += Counts::of_line(line).unwrap_or_default(),
    );
    let conformance = step(
        "conformance suite and real peers",
        &mut cargo(&[
            "run",
            "--quiet",
            "--package",
            "steadfast-conformance",
            "--",
            "all",
        ]),
    );

    println!("\n── summary");
    println!("   node {}, python {}", peers.node, peers.python);
    if let Some(commit) = output(&mut command("git", &["rev-parse", "--short", "HEAD"])) {
        println!("   at {}", commit.trim());
    }
    let verdict = |outcome: &Outcome| if outcome.is_ok() { "passed" } else { "FAILED" };
    println!("   tests of the workspace: {}", verdict(&tests));
    println!("   conformance and peers:  {}", verdict(&conformance));
    println!("{counts}");

    let failures: Vec<String> = [tests, conformance]
        .into_iter()
        .filter_map(|outcome| outcome.err().map(|failure| failure.to_string()))
        .collect();
    if !failures.is_empty() {
        return Err(Failure::new(failures.join("\n")));
    }
    if counts.passed == 0 {
        return Err(Failure::new("the test runner reported no test at all"));
    }
    Ok(())
}
