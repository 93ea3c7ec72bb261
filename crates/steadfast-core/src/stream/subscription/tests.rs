//! One example per rule. The properties that hold for all orders of events are in `tests/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::step::Outcome;
use crate::stream::{BURST, BURST_WINDOW};

/// A subscription with its clock. Jitter is drawn as its smallest value.
struct Rig {
    state: State,
    policy: Policy,
    now: Mono,
    attempts: u64,
    outcome: Outcome,
    asked: Vec<(AttemptId, Filter)>,
}

fn tools() -> Filter {
    Filter {
        tools: true,
        ..Filter::default()
    }
}

fn with_uri(uri: &str) -> Filter {
    Filter {
        uris: [uri.to_owned()].into(),
        ..tools()
    }
}

impl Rig {
    /// Connected, and asked for the changes of all lists.
    fn new() -> Self {
        let mut rig = Self {
            state: State::Off(Memory::default()),
            policy: Policy::default(),
            now: Mono(10_000_000),
            attempts: 0,
            outcome: Outcome::Used,
            asked: Vec::new(),
        };
        rig.feed(Event::Connected {
            wanted: Filter::all_lists(),
        });
        rig
    }

    fn open() -> Self {
        let mut rig = Self::new();
        rig.acknowledge(Filter::all_lists());
        rig
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        self.attempts += 1;
        let cx = Context {
            now: Now {
                mono: self.now,
                wall: Wall(5),
            },
            jitter: Jitter(0),
            attempt: AttemptId(self.attempts),
            policy: &self.policy,
        };
        let step = step(self.state.clone(), event, &cx);
        self.state = step.state;
        self.outcome = step.outcome;
        for action in &step.actions {
            if let Action::Open { attempt, filter } = action {
                self.asked.push((*attempt, filter.clone()));
            }
        }
        step.actions
    }

    /// The attempt that was made last.
    fn attempt(&self) -> AttemptId {
        self.asked.last().unwrap().0
    }

    fn acknowledge(&mut self, honoured: Filter) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Acknowledged { attempt, honoured })
    }

    fn fail(&mut self, retry_after: Option<Millis>) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Failed {
            attempt,
            retry_after,
        })
    }

    fn refuse(&mut self, unknown: bool) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Refused { attempt, unknown })
    }

    fn broken(&mut self) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Broken { attempt })
    }

    fn wait(&self) -> Option<Millis> {
        deadline(&self.state, &self.policy).map(|deadline| deadline.at.since(self.now))
    }

    /// Lets the deadline come.
    fn due(&mut self) -> Vec<Action> {
        self.now = self.now + self.wait().unwrap();
        self.feed(Event::Due)
    }

    fn name(&self) -> &'static str {
        self.state.name()
    }
}

#[test]
fn nothing_is_asked_for_where_nothing_is_wanted() {
    let mut rig = Rig::new();
    rig.feed(Event::Connected {
        wanted: Filter::default(),
    });
    assert_eq!((rig.name(), rig.wait()), ("idle", None));
    let actions = rig.feed(Event::Wanted(with_uri("a:b")));
    assert!(matches!(&actions[..], [Action::Open { filter, .. }] if *filter == with_uri("a:b")));
}

#[test]
fn pv_09_only_what_is_honoured_counts_as_announced() {
    let mut rig = Rig::new();
    assert_eq!(rig.state.answer(), None);
    let more = with_uri("never asked for");
    assert_eq!(rig.acknowledge(more), [Action::Relist]);
    assert_eq!(rig.state.answer(), Some((Filter::all_lists(), tools())));
    assert_eq!(rig.wait(), None, "it may be silent for days");
}

#[test]
fn pv_09_a_drop_is_mended_with_backoff_until_it_holds() {
    let mut rig = Rig::open();
    rig.broken();
    let mut waits = vec![rig.wait().unwrap()];
    rig.due();
    for _ in 0..12 {
        assert_eq!(rig.fail(None), [Action::Doubt]);
        waits.push(rig.wait().unwrap());
        rig.due();
    }
    assert_eq!(waits[..4], [500, 500, 1_000, 2_000].map(Millis));
    let longest = Millis(rig.policy.max.0 / 2);
    assert_eq!(waits[12], longest, "it is never given up");
    let attempts: Vec<_> = rig.asked.iter().map(|(attempt, _)| attempt).collect();
    assert!(
        attempts.is_sorted() && attempts.len() == 14,
        "a new id each time"
    );
    assert_eq!(rig.acknowledge(tools()), [Action::Relist], "fetched once");
    rig.broken();
    rig.due();
    rig.fail(None);
    assert_eq!(rig.wait(), Some(Millis(500)), "success begins anew");
}

#[test]
fn retry_after_is_a_lower_bound() {
    let mut rig = Rig::new();
    rig.fail(Some(Millis::secs(30)));
    assert_eq!(rig.wait(), Some(Millis::secs(30)));
}

#[test]
fn pv_09_an_unknown_method_is_not_asked_for_again_before_the_next_opening() {
    let mut rig = Rig::new();
    assert_eq!(rig.refuse(true), []);
    assert_eq!((rig.name(), rig.wait()), ("not_offered", None));
    assert_eq!(
        rig.state.answer(),
        Some((Filter::all_lists(), Filter::default()))
    );
    assert_eq!(rig.feed(Event::Wanted(tools())), []);
    assert_eq!(rig.asked.len(), 1);
    rig.feed(Event::Disconnected);
    rig.feed(Event::Connected { wanted: tools() });
    assert_eq!(rig.asked.len(), 2);
}

