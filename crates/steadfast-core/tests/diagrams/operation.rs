//! The machine `operation`, drawn without a contract, with each, and for a task.

use super::common::{Operation, Terms};
use super::page::{self, article, compare, drawn, variant};
use super::{LONG_AGO, NOW, fault, wall};
use steadfast_core::operation::{
    Contract, Decider, Event, Finding, KeyContract, LookupContract, Said, State, Trail, Verdict,
};
use steadfast_core::{Kind, Millis, RpcId, Wall};

fn trail() -> Trail {
    Trail {
        attempts: 1,
        first_sent: Some(Wall(wall().0 - 40_000)),
        last_sent: Some(Wall(wall().0 - 40_000)),
        bytes_sent: 412,
        unknown: 0,
        agent_left: false,
        asked: false,
        task: None,
    }
}

fn states() -> Vec<page::Drawn<State>> {
    let unknown = || Trail {
        unknown: 1,
        ..trail()
    };
    let person = || Decider::Person {
        name: "ops".into(),
        note: None,
    };
    let reconciling = |asking| State::Reconciling {
        trail: unknown(),
        due: if asking { NOW + Millis::secs(9) } else { NOW },
        tries: 0,
        asking,
    };
    vec![
        drawn("nothing has left", State::intended()),
        drawn("what left was refused", State::Intended { trail: trail() }),
        drawn("the first time", State::Sent { trail: trail() }),
        drawn("once more", State::Sent { trail: unknown() }),
        drawn(
            "a result",
            State::Observed {
                trail: trail(),
                said: Said::Result,
                late: false,
            },
        ),
        drawn(
            "a wish for input",
            State::Observed {
                trail: Trail {
                    asked: true,
                    ..trail()
                },
                said: Said::InputRequired,
                late: false,
            },
        ),
        drawn(
            "",
            State::NotObserved {
                trail: unknown(),
                due: LONG_AGO,
                repeats: 0,
            },
        ),
        drawn("waiting", reconciling(false)),
        drawn("asking", reconciling(true)),
        drawn(
            "",
            State::Confirmed {
                trail: unknown(),
                by: person(),
            },
        ),
        drawn(
            "",
            State::NoEffect {
                trail: unknown(),
                by: person(),
                repeat: false,
            },
        ),
        drawn(
            "a person wants it sent again",
            State::NoEffect {
                trail: unknown(),
                by: person(),
                repeat: true,
            },
        ),
        drawn(
            "",
            State::Held {
                trail: unknown(),
                why: "seen".into(),
            },
        ),
        drawn(
            "",
            State::Abandoned {
                trail: unknown(),
                by: person(),
            },
        ),
    ]
}

fn events() -> Vec<(&'static str, Event)> {
    let looked_up = |finding| Event::LookedUp { tries: 0, finding };
    let settle = |verdict| Event::Settle {
        verdict,
        name: "ops".into(),
        note: None,
    };
    vec![
        (
            "leaves",
            Event::Leave {
                rpc_id: RpcId::Integer(17),
            },
        ),
        (
            "refused before execution",
            Event::Refused {
                bytes_sent: 0,
                proof: "seen".into(),
            },
        ),
        ("not tried again", Event::GivenUp { why: "seen".into() }),
        (
            "answer not observed",
            Event::Lost {
                bytes_sent: 412,
                evidence: "seen".into(),
                retry_after: None,
            },
        ),
        (
            "made a task",
            Event::TaskStarted {
                task: "seen".into(),
            },
        ),
        (
            "input required",
            Event::Answered {
                said: Said::InputRequired,
                awaited: true,
            },
        ),
        (
            "answered",
            Event::Answered {
                said: Said::Result,
                awaited: true,
            },
        ),
        ("agent gone", Event::AgentLeft),
        ("due", Event::Due),
        (
            "found",
            looked_up(Finding::Found {
                record: "{}".into(),
            }),
        ),
        ("not found", looked_up(Finding::Absent)),
        (
            "unclear",
            looked_up(Finding::Unclear { why: "seen".into() }),
        ),
        (
            "still at work",
            looked_up(Finding::Working { again_after: None }),
        ),
        (
            "not to be asked",
            looked_up(Finding::Unreachable {
                fault: fault(Kind::Network),
            }),
        ),
        ("a person asks", Event::Reconcile { name: "ops".into() }),
        ("confirmed", settle(Verdict::Confirmed)),
        ("no effect", settle(Verdict::NoEffect { repeat: false })),
        (
            "no effect, to be repeated",
            settle(Verdict::NoEffect { repeat: true }),
        ),
        ("abandoned", settle(Verdict::Abandoned)),
        ("the daemon is gone", Event::Interrupted),
    ]
}

fn contract(key: bool, lookup: bool) -> Terms {
    Terms {
        contract: Contract {
            duplicate_key: key.then_some(KeyContract {
                present: true,
                retention: Millis::mins(60),
                atomic: true,
                payload_bound: true,
                account_scoped: true,
                propagated: true,
            }),
            lookup: lookup.then(|| LookupContract {
                tool: "find".into(),
                arguments: Default::default(),
                accepted: "$.found".into(),
                must_equal: Default::default(),
                absent_is_definitive: true,
                settle_after: Millis::secs(30),
            }),
        },
        ..Terms::default()
    }
}

#[test]
fn diagram_of_operation() {
    let (states, events) = (states(), events());
    all_of!(Event: Leave | Refused | GivenUp | Lost | TaskStarted | Answered | AgentLeft | Due | LookedUp | Reconcile | Settle | Interrupted, events.iter().map(|(_, event)| event));
    all_of!(State: Intended | Sent | Observed | NotObserved | Reconciling | Confirmed | NoEffect | Held | Abandoned, states.iter().map(|state| &state.it));
    for (file, with, terms) in [
        (
            "operation",
            "under a lookup contract",
            contract(false, true),
        ),
        (
            "operation-with-key",
            "under a duplicate-prevention contract",
            contract(true, false),
        ),
        (
            "operation-without-contract",
            "without any contract",
            contract(false, false),
        ),
    ] {
        let page = article::<Operation>(&states, &events, &terms);
        let title = "# The machine `operation`";
        compare(file, &page.replacen(title, &format!("{title}, {with}"), 1));
    }
}
