//! `cargo xtask diagrams`: the pages in docs/machines/ are drawn by the tests that walk the machines,
//! so that they cannot drift. The same tests fail when a page is out of date.

use crate::shell::{Outcome, cargo, step};

/// Draws them anew.
pub(crate) fn run() -> Outcome {
    step(
        "diagrams",
        cargo(&["test", "--package", "steadfast-core", "diagram"]).env("UPDATE_DIAGRAMS", "1"),
    )
}
