//! The suite's client scenarios, with the keeper as the client: `keeper-client` is what the suite starts.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::Failure;
use crate::outcome::Outcome;
use crate::process::Logs;
use crate::programs::Programs;
use crate::report::ClientRow;
use crate::requirements::{LEGACY, MODERN};
use crate::suite;

/// All but those of authorization.
const SCENARIOS: [(&str, &str); 13] = [
    ("initialize", LEGACY),
    ("tools_call", LEGACY),
    ("elicitation-sep1034-client-defaults", LEGACY),
    ("sse-retry", LEGACY),
    ("json-schema-2020-12-preservation", LEGACY),
    ("request-metadata", MODERN),
    ("tools_call", MODERN),
    ("sep-2322-client-request-state", MODERN),
    ("http-standard-headers", MODERN),
    ("http-custom-headers", MODERN),
    ("http-invalid-tool-headers", MODERN),
    ("json-schema-ref-no-deref", MODERN),
    ("json-schema-2020-12-preservation", MODERN),
];

/// Each scenario is a Node of its own.
const AT_ONCE: usize = 2;

pub(crate) async fn run(programs: &Programs, logs: &Logs) -> Result<Vec<ClientRow>, Failure> {
    stream::iter(SCENARIOS)
        .map(|(scenario, revision)| run_one(programs, logs, scenario, revision))
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

async fn run_one(
    programs: &Programs,
    logs: &Logs,
    scenario: &'static str,
    revision: &'static str,
) -> Result<ClientRow, Failure> {
    let name = format!("client-{scenario}-{revision}");
    let folder = logs.path().join(&name);
    let mut command = suite::suite(programs, logs, &name, &folder)?;
    command
        .arg("client")
        .arg("--command")
        .arg(programs.binary("keeper-client"));
    command
        .args([
            "--scenario",
            scenario,
            "--spec-version",
            revision,
            "--output-dir",
        ])
        .arg(&folder);
    suite::finish(command, &name).await?;
    let verdict = Outcome::read(&suite::only_result(&folder)?)?.verdict;
    Ok(ClientRow {
        scenario,
        revision,
        verdict,
    })
}
