//! The command line as people and scripts use it: the real binary, its exit codes and what it prints.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod files;
mod offline;
mod running;
mod serving;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_steadfast");

/// A data directory of its own, that does not exist yet.
struct Place {
    folder: TempDir,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The binary without anything from the environment of the test.
fn steadfast() -> Command {
    let mut command = Command::new(BINARY);
    for name in [
        "STEADFAST_DATA",
        "STEADFAST_URL",
        "STEADFAST_TOKEN",
        "STEADFAST_KEY",
        "STEADFAST_AGENT_KEY",
        "STEADFAST_LOG",
        "RUST_LOG",
        "NO_COLOR",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Ended {
    steadfast().args(arguments).output().unwrap().into()
}

impl Place {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        steadfast()
            .args(arguments)
            .arg("--data")
            .arg(self.data())
            .output()
            .unwrap()
            .into()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
