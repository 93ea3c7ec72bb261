//! The real `steadfast serve` between clients and servers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::Instant;

use crate::Failure;
use crate::http::Admin;
use crate::process::{Logs, Process};
use crate::programs::Programs;

/// The agent of requests without a credential: the suite sends none.
pub(crate) const ANONYMOUS: &str = "dev";

/// What is in the folder of a daemon.
const CONFIGURATION: &str = "steadfast.toml";
const DATA: &str = "data";

/// How often the admin API is asked.
const POLL: Duration = Duration::from_millis(50);

/// Whom a daemon knows.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) agents: &'a [&'a str],
    /// Names and addresses.
    pub(crate) servers: &'a [(&'a str, String)],
    /// Whether the names of tools and prompts have their server's before them at the address of all servers.
    pub(crate) prefix: bool,
    /// Tools that change nothing: where an agent of the later era goes away, such a call is cancelled.
    pub(crate) reads: &'a [&'a str],
    /// Further keys of `[retry]`.
    pub(crate) retry: &'a str,
    /// Further tables of the configuration.
    pub(crate) settings: &'a str,
}

#[derive(Debug)]
pub(crate) struct Gateway {
    /// `http://` and the address.
    pub(crate) base: String,
    admin: Admin,
    process: Process,
    /// Configuration and data.
    folder: TempDir,
}

impl Gateway {
    pub(crate) async fn start(
        programs: &Programs,
        logs: &Logs,
        setup: &Setup<'_>,
    ) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join(CONFIGURATION), configuration(setup)?)?;
        let (process, base) = launch(programs, logs, folder.path(), "127.0.0.1:0").await?;
        let token = token(&folder)?;
        let admin = Admin::new(&base, &token);
        Ok(Self {
            base,
            admin,
            process,
            folder,
        })
    }

    /// Ends it politely, and starts it again at the same address, with what it has on disk.
    pub(crate) async fn restart(self, programs: &Programs, logs: &Logs) -> Result<Self, Failure> {
        let Self {
            base,
            admin,
            process,
            folder,
        } = self;
        process.stop().await?;
        let address = base.trim_start_matches("http://");
        let (process, base) = launch(programs, logs, folder.path(), address).await?;
        Ok(Self {
            base,
            admin,
            process,
            folder,
        })
    }

    /// The admin token.
    pub(crate) fn token(&self) -> Result<String, Failure> {
        token(&self.folder)
    }

    /// Where the daemon has its data, and commands find it.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }

    /// The agents' address of one server.
    pub(crate) fn url(&self, server: &str) -> String {
        format!("{}/mcp/{server}", self.base)
    }

    /// The agents' address of all their servers.
    pub(crate) fn merged(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// A fresh key of an agent.
    pub(crate) async fn key(&self, agent: &str) -> Result<String, Failure> {
        let answer = self
            .admin
            .request(Method::POST, &format!("/agents/{agent}/key"))
            .await?;
        let key = answer
            .get("key")
            .and_then(Value::as_str)
            .ok_or("the answer has no key")?;
        Ok(key.to_owned())
    }

    /// The connection object.
    pub(crate) async fn connection(&self, agent: &str, server: &str) -> Result<Value, Failure> {
        self.admin
            .request(Method::GET, &format!("/connections/{agent}/{server}"))
            .await
    }

    /// What became of a connection so far.
    pub(crate) async fn history(&self, agent: &str, server: &str) -> Result<Vec<Value>, Failure> {
        let path = format!("/connections/{agent}/{server}/history");
        let mut answer = self.admin.request(Method::GET, &path).await?;
        let transitions = answer.get_mut("transitions").map(Value::take);
        Ok(serde_json::from_value(transitions.unwrap_or_default())?)
    }

    /// Waits until a connection is, or is no longer, connected.
    pub(crate) async fn wait(
        &self,
        agent: &str,
        server: &str,
        connected: bool,
        limit: Duration,
    ) -> Result<(), Failure> {
        let wanted = |state: &str| (state == "connected") == connected;
        self.wait_state(agent, server, wanted, limit).await
    }

    /// Waits until a connection has a state that is wanted.
    pub(crate) async fn wait_state(
        &self,
        agent: &str,
        server: &str,
        wanted: impl Fn(&str) -> bool,
        limit: Duration,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + limit;
        let mut clock = tokio::time::interval(POLL);
        loop {
            clock.tick().await;
            let connection = self.connection(agent, server).await?;
            let state = connection
                .get("state")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if wanted(state) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("after {limit:?} the connection is still {connection}").into());
            }
        }
    }
}

fn token(folder: &TempDir) -> Result<String, Failure> {
    let token = std::fs::read_to_string(folder.path().join(DATA).join("admin.token"))?;
    Ok(token.trim().to_owned())
}

/// A daemon that listens, and its address.
async fn launch(
    programs: &Programs,
    logs: &Logs,
    folder: &Path,
    listen: &str,
) -> Result<(Process, String), Failure> {
    let mut command = Command::new(programs.binary("steadfast"));
    command
        .arg("serve")
        .arg("--config")
        .arg(folder.join(CONFIGURATION))
        .arg("--data")
        .arg(folder.join(DATA));
    command.args(["--listen", listen]);
    let ready = "listening on ";
    let (process, line) = Process::start(command, "steadfast", logs, ready).await?;
    let base = line.trim_start_matches(ready).trim().trim_end_matches('/');
    Ok((process, base.to_owned()))
}

fn configuration(setup: &Setup<'_>) -> Result<String, Failure> {
    let prefix = setup.prefix;
    let mut text = String::from("[retry]\nfirst = \"100ms\"\nmax = \"1s\"\n");
    text.push_str(setup.retry);
    if setup.agents.contains(&ANONYMOUS) {
        write!(text, "\n[gateway]\nanonymous_agent = \"{ANONYMOUS}\"\n")?;
    }
    for agent in setup.agents {
        write!(
            text,
            "\n[agents.{agent}]\nservers = \"*\"\nprefix = {prefix}\n"
        )?;
    }
    for (server, url) in setup.servers {
        write!(text, "\n[servers.{server}]\nurl = \"{url}\"\n")?;
        for tool in setup.reads {
            write!(
                text,
                "\n[servers.{server}.tools.{tool}]\neffect = \"read\"\n"
            )?;
        }
    }
    text.push_str(setup.settings);
    Ok(text)
}
