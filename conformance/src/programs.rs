//! Where the programs are that the runs need.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

/// What the browser is called, by those who package it.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

#[derive(Debug)]
pub(crate) struct Programs {
    /// This package's folder, with `node_modules`, `.venv` and `peers`.
    pub(crate) package: PathBuf,
    /// Where cargo puts binaries.
    binaries: PathBuf,
}

impl Programs {
    /// Builds our own programs, and finds those that were installed.
    pub(crate) fn find(with_gateway: bool) -> Result<Self, Failure> {
        let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let own = std::env::current_exe()?;
        let binaries = own.parent().ok_or("the runner has no folder")?.to_owned();
        let programs = Self { package, binaries };
        for needed in [programs.node(), programs.suite(), programs.python()] {
            if !needed.exists() {
                let needed = needed.display();
                return Err(format!("{needed} is missing: `cargo xtask test` installs it").into());
            }
        }
        programs.build(with_gateway)?;
        Ok(programs)
    }

    /// `cargo run` builds only the runner itself.
    fn build(&self, with_gateway: bool) -> Result<(), Failure> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.package).args([
            "build",
            "--quiet",
            "--bins",
            "-p",
            "steadfast-conformance",
        ]);
        if with_gateway {
            cargo.args(["-p", "steadfast-cli"]);
        }
        if self.binaries.ends_with("release") {
            cargo.arg("--release");
        }
        if cargo.status()?.success() {
            Ok(())
        } else {
            Err("the programs do not build".into())
        }
    }

    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    pub(crate) fn node(&self) -> PathBuf {
        self.module(".bin/node")
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.package.join(".venv/bin/python")
    }

    pub(crate) fn peer(&self, script: &str) -> PathBuf {
        self.package.join("peers").join(script)
    }

    pub(crate) fn module(&self, path: impl AsRef<Path>) -> PathBuf {
        self.package.join("node_modules").join(path)
    }

    /// The browser. Chrome would do as well; one that a machine lacks is an error, and no reason to leave a test out.
    pub(crate) fn chromium(&self) -> Result<PathBuf, Failure> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path);
        let found = places
            .flat_map(|folder| CHROMIUM.map(|name| folder.join(name)))
            .find(|file| file.is_file());
        let missing =
            "Chromium is missing: `cargo xtask test` installs Debian's package `chromium`";
        Ok(found.ok_or(missing)?)
    }

    /// The suite's entry, to be run by [`Programs::node`].
    pub(crate) fn suite(&self) -> PathBuf {
        self.module("@modelcontextprotocol/conformance/dist/index.js")
    }
}
