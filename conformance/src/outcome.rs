//! What the suite's checks of one scenario say.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use crate::Failure;
use crate::report::Verdict;

/// One entry of the suite's `checks.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: Status,
    error_message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

/// What the checks of one scenario said.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// The checks that succeeded, by their ids.
    succeeded: BTreeSet<String>,
    /// Those that did not.
    failed: BTreeSet<String>,
}

impl Outcome {
    /// Reads `checks.json`. A warning counts as a failure: the suite warns about little, such as lost event ids.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let checks: Vec<Check> =
            serde_json::from_slice(&std::fs::read(folder.join("checks.json"))?)?;
        Ok(Self::of(&checks))
    }

    fn of(checks: &[Check]) -> Self {
        let with = |wanted: &[Status]| -> Vec<&Check> {
            checks
                .iter()
                .filter(|check| wanted.contains(&check.status))
                .collect()
        };
        let bad = with(&[Status::Failure, Status::Warning]);
        let succeeded: BTreeSet<_> = with(&[Status::Success])
            .into_iter()
            .map(|check| check.id.clone())
            .collect();
        let verdict = if !bad.is_empty() {
            let why = |check: &&Check| {
                let message = check.error_message.as_deref().unwrap_or("no message");
                format!("{:?} {}: {message}", check.status, check.id)
            };
            Verdict::Failed(bad.iter().map(why).collect())
        } else if !succeeded.is_empty() {
            Verdict::Passed
        } else if with(&[Status::Skipped]).is_empty() {
            Verdict::Failed(vec!["nothing was checked".to_owned()])
        } else {
            Verdict::Skipped
        };
        let failed = bad.into_iter().map(|check| check.id.clone()).collect();
        Self {
            verdict,
            succeeded,
            failed,
        }
    }

    pub(crate) fn missing() -> Self {
        Self {
            verdict: Verdict::Failed(vec!["the scenario was not run".to_owned()]),
            succeeded: BTreeSet::new(),
            failed: BTreeSet::new(),
        }
    }

    /// A check that succeeds directly must succeed through the gateway too: the suite is content with less, for example
    /// with a server that has no sessions.
    pub(crate) fn compared_with(mut self, direct: &Self) -> Self {
        let lost: Vec<String> = direct
            .succeeded
            .difference(&self.succeeded)
            .filter(|id| !self.failed.contains(*id))
            .map(|id| format!("{id} succeeds directly, and not here"))
            .collect();
        self.verdict = match self.verdict {
            Verdict::Failed(mut why) => {
                why.extend(lost);
                Verdict::Failed(why)
            }
            _ if !lost.is_empty() => Verdict::Failed(lost),
            verdict => verdict,
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, status: Status) -> Check {
        Check {
            id: id.to_owned(),
            status,
            error_message: None,
        }
    }

    #[test]
    fn a_warning_fails_a_scenario() {
        let outcome = Outcome::of(&[check("a", Status::Success), check("b", Status::Warning)]);
        assert_eq!(
            outcome.verdict,
            Verdict::Failed(vec!["Warning b: no message".to_owned()])
        );
    }

    #[test]
    fn a_scenario_without_a_check_did_not_pass() {
        assert!(matches!(
            Outcome::of(&[check("a", Status::Info)]).verdict,
            Verdict::Failed(_)
        ));
        assert_eq!(
            Outcome::of(&[check("a", Status::Skipped)]).verdict,
            Verdict::Skipped
        );
    }

    #[test]
    fn a_check_that_only_succeeds_directly_is_a_failure_through_the_gateway() {
        let direct = Outcome::of(&[check("a", Status::Success), check("b", Status::Success)]);
        let through = Outcome::of(&[check("a", Status::Success), check("b", Status::Info)]);
        let lost = vec!["b succeeds directly, and not here".to_owned()];
        assert_eq!(
            through.compared_with(&direct).verdict,
            Verdict::Failed(lost)
        );
        assert_eq!(
            direct.clone().compared_with(&direct).verdict,
            Verdict::Passed
        );
    }
}
