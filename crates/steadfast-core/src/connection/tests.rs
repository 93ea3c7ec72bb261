//! One example per rule. The properties that hold for all orders of events are in `tests/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::deadline::Reason;
use crate::fault::Kind;
use crate::now::Wall;
use crate::step::Outcome;

const GENERATION: Generation = Generation(1);

/// A connection with its clock. Jitter is drawn as its smallest value unless a test says otherwise.
struct Rig {
    state: State,
    policy: Policy,
    now: Mono,
    jitter: Jitter,
    attempts: u64,
    outcome: Outcome,
}

impl Rig {
    fn new() -> Self {
        Self {
            state: State::Disabled,
            policy: Policy::default(),
            now: Mono(1_000_000),
            jitter: Jitter(0),
            attempts: 0,
            outcome: Outcome::Used,
        }
    }

    fn connected() -> Self {
        let mut rig = Self::new();
        rig.feed(Event::Enable);
        rig.open(GENERATION);
        rig
    }

    fn retrying(fault: Fault) -> Self {
        let mut rig = Self::new();
        rig.feed(Event::Enable);
        rig.fail(fault);
        rig
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        self.attempts += 1;
        let cx = Context {
            now: Now {
                mono: self.now,
                wall: Wall(5),
            },
            jitter: self.jitter,
            attempt: AttemptId(self.attempts),
            policy: &self.policy,
        };
        let step = step(self.state.clone(), event, &cx);
        self.state = step.state;
        self.outcome = step.outcome;
        step.actions
    }

    fn pass(&mut self, time: Millis) -> &mut Self {
        self.now = self.now + time;
        self
    }

    fn attempt(&self) -> AttemptId {
        let State::Connecting { attempt, .. } = self.state else {
            panic!("no attempt in {:?}", self.state);
        };
        attempt
    }

    fn open(&mut self, generation: Generation) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Opened {
            attempt,
            generation,
        })
    }

    fn fail(&mut self, fault: Fault) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Failed { attempt, fault })
    }

    fn lose(&mut self, fault: Fault) -> Vec<Action> {
        let generation = GENERATION;
        self.feed(Event::Lost { generation, fault })
    }

    fn doubt(&mut self) -> Vec<Action> {
        self.feed(Event::Doubt {
            generation: GENERATION,
        })
    }

    fn due(&mut self, last_answer: Option<Mono>) -> Vec<Action> {
        self.feed(Event::Due { last_answer })
    }

    fn wait(&self) -> Millis {
        deadline(&self.state, &self.policy)
            .unwrap()
            .at
            .since(self.now)
    }

    fn tries(&self) -> u32 {
        match self.state {
            State::Connecting { tries, .. }
            | State::Connected { tries, .. }
            | State::Retrying { tries, .. } => tries,
            State::Disabled | State::Misconfigured { .. } | State::AwaitingSignIn { .. } => {
                panic!("no tries in {:?}", self.state)
            }
        }
    }

    fn ignored(&self) -> bool {
        matches!(self.outcome, Outcome::Ignored { .. })
    }
}

fn network() -> Fault {
    Fault::new(Kind::Network, "refused")
}

fn opens(actions: &[Action]) -> bool {
    matches!(actions.last(), Some(Action::Open { .. }))
}

#[test]
fn an_attempt_leads_to_connected_and_a_health_check_is_due() {
    let mut rig = Rig::new();
    assert!(opens(&rig.feed(Event::Enable)));
    assert_eq!(rig.wait(), rig.policy.attempt_limit);
    assert!(rig.open(GENERATION).is_empty());
    assert_eq!(rig.state.name(), "connected");
    assert_eq!(rig.wait(), rig.policy.health_every);
}

#[test]
fn failures_in_a_row_are_spaced_out() {
    let mut rig = Rig::retrying(network());
    let mut waits = vec![rig.wait().0];
    for _ in 0..10 {
        let wait = rig.wait();
        assert!(opens(&rig.pass(wait).due(None)));
        rig.fail(network());
        waits.push(rig.wait().0);
    }
    assert_eq!(waits[..4], [500, 1_000, 2_000, 4_000]);
    assert_eq!(waits[10], 150_000, "half of the longest delay, and no more");
}

