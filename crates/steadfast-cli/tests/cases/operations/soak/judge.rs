//! The rows of the providers against what is on record.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use testkit::Row;

use super::lanes::{Ended, Story};
use super::plan::Contract;

/// What a round came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) operations: usize,
    pub(super) rows: usize,
    /// How operations ended.
    pub(super) ends: BTreeMap<String, usize>,
    /// How many the death of a gateway interrupted.
    pub(super) interrupted: usize,
    /// How many were sent again under their key.
    pub(super) repeated: usize,
    /// How many outcomes were given to the identical call that asked.
    pub(super) given: usize,
    /// How many calls were kept back.
    pub(super) kept_back: usize,
    /// How often an agent gave up while its answer was on its way, and called again.
    pub(super) crossed: usize,
    pub(super) kills: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.rows += other.rows;
        for (end, count) in &other.ends {
            *self.ends.entry(end.clone()).or_default() += count;
        }
        self.interrupted += other.interrupted;
        self.repeated += other.repeated;
        self.given += other.given;
        self.kept_back += other.kept_back;
        self.crossed += other.crossed;
        self.kills += other.kills;
    }
}

/// One server, as it is in the end.
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
    /// Of each call that came: the RPC id, and whose it was.
    pub(super) calls: Vec<(Value, String)>,
}

/// One operation, as it is on record.
struct Operation<'a> {
    details: &'a Value,
    rows: usize,
}

impl Operation<'_> {
    fn state(&self) -> &str {
        self.details["state"].as_str().unwrap_or_default()
    }

    fn kinds(&self) -> impl Iterator<Item = &str> {
        let evidence = self.details["evidence"].as_array().into_iter().flatten();
        evidence.filter_map(|it| it["kind"].as_str())
    }

    fn is(&self, contract: Contract) -> bool {
        self.details["tool"] == contract.tool()
    }
}

/// The ids of its attempts.
fn attempts(details: &Value) -> impl Iterator<Item = &str> {
    let evidence = details["evidence"].as_array().into_iter().flatten();
    evidence.filter_map(|it| it["rpc_id"].as_str())
}

/// Judges a round. `operations`: everything on record.
pub(super) fn judge(
    servers: &[Seen],
    operations: &[Value],
    stories: &[Story],
) -> Result<Tally, String> {
    let mut by_attempt = HashMap::new();
    for (index, details) in operations.iter().enumerate() {
        let server = details["server"].as_str().unwrap_or_default();
        for id in attempts(details) {
            by_attempt.insert((server, id.to_owned()), index);
        }
    }
    let mut judged: Vec<_> = operations
        .iter()
        .map(|details| Operation { details, rows: 0 })
        .collect();
    // Of each intention, the operations that came of it.
    let mut of_key = BTreeMap::<&str, BTreeSet<usize>>::new();
    for server in servers {
        for (id, key) in &server.calls {
            let attempt = (server.name.as_str(), id.to_string());
            let index = by_attempt.get(&attempt).copied();
            let index = index.ok_or_else(|| format!("request {attempt:?} is not on record"))?;
            of_key.entry(key).or_default().insert(index);
        }
        for row in &server.rows {
            let attempt = (server.name.as_str(), row.rpc_id.to_string());
            let index = by_attempt.get(&attempt).copied();
            let index = index.ok_or_else(|| format!("row {row:?} is not on record"))?;
            judged[index].rows += 1;
        }
    }
    let mut tally = Tally::default();
    for operation in &judged {
        one(operation).map_err(|what| format!("{what}: {}", operation.details))?;
        count(operation, &mut tally);
    }
    for story in stories {
        let of_it = of_key.get(story.intention.key.as_str());
        let of_it = of_it.into_iter().flatten();
        let mut of_it: Vec<&Operation<'_>> = of_it.map(|index| &judged[*index]).collect();
        of_it.sort_by_key(|it| it.details["id"].as_str());
        intention(story, &of_it, &mut tally).map_err(|what| {
            let details: Vec<_> = of_it.iter().map(|it| it.details.to_string()).collect();
            format!("{what}: {story:?}\n{}", details.join("\n"))
        })?;
    }
    Ok(tally)
}

