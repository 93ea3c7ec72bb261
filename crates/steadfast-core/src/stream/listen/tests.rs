//! One example per rule. The properties that hold for all orders of events are in `tests/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::step::Outcome;
use crate::stream::{HOURLY, MAX_RETRY, MIN_RETRY};

/// A GET stream with its clock. Jitter is drawn as its smallest value unless a test says otherwise.
struct Rig {
    state: State,
    policy: Policy,
    now: Mono,
    jitter: Jitter,
    attempts: u64,
    outcome: Outcome,
    asked: Vec<(Mono, Option<EventCursor>)>,
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self {
            state: State::Off(Memory::default()),
            policy: Policy::default(),
            now: Mono(10_000_000),
            jitter: Jitter(0),
            attempts: 0,
            outcome: Outcome::Used,
            asked: Vec::new(),
        };
        rig.feed(Event::SessionOpened { new: true });
        rig
    }

    fn open() -> Self {
        let mut rig = Self::new();
        rig.succeed();
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
        for action in &step.actions {
            if let Action::Open { cursor, .. } = action {
                self.asked.push((self.now, cursor.clone()));
            }
        }
        step.actions
    }

    fn attempt(&self) -> AttemptId {
        match &self.state {
            State::Opening { attempt, .. } | State::Open { attempt, .. } => *attempt,
            State::Off(_) | State::Waiting { .. } | State::NotOffered { .. } => {
                panic!("no attempt in {:?}", self.state)
            }
        }
    }

    fn succeed(&mut self) {
        let attempt = self.attempt();
        self.feed(Event::Opened { attempt });
    }

    fn refuse(&mut self, status: Option<u16>) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Refused { attempt, status })
    }

    fn fail(&mut self, retry_after: Option<Millis>) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::Failed {
            attempt,
            retry_after,
        })
    }

    fn receive(&mut self, id: Option<&str>, retry: Option<u64>) {
        self.feed(Event::Received {
            id: id.map(EventCursor::from),
            retry: retry.map(Millis),
        });
    }

    fn end(&mut self, how: Break) {
        let attempt = self.attempt();
        self.feed(Event::Broken { attempt, how });
    }

    fn pass(&mut self, time: Millis) -> &mut Self {
        self.now = self.now + time;
        self
    }

    fn wait(&self) -> Option<Millis> {
        deadline(&self.state, &self.policy).map(|deadline| deadline.at.since(self.now))
    }

    /// Lets the deadline come.
    fn due(&mut self) -> Vec<Action> {
        let wait = self.wait().unwrap();
        self.pass(wait).feed(Event::Due)
    }

    fn new_session(&mut self) {
        self.feed(Event::SessionClosed);
        self.feed(Event::SessionOpened { new: true });
    }

    fn ignored(&self) -> bool {
        matches!(self.outcome, Outcome::Ignored { .. })
    }
}

#[test]
fn st_02_405_is_not_asked_again_in_this_session() {
    let mut rig = Rig::new();
    assert!(rig.refuse(Some(405)).is_empty());
    assert_eq!(rig.wait(), None);
    rig.feed(Event::SessionClosed);
    rig.feed(Event::SessionOpened { new: false });
    assert_eq!(rig.asked.len(), 1, "the same session goes on");
    rig.new_session();
    assert_eq!(rig.asked.len(), 2);
}

#[test]
fn a_refusal_of_what_was_open_before_is_doubted() {
    for status in [405, 400] {
        let mut rig = Rig::open();
        rig.end(Break::Reset);
        rig.due();
        assert_eq!(rig.refuse(Some(status)), [Action::Doubt], "{status}");
        rig.new_session();
        assert!(rig.refuse(Some(status)).is_empty(), "another stream");
    }
}

#[test]
fn st_02_other_refusals_are_asked_again_slowly() {
    for status in [404, 400, 406, 501] {
        let mut rig = Rig::new();
        let doubt = rig.refuse(Some(status)).contains(&Action::Doubt);
        assert_eq!(
            doubt,
            status == 404,
            "{status}: only this may be about the session"
        );
        assert_eq!(rig.state.name(), "not_offered");
        assert_eq!(rig.wait(), Some(rig.policy.recheck));
        rig.due();
        assert_eq!(rig.asked.len(), 2);
        rig.refuse(Some(status));
        assert_eq!(rig.wait(), Some(rig.policy.recheck));
    }
}