#[test]
fn retry_after_is_a_lower_bound() {
    let limited = Fault::new(Kind::RateLimited, "429").after(Some(Millis::secs(90)));
    let mut rig = Rig::retrying(limited.clone());
    assert_eq!(rig.wait(), Millis::secs(90));
    rig.pass(Millis::secs(89)).due(None);
    assert!(rig.ignored());
    assert!(opens(&rig.pass(Millis::secs(1)).due(None)));

    let mut rig = Rig::connected();
    rig.pass(Millis::mins(1)).lose(limited);
    assert_eq!(
        rig.state.name(),
        "retrying",
        "even where it had been stable"
    );
    assert_eq!(rig.wait(), Millis::secs(90));
}

#[test]
fn op_02_connections_that_fail_together_do_not_come_back_together() {
    let mut waits: Vec<u64> = (0..20)
        .map(|part| {
            let mut rig = Rig::new();
            rig.jitter = Jitter(part * (u32::MAX / 20));
            rig.feed(Event::Enable);
            rig.fail(network());
            rig.wait().0
        })
        .collect();
    waits.dedup();
    assert_eq!(waits.len(), 20);
}

#[test]
fn what_only_a_person_can_mend_is_never_retried() {
    for (kind, expected) in [
        (Kind::SignInRequired, "awaiting_sign_in"),
        (Kind::ScopeInsufficient, "awaiting_sign_in"),
        (Kind::Redirected, "misconfigured"),
    ] {
        let mut rig = Rig::retrying(Fault::new(kind, "no"));
        assert_eq!(rig.state.name(), expected);
        assert_eq!(deadline(&rig.state, &rig.policy), None);
        rig.pass(Millis::mins(600)).due(None);
        assert!(rig.ignored());
        rig.feed(Event::Woke);
        assert!(rig.ignored());

        let mut rig = Rig::connected();
        rig.pass(Millis::mins(1)).lose(Fault::new(kind, "no"));
        assert_eq!(rig.state.name(), expected);
    }
}

#[test]
fn a_sign_in_opens_at_once_what_waits_for_it() {
    let mut rig = Rig::retrying(Fault::new(Kind::SignInRequired, "401"));
    assert!(opens(&rig.feed(Event::SignedIn)));
    assert_eq!(
        rig.state.fault(),
        None,
        "what was said of the old credential is over"
    );
}

#[test]
fn stale_attempts_and_openings_change_nothing() {
    let mut rig = Rig::new();
    rig.feed(Event::Enable);
    let stale = rig.attempt();
    rig.feed(Event::Reload);
    let before = rig.state.clone();
    let fault = network();
    rig.feed(Event::Failed {
        attempt: stale,
        fault,
    });
    assert!(rig.ignored());
    assert_eq!(rig.state, before);

    rig.open(Generation(2));
    let before = rig.state.clone();
    assert!(rig.lose(network()).is_empty());
    assert!(rig.ignored());
    assert!(rig.doubt().is_empty());
    assert!(rig.ignored());
    assert_eq!(rig.state, before);
}

#[test]
fn op_06_what_a_stale_attempt_opened_is_closed() {
    let mut rig = Rig::new();
    rig.feed(Event::Enable);
    let stale = rig.attempt();
    rig.feed(Event::Reload);
    rig.open(Generation(2));
    let opened = |generation| Event::Opened {
        attempt: stale,
        generation,
    };
    let close = vec![Action::Close {
        generation: GENERATION,
    }];
    assert_eq!(rig.feed(opened(GENERATION)), close);
    assert!(rig.ignored());
    assert!(
        rig.feed(opened(Generation(2))).is_empty(),
        "what is in use is not closed"
    );
}

#[test]
fn reload_beats_every_schedule() {
    let slow = Fault::new(Kind::RateLimited, "429").after(Some(Millis::mins(50)));
    let mut rig = Rig::retrying(slow);
    assert!(opens(&rig.feed(Event::Reload)));
    assert_eq!(rig.tries(), 1, "the failures still count");

    let abandoned = rig.attempt();
    let actions = rig.feed(Event::Reload);
    let attempt = rig.attempt();
    let expected = vec![
        Action::Abandon { attempt: abandoned },
        Action::Open {
            attempt,
            claim: Claim::Asked,
        },
    ];
    assert_eq!(actions, expected);
    assert_eq!(rig.tries(), 1);

    rig.open(GENERATION);
    let actions = rig.feed(Event::Reload);
    let expected = vec![
        Action::Close {
            generation: GENERATION,
        },
        Action::Open {
            attempt: rig.attempt(),
            claim: Claim::Asked,
        },
    ];
    assert_eq!(actions, expected);

    for kind in [Kind::SignInRequired, Kind::Redirected] {
        let mut rig = Rig::retrying(Fault::new(kind, "no"));
        assert!(opens(&rig.feed(Event::Reload)), "{kind:?}");
    }

    let mut disabled = Rig::new();
    assert!(disabled.feed(Event::Reload).is_empty());
    assert!(disabled.ignored());
}

