//! The daemon with a whole fleet to connect.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memchr::memmem;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::Outcome;
use crate::options::{FleetOptions, Target};
use crate::process::Process;
use crate::protocol::Era;
use crate::routes::{self, Served};

const START_WITHIN: Duration = Duration::from_secs(20);
/// Each look costs the daemon a long answer.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Who calls.
const CALLER: &str = "agent0";

#[derive(Debug)]
pub(super) struct Daemon {
    process: Process,
    pid: u32,
    address: SocketAddr,
    binary: PathBuf,
    data: PathBuf,
    token: String,
    _folder: TempDir,
}

impl Daemon {
    pub(super) async fn start(
        binary: &Path,
        options: &FleetOptions,
        upstream: SocketAddr,
        hole: SocketAddr,
    ) -> Outcome<Self> {
        let configuration = configuration(options, upstream, hole)?;
        let Served {
            process,
            address,
            data,
            folder,
        } = routes::serve(binary, &configuration, START_WITHIN).await?;
        let token = fs::read_to_string(data.join("admin.token"))?;
        Ok(Self {
            pid: process.pid().ok_or("the daemon has ended")?,
            process,
            address,
            binary: binary.to_owned(),
            data,
            token: token.trim().to_owned(),
            _folder: folder,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until so many connections are up.
    pub(super) async fn connected(&self, wanted: usize) -> Outcome {
        loop {
            let up = self.count().await?;
            eprintln!("{up} of {wanted} connections are up");
            if up >= wanted {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn count(&self) -> Outcome<usize> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request = format!(
            "GET /api/v1/connections?state=connected HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.address, self.token
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(memmem::find_iter(&answer, br#""state":"connected""#).count())
    }

    /// A key of the agent that calls; it ends the one before.
    pub(super) async fn key(&self) -> Outcome<String> {
        routes::key(&self.binary, &self.data, CALLER).await
    }

    /// Where the agent calls a server.
    pub(super) fn target(&self, server: &str, era: Era, key: &str) -> Target {
        Target {
            address: self.address,
            path: format!("/mcp/{server}"),
            era,
            key: Some(key.to_owned()),
        }
    }

    pub(super) async fn stop(self) -> Outcome {
        self.process.stop().await
    }
}

/// Every agent has every server. The first server is the one behind the hole; the eras take turns.
fn configuration(
    options: &FleetOptions,
    upstream: SocketAddr,
    hole: SocketAddr,
) -> Outcome<String> {
    let mut toml = String::new();
    for agent in 0..options.agents {
        writeln!(toml, "[agents.agent{agent}]\nservers = \"*\"")?;
    }
    for server in 0..options.servers {
        let (name, address, era) = match server {
            0 => ("hole".to_owned(), hole, Era::Legacy),
            _ => (format!("server{server}"), upstream, Era::of(server)),
        };
        // Addresses that differ: to the daemon these are servers of their own.
        let era = era.name();
        writeln!(
            toml,
            "[servers.{name}]\nurl = \"http://{address}/{era}?server={server}\"\n[servers.{name}.tools.json]\neffect = \"read\""
        )?;
    }
    Ok(toml)
}
