//! schemathesis against the admin API, as its OpenAPI document describes it: no call may end in a way that the document
//! does not have, and none in a failure of the daemon's own.

use std::time::Duration;

use tokio::process::Command;

use crate::Failure;
use crate::gateway::{ANONYMOUS, Gateway, Setup};
use crate::process::Logs;
use crate::programs::Programs;
use crate::ways::everything;

/// How long it may go on asking, in seconds.
const ASKING: u32 = 45;
/// How long the whole run may take.
const LIMIT: Duration = Duration::from_secs(180);
const CONNECT: Duration = Duration::from_secs(30);

/// The name of the server in `schemathesis.toml`.
const SERVER: &str = "everything";

/// Addresses that are made up must not cost much.
const SETTINGS: &str = "connect_timeout = \"500ms\"\nrequest_timeout = \"2s\"\n";

/// What there is to say, or what went wrong.
pub(crate) async fn run(programs: &Programs, logs: &Logs) -> Result<String, String> {
    let outcome = tokio::time::timeout(LIMIT, ask(programs, logs)).await;
    match outcome {
        Ok(outcome) => outcome.map_err(|failure| failure.to_string()),
        Err(_) => Err(format!("it went on for longer than {LIMIT:?}")),
    }
}

async fn ask(programs: &Programs, logs: &Logs) -> Result<String, Failure> {
    let (_server, url) = everything(programs, logs, "dual").await?;
    let setup = Setup {
        agents: &[ANONYMOUS],
        servers: &[(SERVER, url)],
        prefix: true,
        reads: &[],
        retry: SETTINGS,
        settings: "",
    };
    let gateway = Gateway::start(programs, logs, &setup).await?;
    gateway.wait(ANONYMOUS, SERVER, true, CONNECT).await?;
    let token = gateway.token()?;
    let document = format!("{}/api/v1/openapi.json", gateway.base);
    let mut command = Command::new(programs.python().with_file_name("st"));
    command
        .current_dir(logs.path())
        .arg("--config-file")
        .arg(programs.package.join("schemathesis.toml"))
        .args(["run", &document])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--phases", "coverage,fuzzing,stateful"])
        .args(["--max-examples", "10"])
        .args(["--max-time", &ASKING.to_string()])
        // The stream of changes does not end.
        .args(["--exclude-operation-id", "follow_changes"])
        .args(["--suppress-health-check", "all"])
        .args(["--continue-on-failure", "--no-shrink"])
        .kill_on_drop(true);
    let output = command.output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    std::io::Write::write_all(&mut logs.file("schemathesis.log")?, said.as_bytes())?;
    let mut cases = said.lines().map(str::trim);
    let cases = cases.rfind(|line| line.contains("generated"));
    let cases = cases.unwrap_or("no cases").to_owned();
    if output.status.success() && cases != "no cases" {
        return Ok(cases);
    }
    let failures: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("- ST") || line.starts_with("____"))
        .collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{cases}: {}\n{errors}", failures.join("\n")).into())
}
