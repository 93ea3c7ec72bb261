//! What came out, as one table, and whether it is what was expected.

use std::fmt;

use crate::exceptions::{Exceptions, Place};
use crate::requirements::Kind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// The suite itself leaves it out.
    Skipped,
    Failed(Vec<String>),
    /// Failed, and `exceptions.toml` says why.
    Excused(String),
}

impl Verdict {
    fn mark(&self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Skipped => "skip",
            Self::Failed(_) => "FAIL",
            Self::Excused(_) => "known",
        }
    }

    fn is_good(&self) -> bool {
        matches!(self, Self::Passed | Self::Skipped)
    }
}

#[derive(Debug)]
pub(crate) struct ServerRow {
    pub(crate) scenario: String,
    pub(crate) revision: &'static str,
    pub(crate) kind: Kind,
    pub(crate) direct: Verdict,
    /// Through the gateway, in the ways that were run.
    pub(crate) through: Vec<(Place, Verdict)>,
}

impl AcrossRow {
    fn passed(&self) -> bool {
        self.outcomes.iter().all(|(_, outcome)| outcome.is_ok())
    }
}

impl ServerRow {
    /// All verdicts, the direct one first.
    fn verdicts(&self) -> impl Iterator<Item = (Place, &Verdict)> {
        let through = self.through.iter();
        [(Place::Direct, &self.direct)]
            .into_iter()
            .chain(through.map(|(place, verdict)| (*place, verdict)))
    }
}

#[derive(Debug)]
pub(crate) struct ClientRow {
    pub(crate) scenario: String,
    pub(crate) revision: &'static str,
    pub(crate) kind: Kind,
    pub(crate) verdict: Verdict,
}

#[derive(Debug)]
pub(crate) struct PairingRow {
    pub(crate) client: &'static str,
    pub(crate) server: &'static str,
    /// How long the pause was that the client saw, or what went wrong.
    pub(crate) outcome: Result<String, String>,
}

/// A real client on a server of the other era, or at the address of all servers.
#[derive(Debug)]
pub(crate) struct AcrossRow {
    pub(crate) client: &'static str,
    pub(crate) server: &'static str,
    pub(crate) merged: bool,
    /// What it did, and what went wrong.
    pub(crate) outcomes: Vec<(&'static str, Result<(), String>)>,
}

/// The life of a grant at a real authorization server.
#[derive(Debug)]
pub(crate) struct GrantRow {
    pub(crate) issuer: &'static str,
    /// What there was, or what went wrong.
    pub(crate) outcome: Result<String, String>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) servers: Vec<ServerRow>,
    pub(crate) clients: Vec<ClientRow>,
    pub(crate) pairings: Vec<PairingRow>,
    pub(crate) across: Vec<AcrossRow>,
    pub(crate) grants: Vec<GrantRow>,
    /// The admin API: what was asked, or what went wrong.
    pub(crate) api: Option<Result<String, String>>,
    /// Exceptions that do not hold.
    complaints: Vec<String>,
}

impl Report {
    /// Compares with the exceptions: strict both ways.
    pub(crate) fn judge(&mut self, exceptions: &Exceptions) {
        for row in &mut self.servers {
            let (scenario, revision) = (&row.scenario, row.revision);
            let through = row.through.iter_mut();
            let through = through.map(|(place, verdict)| (*place, verdict));
            for (place, verdict) in [(Place::Direct, &mut row.direct)]
                .into_iter()
                .chain(through)
            {
                let excused = excuse(exceptions, scenario, revision, place, verdict);
                self.complaints.extend(excused);
            }
        }
        for row in &mut self.clients {
            let excused = excuse(
                exceptions,
                &row.scenario,
                row.revision,
                Place::Client,
                &mut row.verdict,
            );
            self.complaints.extend(excused);
        }
        for entry in &exceptions.entries {
            let ran = match entry.place {
                Place::Direct => !self.servers.is_empty(),
                Place::Gateway | Place::Merged | Place::Bridge => {
                    self.places().any(|place| place == entry.place)
                }
                Place::Client => !self.clients.is_empty(),
            };
            let servers = self
                .servers
                .iter()
                .map(|row| (row.scenario.as_str(), row.revision));
            let clients = self
                .clients
                .iter()
                .map(|row| (row.scenario.as_str(), row.revision));
            let known = match entry.place {
                Place::Direct | Place::Gateway | Place::Merged | Place::Bridge => {
                    servers.collect::<Vec<_>>()
                }
                Place::Client => clients.collect(),
            };
            if ran && !known.contains(&(entry.scenario.as_str(), entry.revision.as_str())) {
                let (scenario, revision) = (&entry.scenario, &entry.revision);
                self.complaints.push(format!(
                    "exceptions.toml names {scenario} {revision}, which was not run"
                ));
            }
        }
    }

