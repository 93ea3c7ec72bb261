//! The ways on which the suite reaches a server.
//!
//! | way | address | servers |
//! | --- | --- | --- |
//! | direct | the server's own | one of both eras |
//! | gateway | `/mcp/{server}` | one of the suite's era |
//! | merged | `/mcp`, without prefixes | one of the suite's era, and a small one beside it |
//! | bridge | `/mcp/{server}` | one of the other era only |

use std::time::Duration;

use tokio::process::Command;

use crate::Failure;
use crate::exceptions::Place;
use crate::gateway::{ANONYMOUS, Gateway, Setup};
use crate::process::{Logs, Process, free_port};
use crate::programs::Programs;
use crate::requirements::{LEGACY, MODERN};
use crate::suite::{Outcomes, revision};

/// How long the gateway may take to open its connections.
const CONNECT: Duration = Duration::from_secs(20);

/// The outcomes of both revisions.
pub(crate) async fn run(
    programs: &Programs,
    logs: &Logs,
    place: Place,
) -> Result<[Outcomes; 2], Failure> {
    match place {
        Place::Direct => directly(programs, logs).await,
        Place::Gateway => through_one(programs, logs, place, ["legacy", "modern"]).await,
        Place::Bridge => through_one(programs, logs, place, ["modern", "legacy"]).await,
        Place::Merged => merged(programs, logs).await,
        Place::Client => Err("the client scenarios have no server".into()),
    }
}

/// One server of both eras takes both revisions at once.
async fn directly(programs: &Programs, logs: &Logs) -> Result<[Outcomes; 2], Failure> {
    let (_server, url) = everything(programs, logs, "dual").await?;
    let name = Place::Direct.name();
    let (legacy, modern) = tokio::try_join!(
        revision(programs, logs, &url, LEGACY, name),
        revision(programs, logs, &url, MODERN, name),
    )?;
    Ok([legacy, modern])
}

/// Each revision at the address of a server of one era: first the era for the legacy suite, then that for the modern
/// one. Of a server of both eras the gateway would choose the newer.
async fn through_one(
    programs: &Programs,
    logs: &Logs,
    place: Place,
    eras: [&str; 2],
) -> Result<[Outcomes; 2], Failure> {
    let mut processes = Vec::new();
    let mut servers = Vec::new();
    for era in eras {
        let (process, url) = everything(programs, logs, era).await?;
        processes.push(process);
        servers.push((era, url));
    }
    let gateway = start(programs, logs, &servers).await?;
    let urls = eras.map(|era| gateway.url(era));
    let [for_legacy, for_modern] = &urls;
    let (legacy, modern) = tokio::try_join!(
        revision(programs, logs, for_legacy, LEGACY, place.name()),
        revision(programs, logs, for_modern, MODERN, place.name()),
    )?;
    Ok([legacy, modern])
}

/// Each revision at the address of all servers of a gateway of its own: the suite sends no credential, and there is one
/// agent without.
async fn merged(programs: &Programs, logs: &Logs) -> Result<[Outcomes; 2], Failure> {
    let (_small, small) = small(programs, logs).await?;
    let one = async |era: &str, suite: &str| {
        let (_process, url) = everything(programs, logs, era).await?;
        let servers = [(era, url), ("small", small.clone())];
        let gateway = start(programs, logs, &servers).await?;
        let name = Place::Merged.name();
        revision(programs, logs, &gateway.merged(), suite, name).await
    };
    let (legacy, modern) = tokio::try_join!(one("legacy", LEGACY), one("modern", MODERN))?;
    Ok([legacy, modern])
}

/// A gateway that is connected with these servers.
async fn start(
    programs: &Programs,
    logs: &Logs,
    servers: &[(&str, String)],
) -> Result<Gateway, Failure> {
    let setup = Setup {
        agents: &[ANONYMOUS],
        servers,
        prefix: false,
        reads: &[],
        retry: "",
        settings: "",
    };
    let gateway = Gateway::start(programs, logs, &setup).await?;
    for (server, _) in servers {
        gateway.wait(ANONYMOUS, server, true, CONNECT).await?;
    }
    Ok(gateway)
}

/// Starts the everything server; the address of its endpoint.
pub(crate) async fn everything(
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

/// Starts a server of both eras that has other tools than the everything server.
pub(crate) async fn small(programs: &Programs, logs: &Logs) -> Result<(Process, String), Failure> {
    let port = free_port()?;
    let mut command = Command::new(programs.python());
    command
        .arg(programs.peer("python_server.py"))
        .arg(port.to_string());
    let (process, _) = Process::start(command, "small", logs, "running on http://").await?;
    Ok((process, format!("http://127.0.0.1:{port}/mcp")))
}
