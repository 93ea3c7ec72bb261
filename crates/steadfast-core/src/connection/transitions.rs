//! The transitions of a connection, by family of events: wishes of people and of the operator, outcomes
//! of attempts, and news about what is open.

use super::{Action, Context, Event, Fact, Policy, State, Step};
use crate::backoff;
use crate::deadline::{Deadline, Reason};
use crate::fault::{Fault, Kind, Verdict};
use crate::gate::Claim;
use crate::identity::{AttemptId, Generation};
use crate::now::{Millis, Mono};

/// Doubts that come closer together than this are one question to the server.
const DOUBT_PAUSE: Millis = Millis::secs(1);

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::Enable => {
            let actions = leave(&state);
            let why = "enabled, or configured anew";
            open(0, None, Claim::First, actions, why, cx)
        }
        Event::Disable => disable(state, cx),
        Event::Misconfigure(fault) => misconfigure(state, fault, cx),
        Event::Reload => reload(state, cx),
        Event::SignedIn => signed_in(state, cx),
        Event::Woke => woke(state, cx),
        Event::Opened {
            attempt,
            generation,
        } => opened(state, attempt, generation, cx),
        Event::Failed { attempt, fault } => failed(state, attempt, fault, cx),
        Event::Held { attempt, until } => held(state, attempt, until, cx),
        Event::Lost { generation, fault } => lost(state, generation, fault, cx),
        Event::Doubt { generation } => doubt(state, generation, cx),
        Event::Due { last_answer } => due(state, last_answer, cx),
    }
}

/// When to feed [`Event::Due`], and why. `None` only where a person must act, nothing is wanted, or
/// health checks are off.
#[must_use]
pub fn deadline(state: &State, policy: &Policy) -> Option<Deadline> {
    let (at, reason) = match state {
        State::Disabled | State::Misconfigured { .. } | State::AwaitingSignIn { .. } => None,
        State::Connecting { since, .. } => {
            Some((*since + policy.attempt_limit, Reason::AttemptLimit))
        }
        State::Connected { health_due, .. } => health_due.map(|at| (at, Reason::CheckHealth)),
        State::Retrying {
            due, held: true, ..
        } => Some((*due, Reason::Turn)),
        State::Retrying { due, .. } => Some((*due, Reason::Reconnect)),
    }?;
    Some(Deadline { at, reason })
}

/// Folds one recorded fact: it carries the whole state that was entered.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

// Wishes.

fn disable(state: State, cx: &Context<'_>) -> Step {
    if state == State::Disabled {
        return ignored(state, "it is disabled already", cx);
    }
    let actions = leave(&state);
    enter(State::Disabled, actions, "disabled", cx)
}

fn misconfigure(state: State, fault: Fault, cx: &Context<'_>) -> Step {
    let actions = leave(&state);
    let misconfigured = State::Misconfigured { fault };
    if state == misconfigured {
        return ignored(state, "nothing changed in the configuration", cx);
    }
    enter(misconfigured, actions, "the configuration cannot work", cx)
}

fn reload(state: State, cx: &Context<'_>) -> Step {
    let actions = leave(&state);
    let (tries, fault) = match state {
        State::Disabled => return ignored(state, "it is disabled", cx),
        State::Misconfigured { fault } | State::AwaitingSignIn { fault } => (0, Some(fault)),
        State::Connecting { tries, fault, .. } => (tries, fault),
        State::Connected { since, tries, .. } => (unforgiven(tries, since, cx), None),
        State::Retrying { fault, tries, .. } => (tries, Some(fault)),
    };
    let why = "reload was asked for";
    open(tries, fault, Claim::Asked, actions, why, cx)
}

fn signed_in(state: State, cx: &Context<'_>) -> Step {
    let actions = leave(&state);
    match state {
        State::Disabled => ignored(state, "it is disabled", cx),
        State::Misconfigured { .. } => {
            ignored(state, "a credential does not mend the configuration", cx)
        }
        State::Connecting { .. }
        | State::Connected { .. }
        | State::Retrying { .. }
        | State::AwaitingSignIn { .. } => {
            let why = "the credential changed";
            open(0, None, Claim::First, actions, why, cx)
        }
    }
}

/// Sockets rarely survive a sleep, and the backoff was counted for a server that could be reached.
fn woke(state: State, cx: &Context<'_>) -> Step {
    let actions = leave(&state);
    match state {
        State::Disabled | State::Misconfigured { .. } | State::AwaitingSignIn { .. } => {
            ignored(state, "nothing is waited for", cx)
        }
        State::Connecting { tries, fault, .. } => {
            let claim = fault.as_ref().map_or(Claim::First, |_| Claim::Again);
            open(tries, fault, claim, actions, "the machine slept", cx)
        }
        State::Connected { .. } => {
            // Many connections wake together: their questions are spread.
            let after = cx.jitter.of(cx.policy.first);
            check_health(state, after, "the machine slept", cx)
        }
        State::Retrying { ref fault, .. } if fault.retry_after.is_some() => {
            // `due` counts the time asleep: what the server asked for still stands.
            ignored(state, "the server asked to wait", cx)
        }
        State::Retrying { held: true, .. } => ignored(state, "its turn is a time of its own", cx),
        State::Retrying {
            fault, tries, due, ..
        } => {
            let now = cx.now.mono;
            let soon = now + cx.jitter.of(cx.policy.first);
            let due = if due > now { due.min(soon) } else { soon };
            let state = State::Retrying {
                fault,
                tries,
                due,
                held: false,
            };
            enter(state, Vec::new(), "the machine slept", cx)
        }
    }
}

