//! The suite's client scenarios: all that a revision requires, those of extensions, and those of the oldest revision.
//!
//! `keeper-client` stands for the client in most of them, and `gateway-client` in those of authorization, where the whole
//! product is wanted: a person's browser comes back to the gateway.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::Failure;
use crate::outcome::Outcome;
use crate::process::Logs;
use crate::programs::Programs;
use crate::report::{ClientRow, Verdict};
use crate::requirements::{self, Kind, LEGACY, MODERN, Role, Scenario};
use crate::suite;

/// How servers without resource metadata are signed in to. No requirement set names these.
const OLDEST: &str = "2025-03-26";
const OF_THE_OLDEST: [&str; 2] = [
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
];

/// Each scenario is a Node of its own, and those of authorization a daemon besides. Much of their time is waiting.
const AT_ONCE: usize = 4;

/// In milliseconds: the default of 30 seconds is little on a busy machine.
const TIMEOUT: &str = "90000";

pub(crate) async fn run(programs: &Programs, logs: &Logs) -> Result<Vec<ClientRow>, Failure> {
    stream::iter(scenarios(programs)?)
        .map(|(scenario, revision)| run_one(programs, logs, scenario, revision))
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

fn scenarios(programs: &Programs) -> Result<Vec<(Scenario, &'static str)>, Failure> {
    let oldest = OF_THE_OLDEST.map(|name| Scenario {
        name: name.to_owned(),
        kind: Kind::Further,
    });
    let mut all: Vec<_> = oldest.map(|scenario| (scenario, OLDEST)).into();
    for revision in [LEGACY, MODERN] {
        let required = requirements::of(programs, revision, Role::Client)?;
        all.extend(required.into_iter().map(|scenario| (scenario, revision)));
    }
    Ok(all)
}

async fn run_one(
    programs: &Programs,
    logs: &Logs,
    Scenario { name, kind }: Scenario,
    revision: &'static str,
) -> Result<ClientRow, Failure> {
    let run = format!("client-{name}-{revision}").replace('/', "-");
    let folder = logs.path().join(&run);
    let client = if name.starts_with("auth/") {
        "gateway-client"
    } else {
        "keeper-client"
    };
    let mut command = suite::suite(programs, logs, &run, &folder)?;
    command
        .arg("client")
        .arg("--command")
        .arg(programs.binary(client));
    command.args(["--scenario", &name, "--spec-version", revision]);
    command.args(["--timeout", TIMEOUT]);
    if kind == Kind::Extension {
        // An extension is on no revision's timeline: the suite has to be told to run it all the same.
        command.arg("--force");
    }
    command.arg("--output-dir").arg(&folder);
    suite::finish(command, &run).await?;
    let result = suite::only_result(&folder)?;
    let mut verdict = Outcome::read(&result)?.verdict;
    // Some scenarios are content with a client that does nothing: ours says whether it came to the end that it expected.
    if verdict == Verdict::Passed
        && !std::fs::read_to_string(result.join("stdout.txt"))?.ends_with("done\n")
    {
        let said = std::fs::read_to_string(result.join("stderr.txt"))?;
        let last = said.lines().last().unwrap_or("nothing");
        verdict = Verdict::Failed(vec![format!("{client} did not come to its end: {last}")]);
    }
    Ok(ClientRow {
        scenario: name,
        revision,
        kind,
        verdict,
    })
}
