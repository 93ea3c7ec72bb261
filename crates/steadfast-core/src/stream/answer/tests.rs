//! One example per rule. The properties that hold for all orders of events are in `tests/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::step::Outcome;
use crate::stream::{MAX_RETRY, MIN_RETRY};

/// A response stream with its clock. Jitter is drawn as its smallest value unless a test says otherwise.
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
        let now = Mono(1_000_000);
        Self {
            state: State::Reading {
                memory: Memory::default(),
                heard: now,
            },
            policy: Policy::default(),
            now,
            jitter: Jitter(0),
            attempts: 0,
            outcome: Outcome::Used,
        }
    }

    /// Broken after the event `e1`.
    fn waiting() -> Self {
        let mut rig = Self::new();
        rig.receive(Some("e1"), None);
        assert!(rig.end(Break::Reset).is_empty());
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

    fn attempt(&self) -> AttemptId {
        let State::Resuming { attempt, .. } = &self.state else {
            panic!("no attempt in {:?}", self.state);
        };
        *attempt
    }

    fn receive(&mut self, id: Option<&str>, retry: Option<u64>) {
        self.feed(Event::Received {
            id: id.map(EventCursor::from),
            retry: retry.map(Millis),
        });
    }

    fn end(&mut self, how: Break) -> Vec<Action> {
        self.feed(Event::Broken { how })
    }

    fn wait(&self) -> Millis {
        deadline(&self.state, &self.policy)
            .unwrap()
            .at
            .since(self.now)
    }

    /// Lets the deadline come.
    fn due(&mut self) -> Vec<Action> {
        self.now = self.now + self.wait();
        self.feed(Event::Due)
    }

    fn resume(&mut self) -> EventCursor {
        let actions = self.due();
        let [Action::Resume { cursor, .. }] = &actions[..] else {
            panic!("{actions:?}");
        };
        let attempt = self.attempt();
        self.feed(Event::Resumed { attempt });
        cursor.clone()
    }

    fn fail(&mut self, retry_after: Option<Millis>) -> Vec<Action> {
        let attempt = self.attempt();
        self.feed(Event::ResumeFailed {
            attempt,
            retry_after,
        })
    }

    fn ignored(&self) -> bool {
        matches!(self.outcome, Outcome::Ignored { .. })
    }
}

fn evidence(actions: &[Action]) -> &str {
    let Some(Action::GiveUp { evidence }) = actions.last() else {
        panic!("{actions:?}");
    };
    evidence
}

#[test]
fn st_01_without_a_cursor_a_break_is_told_at_once() {
    for (how, expected) in [
        (Break::CleanEnd, "stream ended before the response"),
        (Break::Reset, "connection reset before the response"),
        (Break::CutShort, "body cut short before the response"),
    ] {
        let mut rig = Rig::new();
        rig.receive(None, None);
        assert_eq!(evidence(&rig.end(how)), expected);
        assert_eq!(rig.state.name(), "not_observed");
        assert_eq!(deadline(&rig.state, &rig.policy), None);
    }
}

#[test]
fn st_01_silence_is_a_break() {
    let mut rig = Rig::new();
    assert_eq!(rig.wait(), rig.policy.silence);
    let actions = rig.due();
    assert_eq!(actions[0], Action::Close);
    assert_eq!(evidence(&actions), Break::Silence.evidence());

    let mut rig = Rig::new();
    rig.receive(Some("e1"), None);
    assert_eq!(rig.due(), [Action::Close]);
    assert_eq!(rig.state.name(), "waiting", "with a cursor it is resumed");
}

#[test]
fn sp_04_each_byte_resets_the_silence() {
    let mut rig = Rig::new();
    for _ in 0..100 {
        rig.now = rig.now + Millis::mins(4);
        rig.feed(Event::Due);
        assert!(rig.ignored());
        rig.feed(Event::Heard);
        assert_eq!(rig.wait(), rig.policy.silence);
    }
}

#[test]
fn st_05_the_cursor_stays_until_a_new_id_comes() {
    let mut rig = Rig::waiting();
    for _ in 0..3 {
        assert_eq!(rig.resume(), EventCursor::from("e1"));
        rig.end(Break::Reset);
    }
    rig.resume();
    rig.receive(Some("e2"), None);
    rig.end(Break::Reset);
    assert_eq!(rig.resume(), EventCursor::from("e2"));
    assert_eq!(rig.feed(Event::Answered), [Action::Close]);
    assert_eq!(rig.state.name(), "answered");
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
            let mut rig = Rig::new();
            rig.jitter = Jitter(jitter);
            rig.policy.max = Millis(20);
            rig.receive(Some("e1"), Some(given));
            rig.end(Break::CleanEnd);
            assert!(rig.wait().0 >= expected, "never less");
            assert!(rig.wait().0 <= expected + expected / 8);
        }
    }
}

