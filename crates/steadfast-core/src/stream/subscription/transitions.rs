//! The transitions of a subscription, one function per event.

use super::{Action, Context, DEBOUNCE, Event, Fact, Filter, Held, Memory, Policy, State, Step};
use crate::backoff;
use crate::deadline::{Deadline, Reason};
use crate::identity::AttemptId;
use crate::now::{Millis, Mono};
use crate::stream::budget::Spent;
use crate::stream::{self, LASTING};

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::Connected { wanted } => connected(state, wanted, cx),
        Event::Disconnected => disconnected(state, cx),
        Event::Wanted(filter) => wanted(state, filter, cx),
        Event::Acknowledged { attempt, honoured } => acknowledged(state, attempt, &honoured, cx),
        Event::Refused { attempt, unknown } => refused(state, attempt, unknown, cx),
        Event::Failed {
            attempt,
            retry_after,
        } => failed(state, attempt, retry_after, cx),
        Event::Received { attempt } => received(state, attempt, cx),
        Event::Broken { attempt } => closed(state, attempt, Closed::Dropped, cx),
        Event::Ended { attempt } => closed(state, attempt, Closed::Gracefully, cx),
        Event::Due => due(state, cx),
    }
}

/// When to feed [`Event::Due`], and why. `None` while nothing is wanted, while the stream is as it is
/// wanted, and where it is not offered.
#[must_use]
pub fn deadline(state: &State, policy: &Policy) -> Option<Deadline> {
    let (at, reason) = match state {
        State::Off(_) | State::Idle(_) | State::NotOffered(_) => None,
        State::Opening { since, .. } => Some((*since + policy.open_timeout, Reason::OpenLimit)),
        State::Open { renew_at, .. } => renew_at.map(|at| (at, Reason::RenewStream)),
        State::Waiting { due, .. } => Some((*due, Reason::ReopenStream)),
        State::Resting { due, .. } => Some((*due, Reason::RecheckStream)),
    }?;
    Some(Deadline { at, reason })
}

/// Folds one recorded fact: it carries the whole state that was entered.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

fn connected(state: State, wanted: Filter, cx: &Context<'_>) -> Step {
    let actions = leave(&state);
    let mut memory = into_memory(state);
    // The server has just answered: earlier failures say nothing any more. The budget stays.
    memory.failures = 0;
    memory.fruitless = 0;
    memory.wanted = wanted;
    ask(memory, None, actions, cx)
}

fn disconnected(state: State, cx: &Context<'_>) -> Step {
    if let State::Off(_) = state {
        return ignored(state, "it is off already", cx);
    }
    let actions = leave(&state);
    enter(State::Off(into_memory(state)), actions, cx)
}

fn wanted(mut state: State, filter: Filter, cx: &Context<'_>) -> Step {
    if state.memory().wanted == filter {
        return ignored(state, "it is wanted already", cx);
    }
    *wanted_of(&mut state) = filter;
    match state {
        State::Idle(memory) => ask(memory, None, Vec::new(), cx),
        State::Waiting { memory, .. } | State::Resting { memory, .. }
            if memory.wanted.is_empty() =>
        {
            enter(State::Idle(memory), Vec::new(), cx)
        }
        State::Open { held, memory, .. } => {
            let renew_at = renew_at(&held, &memory, cx.now.mono + DEBOUNCE);
            let state = State::Open {
                held,
                renew_at,
                memory,
            };
            enter(state, Vec::new(), cx)
        }
        // It is asked for when its time comes.
        State::Off(_)
        | State::Opening { .. }
        | State::Waiting { .. }
        | State::Resting { .. }
        | State::NotOffered(_) => enter(state, Vec::new(), cx),
    }
}

fn acknowledged(state: State, attempt: AttemptId, honoured: &Filter, cx: &Context<'_>) -> Step {
    let Asked {
        asked,
        before,
        mut memory,
    } = match under_way(state, attempt, cx) {
        Ok(asked) => asked,
        Err(ignored) => return *ignored,
    };
    memory.failures = 0;
    // While an older stream was open nothing can have been missed.
    let action = before.map_or(Action::Relist, |before| Action::Close {
        attempt: before.attempt,
    });
    let held = Held {
        attempt,
        since: cx.now.mono,
        fruitful: false,
        honoured: honoured.and(&asked),
        asked,
    };
    let renew_at = renew_at(&held, &memory, cx.now.mono + DEBOUNCE);
    let state = State::Open {
        held,
        renew_at,
        memory,
    };
    enter(state, vec![action], cx)
}