#[test]
fn st_03_what_is_no_event_stream_is_asked_once_per_session_and_per_hour() {
    let mut rig = Rig::new();
    rig.refuse(None);
    assert_eq!(rig.wait(), None);
    for _ in 0..5 {
        rig.pass(Millis::mins(10)).new_session();
        assert_eq!(rig.asked.len(), 1);
    }
    assert_eq!(
        rig.wait(),
        Some(Millis::mins(10)),
        "asked when the hour is over"
    );
    rig.due();
    assert_eq!(rig.asked.len(), 2);
    rig.refuse(None);
    rig.pass(Millis::mins(120));
    assert_eq!(rig.wait(), None, "and once per session");
    rig.new_session();
    assert_eq!(rig.asked.len(), 3);
}

/// Plays a server for `span`, or until it counts as not offering the stream: it answers 200, sends what
/// `script` feeds, and ends the body.
fn closes_at_once(span: Millis, script: impl Fn(&mut Rig)) -> Rig {
    let mut rig = Rig::new();
    let end = rig.now + span;
    while rig.now < end && rig.state.name() != "not_offered" {
        if rig.state.name() == "opening" {
            rig.succeed();
            script(&mut rig);
            rig.end(Break::CleanEnd);
        } else {
            rig.due();
        }
    }
    rig
}

#[test]
fn st_04_a_stream_that_closes_at_once_is_never_a_hot_loop() {
    let span = Millis::secs(3);
    let empty = closes_at_once(span, |_| ());
    assert!(empty.asked.len() <= 4, "{:?}", empty.asked);
    for retry in [0, 1, 250] {
        let only_retry = closes_at_once(span, |rig| rig.receive(None, Some(retry)));
        assert!(only_retry.asked.len() <= 10, "{:?}", only_retry.asked);
        let event = closes_at_once(span, |rig| rig.receive(Some("e"), Some(retry)));
        assert!(event.asked.len() <= 10, "{:?}", event.asked);
    }
}

#[test]
fn st_04_delays_grow_while_nothing_comes_and_retry_is_used_as_given_while_events_flow() {
    let gaps = |rig: &Rig| -> Vec<u64> {
        rig.asked
            .windows(2)
            .map(|pair| pair[1].0.since(pair[0].0).0)
            .collect()
    };
    let span = Millis::secs(20);
    let empty = closes_at_once(span, |_| ());
    assert_eq!(gaps(&empty)[..4], [500, 1_000, 2_000, 4_000]);
    let with_retry = closes_at_once(span, |rig| rig.receive(None, Some(1_000)));
    assert_eq!(gaps(&with_retry)[..4], [1_000, 2_000, 4_000, 8_000]);
    let flowing = closes_at_once(span, |rig| rig.receive(Some("e"), Some(1_000)));
    assert!(gaps(&flowing).iter().all(|gap| *gap == 1_000));
}

#[test]
fn st_04_the_cap_per_hour_is_a_visible_state() {
    let mut rig = closes_at_once(Millis::mins(59), |rig| rig.receive(Some("e"), Some(500)));
    assert_eq!(rig.asked.len(), HOURLY as usize);
    assert_eq!(rig.state.name(), "not_offered");
    while rig.state.name() != "opening" {
        rig.due();
    }
    assert!(rig.now.since(rig.asked[0].0) >= Millis::mins(60));
}

#[test]
fn st_06_retry_is_a_lower_bound_honoured_when_short_and_limited_when_absurd() {
    for (given, expected) in [
        (1_500, 1_500),
        (50, 50),
        (0, MIN_RETRY.0),
        (999_999_999, MAX_RETRY.0),
    ] {
        for jitter in [0, u32::MAX] {
            let mut rig = Rig::open();
            rig.jitter = Jitter(jitter);
            rig.policy.max = Millis(20);
            rig.receive(Some("e1"), Some(given));
            rig.end(Break::CleanEnd);
            let wait = rig.wait().unwrap().0;
            assert!(wait >= expected, "never less");
            assert!(wait <= expected + expected / 8);
        }
    }
}