    pub(crate) fn passed(&self) -> bool {
        let unexpected = |verdict: &Verdict| matches!(verdict, Verdict::Failed(_));
        self.complaints.is_empty()
            && !self
                .servers
                .iter()
                .any(|row| row.verdicts().any(|(_, verdict)| unexpected(verdict)))
            && !self.clients.iter().any(|row| unexpected(&row.verdict))
            && self.pairings.iter().all(|row| row.outcome.is_ok())
            && self.across.iter().all(AcrossRow::passed)
            && self.grants.iter().all(|row| row.outcome.is_ok())
            && self.api.as_ref().is_none_or(Result::is_ok)
    }
}

/// Marks a failure that was expected; a complaint where one was expected that did not come.
fn excuse(
    exceptions: &Exceptions,
    scenario: &str,
    revision: &str,
    place: Place,
    verdict: &mut Verdict,
) -> Option<String> {
    let entry = exceptions.find(scenario, revision, place)?;
    if verdict.is_good() {
        return Some(format!(
            "{scenario} {revision} passes ({place:?}): take it out of exceptions.toml"
        ));
    }
    *verdict = Verdict::Excused(entry.reason.clone());
    None
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.servers.is_empty() {
            self.write_servers(to)?;
        }
        if !self.clients.is_empty() {
            self.write_clients(to)?;
        }
        if !self.pairings.is_empty() {
            self.write_pairings(to)?;
        }
        if !self.across.is_empty() {
            self.write_across(to)?;
        }
        if !self.grants.is_empty() {
            self.write_grants(to)?;
        }
        match &self.api {
            Some(Ok(asked)) => writeln!(to, "admin API: {asked}\n")?,
            Some(Err(why)) => writeln!(to, "admin API: FAIL: {why}\n")?,
            None => {}
        }
        for complaint in &self.complaints {
            writeln!(to, "error: {complaint}")?;
        }
        write!(
            to,
            "{}",
            if self.passed() {
                "conformance: passed"
            } else {
                "conformance: FAILED"
            }
        )
    }
}

impl Report {
    /// The ways through the gateway that were run.
    fn places(&self) -> impl Iterator<Item = Place> {
        let first = self.servers.first();
        first
            .into_iter()
            .flat_map(|row| row.through.iter().map(|(place, _)| *place))
    }

