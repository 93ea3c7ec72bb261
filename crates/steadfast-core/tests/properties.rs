//! What holds for every order of events, also for those that no driver would feed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{
    Answer, Catalog, Connection, Listen, Machine, Moment, Operation, Session, Subscription, Terms,
};
use proptest::collection::vec;
use proptest::prelude::*;
use steadfast_core::step::Outcome;
use steadfast_core::stream::{self, Break, answer, listen, subscription};
use steadfast_core::{
    AttemptId, EventCursor, Fault, Generation, Jitter, Kind, Millis, Mono, SessionId, catalog,
    connection, operation, session,
};

/// One move of a random walk: time passes, then something happens.
#[derive(Clone, Copy, Debug)]
struct Move {
    pass: u64,
    jitter: u32,
    kind: u8,
    pick: u8,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let pass = prop_oneof![
        4 => 0..5_u64,
        4 => 5..3_000_u64,
        2 => 3_000..400_000_u64,
        1 => Just(4_000_000_u64),
    ];
    let one = (pass, any::<u32>(), any::<u8>(), any::<u8>());
    vec(
        one.prop_map(|(pass, jitter, kind, pick)| Move {
            pass,
            jitter,
            kind,
            pick,
        }),
        1..120,
    )
}

/// Walks through a machine. Every step is checked for what all machines promise; `watch` sees the
/// time and the actions of each.
fn walk<M: Machine>(
    moves: &[Move],
    policy: &M::Policy,
    event: impl Fn(Move, u64) -> M::Event,
    mut watch: impl FnMut(Mono, &[M::Action]),
) -> Result<(), TestCaseError> {
    let mut now = Mono(0);
    let mut live = M::initial();
    let mut recorded = M::initial();
    for (step, one) in (1..).zip(moves) {
        now = now + Millis(one.pass);
        let moment = Moment {
            now,
            jitter: Jitter(one.jitter),
            attempt: AttemptId(step),
        };
        let before = live.clone();
        let step = M::step(live, event(*one, step), moment, policy);
        recorded = step.facts.iter().fold(recorded, M::replay);
        prop_assert_eq!(
            &recorded,
            &step.state,
            "folding the facts gives the live state"
        );
        prop_assert_eq!(
            step.deadline,
            M::deadline(&step.state, moment.clocks(), policy)
        );
        prop_assert_eq!(
            step.deadline.is_none(),
            M::sleeps(&step.state, policy),
            "no wake-up: {:?}",
            step.state
        );
        match step.outcome {
            Outcome::Used => {}
            Outcome::Ignored { .. } | Outcome::Violation { .. } => {
                prop_assert_eq!(&step.state, &before);
                prop_assert!(step.facts.is_empty());
            }
        }
        watch(now, &step.actions);
        live = step.state;
    }
    Ok(())
}

/// An attempt or a generation that is likely the present one, and sometimes an older one.
fn recent(step: u64, pick: u8) -> u64 {
    step.saturating_sub(u64::from(pick % 4))
}

fn fault(pick: u8) -> Fault {
    let kinds = [
        Kind::Network,
        Kind::Timeout,
        Kind::SessionLost,
        Kind::UnstableSessions,
        Kind::RateLimited,
        Kind::SignInRequired,
        Kind::Redirected,
    ];
    let asked = [
        None,
        Some(Millis(0)),
        Some(Millis::secs(7)),
        Some(Millis(u64::MAX)),
    ];
    let kind = kinds[usize::from(pick) % kinds.len()];
    Fault::new(kind, "seen").after(asked[usize::from(pick / 8) % asked.len()])
}

fn connection_event(one: Move, step: u64) -> connection::Event {
    use connection::Event;
    let attempt = AttemptId(recent(step, one.pick));
    let generation = Generation(u64::from(one.pick % 3));
    match one.kind % 16 {
        0 => Event::Disable,
        1 => Event::Misconfigure(fault(one.pick)),
        2 => Event::Reload,
        3 => Event::SignedIn,
        4 => Event::Woke,
        5 | 6 => Event::Enable,
        7..=9 => Event::Opened {
            attempt,
            generation,
        },
        10 => Event::Failed {
            attempt,
            fault: fault(one.pick),
        },
        11 => Event::Lost {
            generation,
            fault: fault(one.pick),
        },
        12 => Event::Doubt { generation },
        13 => Event::Held {
            attempt,
            until: Mono(u64::from(one.pick) * 10_000),
        },
        _ => Event::Due {
            last_answer: (one.pick > 100).then(|| Mono(u64::from(one.pick) * 1_000)),
        },
    }
}