#[test]
fn resumes_that_bring_nothing_are_counted() {
    let mut rig = Rig::waiting();
    for _ in 1..rig.policy.resume_attempts {
        rig.resume();
        rig.receive(Some("e1"), None);
        assert!(
            rig.end(Break::CleanEnd).is_empty(),
            "the same id again is nothing new"
        );
    }
    rig.resume();
    let actions = rig.end(Break::CleanEnd);
    assert_eq!(
        evidence(&actions),
        "stream ended before the response; 5 attempts to resume brought nothing"
    );
}

#[test]
fn a_new_id_begins_the_count_anew() {
    let mut rig = Rig::waiting();
    for event in 0..50 {
        rig.resume();
        rig.receive(Some(&format!("n{event}")), None);
        assert!(rig.end(Break::Reset).is_empty());
    }
}

#[test]
fn failed_resumes_wait_longer_each_time_and_honour_retry_after() {
    let mut rig = Rig::waiting();
    let mut waits = vec![rig.wait().0];
    for asked in [None, None, Some(Millis::secs(60))] {
        rig.due();
        rig.fail(asked);
        waits.push(rig.wait().0);
    }
    assert_eq!(waits, [500, 1_000, 2_000, 60_000]);
    rig.due();
    assert_eq!(rig.due(), [Action::Close], "no answer in time is a failure");
    rig.due();
    assert!(evidence(&rig.fail(None)).ends_with("5 attempts to resume brought nothing"));
}

#[test]
fn with_no_resumes_allowed_a_break_is_told_at_once() {
    let mut rig = Rig::new();
    rig.policy.resume_attempts = 0;
    rig.receive(Some("e1"), None);
    assert!(evidence(&rig.end(Break::Reset)).starts_with("connection reset"));
}

#[test]
fn a_refused_resume_ends_it() {
    let mut rig = Rig::waiting();
    rig.due();
    let actions = rig.feed(Event::ResumeRefused {
        attempt: rig.attempt(),
        why: "the server does not replay (405)".to_owned(),
    });
    assert_eq!(
        evidence(&actions),
        "connection reset before the response; the server does not replay (405)"
    );
}

#[test]
fn a_lost_session_ends_what_waits_and_lets_what_flows_go_on() {
    let mut rig = Rig::waiting();
    let expected = "connection reset before the response; its session was lost";
    assert_eq!(evidence(&rig.feed(Event::SessionLost)), expected);

    let mut rig = Rig::waiting();
    rig.due();
    let actions = rig.feed(Event::SessionLost);
    assert_eq!(actions[0], Action::Close);
    assert_eq!(evidence(&actions), expected);

    let mut rig = Rig::new();
    rig.receive(Some("e1"), None);
    assert!(rig.feed(Event::SessionLost).is_empty());
    let mut read_on = Rig::new();
    read_on.state = rig.state.clone();
    read_on.feed(Event::Answered);
    assert_eq!(
        read_on.state.name(),
        "answered",
        "the answer may still come"
    );
    let evidence = evidence(&rig.end(Break::CleanEnd)).to_owned();
    assert_eq!(
        evidence,
        Break::CleanEnd.evidence(),
        "but nothing is resumed"
    );
}

#[test]
fn st_08_a_finished_stream_is_never_resumed() {
    let mut rig = Rig::new();
    rig.receive(Some("p1"), Some(300));
    assert!(rig.feed(Event::Answered).is_empty());
    for event in [
        Event::Broken {
            how: Break::CleanEnd,
        },
        Event::Answered,
        Event::Heard,
        Event::SessionLost,
        Event::Due,
    ] {
        assert!(rig.feed(event).is_empty());
        assert!(rig.ignored());
    }
    assert_eq!(deadline(&rig.state, &rig.policy), None);
}

#[test]
fn stale_resumes_change_nothing() {
    let mut rig = Rig::waiting();
    rig.due();
    let stale = AttemptId(0);
    let before = rig.state.clone();
    for event in [
        Event::Resumed { attempt: stale },
        Event::ResumeRefused {
            attempt: stale,
            why: String::new(),
        },
        Event::ResumeFailed {
            attempt: stale,
            retry_after: None,
        },
    ] {
        assert!(rig.feed(event).is_empty());
        assert!(rig.ignored());
        assert_eq!(rig.state, before);
    }
}