#[test]
fn pv_09_a_graceful_end_and_other_refusals_are_checked_again_slowly() {
    let mut rig = Rig::open();
    let attempt = rig.attempt();
    rig.feed(Event::Ended { attempt });
    assert_eq!(
        (rig.name(), rig.wait()),
        ("resting", Some(rig.policy.recheck))
    );
    rig.due();
    let attempt = rig.attempt();
    rig.feed(Event::Ended { attempt });
    assert_eq!(
        rig.name(),
        "resting",
        "a response at once is no other thing"
    );
    rig.due();
    rig.refuse(false);
    assert_eq!(rig.wait(), Some(rig.policy.recheck));
}

#[test]
fn a_changed_wish_is_collected_and_nothing_is_lost_meanwhile() {
    let mut rig = Rig::open();
    let old = rig.attempt();
    assert_eq!(rig.feed(Event::Wanted(with_uri("a"))), []);
    rig.now = rig.now + Millis(20);
    assert_eq!(rig.feed(Event::Wanted(with_uri("b"))), []);
    assert_eq!(rig.wait(), Some(DEBOUNCE));
    assert!(matches!(&rig.due()[..], [Action::Open { filter, .. }] if *filter == with_uri("b")));
    let answer = (Filter::all_lists(), Filter::all_lists());
    assert_eq!(rig.state.answer(), Some(answer), "the old one still counts");
    let close = Action::Close { attempt: old };
    assert_eq!(
        rig.acknowledge(with_uri("b")),
        [close],
        "and no list is fetched"
    );
    rig.feed(Event::Wanted(with_uri("c")));
    rig.feed(Event::Wanted(with_uri("b")));
    assert_eq!(rig.wait(), None, "as it was");
}

#[test]
fn what_is_wanted_meanwhile_is_asked_for_next() {
    let mut rig = Rig::new();
    rig.feed(Event::Wanted(tools()));
    rig.acknowledge(Filter::all_lists());
    rig.due();
    assert_eq!(rig.asked[1].1, tools());
    rig.acknowledge(tools());
    rig.feed(Event::Wanted(Filter::default()));
    let attempt = rig.attempt();
    assert_eq!(rig.due(), [Action::Close { attempt }]);
    assert_eq!(rig.name(), "idle");
}

#[test]
fn an_older_stream_outlives_a_failure_of_its_successor_but_not_a_refusal() {
    let mut rig = Rig::open();
    let old = rig.attempt();
    rig.feed(Event::Wanted(tools()));
    rig.due();
    assert_eq!(rig.fail(None), [], "the connection is not doubted");
    assert_eq!((rig.name(), rig.wait()), ("open", Some(Millis(500))));
    rig.due();
    let actions = rig.refuse(true);
    assert_eq!(actions, [Action::Close { attempt: old }], "one at a time");
    assert_eq!(rig.name(), "waiting");
    rig.due();
    assert_eq!(rig.acknowledge(tools()), [Action::Relist]);
}

#[test]
fn an_older_stream_that_breaks_meanwhile_makes_the_lists_doubtful() {
    let mut rig = Rig::open();
    let old = rig.attempt();
    rig.feed(Event::Wanted(tools()));
    rig.due();
    assert_eq!(rig.feed(Event::Broken { attempt: old }), []);
    assert_eq!(rig.acknowledge(tools()), [Action::Relist]);
}

#[test]
fn opening_has_a_limit() {
    let mut rig = Rig::new();
    assert_eq!(rig.wait(), Some(rig.policy.open_timeout));
    let close = Action::Close {
        attempt: rig.attempt(),
    };
    assert_eq!(rig.due(), [close, Action::Doubt]);
    assert_eq!(rig.name(), "waiting");
}

#[test]
fn a_stream_that_drops_at_once_is_never_a_hot_loop() {
    let mut rig = Rig::open();
    rig.policy.first = Millis(1);
    let began = rig.now;
    while rig.now.since(began) < BURST_WINDOW {
        // A notification each time: the delay never grows.
        let attempt = rig.attempt();
        rig.feed(Event::Received { attempt });
        rig.broken();
        rig.due();
        if rig.name() == "opening" {
            rig.acknowledge(tools());
        }
    }
    assert!(rig.asked.len() <= BURST + 1, "{:?}", rig.asked.len());
}

#[test]
fn a_lost_connection_closes_what_is_open() {
    let mut rig = Rig::open();
    let old = rig.attempt();
    rig.feed(Event::Wanted(tools()));
    rig.due();
    let new = rig.attempt();
    let close = |attempt| Action::Close { attempt };
    assert_eq!(rig.feed(Event::Disconnected), [close(old), close(new)]);
    assert_eq!((rig.name(), rig.wait()), ("off", None));
}

#[test]
fn stale_outcomes_change_nothing() {
    let mut rig = Rig::open();
    let attempt = AttemptId(0);
    let before = rig.state.clone();
    for event in [
        Event::Acknowledged {
            attempt,
            honoured: tools(),
        },
        Event::Refused {
            attempt,
            unknown: true,
        },
        Event::Failed {
            attempt,
            retry_after: None,
        },
        Event::Received { attempt },
        Event::Broken { attempt },
        Event::Ended { attempt },
        Event::Due,
    ] {
        assert!(rig.feed(event).is_empty());
        assert!(matches!(rig.outcome, Outcome::Ignored { .. }));
        assert_eq!(rig.state, before);
    }
}

#[test]
fn silence_counts_only_where_there_was_a_beat() {
    let policy = Policy::default();
    assert_eq!(silence_limit(false, &policy), None);
    assert_eq!(silence_limit(true, &policy), Some(policy.silence));
}
