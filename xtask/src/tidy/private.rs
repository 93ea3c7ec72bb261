//! What only this machine knows must not be committed: its folders, and the hosts that packages come from
//! (a lock file that names a host installs from nowhere else).

use std::path::Path;

use super::{File, Finding};
use crate::shell::root;

/// Hosts of package registries. Written in pieces, so that this file passes its own check.
const HOSTS: &[&str] = &[
    concat!("registry.", "npmjs.org"),
    concat!("registry.", "yarnpkg.com"),
    concat!("pypi", ".org"),
    concat!("files.", "pythonhosted.org"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("deb.", "debian.org"),
];

/// Folders that say nothing about a machine.
const COMMON: &[&str] = &[
    "/", "/home", "/mnt", "/opt", "/srv", "/tmp", "/usr", "/usr/src", "/var", "/var/tmp",
];

/// Folders of this machine that must not be named: the checkout, the folder around it, the home directory.
pub(super) fn of_this_machine() -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let around = root().parent().unwrap_or(root());
    [root(), around, Path::new(&home)]
        .iter()
        .map(|folder| folder.to_string_lossy().into_owned())
        .filter(|folder| !folder.is_empty() && !COMMON.contains(&folder.as_str()))
        .collect()
}

/// Checks every text file.
pub(super) fn check(files: &[File], folders: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            let mut report = |message: String| {
                findings.push(Finding::new(&file.path, index + 1, message));
            };
            for host in HOSTS.iter().filter(|host| line.contains(**host)) {
                report(format!(
                    "names the registry host {host}: every machine brings its own"
                ));
            }
            for folder in folders.iter().filter(|folder| names_folder(line, folder)) {
                report(format!(
                    "names {folder}, a folder of this machine: nobody else has it"
                ));
            }
        }
    }
    findings
}

/// Whether a line holds the folder or something in it, and not just a longer name (`/work` in `/workers`).
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        let starts = !before.is_some_and(|c| c.is_alphanumeric() || "/.-_}".contains(c));
        starts && after == Some('/')
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn registry_hosts_are_found() {
        let text = format!("\"resolved\": \"https://{}/a.tgz\"", HOSTS[0]);
        assert_eq!(check(&[file("package-lock.json", &text)], &[]).len(), 1);
    }

    #[test]
    fn folders_of_this_machine_are_found() {
        let folders = ["/place".to_owned()];
        let found = |text: &str| !check(&[file("a.md", text)], &folders).is_empty();
        assert!(found("see /place/main/x"));
        assert!(!found("see /places/main"));
        assert!(!found("see https://example.com/place/x"));
        assert!(!found("a work/place/x of yours"));
    }

    #[test]
    fn the_checkout_itself_is_private() {
        let folders = of_this_machine();
        let root = root().to_string_lossy().into_owned();
        assert!(folders.contains(&root) || COMMON.contains(&root.as_str()));
    }
}
