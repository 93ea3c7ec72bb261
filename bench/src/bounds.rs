//! The bounds that the project has set itself.

use crate::Outcome;

/// Which bounds were exceeded.
#[derive(Debug, Default)]
pub(crate) struct Bounds(Vec<&'static str>);

impl Bounds {
    /// Notes one that was.
    pub(crate) fn keep(&mut self, what: &'static str, is_kept: bool) {
        if !is_kept {
            self.0.push(what);
        }
    }

    /// Fails where one was.
    pub(crate) fn kept(self) -> Outcome {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(format!("beyond its bound: {}", self.0.join(", ")).into())
        }
    }
}