#[test]
fn a_new_configuration_and_a_new_credential_open_anew() {
    for event in [Event::Enable, Event::SignedIn] {
        let mut rig = Rig::connected();
        let actions = rig.feed(event.clone());
        assert_eq!(actions.len(), 2, "closed, and opened again");
        assert!(opens(&actions));
        let mut rig = Rig::retrying(network());
        assert!(opens(&rig.feed(event)));
        assert_eq!(rig.tries(), 0);
    }
    let mut rig = Rig::retrying(Fault::new(Kind::Redirected, "308"));
    assert!(rig.feed(Event::SignedIn).is_empty());
    assert!(opens(&rig.feed(Event::Enable)));
}

#[test]
fn disable_and_misconfigure_end_what_is_under_way() {
    let mut rig = Rig::new();
    rig.feed(Event::Enable);
    let attempt = rig.attempt();
    assert_eq!(rig.feed(Event::Disable), [Action::Abandon { attempt }]);
    rig.feed(Event::Disable);
    assert!(rig.ignored());

    let mut rig = Rig::connected();
    let wrong = Event::Misconfigure(Fault::new(Kind::NotAnMcpAnswer, "no such secret"));
    let close = [Action::Close {
        generation: GENERATION,
    }];
    assert_eq!(rig.feed(wrong.clone()), close);
    assert_eq!(rig.state.name(), "misconfigured");
    rig.feed(wrong);
    assert!(rig.ignored());
}

#[test]
fn an_attempt_that_takes_too_long_is_abandoned() {
    let mut rig = Rig::new();
    rig.feed(Event::Enable);
    let attempt = rig.attempt();
    let limit = deadline(&rig.state, &rig.policy).unwrap();
    assert_eq!(limit.reason, Reason::AttemptLimit);
    let wait = rig.wait();
    assert_eq!(rig.pass(wait).due(None), [Action::Abandon { attempt }]);
    assert_eq!(rig.state.name(), "retrying");
    assert_eq!(rig.state.fault().unwrap().kind, Kind::Timeout);
}

#[test]
fn op_03_success_does_not_forgive_at_once() {
    let mut rig = Rig::retrying(network());
    for tries in 2..6 {
        rig.feed(Event::Reload);
        rig.open(GENERATION);
        rig.pass(Millis(200)).lose(network());
        assert_eq!(rig.state.name(), "retrying");
        assert_eq!(rig.tries(), tries);
    }
    assert_eq!(rig.wait(), Millis::secs(8), "the delays grow all the same");
}

#[test]
fn op_03_an_attempt_that_is_held_waits_for_its_turn_and_counts_as_none() {
    let mut rig = Rig::connected();
    let stable = rig.policy.stable_after;
    rig.pass(stable).lose(network());
    let (attempt, until) = (rig.attempt(), rig.now + Millis::secs(7));
    assert!(rig.feed(Event::Held { attempt, until }).is_empty());
    assert_eq!((rig.state.name(), rig.tries()), ("retrying", 0));
    let deadline = deadline(&rig.state, &rig.policy).unwrap();
    assert_eq!((deadline.at, deadline.reason), (until, Reason::Turn));
    rig.feed(Event::Woke);
    assert!(rig.ignored() && rig.wait() == Millis::secs(7));
    let actions = rig.pass(Millis::secs(7)).due(None);
    let claim = Claim::Turn;
    assert!(matches!(actions[..], [Action::Open { claim: with, .. }] if with == claim));
}

#[test]
fn those_that_opened_together_do_not_go_on_asking_together() {
    let mut rig = Rig::new();
    rig.jitter = Jitter(u32::MAX);
    rig.feed(Event::Enable);
    rig.open(GENERATION);
    let every = rig.policy.health_every.0;
    assert_eq!(rig.wait(), Millis(every - every / 4 + 1));
}