// Outcomes of attempts.

fn opened(state: State, attempt: AttemptId, generation: Generation, cx: &Context<'_>) -> Step {
    match state {
        State::Connecting {
            attempt: present,
            tries,
            ..
        } if present == attempt => {
            let now = cx.now.mono;
            let state = State::Connected {
                generation,
                since: now,
                tries,
                health_due: health_due(now, cx),
                asked: None,
            };
            enter(state, Vec::new(), "opened", cx)
        }
        State::Connected {
            generation: present,
            ..
        } if present == generation => ignored(state, "this opening is known", cx),
        State::Disabled
        | State::Misconfigured { .. }
        | State::Connecting { .. }
        | State::Connected { .. }
        | State::Retrying { .. }
        | State::AwaitingSignIn { .. } => Step {
            // It opened while it was being abandoned: its session must not stay behind (OP-06).
            actions: vec![Action::Close { generation }],
            ..ignored(state, "an attempt that was abandoned", cx)
        },
    }
}

fn failed(state: State, attempt: AttemptId, fault: Fault, cx: &Context<'_>) -> Step {
    let State::Connecting {
        attempt: present,
        tries,
        ..
    } = state
    else {
        return ignored(state, "no attempt is under way", cx);
    };
    if present != attempt {
        return ignored(state, "an attempt that was abandoned", cx);
    }
    let reason = format!("attempt failed: {}", fault.kind.as_str());
    settle(fault, tries.saturating_add(1), Vec::new(), reason, cx)
}

/// The attempt is put off: it did not fail, and counts as none.
fn held(state: State, attempt: AttemptId, until: Mono, cx: &Context<'_>) -> Step {
    match state {
        State::Connecting {
            attempt: present,
            tries,
            fault: Some(fault),
            ..
        } if present == attempt => {
            let state = State::Retrying {
                fault,
                tries,
                due: until,
                held: true,
            };
            let reason = "the server is being connected to too often";
            enter(state, Vec::new(), reason, cx)
        }
        State::Disabled
        | State::Misconfigured { .. }
        | State::Connecting { .. }
        | State::Connected { .. }
        | State::Retrying { .. }
        | State::AwaitingSignIn { .. } => ignored(state, "no attempt that could wait", cx),
    }
}

// News about what is open.

fn lost(state: State, generation: Generation, fault: Fault, cx: &Context<'_>) -> Step {
    let State::Connected {
        generation: present,
        since,
        tries,
        ..
    } = state
    else {
        return ignored(state, "nothing is open", cx);
    };
    if present != generation {
        return ignored(state, "an older opening", cx);
    }
    let reason = format!("lost: {}", fault.kind.as_str());
    let stable = is_stable(since, cx);
    let tries = if stable { 0 } else { tries.saturating_add(1) };
    // A session is rebuilt at once: how often is limited by the session machine, whose
    // `unstable_sessions` carries the wait. A connection that had held is opened again at once, so
    // that waiting calls can wait for it. One that accepts and drops is not (OP-03).
    let at_once = stable || fault.kind == Kind::SessionLost;
    if at_once && fault.retry_after.is_none() && !fault.person_needed() {
        return open(tries, Some(fault), Claim::Again, Vec::new(), reason, cx);
    }
    settle(fault, tries.max(1), Vec::new(), reason, cx)
}

fn doubt(state: State, generation: Generation, cx: &Context<'_>) -> Step {
    let State::Connected {
        generation: present,
        ..
    } = state
    else {
        return ignored(state, "nothing is open", cx);
    };
    if present != generation {
        return ignored(state, "an older opening", cx);
    }
    let reason = "asked whether the server still answers";
    check_health(state, Millis::ZERO, reason, cx)
}

