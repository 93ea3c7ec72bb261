//! Steadfast: the real binary, started as a person would start it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tempfile::TempDir;
use tokio::process::Command;

use super::{Open, READY_WITHIN, Route};
use crate::Outcome;
use crate::process::Process;
use crate::protocol::{Case, Era};

const AGENT: &str = "bench";

/// Builds the release binary beside this one.
pub(crate) async fn build() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    // target/release/steadfast-bench
    let release = own.parent().ok_or("this program has no folder")?;
    let target = release
        .parent()
        .ok_or("this program is in no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "steadfast-cli",
        ])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .await?;
    if status.success() {
        Ok(release.join("steadfast"))
    } else {
        Err("`cargo build --release -p steadfast-cli` failed".into())
    }
}

/// A daemon that serves one configuration, from a folder that goes with it.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) folder: TempDir,
}

/// Starts it on a free port, and waits until it listens.
pub(crate) async fn serve(binary: &Path, configuration: &str, within: Duration) -> Outcome<Served> {
    let folder = tempfile::Builder::new()
        .prefix("steadfast-bench-")
        .tempdir()?;
    let config = folder.path().join("steadfast.toml");
    let data = folder.path().join("data");
    fs::write(&config, configuration)?;
    let mut process = Process::start(
        "steadfast serve",
        Command::new(binary)
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .arg("--data")
            .arg(&data)
            .args(["--listen", "127.0.0.1:0"]),
    )?;
    Ok(Served {
        address: process.address(within).await?,
        process,
        data,
        folder,
    })
}

pub(super) async fn start(binary: &Path, upstream: SocketAddr) -> Outcome<Open> {
    let served = serve(binary, &configuration(upstream), READY_WITHIN).await?;
    Ok(Open {
        route: Route::Steadfast,
        address: served.address,
        key: Some(key(binary, &served.data, AGENT).await?),
        process: Some(served.process),
        pids: Vec::new(),
        _folder: Some(served.folder),
    })
}

fn configuration(upstream: SocketAddr) -> String {
    let mut toml = format!("[agents.{AGENT}]\nservers = [\"legacy\", \"modern\"]\n");
    for era in Era::ALL.map(Era::name) {
        toml.push_str(&format!(
            "\n[servers.{era}]\nurl = \"http://{upstream}/{era}\"\n"
        ));
        for tool in Case::ALL.map(Case::name) {
            toml.push_str(&format!(
                "[servers.{era}.tools.{tool}]\neffect = \"read\"\n"
            ));
        }
    }
    toml
}

/// A key for an agent. One that the configuration file has brought in already gets it by `agent key`.
pub(crate) async fn key(binary: &Path, data: &Path, agent: &str) -> Outcome<String> {
    #[derive(Deserialize)]
    struct Shown {
        key: String,
    }
    let mut failure = String::new();
    for verb in ["add", "key"] {
        let output = Command::new(binary)
            .args(["agent", verb, agent, "--json", "--data"])
            .arg(data)
            .output()
            .await?;
        if let Ok(Shown { key }) = serde_json::from_slice(&output.stdout) {
            return Ok(key);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        failure.push_str(&format!(
            "\n    agent {verb} ({}): {}",
            output.status,
            said.trim()
        ));
    }
    Err(format!("no key for the agent:{failure}").into())
}
