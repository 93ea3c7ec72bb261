//! The transitions of the GET stream, one function per event.

use super::{Action, Context, Event, Fact, Memory, Policy, State, Step};
use crate::backoff;
use crate::deadline::{Deadline, Reason};
use crate::identity::{AttemptId, EventCursor};
use crate::now::Millis;
use crate::stream::budget::{HOUR, Spent};
use crate::stream::{self, Break, LASTING};

/// Failures in a row after which the stream is asked for only every [`Policy::recheck`].
const FAILURES: u32 = 3;

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::SessionOpened { new } => session_opened(state, new, cx),
        Event::SessionClosed => session_closed(state, cx),
        Event::Opened { attempt } => opened(state, attempt, cx),
        Event::Refused { attempt, status } => refused(state, attempt, status, cx),
        Event::Failed {
            attempt,
            retry_after,
        } => failed(state, attempt, retry_after, cx),
        Event::Received { id, retry } => received(state, id, retry, cx),
        Event::Broken { attempt, how } => broken(state, attempt, how, cx),
        Event::Due => due(state, cx),
    }
}

/// When to feed [`Event::Due`], and why. `None` while it is off, open, or not offered for the session.
#[must_use]
pub fn deadline(state: &State, policy: &Policy) -> Option<Deadline> {
    let (at, reason) = match state {
        State::Off(_) | State::Open { .. } => None,
        State::Opening { since, .. } => Some((*since + policy.open_timeout, Reason::OpenLimit)),
        State::Waiting { due, .. } => Some((*due, Reason::ReopenStream)),
        State::NotOffered { recheck, .. } => recheck.map(|at| (at, Reason::RecheckStream)),
    }?;
    Some(Deadline { at, reason })
}

/// Folds one recorded fact: it carries the whole state that was entered.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

fn session_opened(state: State, new: bool, cx: &Context<'_>) -> Step {
    let actions = leave(&state);
    let mut memory = match state {
        State::Off(memory) => memory,
        State::Opening { .. }
        | State::Open { .. }
        | State::Waiting { .. }
        | State::NotOffered { .. }
            if !new =>
        {
            return ignored(state, "it is listening in this session already", cx);
        }
        State::Opening { memory, .. }
        | State::Open { memory, .. }
        | State::Waiting { memory, .. }
        | State::NotOffered { memory, .. } => memory,
    };
    // The server has just answered: earlier failures say nothing any more. The budgets stay.
    memory.failures = 0;
    if new {
        // A cursor is a position in one stream of one session (ST-06).
        memory.cursor = None;
        memory.retry = None;
        memory.fruitless = 0;
        memory.declined = false;
        memory.was_open = false;
    }
    ask(memory, actions, cx)
}

fn session_closed(state: State, cx: &Context<'_>) -> Step {
    let actions = leave(&state);
    match state {
        State::Off(_) => ignored(state, "it is off already", cx),
        State::Opening { memory, .. }
        | State::Open { memory, .. }
        | State::Waiting { memory, .. }
        | State::NotOffered { memory, .. } => enter(State::Off(memory), actions, cx),
    }
}

fn opened(state: State, attempt: AttemptId, cx: &Context<'_>) -> Step {
    let mut memory = match under_way(state, attempt, cx) {
        Ok(memory) => memory,
        Err(ignored) => return *ignored,
    };
    memory.failures = 0;
    memory.was_open = true;
    let state = State::Open {
        attempt,
        since: cx.now.mono,
        fruitful: false,
        memory,
    };
    enter(state, Vec::new(), cx)
}

fn refused(state: State, attempt: AttemptId, status: Option<u16>, cx: &Context<'_>) -> Step {
    let mut memory = match under_way(state, attempt, cx) {
        Ok(memory) => memory,
        Err(ignored) => return *ignored,
    };
    memory.failures = 0;
    // 405 is how a server says that it offers no stream (2025-11-25 transports, "Listening for
    // Messages from the Server"). What is no event stream at all is not asked twice in an hour (ST-03).
    memory.declined = matches!(status, None | Some(405));
    if status.is_none() {
        memory.barred_until = Some(cx.now.mono + HOUR);
    }
    let recheck = (!memory.declined).then(|| cx.now.mono + cx.policy.recheck);
    // A 404 may be about the session, and so may any refusal of what was offered before; the next POST
    // tells (ST-02).
    let doubt = (status == Some(404) || memory.was_open).then_some(Action::Doubt);
    let state = State::NotOffered { recheck, memory };
    enter(state, doubt.into_iter().collect(), cx)
}

fn failed(state: State, attempt: AttemptId, retry_after: Option<Millis>, cx: &Context<'_>) -> Step {
    match under_way(state, attempt, cx) {
        Ok(memory) => not_opened(memory, retry_after, vec![Action::Doubt], cx),
        Err(ignored) => *ignored,
    }
}