fn refused(state: State, attempt: AttemptId, unknown: bool, cx: &Context<'_>) -> Step {
    let Asked {
        before, mut memory, ..
    } = match under_way(state, attempt, cx) {
        Ok(asked) => asked,
        Err(ignored) => return *ignored,
    };
    memory.failures = memory.failures.saturating_add(1);
    if let Some(before) = before {
        // Perhaps the server takes one at a time only: the older one makes way.
        let actions = vec![Action::Close {
            attempt: before.attempt,
        }];
        let due = cx.now.mono + retry_delay(&memory, None, cx);
        return enter(State::Waiting { due, memory }, actions, cx);
    }
    let state = if unknown {
        State::NotOffered(memory)
    } else {
        let due = cx.now.mono + cx.policy.recheck;
        State::Resting { due, memory }
    };
    enter(state, Vec::new(), cx)
}

fn failed(state: State, attempt: AttemptId, retry_after: Option<Millis>, cx: &Context<'_>) -> Step {
    match under_way(state, attempt, cx) {
        Ok(asked) => not_opened(asked, retry_after, Vec::new(), cx),
        Err(ignored) => *ignored,
    }
}

fn received(mut state: State, attempt: AttemptId, cx: &Context<'_>) -> Step {
    match held_of(&mut state) {
        Some(held) if held.attempt == attempt && !held.fruitful => {
            held.fruitful = true;
            enter(state, Vec::new(), cx)
        }
        Some(_) | None => ignored(state, "it is no news", cx),
    }
}

/// How a stream ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// Without the response: "an unexpected disconnect".
    Dropped,
    /// With it.
    Gracefully,
}

fn closed(state: State, attempt: AttemptId, how: Closed, cx: &Context<'_>) -> Step {
    match state {
        State::Open {
            held, mut memory, ..
        } if held.attempt == attempt => {
            let due = match how {
                Closed::Gracefully => {
                    let due = cx.now.mono + cx.policy.recheck;
                    return enter(State::Resting { due, memory }, Vec::new(), cx);
                }
                Closed::Dropped => {
                    memory.fruitless = fruitless(&held, &memory, cx);
                    let wait = stream::pause(None, memory.fruitless, cx.policy, cx.jitter);
                    cx.now.mono + wait
                }
            };
            enter(State::Waiting { due, memory }, Vec::new(), cx)
        }
        // The older stream ends while its successor is under way: what comes meanwhile is missed.
        State::Opening {
            attempt: present,
            since,
            asked,
            before: Some(before),
            memory,
        } if before.attempt == attempt => {
            let state = State::Opening {
                attempt: present,
                since,
                asked,
                before: None,
                memory,
            };
            enter(state, Vec::new(), cx)
        }
        // A response at once is a server that does not hold streams open; a stream that breaks before
        // it is acknowledged could not be opened.
        State::Opening {
            attempt: present, ..
        } if present == attempt => match how {
            Closed::Gracefully => refused(state, attempt, false, cx),
            Closed::Dropped => failed(state, attempt, None, cx),
        },
        State::Off(_)
        | State::Idle(_)
        | State::Opening { .. }
        | State::Open { .. }
        | State::Waiting { .. }
        | State::Resting { .. }
        | State::NotOffered(_) => ignored(state, "an older stream", cx),
    }
}

fn due(state: State, cx: &Context<'_>) -> Step {
    if deadline(&state, cx.policy).is_none_or(|deadline| cx.now.mono < deadline.at) {
        return ignored(state, "nothing is due", cx);
    }
    match state {
        State::Off(_) | State::Idle(_) | State::NotOffered(_) => {
            ignored(state, "nothing is due", cx)
        }
        State::Opening {
            attempt,
            asked,
            before,
            memory,
            ..
        } => {
            let asked = Asked {
                asked,
                before,
                memory,
            };
            not_opened(asked, None, vec![Action::Close { attempt }], cx)
        }
        State::Open { held, memory, .. } => ask(memory, Some(held), Vec::new(), cx),
        State::Waiting { memory, .. } | State::Resting { memory, .. } => {
            ask(memory, None, Vec::new(), cx)
        }
    }
}

/// Asks now, within the budget. `before` is the stream that is open meanwhile.
fn ask(
    mut memory: Memory,
    before: Option<Held>,
    mut actions: Vec<Action>,
    cx: &Context<'_>,
) -> Step {
    let now = cx.now.mono;
    if memory.wanted.is_empty() {
        actions.extend(before.map(|before| Action::Close {
            attempt: before.attempt,
        }));
        return enter(State::Idle(memory), actions, cx);
    }
    if let Some(spent) = memory.budget.spent(now) {
        let state = match (before, spent) {
            (Some(held), Spent::Burst(until) | Spent::Hour(until)) => State::Open {
                held,
                renew_at: Some(until),
                memory,
            },
            (None, Spent::Burst(due)) => State::Waiting { due, memory },
            (None, Spent::Hour(until)) => State::Resting {
                due: until.max(now + cx.policy.recheck),
                memory,
            },
        };
        return enter(state, actions, cx);
    }
    memory.budget.take(now);
    actions.push(Action::Open {
        attempt: cx.attempt,
        filter: memory.wanted.clone(),
    });
    let state = State::Opening {
        attempt: cx.attempt,
        since: now,
        asked: memory.wanted.clone(),
        before,
        memory,
    };
    enter(state, actions, cx)
}

