//! `cargo xtask bench`: the measurements that the README quotes.

use crate::setup::{self, Need};
use crate::shell::{Outcome, cargo, step};

/// Makes the machine ready and measures. Further arguments go to the bench.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    setup::system_packages(&[Need::Nginx])?;
    let mut bench = cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "steadfast-bench",
        "--",
    ]);
    step("bench", bench.args(arguments))
}
