//! The suite's server scenarios: against the everything server, and through the gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use crate::Failure;
use crate::gateway::{ANONYMOUS, Gateway};
use crate::process::{Logs, Process};
use crate::programs::Programs;
use crate::report::{ServerRow, Verdict};
use crate::requirements::{self, Kind, LEGACY, MODERN, SKILLS, Scenario};

/// One revision takes some ten seconds; beyond this something hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// How long the gateway may take to open its connections.
const CONNECT: Duration = Duration::from_secs(20);

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
    /// Reads `checks.json`. A warning counts as a failure: the suite only warns about lost event ids, priming events
    /// and `retry`.
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

    fn missing() -> Self {
        Self {
            verdict: Verdict::Failed(vec!["the scenario was not run".to_owned()]),
            succeeded: BTreeSet::new(),
            failed: BTreeSet::new(),
        }
    }

    /// A check that succeeds directly must succeed through the gateway too: the suite is content with less, for example
    /// with a server that has no sessions.
    fn compared_with(mut self, direct: &Self) -> Self {
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

/// Outcomes by scenario.
type Outcomes = BTreeMap<String, Outcome>;

pub(crate) async fn run(
    programs: &Programs,
    logs: &Logs,
    with_gateway: bool,
) -> Result<Vec<ServerRow>, Failure> {
    let revisions = [LEGACY, MODERN];
    let mut scenarios = Vec::new();
    for revision in revisions {
        let mut of_revision = requirements::of(programs, revision)?;
        if revision == MODERN {
            let skill = |name: &str| Scenario {
                name: name.to_owned(),
                kind: Kind::Extension,
            };
            of_revision.extend(SKILLS.map(skill));
        }
        scenarios.push(of_revision);
    }
    let direct = directly(programs, logs, revisions).await?;
    let through = if with_gateway {
        Some(through_gateway(programs, logs, revisions).await?)
    } else {
        None
    };

    let mut rows = Vec::new();
    for (at, revision) in revisions.into_iter().enumerate() {
        for scenario in scenarios.get(at).into_iter().flatten() {
            let outcome = |outcomes: &[Outcomes; 2]| {
                outcomes
                    .get(at)
                    .and_then(|of| of.get(&scenario.name))
                    .cloned()
                    .unwrap_or_else(Outcome::missing)
            };
            let direct = outcome(&direct);
            let gateway = through
                .as_ref()
                .map(|through| outcome(through).compared_with(&direct).verdict);
            rows.push(ServerRow {
                scenario: scenario.name.clone(),
                revision,
                kind: scenario.kind,
                direct: direct.verdict,
                gateway,
            });
        }
    }
    Ok(rows)
}

/// One server of both eras takes both revisions at once.
async fn directly(
    programs: &Programs,
    logs: &Logs,
    revisions: [&str; 2],
) -> Result<[Outcomes; 2], Failure> {
    let (_server, url) = everything(programs, logs, "dual").await?;
    let [legacy, modern] = revisions;
    let (legacy, modern) = tokio::try_join!(
        revision(programs, logs, &url, legacy, "direct"),
        revision(programs, logs, &url, modern, "direct"),
    )?;
    Ok([legacy, modern])
}

/// The gateway speaks one era with each server. Of a server of both it would serve one of the revisions in translation,
/// which this leg is not about: each revision has a server of its own era behind the gateway.
async fn through_gateway(
    programs: &Programs,
    logs: &Logs,
    revisions: [&str; 2],
) -> Result<[Outcomes; 2], Failure> {
    let (_legacy, legacy_url) = everything(programs, logs, "legacy").await?;
    let (_modern, modern_url) = everything(programs, logs, "modern").await?;
    let servers = [
        ("everything-legacy", legacy_url),
        ("everything-modern", modern_url),
    ];
    let gateway = Gateway::start(programs, logs, &[ANONYMOUS], &servers).await?;
    for (server, _) in &servers {
        gateway.wait(ANONYMOUS, server, true, CONNECT).await?;
    }
    let [(legacy_name, _), (modern_name, _)] = servers;
    let (legacy_url, modern_url) = (gateway.url(legacy_name), gateway.url(modern_name));
    let [legacy, modern] = revisions;
    let (legacy, modern) = tokio::try_join!(
        revision(programs, logs, &legacy_url, legacy, "gateway"),
        revision(programs, logs, &modern_url, modern, "gateway"),
    )?;
    Ok([legacy, modern])
}

/// Starts the everything server; the address of its endpoint.
async fn everything(
    programs: &Programs,
    logs: &Logs,
    era: &str,
) -> Result<(Process, String), Failure> {
    let mut command = Command::new(programs.binary("everything-server"));
    command.args(["--era", era]);
    let ready = "listening on ";
    let name = format!("everything-{era}");
    let (process, line) = Process::start(command, &name, logs, ready).await?;
    Ok((process, format!("{}/mcp", line.trim_start_matches(ready))))
}

/// Everything that a revision requires, and the skills with the newest.
async fn revision(
    programs: &Programs,
    logs: &Logs,
    url: &str,
    revision: &str,
    place: &str,
) -> Result<Outcomes, Failure> {
    let name = format!("suite-{place}-{revision}");
    let folder = logs.path().join(&name);
    server(
        programs,
        logs,
        &name,
        url,
        &folder,
        &["--requirements", revision],
    )
    .await?;
    if revision == MODERN {
        for scenario in SKILLS {
            // An extension is on no revision's timeline: the suite has to be told to run it all the same.
            let arguments = [
                "--scenario",
                scenario,
                "--spec-version",
                revision,
                "--force",
            ];
            server(programs, logs, &name, url, &folder, &arguments).await?;
        }
    }
    outcomes(&folder)
}

async fn server(
    programs: &Programs,
    logs: &Logs,
    name: &str,
    url: &str,
    folder: &Path,
    arguments: &[&str],
) -> Result<(), Failure> {
    let mut command = suite(programs, logs, name, folder)?;
    command
        .args(["server", "--url", url])
        .args(arguments)
        .arg("--output-dir")
        .arg(folder);
    finish(command, name).await
}

/// Node, and the suite, with its output in the log.
pub(crate) fn suite(
    programs: &Programs,
    logs: &Logs,
    name: &str,
    folder: &Path,
) -> Result<Command, Failure> {
    std::fs::create_dir_all(folder)?;
    let log = logs.file(&format!("{name}.log"))?;
    let mut command = Command::new(programs.node());
    command
        .arg(programs.suite())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true);
    Ok(command)
}