#[test]
fn st_06_the_cursor_stays_with_its_session() {
    let mut rig = Rig::open();
    rig.receive(Some("e1"), None);
    rig.receive(None, None);
    rig.end(Break::Reset);
    rig.due();
    let e1 = Some(EventCursor::from("e1"));
    assert_eq!(rig.asked[1].1, e1);
    rig.feed(Event::SessionClosed);
    rig.feed(Event::SessionOpened { new: false });
    assert_eq!(rig.asked[2].1, e1, "the same session goes on");
    rig.new_session();
    assert_eq!(rig.asked[3].1, None);
}

#[test]
fn an_empty_id_takes_the_cursor_back() {
    let mut rig = Rig::open();
    rig.receive(Some("e1"), None);
    rig.receive(Some(""), None);
    rig.end(Break::Reset);
    rig.due();
    assert_eq!(rig.asked[1].1, None);
}

#[test]
fn st_07_a_fixed_beat_is_followed_and_shown() {
    let mut rig = Rig::open();
    for cuts in 1..100 {
        rig.pass(Millis(2_000 + cuts % 50)).end(Break::Reset);
        assert!(
            rig.wait().unwrap() <= rig.policy.first,
            "the delay does not grow"
        );
        assert!(!rig.due().contains(&Action::Doubt));
        assert_eq!(rig.asked.len() as u64, cuts + 1, "one reconnect per cut");
        rig.succeed();
        let shown = rig.state.memory().idle_cut().map(|cut| cut.0 / 1_000);
        assert_eq!(shown, (cuts > 1).then_some(2));
    }
}

#[test]
fn st_07_breaks_without_a_beat_are_not_shown_as_one() {
    let mut rig = Rig::open();
    for lasted in [60_000, 5_000, 90_000] {
        rig.pass(Millis(lasted)).end(Break::CleanEnd);
        assert_eq!(rig.state.memory().idle_cut(), None);
        rig.due();
        rig.succeed();
    }
}

#[test]
fn st_08_one_stream_per_session() {
    let mut rig = Rig::open();
    rig.feed(Event::SessionOpened { new: false });
    assert!(rig.ignored());
    let actions = rig.feed(Event::SessionOpened { new: true });
    assert!(
        matches!(actions[..], [Action::Close, Action::Open { .. }]),
        "the old one is closed first: {actions:?}"
    );
    assert_eq!(rig.feed(Event::SessionClosed), [Action::Close]);
}

#[test]
fn a_stream_that_cannot_be_opened_is_doubted_and_after_three_times_asked_slowly() {
    let mut rig = Rig::new();
    let mut waits = Vec::new();
    for _ in 0..4 {
        assert_eq!(rig.fail(None), [Action::Doubt]);
        waits.push(rig.wait().unwrap());
        rig.due();
    }
    let recheck = rig.policy.recheck;
    assert_eq!(waits, [Millis(500), Millis(1_000), recheck, recheck]);
    rig.succeed();
    rig.end(Break::Reset);
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
fn opening_has_a_limit() {
    let mut rig = Rig::new();
    assert_eq!(rig.wait(), Some(rig.policy.open_timeout));
    assert_eq!(rig.due(), [Action::Close, Action::Doubt]);
    assert_eq!(rig.state.name(), "waiting");
}

#[test]
fn stale_outcomes_change_nothing() {
    let mut rig = Rig::open();
    let stale = AttemptId(0);
    let before = rig.state.clone();
    let how = Break::Reset;
    for event in [
        Event::Opened { attempt: stale },
        Event::Refused {
            attempt: stale,
            status: Some(405),
        },
        Event::Failed {
            attempt: stale,
            retry_after: None,
        },
        Event::Broken {
            attempt: stale,
            how,
        },
        Event::Due,
    ] {
        assert!(rig.feed(event).is_empty());
        assert!(rig.ignored());
        assert_eq!(rig.state, before);
    }
}