fn catalog_event(one: Move, step: u64) -> catalog::Event {
    use catalog::{Event, Life};
    let generation = Generation(recent(step / 16, one.pick) + 1);
    match one.kind % 12 {
        0 => Event::Reopened { generation },
        1 => Event::Changed,
        2 => Event::Deaf,
        3 => Event::Doubted,
        4..=6 => Event::Asked { generation },
        7 => Event::Failed { generation },
        _ => Event::Fetched {
            generation,
            size: usize::from(one.pick % 9),
            life: if one.pick > 100 {
                Life::UntilNews
            } else {
                Life::Never
            },
        },
    }
}

fn session_event(one: Move, step: u64) -> session::Event {
    use session::Event;
    let generation = Generation(recent(step, one.pick));
    match one.kind % 5 {
        0 | 1 => Event::Opened {
            generation: Generation(step),
            id: (!one.pick.is_multiple_of(5)).then(|| SessionId::new(format!("S{step}"))),
        },
        2 | 3 => Event::Refused {
            generation,
            rule: "404",
        },
        _ => Event::Closed {
            generation,
            reachable: one.pick > 100,
        },
    }
}

fn retry(pick: u8) -> Option<Millis> {
    [None, Some(0), Some(50), Some(1_500), Some(u64::MAX)][usize::from(pick) % 5].map(Millis)
}

fn how(pick: u8) -> Break {
    [
        Break::CleanEnd,
        Break::Reset,
        Break::CutShort,
        Break::Silence,
    ][usize::from(pick) % 4]
}

fn listen_event(one: Move, step: u64) -> listen::Event {
    use listen::Event;
    let attempt = AttemptId(recent(step, one.pick));
    match one.kind % 16 {
        0 => Event::SessionOpened { new: true },
        1 | 2 => Event::SessionOpened { new: false },
        3 => Event::SessionClosed,
        4 => Event::Refused {
            attempt,
            status: [None, Some(405), Some(404), Some(501)][usize::from(one.pick / 4) % 4],
        },
        5 => Event::Failed {
            attempt,
            retry_after: retry(one.pick),
        },
        6 | 7 => Event::Received {
            id: (!one.pick.is_multiple_of(2)).then(|| EventCursor::new(format!("e{step}"))),
            retry: retry(one.pick),
        },
        8 | 9 => Event::Broken {
            attempt,
            how: how(one.pick),
        },
        10..=12 => Event::Opened { attempt },
        _ => Event::Due,
    }
}

fn filter(pick: u8) -> subscription::Filter {
    subscription::Filter {
        tools: pick & 1 > 0,
        prompts: pick & 2 > 0,
        ..subscription::Filter::default()
    }
}

fn subscription_event(one: Move, step: u64) -> subscription::Event {
    use subscription::Event;
    let attempt = AttemptId(recent(step, one.pick));
    match one.kind % 24 {
        0 | 1 => Event::Connected {
            wanted: filter(one.pick / 4),
        },
        2 => Event::Disconnected,
        3..=5 => Event::Wanted(filter(one.pick / 4)),
        6..=10 => Event::Acknowledged {
            attempt,
            honoured: filter(one.pick / 16),
        },
        11 => Event::Refused {
            attempt,
            unknown: one.pick > 200,
        },
        12 | 13 => Event::Failed {
            attempt,
            retry_after: retry(one.pick),
        },
        14 => Event::Received { attempt },
        15 | 16 => Event::Broken { attempt },
        17 => Event::Ended { attempt },
        _ => Event::Due,
    }
}

fn answer_event(one: Move, step: u64) -> answer::Event {
    use answer::Event;
    let attempt = AttemptId(recent(step, one.pick));
    match one.kind % 32 {
        0 => Event::Answered,
        1 => Event::SessionLost,
        2 => Event::ResumeRefused {
            attempt,
            why: "405".to_owned(),
        },
        3..=6 => Event::ResumeFailed {
            attempt,
            retry_after: retry(one.pick),
        },
        7 => Event::Heard,
        8..=13 => Event::Received {
            id: (!one.pick.is_multiple_of(4))
                .then(|| EventCursor::new(format!("e{}", one.pick % 8))),
            retry: retry(one.pick),
        },
        14..=18 => Event::Broken { how: how(one.pick) },
        19..=23 => Event::Resumed { attempt },
        _ => Event::Due,
    }
}

