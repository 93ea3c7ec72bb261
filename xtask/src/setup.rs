//! Makes a fresh Debian machine with a Rust toolchain ready for the tests: system packages by apt, Node
//! and the JavaScript peers by npm, the Python peers in an environment of their own. What is there
//! already is left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{Failure, Outcome, command, find, output, root, step};

/// The oldest Node that the official suite runs on.
const OLDEST_NODE: u32 = 22;

/// A program that comes from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// npm, and with it some Node to run it.
    Npm,
    /// Python with `venv`.
    Python,
    /// nginx, the hop that the bench compares with.
    Nginx,
    /// The browser that signs in.
    Chromium,
}

impl Need {
    /// The Debian packages that bring it.
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Npm => &["npm"],
            Self::Python => &["python3", "python3-venv"],
            Self::Nginx => &["nginx-light"],
            Self::Chromium => &["chromium"],
        }
    }

    fn met(self) -> bool {
        match self {
            Self::Npm => find("npm").is_some() && find("node").is_some(),
            // Debian's python3 has `venv` but not `ensurepip`, without which no environment can be made.
            Self::Python => {
                output(&mut command("python3", &["-c", "import ensurepip, venv"])).is_some()
            }
            Self::Nginx => find("nginx").is_some(),
            // As in `conformance/src/programs.rs`.
            Self::Chromium => ["chromium", "chromium-browser", "google-chrome"]
                .into_iter()
                .any(|name| find(name).is_some()),
        }
    }
}

/// Installs what is missing where this process may, else says what a person must install.
pub(crate) fn system_packages(needs: &[Need]) -> Outcome {
    let missing = |needs: &[Need]| -> Vec<Need> {
        needs.iter().copied().filter(|need| !need.met()).collect()
    };
    let lacking = missing(needs);
    if lacking.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = lacking
        .iter()
        .flat_map(|need| need.packages().iter().copied())
        .collect();
    let advice = format!(
        "these Debian packages are missing and could not be installed from here; as root:\n  \
         apt-get update && apt-get install {}",
        packages.join(" ")
    );
    if !is_root() || find("apt-get").is_none() {
        return Err(Failure::new(advice));
    }
    step("apt-get update", &mut apt_get(&["update", "-qq"]))?;
    let mut install = apt_get(&["install", "-qq", "--yes", "--no-install-recommends"]);
    step("apt-get install", install.args(&packages))?;
    if missing(needs).is_empty() {
        Ok(())
    } else {
        Err(Failure::new(advice))
    }
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = command("apt-get", arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    // Installing nginx must not start one on port 80: in single-user mode no service is started.
    command.env("RUNLEVEL", "1");
    command
}

fn is_root() -> bool {
    output(&mut command("id", &["-u"])).is_some_and(|id| id.trim() == "0")
}

/// The peers of the tests, ready to run.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The version of Node that runs the suite.
    pub(crate) node: String,
    /// The version of Python in the environment.
    pub(crate) python: String,
}

/// Installs the JavaScript and Python peers as their lock files say.
pub(crate) fn peers() -> Outcome<Peers> {
    system_packages(&[Need::Npm, Need::Python, Need::Chromium])?;
    let conformance = root().join("conformance");
    let node = javascript(&conformance)?;
    let python = python(&conformance)?;
    Ok(Peers { node, python })
}

fn javascript(conformance: &Path) -> Outcome<String> {
    let modules = conformance.join("node_modules");
    // The builds that npm's `node` package would fetch by a script are in the lock file themselves, one
    // for each platform: npm takes the one that fits, checks its hash, and needs to run nothing.
    let node = modules.join(".bin/node");
    let stamp = Stamp::new(&modules, &conformance.join("package-lock.json"));
    if stamp.is_current()
        && let Some(version) = version(&node)
    {
        return Ok(version);
    }
    step(
        "npm ci",
        command(
            "npm",
            &["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        )
        .current_dir(conformance),
    )?;
    let version =
        version(&node).ok_or_else(|| Failure::new("the lock file has no Node for this machine"))?;
    if major(&version).is_none_or(|major| major < OLDEST_NODE) {
        return Err(Failure::new(format!(
            "the conformance suite needs Node {OLDEST_NODE} or newer, and the lock file brought {version}"
        )));
    }
    stamp.write()?;
    Ok(version)
}

fn python(conformance: &Path) -> Outcome<String> {
    let environment = conformance.join(".venv");
    let python = environment.join("bin/python");
    let requirements = conformance.join("requirements.txt");
    let stamp = Stamp::new(&environment, &requirements);
    if stamp.is_current()
        && let Some(version) = version(&python)
    {
        return Ok(version);
    }
    step(
        "Python environment",
        command("python3", &["-m", "venv", "--clear"]).arg(&environment),
    )?;
    step(
        "pip install",
        command(
            &python.to_string_lossy(),
            &["-m", "pip", "install", "--quiet"],
        )
        .args([
            "--disable-pip-version-check",
            "--require-hashes",
            "--requirement",
        ])
        .arg(&requirements),
    )?;
    let version = version(&python)
        .ok_or_else(|| Failure::new("the Python of conformance/.venv does not run"))?;
    stamp.write()?;
    Ok(version)
}

fn version(program: &Path) -> Option<String> {
    let text = output(&mut command(&program.to_string_lossy(), &["--version"]))?;
    Some(text.trim().trim_start_matches("Python ").to_owned())
}

fn major(version: &str) -> Option<u32> {
    version
        .trim_start_matches('v')
        .split('.')
        .next()?
        .parse()
        .ok()
}

/// Remembers the lock file that a folder was installed from: a copy of it inside the folder.
struct Stamp {
    copy: PathBuf,
    lock: PathBuf,
}

impl Stamp {
    fn new(folder: &Path, lock: &Path) -> Self {
        Self {
            copy: folder.join(".installed-from"),
            lock: lock.to_owned(),
        }
    }

    fn is_current(&self) -> bool {
        match (fs::read(&self.copy), fs::read(&self.lock)) {
            (Ok(copy), Ok(lock)) => copy == lock,
            _ => false,
        }
    }

    fn write(&self) -> Outcome {
        fs::copy(&self.lock, &self.copy)
            .map(|_| ())
            .map_err(|error| Failure::new(format!("{}: {error}", self.copy.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_holds_until_the_lock_file_changes() {
        let folder = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let lock = folder.join("lock");
        fs::write(&lock, "one").unwrap();
        let stamp = Stamp::new(&folder, &lock);
        assert!(!stamp.is_current(), "nothing is installed yet");
        stamp.write().unwrap();
        assert!(stamp.is_current());
        fs::write(&lock, "two").unwrap();
        assert!(!stamp.is_current(), "the lock file has changed");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major("v22.23.3"), Some(22));
        assert_eq!(major("unknown"), None);
    }

    #[test]
    fn what_is_there_is_not_installed() {
        assert!(system_packages(&[]).is_ok());
    }
}