fn due(state: State, last_answer: Option<Mono>, cx: &Context<'_>) -> Step {
    let now = cx.now.mono;
    if deadline(&state, cx.policy).is_none_or(|deadline| now < deadline.at) {
        return ignored(state, "nothing is due", cx);
    }
    match state {
        State::Disabled | State::Misconfigured { .. } | State::AwaitingSignIn { .. } => {
            ignored(state, "nothing is due", cx)
        }
        State::Connecting { attempt, tries, .. } => {
            let limit = cx.policy.attempt_limit.0;
            let fault = Fault::new(Kind::Timeout, format!("not open after {limit} ms"));
            let actions = vec![Action::Abandon { attempt }];
            let reason = "the attempt took too long";
            settle(fault, tries.saturating_add(1), actions, reason, cx)
        }
        State::Connected {
            generation,
            since,
            tries,
            asked,
            ..
        } => {
            let heard = last_answer.and_then(|at| health_due(at, cx));
            let Some(next) = heard.filter(|next| *next > now) else {
                let reason = "nothing was heard for a while";
                return check_health(state, Millis::ZERO, reason, cx);
            };
            let state = State::Connected {
                generation,
                since,
                tries,
                health_due: Some(next),
                asked,
            };
            enter(state, Vec::new(), "the server has answered", cx)
        }
        State::Retrying {
            fault, tries, held, ..
        } => {
            let claim = if held { Claim::Turn } else { Claim::Again };
            let why = "the delay is over";
            open(tries, Some(fault), claim, Vec::new(), why, cx)
        }
    }
}

/// Asks the server whether it still answers, unless it was asked a moment ago.
fn check_health(state: State, after: Millis, reason: &str, cx: &Context<'_>) -> Step {
    let State::Connected {
        generation,
        since,
        tries,
        asked,
        ..
    } = state
    else {
        return ignored(state, "nothing is open", cx);
    };
    let now = cx.now.mono;
    if asked.is_some_and(|asked| now.since(asked) < DOUBT_PAUSE) {
        return ignored(state, "it was asked a moment ago", cx);
    }
    let state = State::Connected {
        generation,
        since,
        tries,
        health_due: health_due(now, cx),
        asked: Some(now),
    };
    let check = Action::CheckHealth { generation, after };
    enter(state, vec![check], reason, cx)
}

// Where a fault leads, by its verdict.

fn settle(
    fault: Fault,
    tries: u32,
    actions: Vec<Action>,
    reason: impl Into<String>,
    cx: &Context<'_>,
) -> Step {
    let state = match fault.verdict() {
        Verdict::Person => wait_for_person(fault),
        Verdict::RetryAfter | Verdict::Rediscover | Verdict::OurBug => {
            let Policy { first, max, .. } = *cx.policy;
            let delay = backoff::delay(first, max, tries, cx.jitter);
            let delay = backoff::honour(delay, fault.retry_after, first, cx.jitter);
            State::Retrying {
                fault,
                tries,
                due: cx.now.mono + delay,
                held: false,
            }
        }
    };
    enter(state, actions, reason, cx)
}

/// Of all that is for a person, what is not mended by signing in is the configuration's fault: also a redirect, which
/// names the url to configure.
fn wait_for_person(fault: Fault) -> State {
    if fault.kind.asks_to_sign_in() {
        State::AwaitingSignIn { fault }
    } else {
        State::Misconfigured { fault }
    }
}

/// What must be done to leave a state whatever comes next.
fn leave(state: &State) -> Vec<Action> {
    match state {
        State::Disabled
        | State::Misconfigured { .. }
        | State::Retrying { .. }
        | State::AwaitingSignIn { .. } => Vec::new(),
        State::Connecting { attempt, .. } => vec![Action::Abandon { attempt: *attempt }],
        State::Connected { generation, .. } => vec![Action::Close {
            generation: *generation,
        }],
    }
}

fn open(
    tries: u32,
    fault: Option<Fault>,
    claim: Claim,
    mut actions: Vec<Action>,
    reason: impl Into<String>,
    cx: &Context<'_>,
) -> Step {
    let attempt = cx.attempt;
    actions.push(Action::Open { attempt, claim });
    let state = State::Connecting {
        attempt,
        tries,
        since: cx.now.mono,
        fault,
    };
    enter(state, actions, reason, cx)
}

fn is_stable(since: Mono, cx: &Context<'_>) -> bool {
    cx.now.mono.since(since) >= cx.policy.stable_after
}

/// The failures before an opening that still count.
fn unforgiven(tries: u32, since: Mono, cx: &Context<'_>) -> u32 {
    if is_stable(since, cx) { 0 } else { tries }
}

/// Up to a quarter early: connections that opened together do not go on asking together.
fn health_due(heard: Mono, cx: &Context<'_>) -> Option<Mono> {
    let every = cx.policy.health_every;
    let early = cx.jitter.of(Millis(every.0 / 4));
    (every > Millis::ZERO).then(|| heard + Millis(every.0 - early.0))
}

fn enter(state: State, actions: Vec<Action>, reason: impl Into<String>, cx: &Context<'_>) -> Step {
    let fact = Fact {
        at: cx.now.wall,
        state: state.clone(),
        reason: reason.into(),
    };
    let deadline = deadline(&state, cx.policy);
    Step::entered(state, fact, actions, deadline)
}

fn ignored(state: State, why: &'static str, cx: &Context<'_>) -> Step {
    let deadline = deadline(&state, cx.policy);
    Step::ignored(state, why, deadline)
}