/// Contracts of every kind.
fn terms(pick: u8) -> Terms {
    let lookup = operation::LookupContract {
        tool: "find".into(),
        arguments: Default::default(),
        accepted: "$.found".into(),
        must_equal: Default::default(),
        absent_is_definitive: pick & 4 != 0,
        settle_after: Millis::secs(u64::from(pick & 8)),
    };
    let key = operation::KeyContract {
        present: pick & 16 == 0,
        retention: Millis::secs(if pick & 32 == 0 { 3_600 } else { 5 }),
        atomic: true,
        payload_bound: true,
        account_scoped: true,
        propagated: true,
    };
    Terms {
        policy: operation::Policy::default(),
        contract: operation::Contract {
            duplicate_key: (pick & 1 != 0).then_some(key),
            lookup: (pick & 2 != 0).then_some(lookup),
        },
    }
}

fn operation_event(one: Move, step: u64) -> operation::Event {
    use operation::{Event, Finding, Said, Verdict};
    let finding = match one.pick % 5 {
        0 => Finding::Found {
            record: "{}".into(),
        },
        1 => Finding::Absent,
        2 => Finding::Unclear { why: "two".into() },
        3 => Finding::Working {
            again_after: Some(Millis::secs(u64::from(one.pick))),
        },
        _ => Finding::Unreachable {
            fault: fault(one.pick),
        },
    };
    let verdict = match one.pick % 4 {
        0 => Verdict::Confirmed,
        1 => Verdict::NoEffect { repeat: true },
        2 => Verdict::NoEffect { repeat: false },
        _ => Verdict::Abandoned,
    };
    let bytes_sent = u64::from(one.pick);
    let name = || "ops".to_owned();
    match one.kind % 16 {
        0..=2 => Event::Leave {
            rpc_id: steadfast_core::RpcId::Integer(step as i64),
        },
        3 => Event::Refused {
            bytes_sent,
            proof: "401".into(),
        },
        4 => Event::GivenUp { why: "down".into() },
        5..=7 => Event::Lost {
            bytes_sent,
            evidence: "reset".into(),
            retry_after: retry(one.pick),
        },
        8 => Event::TaskStarted { task: "t".into() },
        9 => Event::Answered {
            said: Said::InputRequired,
            awaited: true,
        },
        10 => Event::Answered {
            said: Said::Result,
            awaited: one.pick & 1 == 0,
        },
        11 => Event::AgentLeft,
        12 => Event::Due,
        13 => Event::LookedUp {
            tries: u32::from(one.pick / 4 % 3),
            finding,
        },
        14 => Event::Settle {
            verdict,
            name: name(),
            note: None,
        },
        _ if one.pick & 1 == 0 => Event::Reconcile { name: name() },
        _ => Event::Interrupted,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn connection_keeps_its_promises(moves in moves(), health in any::<bool>()) {
        let mut policy = connection::Policy::default();
        if !health {
            policy.health_every = Millis::ZERO;
        }
        walk::<Connection>(&moves, &policy, connection_event, |_, _| ())?;
    }

    #[test]
    fn a_connection_asks_at_most_once_a_second_how_its_server_is(moves in moves()) {
        let mut asked = Vec::new();
        walk::<Connection>(&moves, &connection::Policy::default(), connection_event, |now, actions| {
            for action in actions {
                if let connection::Action::CheckHealth { generation, .. } = action {
                    asked.push((*generation, now));
                }
                if let connection::Action::Open { .. } = action {
                    asked.clear();
                }
            }
            assert!(asked.windows(2).all(|pair| pair[1].1.since(pair[0].1) >= Millis::secs(1)));
        })?;
    }

    #[test]
    fn session_keeps_its_promises(moves in moves()) {
        let policy = session::Policy::default();
        let mut rebuilt: Vec<Mono> = Vec::new();
        walk::<Session>(&moves, &policy, session_event, |now, actions| {
            for action in actions {
                if let session::Action::Rebuild { .. } = action {
                    rebuilt.push(now);
                }
            }
            rebuilt.retain(|at| now.since(*at) < policy.window);
            assert!(rebuilt.len() <= policy.rebuilds as usize, "rebuilt at {rebuilt:?}");
        })?;
    }

    /// And it never asks twice at a time.
    #[test]
    fn catalog_keeps_its_promises(moves in moves()) {
        let mut under_way = false;
        let mut live = Catalog::initial();
        walk::<Catalog>(&moves, &Default::default(), catalog_event, |_, _| ())?;
        for (step, one) in (1..).zip(&moves) {
            let moment = Moment { now: Mono(step), jitter: Jitter(0), attempt: AttemptId(step) };
            let step = Catalog::step(live, catalog_event(*one, step), moment, &Default::default());
            if step.actions.contains(&catalog::Action::Fetch) {
                prop_assert!(!under_way);
            }
            under_way = step.state.asked.is_some();
            live = step.state;
        }
    }

    #[test]
    fn listen_keeps_its_promises_and_never_becomes_a_hot_loop(moves in moves()) {
        let mut openings: Vec<Mono> = Vec::new();
        walk::<Listen>(&moves, &Default::default(), listen_event, |now, actions| {
            let opens = actions.iter().filter(|action| matches!(action, listen::Action::Open { .. }));
            openings.extend(opens.map(|_| now));
            openings.retain(|at| now.since(*at) < stream::BURST_WINDOW);
            assert!(openings.len() <= stream::BURST, "opened at {openings:?}");
        })?;
    }

    /// And no stream is left open that nobody knows of.
    #[test]
    fn subscription_keeps_its_promises_and_never_becomes_a_hot_loop(moves in moves()) {
        use subscription::{Action, State};
        let mut openings: Vec<Mono> = Vec::new();
        let mut live = Subscription::initial();
        let mut now = Mono(0);
        let policy = stream::Policy::default();
        walk::<Subscription>(&moves, &policy, subscription_event, |now, actions| {
            openings.extend(actions.iter().filter(|it| matches!(it, Action::Open { .. })).map(|_| now));
            openings.retain(|at| now.since(*at) < stream::BURST_WINDOW);
            assert!(openings.len() <= stream::BURST, "opened at {openings:?}");
        })?;
        let mut open: Vec<AttemptId> = Vec::new();
        for (step, one) in (1..).zip(&moves) {
            now = now + Millis(one.pass);
            let moment = Moment { now, jitter: Jitter(one.jitter), attempt: AttemptId(step) };
            let event = subscription_event(*one, step);
            let ended = match &event {
                subscription::Event::Refused { attempt, .. }
                | subscription::Event::Failed { attempt, .. }
                | subscription::Event::Broken { attempt }
                | subscription::Event::Ended { attempt } => Some(*attempt),
                _ => None,
            };
            let step = Subscription::step(live, event, moment, &policy);
            // What the machine ignores is about a stream that ended long ago.
            if step.outcome == Outcome::Used {
                open.retain(|attempt| Some(*attempt) != ended);
            }
            for action in &step.actions {
                match action {
                    Action::Open { attempt, .. } => open.push(*attempt),
                    Action::Close { attempt } => open.retain(|it| it != attempt),
                    Action::Relist | Action::Doubt => {}
                }
            }
            let known: Vec<AttemptId> = match &step.state {
                State::Opening { attempt, before, .. } => {
                    before.iter().map(|it| it.attempt).chain([*attempt]).collect()
                }
                State::Open { held, .. } => vec![held.attempt],
                State::Off(_) | State::Idle(_) | State::Waiting { .. } | State::Resting { .. } | State::NotOffered(_) => Vec::new(),
            };
            prop_assert_eq!(&open, &known, "{:?}", step.state);
            live = step.state;
        }
    }

    #[test]
    fn answer_keeps_its_promises_and_never_resumes_in_a_hot_loop(moves in moves()) {
        let mut last: Option<Mono> = None;
        walk::<Answer>(&moves, &Default::default(), answer_event, |now, actions| {
            for action in actions {
                if let answer::Action::Resume { .. } = action {
                    let gap = last.map(|last| now.since(last));
                    assert!(gap.is_none_or(|gap| gap >= Millis(50)), "resumed after {gap:?}");
                    last = Some(now);
                }
            }
        })?;
    }

    /// A server that plays a script of cut streams and then answers: the call ends, with the answer
    /// where every cut stream had brought an id, and every resume names the last id that was seen.
    #[test]
    fn every_answer_ends(script in vec((0..3_u8, any::<u8>(), 0..4_u8), 0..12)) {
        let policy = steadfast_core::stream::Policy::default();
        let moment = |now, attempt| Moment { now, jitter: Jitter(attempt as u32), attempt: AttemptId(attempt) };
        let (mut now, mut attempt, mut ids) = (Mono(0), 0_u64, 0_u32);
        let mut seen: Option<String> = None;
        let lossless = script.iter().all(|(events, _, resume)| *events > 0 && *resume > 1);
        let mut state = Answer::initial();
        let mut script = script.into_iter();
        while answer::deadline(&state, &policy).is_some() {
            attempt += 1;
            prop_assert!(attempt < 1_000, "it does not end");
            let next = script.next();
            let feed = |state, event| Answer::step(state, event, moment(now, attempt), &policy);
            state = match (&state, next) {
                (answer::State::Reading { .. }, None) => feed(state, answer::Event::Answered).state,
                (answer::State::Reading { .. }, Some((events, pick, _))) => {
                    for _ in 0..events {
                        ids += 1;
                        let id = format!("e{ids}");
                        state = feed(state, answer::Event::Received {
                            id: Some(EventCursor::from(id.as_str())),
                            retry: retry(pick),
                        }).state;
                        seen = Some(id);
                    }
                    feed(state, answer::Event::Broken { how: how(pick) }).state
                }
                (answer::State::Waiting { due, .. }, _) => {
                    now = *due;
                    let step = Answer::step(state, answer::Event::Due, moment(now, attempt), &policy);
                    let [answer::Action::Resume { cursor, .. }] = &step.actions[..] else {
                        panic!("{:?}", step.actions);
                    };
                    prop_assert_eq!(Some(cursor.as_str()), seen.as_deref());
                    step.state
                }
                (answer::State::Resuming { attempt, since, .. }, next) => {
                    let attempt = *attempt;
                    match next {
                        Some((_, _, 0)) => feed(state, answer::Event::ResumeFailed { attempt, retry_after: None }).state,
                        Some((_, _, 1)) => {
                            now = *since + policy.open_timeout;
                            Answer::step(state, answer::Event::Due, moment(now, attempt.0), &policy).state
                        }
                        _ => feed(state, answer::Event::Resumed { attempt }).state,
                    }
                }
                (answer::State::Answered | answer::State::NotObserved { .. }, _) => break,
            };
        }
        prop_assert!(!lossless || state == answer::State::Answered);
        prop_assert!(now.since(Mono(0)) < Millis::mins(120));
    }

    /// Whatever happens in whatever order: a call leaves once more only where a proof, its contract, a server that asks
    /// for input or a person allows it, and "not executed" is never said of one that may have been.
    #[test]
    fn operation_never_leaves_again_without_a_reason(moves in moves(), pick in any::<u8>()) {
        use operation::{Event, State};
        let terms = terms(pick);
        walk::<Operation>(&moves, &terms, operation_event, |_, _| ())?;
        let (mut state, mut now) = (Operation::initial(), Mono(0));
        let mut may_have_run = false;
        for (step, one) in (1..).zip(&moves) {
            now = now + Millis(one.pass);
            let moment = Moment { now, jitter: Jitter(one.jitter), attempt: AttemptId(step) };
            let event = operation_event(*one, step);
            let before = state.clone();
            let next = Operation::step(state, event.clone(), moment, &terms);
            if let [operation::Action::Send { .. }] = &next.actions[..] {
                let allowed = match &before {
                    State::Intended { .. } => !may_have_run,
                    // The next leg.
                    State::Observed { said, .. } => *said == operation::Said::InputRequired,
                    State::NotObserved { .. } => terms.contract.duplicate_key.as_ref().is_some_and(|key| key.present),
                    State::NoEffect { repeat, .. } => *repeat,
                    _ => false,
                };
                prop_assert!(allowed, "left from {before:?}");
            }
            match (&before, &event) {
                (State::Sent { .. }, Event::Lost { .. } | Event::Interrupted) => may_have_run = true,
                // The provider or a person says that it did not.
                (_, Event::LookedUp { .. } | Event::Settle { .. }) if matches!(next.state, State::NoEffect { .. }) => may_have_run = false,
                _ => {}
            }
            if next.state.executed() == steadfast_core::effect::Executed::No {
                prop_assert!(!may_have_run, "{:?} after {before:?}", next.state);
            }
            state = next.state;
        }
    }
}