    fn write_servers(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:<46} {:<11}", "server scenario", "revision")?;
        for place in [Place::Direct].into_iter().chain(self.places()) {
            write!(to, " {:<7}", place.name())?;
        }
        writeln!(to)?;
        for row in &self.servers {
            write!(to, "{:<46} {:<11}", row.scenario, row.revision)?;
            for (_, verdict) in row.verdicts() {
                write!(to, " {:<7}", verdict.mark())?;
            }
            writeln!(to)?;
            for (place, verdict) in row.verdicts() {
                write_reason(to, place.name(), verdict)?;
            }
        }
        let mut groups: Vec<(&str, Kind)> = self
            .servers
            .iter()
            .map(|row| (row.revision, row.kind))
            .collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            self.write_group(to, group)?;
        }
        writeln!(to)
    }

    /// How many scenarios of one kind passed in each way.
    fn write_group(
        &self,
        to: &mut fmt::Formatter<'_>,
        (revision, kind): (&str, Kind),
    ) -> fmt::Result {
        write!(to, "{revision} {}:", kind.name())?;
        let rows: Vec<_> = self
            .servers
            .iter()
            .filter(|row| (row.revision, row.kind) == (revision, kind))
            .collect();
        for (at, place) in [Place::Direct].into_iter().chain(self.places()).enumerate() {
            let passed = rows
                .iter()
                .filter(|row| row.verdicts().nth(at).is_some_and(|(_, it)| it.is_good()))
                .count();
            let comma = if at == 0 { "" } else { "," };
            write!(to, "{comma} {} {passed}/{}", place.name(), rows.len())?;
        }
        writeln!(to)
    }

    fn write_clients(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "{:<46} {:<11} keeper", "client scenario", "revision")?;
        for row in &self.clients {
            writeln!(
                to,
                "{:<46} {:<11} {}",
                row.scenario,
                row.revision,
                row.verdict.mark()
            )?;
            write_reason(to, "keeper", &row.verdict)?;
        }
        let mut groups: Vec<(&str, Kind)> = self
            .clients
            .iter()
            .map(|row| (row.revision, row.kind))
            .collect();
        groups.sort_unstable();
        groups.dedup();
        for (revision, kind) in groups {
            let of_group = |row: &&ClientRow| (row.revision, row.kind) == (revision, kind);
            let rows: Vec<_> = self.clients.iter().filter(of_group).collect();
            let good = rows.iter().filter(|row| row.verdict.is_good()).count();
            let kind = kind.name();
            writeln!(to, "{revision} {kind}: keeper {good}/{}", rows.len())?;
        }
        writeln!(to)
    }

    fn write_pairings(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            to,
            "{:<24} {:<22} server killed in mid-session",
            "client", "server"
        )?;
        for row in &self.pairings {
            let outcome = match &row.outcome {
                Ok(noticed) => noticed.clone(),
                Err(why) => format!("FAIL: {why}"),
            };
            writeln!(to, "{:<24} {:<22} {outcome}", row.client, row.server)?;
        }
        let good = self
            .pairings
            .iter()
            .filter(|row| row.outcome.is_ok())
            .count();
        writeln!(to, "pairings: {good}/{}\n", self.pairings.len())
    }

    fn write_across(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:<24} {:<20}", "client", "server")?;
        let tasks = self.across.first().map(|row| &row.outcomes);
        for (task, _) in tasks.into_iter().flatten() {
            write!(to, " {task:<9}")?;
        }
        writeln!(to)?;
        for row in &self.across {
            let address = if row.merged { "among all" } else { "alone" };
            let server = format!("{}, {address}", row.server);
            write!(to, "{:<24} {server:<20}", row.client)?;
            for (_, outcome) in &row.outcomes {
                write!(to, " {:<9}", if outcome.is_ok() { "pass" } else { "FAIL" })?;
            }
            writeln!(to)?;
            for (task, outcome) in &row.outcomes {
                if let Err(why) = outcome {
                    writeln!(to, "    {task}: {why}")?;
                }
            }
        }
        let good = self.across.iter().filter(|row| row.passed()).count();
        writeln!(to, "clients across eras: {good}/{}\n", self.across.len())
    }

    fn write_grants(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.grants {
            let outcome = match &row.outcome {
                Ok(there_was) => there_was.clone(),
                Err(why) => format!("FAIL: {why}"),
            };
            writeln!(to, "{:<24} {outcome}", row.issuer)?;
        }
        let good = self.grants.iter().filter(|row| row.outcome.is_ok()).count();
        writeln!(to, "authorization servers: {good}/{}\n", self.grants.len())
    }
}

fn write_reason(to: &mut fmt::Formatter<'_>, place: &str, verdict: &Verdict) -> fmt::Result {
    match verdict {
        Verdict::Passed | Verdict::Skipped => Ok(()),
        Verdict::Failed(why) => why
            .iter()
            .try_for_each(|why| writeln!(to, "    {place}: {why}")),
        Verdict::Excused(reason) => writeln!(to, "    {place}: known: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn report(direct: Verdict, gateway: Verdict) -> Report {
        let row = ServerRow {
            scenario: "ping".to_owned(),
            revision: "2025-11-25",
            kind: Kind::Required,
            direct,
            through: vec![(Place::Gateway, gateway)],
        };
        Report {
            servers: vec![row],
            ..Report::default()
        }
    }

    fn exceptions(scenario: &str, place: &str) -> Exceptions {
        let text = format!(
            "[[exception]]\nscenario = \"{scenario}\"\nrevision = \"2025-11-25\"\nwhere = \"{place}\"\nreason = \"so\"\n"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn an_expected_failure_passes_and_an_unexpected_one_does_not() {
        let failed = || Verdict::Failed(vec!["why".to_owned()]);
        let mut known = report(Verdict::Passed, failed());
        known.judge(&exceptions("ping", "gateway"));
        assert!(known.passed());
        let mut unknown = report(failed(), failed());
        unknown.judge(&exceptions("ping", "gateway"));
        assert!(!unknown.passed());
    }

    #[test]
    fn an_exception_that_passes_fails() {
        let mut report = report(Verdict::Passed, Verdict::Passed);
        report.judge(&exceptions("ping", "gateway"));
        assert!(!report.passed());
    }

    #[test]
    fn an_exception_for_a_scenario_that_is_not_there_fails() {
        let mut report = report(Verdict::Passed, Verdict::Passed);
        report.judge(&exceptions("pong", "direct"));
        assert!(!report.passed());
    }
}