fn received(
    state: State,
    id: Option<EventCursor>,
    retry: Option<Millis>,
    cx: &Context<'_>,
) -> Step {
    let State::Open {
        attempt,
        since,
        fruitful: before,
        mut memory,
    } = state
    else {
        return ignored(state, "no stream is open", cx);
    };
    let fruitful = before || id.is_some() || retry.is_none();
    if fruitful {
        memory.fruitless = 0;
    }
    if let Some(id) = id {
        memory.cursor = stream::cursor(id);
    }
    if let Some(retry) = retry {
        memory.retry = Some(stream::honoured(retry));
    }
    let state = State::Open {
        attempt,
        since,
        fruitful,
        memory,
    };
    enter(state, Vec::new(), cx)
}

fn broken(state: State, attempt: AttemptId, how: Break, cx: &Context<'_>) -> Step {
    let State::Open {
        attempt: present,
        since,
        fruitful,
        mut memory,
    } = state
    else {
        return ignored(state, "no stream is open", cx);
    };
    if present != attempt {
        let state = State::Open {
            attempt: present,
            since,
            fruitful,
            memory,
        };
        return ignored(state, "an older stream", cx);
    }
    let lived = cx.now.mono.since(since);
    let lasted = lived >= LASTING;
    memory.fruitless = if fruitful || lasted {
        0
    } else {
        memory.fruitless.saturating_add(1)
    };
    if !fruitful && lasted && how != Break::Silence {
        memory.lasted.push(lived);
        let extra = memory.lasted.len().saturating_sub(2);
        memory.lasted.drain(..extra);
    }
    let wait = stream::pause(memory.retry, memory.fruitless, cx.policy, cx.jitter);
    let due = cx.now.mono + wait;
    enter(State::Waiting { due, memory }, Vec::new(), cx)
}

fn due(state: State, cx: &Context<'_>) -> Step {
    if deadline(&state, cx.policy).is_none_or(|deadline| cx.now.mono < deadline.at) {
        return ignored(state, "nothing is due", cx);
    }
    match state {
        State::Off(_) | State::Open { .. } => ignored(state, "nothing is due", cx),
        State::Opening { memory, .. } => {
            not_opened(memory, None, vec![Action::Close, Action::Doubt], cx)
        }
        State::Waiting { memory, .. } | State::NotOffered { memory, .. } => {
            ask(memory, Vec::new(), cx)
        }
    }
}

/// Asks for the stream now, within the budgets.
fn ask(mut memory: Memory, mut actions: Vec<Action>, cx: &Context<'_>) -> Step {
    let now = cx.now.mono;
    memory.barred_until = memory.barred_until.filter(|until| *until > now);
    if memory.declined {
        let recheck = None;
        return enter(State::NotOffered { recheck, memory }, actions, cx);
    }
    let (burst_end, hour_end) = match memory.budget.spent(now) {
        Some(Spent::Burst(until)) => (Some(until), None),
        Some(Spent::Hour(until)) => (None, Some(until)),
        None => (None, None),
    };
    if let Some(until) = memory.barred_until.max(hour_end) {
        let recheck = Some(until.max(now + cx.policy.recheck));
        return enter(State::NotOffered { recheck, memory }, actions, cx);
    }
    if let Some(due) = burst_end {
        return enter(State::Waiting { due, memory }, actions, cx);
    }
    memory.budget.take(now);
    actions.push(Action::Open {
        attempt: cx.attempt,
        cursor: memory.cursor.clone(),
    });
    let state = State::Opening {
        attempt: cx.attempt,
        since: now,
        memory,
    };
    enter(state, actions, cx)
}

fn not_opened(
    mut memory: Memory,
    retry_after: Option<Millis>,
    actions: Vec<Action>,
    cx: &Context<'_>,
) -> Step {
    let Policy {
        first,
        max,
        recheck,
        ..
    } = *cx.policy;
    memory.failures = memory.failures.saturating_add(1);
    let delay = if memory.failures >= FAILURES {
        Millis(recheck.0.saturating_add(cx.jitter.of(first).0))
    } else {
        backoff::delay(first, max, memory.failures, cx.jitter)
    };
    let delay = backoff::honour(delay, retry_after, first, cx.jitter);
    let due = cx.now.mono + delay;
    enter(State::Waiting { due, memory }, actions, cx)
}

/// What is remembered, if this attempt is the one under way; else the step that ignores it.
fn under_way(state: State, attempt: AttemptId, cx: &Context<'_>) -> Result<Memory, Box<Step>> {
    match state {
        State::Opening {
            attempt: present,
            memory,
            ..
        } if present == attempt => Ok(memory),
        State::Off(_)
        | State::Opening { .. }
        | State::Open { .. }
        | State::Waiting { .. }
        | State::NotOffered { .. } => {
            Err(Box::new(ignored(state, "an attempt that was given up", cx)))
        }
    }
}

/// What must be done to leave a state whatever comes next.
fn leave(state: &State) -> Vec<Action> {
    match state {
        State::Off(_) | State::Waiting { .. } | State::NotOffered { .. } => Vec::new(),
        State::Opening { .. } | State::Open { .. } => vec![Action::Close],
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