/// Waits for the suite. Its exit code says less than its checks.
pub(crate) async fn finish(mut command: Command, name: &str) -> Result<(), Failure> {
    let limit = tokio::time::timeout(LIMIT, command.status()).await;
    limit.map_err(|_| format!("{name} did not end within {LIMIT:?}"))??;
    Ok(())
}

/// The suite's folders are named `server-SCENARIO-TIME`.
fn outcomes(folder: &Path) -> Result<Outcomes, Failure> {
    let mut outcomes = Outcomes::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if let Some(scenario) = scenario_of(&path).and_then(|name| name.strip_prefix("server-")) {
            outcomes.insert(scenario.to_owned(), Outcome::read(&path)?);
        }
    }
    Ok(outcomes)
}

/// The name without the time: `…-2026-11-30T12-59-15-784Z`.
fn scenario_of(path: &Path) -> Option<&str> {
    const TIME: usize = "-2026-11-30T12-59-15-784Z".len();
    let name = path.file_name()?.to_str()?;
    name.get(..name.len().checked_sub(TIME)?)
}

/// Where a client scenario left its checks: the only folder in `folder`.
pub(crate) fn only_result(folder: &Path) -> Result<PathBuf, Failure> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.join("checks.json").exists() {
            return Ok(path);
        }
    }
    Err(format!("{} has no checks.json", folder.display()).into())
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

    #[test]
    fn the_time_is_cut_off_a_folder_name() {
        let path = Path::new("/tmp/server-tools-call-image-2026-11-30T12-59-15-784Z");
        assert_eq!(scenario_of(path), Some("server-tools-call-image"));
    }
}
