//! `cargo xtask ci`: everything that can be judged without running the product.

use crate::shell::{Outcome, cargo, output, step};
use crate::tidy;

/// The version that the checks were written with; another one found on the machine is used as it is.
const CARGO_DENY: &str = "0.20.2";

/// Runs the checks in the order of their cost, up to the first failure.
pub(crate) fn run() -> Outcome {
    step("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::run()?;
    step(
        "lints",
        &mut cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    step(
        "documentation",
        cargo(&["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    deny()
}

/// Licences, banned crates and sources. Not `advisories`: its database is not on crates.io, and a
/// check that depends on today's news would make the same commit pass one day and fail the next.
fn deny() -> Outcome {
    if output(&mut cargo(&["deny", "--version"])).is_none() {
        step(
            "install cargo-deny",
            &mut cargo(&["install", "cargo-deny", "--locked", "--version", CARGO_DENY]),
        )?;
    }
    step(
        "licences, bans, sources",
        &mut cargo(&[
            "deny",
            "--locked",
            "--workspace",
            "check",
            "--hide-inclusion-graph",
            "licenses",
            "bans",
            "sources",
        ]),
    )
}