/// An attempt that failed for a fault that time mends. An older stream stays open meanwhile.
fn not_opened(
    asked: Asked,
    retry_after: Option<Millis>,
    mut actions: Vec<Action>,
    cx: &Context<'_>,
) -> Step {
    let Asked {
        before, mut memory, ..
    } = asked;
    memory.failures = memory.failures.saturating_add(1);
    let at = cx.now.mono + retry_delay(&memory, retry_after, cx);
    let state = match before {
        Some(held) => State::Open {
            held,
            renew_at: Some(at),
            memory,
        },
        None => {
            actions.push(Action::Doubt);
            State::Waiting { due: at, memory }
        }
    };
    enter(state, actions, cx)
}

fn retry_delay(memory: &Memory, retry_after: Option<Millis>, cx: &Context<'_>) -> Millis {
    let Policy { first, max, .. } = *cx.policy;
    let delay = backoff::delay(first, max, memory.failures, cx.jitter);
    backoff::honour(delay, retry_after, first, cx.jitter)
}

fn fruitless(held: &Held, memory: &Memory, cx: &Context<'_>) -> u32 {
    if held.fruitful || cx.now.mono.since(held.since) >= LASTING {
        0
    } else {
        memory.fruitless.saturating_add(1)
    }
}

/// When to ask anew: where something else is wanted than was asked for.
fn renew_at(held: &Held, memory: &Memory, at: Mono) -> Option<Mono> {
    (held.asked != memory.wanted).then_some(at)
}

/// What was asked for with the attempt under way.
struct Asked {
    asked: Filter,
    before: Option<Held>,
    memory: Memory,
}

/// What was asked for, if this attempt is the one under way; else the step that ignores it.
fn under_way(state: State, attempt: AttemptId, cx: &Context<'_>) -> Result<Asked, Box<Step>> {
    match state {
        State::Opening {
            attempt: present,
            asked,
            before,
            memory,
            ..
        } if present == attempt => Ok(Asked {
            asked,
            before,
            memory,
        }),
        State::Off(_)
        | State::Idle(_)
        | State::Opening { .. }
        | State::Open { .. }
        | State::Waiting { .. }
        | State::Resting { .. }
        | State::NotOffered(_) => Err(Box::new(ignored(state, "an attempt that was given up", cx))),
    }
}

/// What must be done to leave a state whatever comes next.
fn leave(state: &State) -> Vec<Action> {
    let close = |attempt| Action::Close { attempt };
    match state {
        State::Off(_)
        | State::Idle(_)
        | State::Waiting { .. }
        | State::Resting { .. }
        | State::NotOffered(_) => Vec::new(),
        State::Opening {
            attempt, before, ..
        } => {
            let before = before.as_ref().map(|before| close(before.attempt));
            before.into_iter().chain([close(*attempt)]).collect()
        }
        State::Open { held, .. } => vec![close(held.attempt)],
    }
}

fn into_memory(state: State) -> Memory {
    match state {
        State::Off(memory)
        | State::Idle(memory)
        | State::Opening { memory, .. }
        | State::Open { memory, .. }
        | State::Waiting { memory, .. }
        | State::Resting { memory, .. }
        | State::NotOffered(memory) => memory,
    }
}

/// What is wanted, to be changed.
fn wanted_of(state: &mut State) -> &mut Filter {
    match state {
        State::Off(memory)
        | State::Idle(memory)
        | State::Opening { memory, .. }
        | State::Open { memory, .. }
        | State::Waiting { memory, .. }
        | State::Resting { memory, .. }
        | State::NotOffered(memory) => &mut memory.wanted,
    }
}

/// The stream that is open.
fn held_of(state: &mut State) -> Option<&mut Held> {
    match state {
        State::Open { held, .. }
        | State::Opening {
            before: Some(held), ..
        } => Some(held),
        State::Off(_)
        | State::Idle(_)
        | State::Opening { before: None, .. }
        | State::Waiting { .. }
        | State::Resting { .. }
        | State::NotOffered(_) => None,
    }
}

fn enter(state: State, actions: Vec<Action>, cx: &Context<'_>) -> Step {
    let fact = Fact {
        at: cx.now.wall,
        state: state.clone(),
    };
    let deadline = deadline(&state, cx.policy);
    Step::entered(state, fact, actions, deadline)
}

fn ignored(state: State, why: &'static str, cx: &Context<'_>) -> Step {
    let deadline = deadline(&state, cx.policy);
    Step::ignored(state, why, deadline)
}
