//! The suite's server scenarios: against the everything server, and through the gateway in each of its ways.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::Failure;
use crate::exceptions::Place;
use crate::outcome::Outcome;
use crate::process::Logs;
use crate::programs::Programs;
use crate::report::{ServerRow, Verdict};
use crate::requirements::{self, Kind, LEGACY, MODERN, Role, SKILLS, Scenario};
use crate::ways;

/// One revision takes some ten seconds; beyond this something hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// Outcomes by scenario.
pub(crate) type Outcomes = BTreeMap<String, Outcome>;

/// Directly, and in these ways through the gateway.
pub(crate) async fn run(
    programs: &Programs,
    logs: &Logs,
    places: &[Place],
) -> Result<Vec<ServerRow>, Failure> {
    let direct = ways::run(programs, logs, Place::Direct).await?;
    let mut through = Vec::new();
    for place in places {
        through.push((*place, ways::run(programs, logs, *place).await?));
    }
    let mut rows = Vec::new();
    for (at, revision) in [LEGACY, MODERN].into_iter().enumerate() {
        for scenario in scenarios(programs, revision)? {
            let outcome = |outcomes: &[Outcomes; 2]| {
                let of = outcomes.get(at).and_then(|of| of.get(&scenario.name));
                of.cloned().unwrap_or_else(Outcome::missing)
            };
            let direct = outcome(&direct);
            let through = through
                .iter()
                .map(|(place, outcomes)| (*place, outcome(outcomes).compared_with(&direct).verdict))
                .collect::<Vec<(Place, Verdict)>>();
            rows.push(ServerRow {
                scenario: scenario.name.clone(),
                revision,
                kind: scenario.kind,
                direct: direct.verdict,
                through,
            });
        }
    }
    Ok(rows)
}

fn scenarios(programs: &Programs, revision: &str) -> Result<Vec<Scenario>, Failure> {
    let mut scenarios = requirements::of(programs, revision, Role::Server)?;
    if revision == MODERN {
        scenarios.extend(SKILLS.map(|name| Scenario {
            name: name.to_owned(),
            kind: Kind::Extension,
        }));
    }
    Ok(scenarios)
}

/// Everything that a revision requires, and the skills with the newest.
pub(crate) async fn revision(
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

/// Where a client scenario left its checks: the only folder in `folder`, or in one below it, as names have slashes.
pub(crate) fn only_result(folder: &Path) -> Result<PathBuf, Failure> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.join("checks.json").exists() {
            return Ok(folder);
        }
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            folders.extend(path.is_dir().then_some(path));
        }
    }
    Err(format!("{} has no checks.json", folder.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_cut_off_a_folder_name() {
        let path = Path::new("/tmp/server-tools-call-image-2026-11-30T12-59-15-784Z");
        assert_eq!(scenario_of(path), Some("server-tools-call-image"));
    }
}
