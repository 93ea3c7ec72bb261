//! The machines: any bytes become a walk through events, also through those that no driver would feed.

use std::fmt::Debug;

use steadfast_core::fault::{Fault, Kind};
use steadfast_core::step::{Outcome, Step};
use steadfast_core::stream::{self, Break, answer, listen};
use steadfast_core::{
    AttemptId, Deadline, EventCursor, Generation, Jitter, Millis, Mono, Now, SessionId, Wall,
    connection, session,
};

use crate::input::Input;

/// The most actions that one event may lead to.
const MOST_ACTIONS: usize = 4;

/// The longest that a state may print. The texts that are fed are short, so that only a growing list
/// could come to more.
const LONGEST_STATE: usize = 4096;

/// What a step may look at.
#[derive(Clone, Copy)]
struct Moment {
    now: Now,
    jitter: Jitter,
    attempt: AttemptId,
}

/// One machine, and how bytes become its events.
struct Machine<State, Event, Step, Fact> {
    initial: State,
    /// The number of the step, which is also the newest attempt, comes along.
    event: fn(&mut Input<'_>, u64) -> Event,
    step: Step,
    replay: fn(State, &Fact) -> State,
}

/// Walks until the bytes end, and asserts what every machine promises at every step.
fn walk<State, Event, Fact, Action>(
    mut input: Input<'_>,
    machine: Machine<
        State,
        Event,
        impl Fn(State, Event, Moment) -> (Step<State, Fact, Action>, Option<Deadline>),
        Fact,
    >,
) where
    State: Clone + PartialEq + Debug,
    Action: Debug,
{
    let mut live = machine.initial.clone();
    let mut recorded = machine.initial;
    let mut mono = Mono(0);
    let mut number = 0;
    while !input.is_empty() {
        number += 1;
        mono = mono + time(&mut input);
        let moment = Moment {
            now: Now {
                mono,
                wall: Wall(1_700_000_000_000_i64.saturating_add_unsigned(mono.0)),
            },
            jitter: Jitter(u32::from(input.byte()) << 24),
            attempt: AttemptId(number),
        };
        let event = (machine.event)(&mut input, number);
        let before = live.clone();
        let (step, deadline) = (machine.step)(live, event, moment);
        recorded = step.facts.iter().fold(recorded, machine.replay);
        assert_eq!(
            recorded, step.state,
            "folding the facts gives the live state"
        );
        assert_eq!(
            step.deadline, deadline,
            "a restored state wakes up as the live one"
        );
        assert!(step.actions.len() <= MOST_ACTIONS, "{:?}", step.actions);
        let printed = format!("{:?}", step.state).len();
        assert!(printed <= LONGEST_STATE, "the state prints {printed} bytes");
        match step.outcome {
            Outcome::Used => {}
            Outcome::Ignored { .. } | Outcome::Violation { .. } => {
                assert_eq!(step.state, before, "an unused event changes nothing");
                assert!(step.facts.is_empty(), "an unused event has no facts");
            }
        }
        live = step.state;
    }
}

/// From nothing to centuries, most often what matters to a machine.
fn time(input: &mut Input<'_>) -> Millis {
    let units = [0, 1, 100, 1_000, 60_000, 3_600_000, u64::MAX / 512];
    Millis(input.pick(units).saturating_mul(u64::from(input.byte())))
}

/// Often the present attempt or generation, else one a little older, and sometimes one that never was.
fn recent(input: &mut Input<'_>, number: u64) -> u64 {
    match input.byte() % 8 {
        7 => u64::MAX,
        back => number.saturating_sub(u64::from(back)),
    }
}

fn delay(input: &mut Input<'_>) -> Option<Millis> {
    input
        .pick([None, Some(0), Some(50), Some(3_000), Some(u64::MAX)])
        .map(Millis)
}

fn fault(input: &mut Input<'_>) -> Fault {
    let kind = input.pick([
        Kind::Network,
        Kind::Timeout,
        Kind::Tls,
        Kind::ServerError,
        Kind::RateLimited,
        Kind::SessionLost,
        Kind::UnstableSessions,
        Kind::ProtocolMismatch,
        Kind::NotAnMcpAnswer,
        Kind::Redirected,
        Kind::SignInRequired,
        Kind::ScopeInsufficient,
        Kind::Forbidden,
        Kind::Misconfigured,
        Kind::VaultReference,
    ]);
    Fault::new(kind, "seen").after(delay(input))
}

fn cursor(input: &mut Input<'_>) -> Option<EventCursor> {
    match input.byte() {
        0 => None,
        1 => Some(EventCursor::from("")),
        other => Some(EventCursor::new(format!("e{other}"))),
    }
}

fn how(input: &mut Input<'_>) -> Break {
    input.pick([
        Break::CleanEnd,
        Break::Reset,
        Break::CutShort,
        Break::Silence,
    ])
}

/// [`connection`]. The first byte says whether health checks are on.
pub fn connection_step(data: &[u8]) {
    let mut input = Input(data);
    let mut policy = connection::Policy::default();
    if input.byte() % 2 == 1 {
        policy.health_every = Millis::ZERO;
    }
    let machine = Machine {
        initial: connection::State::Disabled,
        event: connection_event,
        step: |state,
               event,
               Moment {
                   now,
                   jitter,
                   attempt,
               }: Moment| {
            let cx = connection::Context {
                now,
                jitter,
                attempt,
                policy: &policy,
            };
            let step = connection::step(state, event, &cx);
            let deadline = connection::deadline(&step.state, &policy);
            (step, deadline)
        },
        replay: connection::replay,
    };
    walk(input, machine);
}

fn connection_event(input: &mut Input<'_>, number: u64) -> connection::Event {
    use connection::Event;
    match input.byte() % 12 {
        0 => Event::Enable,
        1 => Event::Disable,
        2 => Event::Misconfigure(fault(input)),
        3 => Event::Reload,
        4 => Event::SignedIn,
        5 => Event::Woke,
        6 => Event::Opened {
            attempt: AttemptId(recent(input, number)),
            generation: Generation(recent(input, number)),
        },
        7 => Event::Failed {
            attempt: AttemptId(recent(input, number)),
            fault: fault(input),
        },
        8 => Event::Lost {
            generation: Generation(recent(input, number)),
            fault: fault(input),
        },
        9 => Event::Doubt {
            generation: Generation(recent(input, number)),
        },
        10 => Event::Held {
            attempt: AttemptId(recent(input, number)),
            until: Mono(u64::from(input.byte()) * 1_000),
        },
        _ => Event::Due {
            last_answer: Some(Mono(u64::from(input.byte()) * 1_000)).filter(|at| at.0 > 0),
        },
    }
}

/// [`session`].
pub fn session_step(data: &[u8]) {
    let policy = session::Policy::default();
    let machine = Machine {
        initial: session::State::None { lost: Vec::new() },
        event: session_event,
        step: |state, event, moment: Moment| {
            let cx = session::Context {
                now: moment.now,
                policy: &policy,
            };
            let step = session::step(state, event, &cx);
            let deadline = session::deadline(&step.state, &policy);
            (step, deadline)
        },
        replay: session::replay,
    };
    walk(Input(data), machine);
}

fn session_event(input: &mut Input<'_>, number: u64) -> session::Event {
    use session::Event;
    match input.byte() % 3 {
        0 => Event::Opened {
            generation: Generation(recent(input, number)),
            id: input
                .pick([Some("s"), Some("t"), None])
                .map(SessionId::from),
        },
        1 => Event::Refused {
            generation: Generation(recent(input, number)),
            rule: "404",
        },
        _ => Event::Closed {
            generation: Generation(recent(input, number)),
            reachable: input.pick([true, false]),
        },
    }
}

/// [`listen`].
pub fn listen_step(data: &[u8]) {
    let policy = stream::Policy::default();
    let machine = Machine {
        initial: listen::State::Off(listen::Memory::default()),
        event: listen_event,
        step: |state,
               event,
               Moment {
                   now,
                   jitter,
                   attempt,
               }: Moment| {
            let cx = listen::Context {
                now,
                jitter,
                attempt,
                policy: &policy,
            };
            let step = listen::step(state, event, &cx);
            let deadline = listen::deadline(&step.state, &policy);
            (step, deadline)
        },
        replay: listen::replay,
    };
    walk(Input(data), machine);
}

fn listen_event(input: &mut Input<'_>, number: u64) -> listen::Event {
    use listen::Event;
    match input.byte() % 8 {
        0 => Event::SessionOpened {
            new: input.pick([true, false]),
        },
        1 => Event::SessionClosed,
        2 => Event::Opened {
            attempt: AttemptId(recent(input, number)),
        },
        3 => Event::Refused {
            attempt: AttemptId(recent(input, number)),
            status: input.pick([Some(405), Some(404), Some(501), None]),
        },
        4 => Event::Failed {
            attempt: AttemptId(recent(input, number)),
            retry_after: delay(input),
        },
        5 => Event::Received {
            id: cursor(input),
            retry: delay(input),
        },
        6 => Event::Broken {
            attempt: AttemptId(recent(input, number)),
            how: how(input),
        },
        _ => Event::Due,
    }
}

/// [`answer`].
pub fn answer_step(data: &[u8]) {
    let policy = stream::Policy::default();
    let machine = Machine {
        initial: answer::State::Reading {
            memory: answer::Memory::default(),
            heard: Mono(0),
        },
        event: answer_event,
        step: |state,
               event,
               Moment {
                   now,
                   jitter,
                   attempt,
               }: Moment| {
            let cx = answer::Context {
                now,
                jitter,
                attempt,
                policy: &policy,
            };
            let step = answer::step(state, event, &cx);
            let deadline = answer::deadline(&step.state, &policy);
            (step, deadline)
        },
        replay: answer::replay,
    };
    walk(Input(data), machine);
}

fn answer_event(input: &mut Input<'_>, number: u64) -> answer::Event {
    use answer::Event;
    match input.byte() % 9 {
        0 => Event::Heard,
        1 => Event::Received {
            id: cursor(input),
            retry: delay(input),
        },
        2 => Event::Answered,
        3 => Event::Broken { how: how(input) },
        4 => Event::Resumed {
            attempt: AttemptId(recent(input, number)),
        },
        5 => Event::ResumeRefused {
            attempt: AttemptId(recent(input, number)),
            why: "405".to_owned(),
        },
        6 => Event::ResumeFailed {
            attempt: AttemptId(recent(input, number)),
            retry_after: delay(input),
        },
        7 => Event::SessionLost,
        _ => Event::Due,
    }
}