/// What is true of every operation, however it came about.
fn one(operation: &Operation<'_>) -> Result<(), &'static str> {
    let details = operation.details;
    let (rows, executed) = (operation.rows, details["executed"].as_str());
    let must = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
    must(rows <= 1, "it ran twice")?;
    must(
        executed != Some("no") || rows == 0,
        "it is said not to have run",
    )?;
    let kinds: Vec<&str> = operation.kinds().collect();
    must(!kinds.is_empty(), "nothing is on record")?;
    let last = |kind| kinds.iter().rposition(|it| *it == kind);
    if let Some(interrupted) = last("interrupted") {
        let again = last("leaving").is_some_and(|leaving| leaving > interrupted);
        must(!again, "it was sent by itself after a restart")?;
    }
    if !operation.is(Contract::Key) {
        let refused = kinds.iter().filter(|it| **it == "refused").count();
        let left = kinds.iter().filter(|it| **it == "leaving").count();
        must(left <= refused + 1, "it left again without a proof")?;
    }
    match operation.state() {
        "observed" => must(kinds.contains(&"answered"), "there was no answer"),
        "confirmed" => must(kinds.contains(&"looked_up"), "nobody looked it up"),
        "no_effect" => Ok(()),
        "held" => must(
            details["why"].is_string() && executed == Some("unknown"),
            "it is held without a reason",
        ),
        _ => Err("it has no end"),
    }
}

fn count(operation: &Operation<'_>, tally: &mut Tally) {
    tally.operations += 1;
    tally.rows += operation.rows;
    let end = operation.state().to_owned();
    *tally.ends.entry(end).or_default() += 1;
    let has = |kind: &str| usize::from(operation.kinds().any(|it| it == kind));
    tally.interrupted += has("interrupted");
    tally.given += has("delivered");
    let leaves = operation.kinds().filter(|it| *it == "leaving").count();
    tally.repeated += usize::from(leaves > 1);
}

/// What is true of what an agent wanted done once, however often it called.
fn intention(
    story: &Story,
    operations: &[&Operation<'_>],
    tally: &mut Tally,
) -> Result<(), &'static str> {
    let rows: usize = operations.iter().map(|it| it.rows).sum();
    let kept_back = |ended: &&Ended| matches!(ended, Ended::KeptBack(_));
    tally.kept_back += story.ends.iter().filter(kept_back).count();
    for ended in &story.ends {
        if let Ended::Told(told) = ended {
            let found = operations
                .iter()
                .find(|it| it.details["id"] == told["id"] && told["executed"] == "no");
            if found.is_some_and(|it| it.rows > 0) {
                return Err("its agent was told that it did not run");
            }
        }
    }
    if story.intention.has_operation_key() {
        let meant = operations.iter().filter(|it| it.state() != "no_effect");
        if meant.count() > 1 {
            return Err("one operation key had two operations");
        }
    }
    let crossed = has_crossed(story, operations);
    let is_wrong = |it: &&Operation<'_>| it.state() == "confirmed" && it.rows == 0;
    if operations.iter().any(is_wrong) && !(rows == 1 && crossed) {
        return Err("it is confirmed, and did not run");
    }
    if rows <= 1 {
        return Ok(());
    }
    if rows == 2 && crossed {
        tally.crossed += 1;
        return Ok(());
    }
    Err("the agent wanted it once, and it ran twice")
}

/// Whether an agent gave up and called again while the answer was on its way to it, or before the gateway could see that it
/// had gone: nobody can tell that from two calls that are both meant.
fn has_crossed(story: &Story, operations: &[&Operation<'_>]) -> bool {
    let gave_up = story.ends.iter().find_map(|ended| match ended {
        Ended::GaveUp(at) => Some(*at),
        _ => None,
    });
    let (Some(gave_up), Some(last)) = (gave_up, operations.last()) else {
        return false;
    };
    let begun = last.details["intended_at"].as_str();
    let begun: Option<Timestamp> = begun.and_then(|at| at.parse().ok());
    operations.iter().any(|operation| {
        let evidence = operation.details["evidence"].as_array();
        let mut evidence = evidence.into_iter().flatten();
        let has = |kind| operation.kinds().any(|it| it == kind);
        // A gateway that was killed may have been about to see it.
        let soon = Some(gave_up + Duration::from_millis(250));
        let unseen = has("interrupted") && !has("agent_left") && begun <= soon;
        unseen
            || evidence.any(|it| match it["kind"].as_str() {
                Some("answered") if it["late"] == false => {
                    at(it).is_some_and(|at| at <= gave_up + Duration::from_millis(50))
                }
                Some("agent_left") => at(it) >= begun,
                _ => false,
            })
    })
}

fn at(evidence: &Value) -> Option<Timestamp> {
    evidence["at"].as_str()?.parse().ok()
}
