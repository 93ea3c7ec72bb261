//! Real authorization servers, and the real MCP servers that take their tokens.

use std::path::PathBuf;

use tokio::process::Command;

use super::log::Log;
use crate::Failure;
use crate::process::{Logs, Process, free_port};
use crate::programs::Programs;

/// Whose authorization server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `oidc-provider`, which protects a server of the TypeScript SDK.
    OidcProvider,
    /// The Python SDK's own, which is one program with the server that it protects.
    Python,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OidcProvider => "oidc-provider",
            Self::Python => "python",
        }
    }

    /// What it asks of a person who signs in.
    pub(super) fn prompts(self) -> &'static [&'static str] {
        match self {
            Self::OidcProvider => &["login", "consent"],
            Self::Python => &["consent"],
        }
    }
}

/// An authorization server and a server that it protects, at addresses that they keep.
pub(super) struct House<'a> {
    programs: &'a Programs,
    logs: &'a Logs,
    pub(super) kind: Kind,
    ports: Ports,
    /// What the authorization server has issued.
    state: PathBuf,
    pub(super) log: Log,
    running: Running,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    server: u16,
    /// The same where both are one program.
    issuer: u16,
}

enum Running {
    Apart { server: Process, issuer: Process },
    AsOne(Process),
}

impl<'a> House<'a> {
    pub(super) async fn start(
        programs: &'a Programs,
        logs: &'a Logs,
        kind: Kind,
    ) -> Result<Self, Failure> {
        let server = free_port()?;
        let issuer = match kind {
            Kind::OidcProvider => free_port()?,
            Kind::Python => server,
        };
        let file = |suffix: &str| logs.path().join(format!("{}.{suffix}", kind.name()));
        let (state, log) = (file("sqlite"), Log(file("seen")));
        let ports = Ports { server, issuer };
        let running = match kind {
            Kind::OidcProvider => {
                let issuer = start_issuer(programs, logs, ports, &state, &log).await?;
                let server = start_server(programs, logs, ports).await?;
                Running::Apart { server, issuer }
            }
            Kind::Python => Running::AsOne(start_both(programs, logs, ports, &state, &log).await?),
        };
        Ok(Self {
            programs,
            logs,
            kind,
            ports,
            state,
            log,
            running,
        })
    }

    /// The MCP server's address.
    pub(super) fn resource(&self) -> String {
        resource(self.ports)
    }

    /// Ends the MCP server, and starts it again without its sessions. By force, where nothing but sessions is lost.
    pub(super) async fn restart_server(self) -> Result<Self, Failure> {
        let (programs, logs, ports) = (self.programs, self.logs, self.ports);
        match self.running {
            Running::Apart { server, issuer } => {
                server.kill().await?;
                let server = start_server(programs, logs, ports).await?;
                let running = Running::Apart { server, issuer };
                Ok(Self { running, ..self })
            }
            Running::AsOne(_) => self.restart_issuer().await,
        }
    }

    /// Ends the authorization server and starts it again. Politely: an answer that it owes may be the one with the only
    /// refresh token that is good, and nobody could make up for that.
    pub(super) async fn restart_issuer(self) -> Result<Self, Failure> {
        let (programs, logs, ports) = (self.programs, self.logs, self.ports);
        let running = match self.running {
            Running::Apart { server, issuer } => {
                issuer.stop().await?;
                let issuer = start_issuer(programs, logs, ports, &self.state, &self.log).await?;
                Running::Apart { server, issuer }
            }
            Running::AsOne(both) => {
                both.stop().await?;
                Running::AsOne(start_both(programs, logs, ports, &self.state, &self.log).await?)
            }
        };
        Ok(Self { running, ..self })
    }
}

fn resource(ports: Ports) -> String {
    format!("http://127.0.0.1:{}/mcp", ports.server)
}

async fn start_issuer(
    programs: &Programs,
    logs: &Logs,
    ports: Ports,
    state: &PathBuf,
    log: &Log,
) -> Result<Process, Failure> {
    let mut command = Command::new(programs.node());
    command
        .arg(programs.peer("oidc-provider.mjs"))
        .args([ports.issuer.to_string(), resource(ports)])
        .arg(state)
        .arg(&log.0);
    ready(command, "oidc-provider", logs, "listening on http://").await
}

async fn start_server(programs: &Programs, logs: &Logs, ports: Ports) -> Result<Process, Failure> {
    let mut command = Command::new(programs.node());
    command
        .arg(programs.peer("protected-server.mjs"))
        .arg(ports.server.to_string())
        .arg(format!("http://127.0.0.1:{}", ports.issuer));
    ready(command, "protected-server", logs, "listening on http://").await
}

async fn start_both(
    programs: &Programs,
    logs: &Logs,
    ports: Ports,
    state: &PathBuf,
    log: &Log,
) -> Result<Process, Failure> {
    let mut command = Command::new(programs.python());
    command
        .arg(programs.peer("python_authorization.py"))
        .arg(ports.server.to_string())
        .arg(state)
        .arg(&log.0);
    ready(command, "python-authorization", logs, "running on http://").await
}

async fn ready(command: Command, name: &str, logs: &Logs, says: &str) -> Result<Process, Failure> {
    let (process, _) = Process::start(command, name, logs, says).await?;
    Ok(process)
}