#[test]
fn a_stable_connection_is_opened_again_at_once() {
    let mut rig = Rig::connected();
    let stable = rig.policy.stable_after;
    assert!(opens(&rig.pass(stable).lose(network())));
    assert_eq!(rig.tries(), 0);
    rig.fail(network());
    assert_eq!(rig.wait(), Millis(500), "and waits from the first step on");
}

#[test]
fn se_01_a_lost_session_is_rebuilt_at_once_and_if_that_fails_it_waits() {
    let mut rig = Rig::connected();
    let lost = Fault::new(Kind::SessionLost, "404");
    assert!(opens(&rig.pass(Millis(10)).lose(lost.clone())));
    rig.fail(lost);
    assert_eq!(rig.state.name(), "retrying");
}

#[test]
fn unstable_sessions_wait_as_long_as_the_session_machine_says() {
    let mut rig = Rig::connected();
    let unstable = Fault::new(Kind::UnstableSessions, "6").after(Some(Millis::secs(40)));
    assert!(rig.lose(unstable).is_empty());
    assert_eq!(rig.wait(), Millis::secs(40));
}

#[test]
fn op_07_one_doubt_asks_and_condemns_nothing() {
    let mut rig = Rig::connected();
    let check = [Action::CheckHealth {
        generation: GENERATION,
        after: Millis::ZERO,
    }];
    rig.pass(Millis::secs(1));
    assert_eq!(rig.doubt(), check);
    assert_eq!(rig.state.name(), "connected");
    for _ in 0..30 {
        assert!(
            rig.pass(Millis(30)).doubt().is_empty(),
            "one question for many doubts"
        );
    }
    assert_eq!(rig.pass(Millis(100)).doubt(), check);
}

#[test]
fn any_answer_is_life() {
    let mut rig = Rig::connected();
    let every = rig.policy.health_every;
    let heard = rig.now + Millis::secs(50);
    assert!(rig.pass(every).due(Some(heard)).is_empty());
    assert_eq!(rig.wait(), Millis::secs(50));
    let wait = rig.wait();
    let actions = rig.pass(wait).due(Some(heard));
    assert!(matches!(actions[..], [Action::CheckHealth { .. }]));
    assert_eq!(rig.wait(), every);
}

#[test]
fn health_checks_can_be_turned_off() {
    let mut rig = Rig::new();
    rig.policy.health_every = Millis::ZERO;
    rig.feed(Event::Enable);
    rig.open(GENERATION);
    assert_eq!(deadline(&rig.state, &rig.policy), None);
    assert_eq!(rig.doubt().len(), 1, "a doubt asks all the same");
    assert_eq!(deadline(&rig.state, &rig.policy), None);
}

#[test]
fn op_01_after_a_sleep_everything_is_tried_soon_and_not_together() {
    let mut rig = Rig::retrying(network());
    for _ in 0..8 {
        rig.feed(Event::Reload);
        rig.fail(network());
    }
    assert!(rig.wait() > Millis::mins(2));
    rig.jitter = Jitter(u32::MAX / 2);
    assert!(rig.feed(Event::Woke).is_empty());
    assert_eq!(rig.wait(), Millis(499));

    rig.pass(Millis::mins(10)).feed(Event::Woke);
    assert_eq!(
        rig.wait(),
        Millis(499),
        "spread also where it was due long ago"
    );

    let mut rig = Rig::connected();
    rig.jitter = Jitter(u32::MAX / 2);
    let actions = rig.pass(Millis::mins(10)).feed(Event::Woke);
    let check = Action::CheckHealth {
        generation: GENERATION,
        after: Millis(499),
    };
    assert_eq!(actions, [check], "spread, too");

    let mut rig = Rig::new();
    rig.feed(Event::Enable);
    assert_eq!(
        rig.feed(Event::Woke).len(),
        2,
        "abandoned, and opened again"
    );

    let limited = Fault::new(Kind::RateLimited, "429").after(Some(Millis::secs(90)));
    let mut rig = Rig::retrying(limited);
    rig.feed(Event::Woke);
    assert_eq!(
        rig.wait(),
        Millis::secs(90),
        "what the server asked for still stands"
    );
}
