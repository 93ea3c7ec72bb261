//! The rule on streams that are written down, and on random ones.

use std::collections::BTreeMap;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;

const SEARCH: &str = "https://mcp.example.com/tools/search";
const FETCH: &str = "https://mcp.example.com/tools/fetch";

fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

fn token(audiences: &[&str]) -> Reach {
    Reach::Only(audiences.iter().map(|it| resource(it)).collect())
}

fn event(text: &str, last: u64) -> Requirement {
    Requirement {
        resource: resource(text),
        until: Until::Event(last),
    }
}

/// A stream was opened with an aggregate token, two tools were called, the connection dropped after event 41, and
/// the renewal narrowed the token to one of the tools.
#[test]
fn a_narrowed_token_gets_nothing_of_a_stream_of_two_tools() {
    let stream = [event(SEARCH, 44), event(FETCH, 43)];
    let plan = |after, audiences: &[&str]| plan_replay(owed(&stream, after), &token(audiences));
    let missing = |texts: &[&str]| Plan::Refused {
        missing: texts.iter().map(|it| resource(it)).collect(),
    };
    assert_eq!(plan(41, &[SEARCH]), missing(&[FETCH]));
    assert_eq!(plan(41, &[]), missing(&[FETCH, SEARCH]));
    for covering in [&[SEARCH, FETCH][..], &["https://mcp.example.com"]] {
        assert_eq!(plan(41, covering), Plan::Full);
    }
    // Only what is still owed counts.
    assert_eq!(plan(43, &[SEARCH]), Plan::Full);
    assert_eq!(plan(44, &[]), Plan::Full);
    assert_eq!(plan_replay(owed(&stream, 0), &Reach::All), Plan::Full);
}

#[test]
fn a_call_that_still_owes_its_answer_counts() {
    let pending = Requirement {
        resource: resource(FETCH),
        until: Until::Open,
    };
    let stream = [event(SEARCH, 7), pending];
    let plan = plan_replay(owed(&stream, 7), &token(&[SEARCH]));
    let missing = vec![resource(FETCH)];
    assert_eq!(plan, Plan::Refused { missing });
}

#[test]
fn a_cursor_is_within_what_is_kept_or_refused() {
    for (after, kept, expected) in [
        (0, 1..1, Ok(1)),
        (0, 1..4, Ok(1)),
        (3, 1..4, Ok(4)),
        (4, 1..4, Err(Gap::Unsent)),
        (u64::MAX, 1..4, Err(Gap::Unsent)),
        (2, 3..4, Ok(3)),
        (1, 3..4, Err(Gap::Forgotten)),
        (0, 2..2, Err(Gap::Forgotten)),
        (1, 2..2, Ok(2)),
    ] {
        assert_eq!(next_after(after, &kept), expected, "{after} {kept:?}");
    }
}

/// A stream as random reads meet it: which tool each event is of, and how many of the first are forgotten.
#[derive(Clone, Debug)]
struct Sample {
    events: Vec<u8>,
    forgotten: usize,
    after: u64,
    audiences: std::collections::BTreeSet<u8>,
}

fn sample() -> impl Strategy<Value = Sample> {
    let events = vec(0..5_u8, 0..40);
    (events, 0..40_usize, 0..45_u64, btree_set(0..5_u8, 0..5)).prop_map(
        |(events, forgotten, after, audiences)| Sample {
            forgotten: forgotten.min(events.len()),
            events,
            after,
            audiences,
        },
    )
}

fn of_tool(tool: u8) -> Resource {
    resource(&format!("https://gw.test/mcp/s/tools/t{tool}"))
}

proptest! {
    /// What was delivered and what is replayed are together what was appended, in order and once; or there is a
    /// refusal that names the gap. Never a part.
    #[test]
    fn replay_is_all_or_nothing(sample in sample()) {
        let appended: Vec<(u64, u8)> = (1..).zip(sample.events.iter().copied()).collect();
        let end = appended.len() as u64 + 1;
        let kept = sample.forgotten as u64 + 1..end;
        let mut last = BTreeMap::new();
        for (number, tool) in &appended {
            last.insert(*tool, *number);
        }
        let requirements: Vec<_> = last
            .iter()
            .map(|(tool, last)| Requirement { resource: of_tool(*tool), until: Until::Event(*last) })
            .collect();
        let reach = Reach::Only(sample.audiences.iter().map(|it| of_tool(*it)).collect());
        let delivered = appended.iter().filter(|(number, _)| *number <= sample.after);

        let next = match next_after(sample.after, &kept) {
            Ok(next) => next,
            Err(Gap::Unsent) => {
                prop_assert!(sample.after >= end);
                return Ok(());
            }
            Err(Gap::Forgotten) => {
                prop_assert!(sample.after < sample.forgotten as u64);
                return Ok(());
            }
        };
        let rest: Vec<_> = appended.iter().filter(|(number, _)| *number >= next).collect();
        match plan_replay(owed(&requirements, sample.after), &reach) {
            Plan::Full => {
                prop_assert!(rest.iter().all(|(_, tool)| sample.audiences.contains(tool)));
                let seen: Vec<_> = delivered.chain(rest).collect();
                prop_assert_eq!(seen, appended.iter().collect::<Vec<_>>());
            }
            Plan::Refused { missing } => {
                let expected: std::collections::BTreeSet<_> = rest
                    .iter()
                    .filter(|(_, tool)| !sample.audiences.contains(tool))
                    .map(|(_, tool)| of_tool(*tool))
                    .collect();
                prop_assert!(!expected.is_empty());
                prop_assert_eq!(missing, expected.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
