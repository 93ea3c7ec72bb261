//! Which scenarios a revision requires, as the suite's own `requirements/*.yaml` say.

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

/// Who is under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

impl Role {
    /// As the files write it.
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Extension => "of extensions",
            Self::Further => "not scored",
        }
    }
}

/// All scenarios of a role that `--requirements REVISION` runs.
pub(crate) fn of(
    programs: &Programs,
    revision: &str,
    role: Role,
) -> Result<Vec<Scenario>, Failure> {
    let path = programs.module(format!(
        "@modelcontextprotocol/conformance/requirements/{revision}.yaml"
    ));
    let scenarios = parse(&std::fs::read_to_string(&path)?, role);
    if scenarios.is_empty() {
        let (path, role) = (path.display(), role.name());
        return Err(format!("{path} names no {role} scenario").into());
    }
    Ok(scenarios)
}

/// Reads the two shapes that the files have: a plain list under the role, and entries with a leg under `not_scored:`.
fn parse(text: &str, role: Role) -> Vec<Scenario> {
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
            scenarios.extend(std::mem::take(&mut entry).of(role));
            entry.name = name.to_owned();
        } else if let Some(name) = line.strip_prefix("  - ").filter(|_| section == role.name()) {
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
    scenarios.extend(entry.of(role));
    scenarios
}

#[derive(Debug, Default)]
struct Entry {
    name: String,
    leg: String,
    reason: String,
}

impl Entry {
    fn of(self, role: Role) -> Option<Scenario> {
        let kind = if self.reason == "extension" {
            Kind::Extension
        } else {
            Kind::Further
        };
        (self.leg == role.name()).then_some(Scenario {
            name: self.name,
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_read_for_each_role() {
        let text = "# comment:\nserver:\n  - ping\n  - tools-list\n\nclient:\n  - initialize\n\nnot_scored:\n  \
                    - scenario: auth/dpop\n    leg: client\n    reason: extension\n  - scenario: tasks-lifecycle\n    \
                    leg: server\n    reason: extension\n    note: >-\n      text\n  - scenario: server-sse-polling\n    \
                    leg: server\n    reason: pending\n";
        let expect = |role, expected: &[(&str, Kind)]| {
            let found = parse(text, role).into_iter();
            let found: Vec<_> = found.map(|found| (found.name, found.kind)).collect();
            let expected = expected
                .iter()
                .map(|(name, kind)| ((*name).to_owned(), *kind));
            assert_eq!(found, expected.collect::<Vec<_>>());
        };
        expect(
            Role::Server,
            &[
                ("ping", Kind::Required),
                ("tools-list", Kind::Required),
                ("tasks-lifecycle", Kind::Extension),
                ("server-sse-polling", Kind::Further),
            ],
        );
        expect(
            Role::Client,
            &[
                ("initialize", Kind::Required),
                ("auth/dpop", Kind::Extension),
            ],
        );
    }
}
