//! Adds up what the test runner says of itself.

use std::fmt;
use std::ops::AddAssign;

/// How many tests passed, failed and were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// Reads a closing line of cargo's test runner:
    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s`.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let (_, numbers) = line
            .trim_start()
            .strip_prefix("test result: ")?
            .split_once(". ")?;
        let count = |word: &str| {
            numbers.split(';').find_map(|part| {
                let (number, name) = part.trim().split_once(' ')?;
                (name == word).then(|| number.parse().ok())?
            })
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut sum = Counts::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s",
            "test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9s",
        ] {
            sum += Counts::of_line(line).unwrap_or_default();
        }
        assert_eq!(sum.to_string(), "15 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(Counts::of_line("test a::b ... ok"), None);
        assert_eq!(Counts::of_line("test result: ok."), None);
    }
}
