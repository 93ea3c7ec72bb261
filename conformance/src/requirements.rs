//! Which server scenarios a revision requires, as the suite's own `requirements/*.yaml` say.

use crate::Failure;
use crate::programs::Programs;

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

/// Of the skills extension, which no requirement set names.
pub(crate) const SKILLS: [&str; 3] = [
    "sep-2640-skills-directory",
    "sep-2640-skills-enumeration",
    "sep-2640-skills-manifest",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Counts for conformance.
    Required,
    /// Of an optional extension.
    Extension,
    /// Run and reported by the suite, and not scored.
    Further,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// All server scenarios that `--requirements REVISION` runs.
pub(crate) fn of(programs: &Programs, revision: &str) -> Result<Vec<Scenario>, Failure> {
    let path = programs.module(format!(
        "@modelcontextprotocol/conformance/requirements/{revision}.yaml"
    ));
    let scenarios = parse(&std::fs::read_to_string(&path)?);
    if scenarios.is_empty() {
        return Err(format!("{} names no server scenario", path.display()).into());
    }
    Ok(scenarios)
}

/// Reads the two shapes that the files have: a plain list under `server:`, and entries with a leg under `not_scored:`.
fn parse(text: &str) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let mut section = "";
    let mut entry = Entry::default();
    for line in text.lines() {
        if let Some(name) = line
            .strip_suffix(':')
            .filter(|name| !name.starts_with([' ', '#']))
        {
            section = name;
        } else if let Some(name) = line.strip_prefix("  - scenario: ") {
            scenarios.extend(std::mem::take(&mut entry).server());
            entry.name = name.to_owned();
        } else if let Some(name) = line.strip_prefix("  - ").filter(|_| section == "server") {
            scenarios.push(Scenario {
                name: name.to_owned(),
                kind: Kind::Required,
            });
        } else if let Some(leg) = line.strip_prefix("    leg: ") {
            entry.leg = leg.to_owned();
        } else if let Some(reason) = line.strip_prefix("    reason: ") {
            entry.reason = reason.to_owned();
        }
    }
    scenarios.extend(entry.server());
    scenarios
}

#[derive(Debug, Default)]
struct Entry {
    name: String,
    leg: String,
    reason: String,
}

impl Entry {
    fn server(self) -> Option<Scenario> {
        let kind = if self.reason == "extension" {
            Kind::Extension
        } else {
            Kind::Further
        };
        (self.leg == "server").then_some(Scenario {
            name: self.name,
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_read_and_the_client_leg_is_left_out() {
        let text = "# comment:\nserver:\n  - ping\n  - tools-list\n\nclient:\n  - initialize\n\nnot_scored:\n  \
                    - scenario: auth/dpop\n    leg: client\n    reason: extension\n  - scenario: tasks-lifecycle\n    \
                    leg: server\n    reason: extension\n    note: >-\n      text\n  - scenario: server-sse-polling\n    \
                    leg: server\n    reason: pending\n";
        let found: Vec<_> = parse(text)
            .into_iter()
            .map(|found| (found.name, found.kind))
            .collect();
        let expected = [
            ("ping", Kind::Required),
            ("tools-list", Kind::Required),
            ("tasks-lifecycle", Kind::Extension),
            ("server-sse-polling", Kind::Further),
        ];
        assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
}
