//! One example per rule. The properties that hold for all orders of events are in `tests/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::fault::Kind;
use crate::step::Outcome;

struct Rig {
    state: State,
    policy: Policy,
    now: Mono,
    outcome: Outcome,
}

impl Rig {
    fn new() -> Self {
        Self {
            state: State::None { lost: Vec::new() },
            policy: Policy::default(),
            now: Mono(1_000_000),
            outcome: Outcome::Used,
        }
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        let cx = Context {
            now: Now {
                mono: self.now,
                wall: Wall(5),
            },
            policy: &self.policy,
        };
        let step = step(self.state.clone(), event, &cx);
        self.state = step.state;
        self.outcome = step.outcome;
        step.actions
    }

    fn open(&mut self, generation: u64, id: Option<&str>) -> Vec<Action> {
        self.feed(Event::Opened {
            generation: Generation(generation),
            id: id.map(SessionId::from),
        })
    }

    fn refuse(&mut self, generation: u64) -> Vec<Action> {
        self.feed(Event::Refused {
            generation: Generation(generation),
            rule: "404",
        })
    }

    fn close(&mut self, generation: u64, reachable: bool) -> Vec<Action> {
        self.feed(Event::Closed {
            generation: Generation(generation),
            reachable,
        })
    }

    fn ignored(&self) -> bool {
        matches!(self.outcome, Outcome::Ignored { .. })
    }
}

fn delete(id: &str) -> Vec<Action> {
    vec![Action::Delete {
        id: SessionId::from(id),
    }]
}

#[test]
fn se_01_a_refused_session_is_rebuilt_at_once() {
    let mut rig = Rig::new();
    rig.open(1, Some("S1"));
    let actions = rig.refuse(1);
    let [Action::Rebuild { lost, fault }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!((*lost, fault.kind), (Generation(1), Kind::SessionLost));
    assert_eq!(fault.retry_after, None);
    assert!(
        rig.open(2, Some("S2")).is_empty(),
        "the server does not know S1"
    );
    assert_eq!(rig.state.name(), "open");
}

#[test]
fn se_04_ten_refusals_rebuild_once_and_a_late_one_changes_nothing() {
    let mut rig = Rig::new();
    rig.open(1, Some("S1"));
    let rebuilds = (0..9).map(|_| rig.refuse(1).len()).sum::<usize>();
    assert_eq!(rebuilds, 1);
    rig.open(2, Some("S2"));
    let before = rig.state.clone();
    assert!(rig.refuse(1).is_empty());
    assert!(rig.ignored());
    assert_eq!(rig.state, before);
}

#[test]
fn se_07_without_an_id_nothing_is_ever_an_unknown_session() {
    let mut rig = Rig::new();
    rig.open(1, None);
    assert!(rig.refuse(1).is_empty());
    assert!(rig.ignored());
    assert!(rig.close(1, true).is_empty(), "and nothing is deleted");
}

#[test]
fn sessions_lost_too_often_rest_until_the_oldest_loss_is_past() {
    let mut rig = Rig::new();
    let begin = rig.now;
    for generation in 1..=5 {
        rig.open(generation, Some("S"));
        let actions = rig.refuse(generation);
        assert!(matches!(actions[..], [Action::Rebuild { .. }]));
        rig.now = rig.now + Millis::secs(2);
    }
    rig.open(6, Some("S"));
    let actions = rig.refuse(6);
    let [Action::Rest { fault, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(fault.kind, Kind::UnstableSessions);
    assert_eq!(fault.retry_after, Some(Millis::secs(50)));

    rig.now = begin + rig.policy.window;
    rig.open(7, Some("S"));
    let again = rig.refuse(7);
    assert!(
        matches!(again[..], [Action::Rest { .. }]),
        "each loss still in the window counts: {again:?}"
    );
}

#[test]
fn old_losses_are_forgotten() {
    let mut rig = Rig::new();
    for generation in 1..50 {
        rig.open(generation, Some("S"));
        let actions = rig.refuse(generation);
        assert!(matches!(actions[..], [Action::Rebuild { .. }]));
        rig.now = rig.now + Millis::secs(12);
    }
}

#[test]
fn with_no_rebuilds_allowed_the_first_loss_rests() {
    let mut rig = Rig::new();
    rig.policy.rebuilds = 0;
    rig.open(1, Some("S1"));
    let actions = rig.refuse(1);
    let [Action::Rest { fault, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(fault.retry_after, Some(rig.policy.window));
}

#[test]
fn op_06_a_replaced_session_is_deleted_and_a_kept_one_is_not() {
    let mut rig = Rig::new();
    rig.open(1, Some("S1"));
    assert_eq!(rig.open(2, Some("S2")), delete("S1"));
    assert!(
        rig.open(3, Some("S2")).is_empty(),
        "the same session goes on"
    );
    assert_eq!(rig.open(4, None), delete("S2"));
}

#[test]
fn op_06_a_closed_session_is_deleted_where_the_server_can_be_told() {
    let mut rig = Rig::new();
    rig.open(1, Some("S1"));
    assert_eq!(rig.close(1, true), delete("S1"));
    rig.open(2, Some("S2"));
    assert!(rig.close(2, false).is_empty());
    rig.open(3, Some("S3"));
    rig.refuse(3);
    assert!(rig.close(3, true).is_empty(), "it is gone already");
}

#[test]
fn closing_or_opening_late_changes_nothing() {
    let mut rig = Rig::new();
    rig.open(2, Some("S2"));
    for actions in [rig.close(1, true), rig.open(1, Some("S1"))] {
        assert!(actions.is_empty());
        assert!(rig.ignored());
    }
    assert_eq!(rig.close(2, true), delete("S2"));
}
