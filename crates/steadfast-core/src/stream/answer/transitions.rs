//! The transitions of a response stream, one function per event.

use super::{Action, Context, Event, Fact, Memory, Policy, State, Step};
use crate::backoff;
use crate::deadline::{Deadline, Reason};
use crate::identity::{AttemptId, EventCursor};
use crate::now::Millis;
use crate::stream::{self, Break};

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::Heard => heard(state, cx),
        Event::Received { id, retry } => received(state, id, retry, cx),
        Event::Answered => answered(state, cx),
        Event::Broken { how } => broken(state, how, cx),
        Event::Resumed { attempt } => resumed(state, attempt, cx),
        Event::ResumeRefused { attempt, why } => resume_refused(state, attempt, &why, cx),
        Event::ResumeFailed {
            attempt,
            retry_after,
        } => resume_failed(state, attempt, retry_after, cx),
        Event::SessionLost => session_lost(state, cx),
        Event::Due => due(state, cx),
    }
}

/// When to feed [`Event::Due`], and why. `None` once the stream is finished.
#[must_use]
pub fn deadline(state: &State, policy: &Policy) -> Option<Deadline> {
    let (at, reason) = match state {
        State::Reading { heard, .. } => Some((*heard + policy.silence, Reason::Silence)),
        State::Waiting { due, .. } => Some((*due, Reason::ResumeAnswer)),
        State::Resuming { since, .. } => Some((*since + policy.open_timeout, Reason::OpenLimit)),
        State::Answered | State::NotObserved { .. } => None,
    }?;
    Some(Deadline { at, reason })
}

/// Folds one recorded fact: it carries the whole state that was entered.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

fn heard(state: State, cx: &Context<'_>) -> Step {
    match state {
        // Bytes come faster than the clock ticks: one fact for each tick.
        State::Reading { heard, .. } if heard == cx.now.mono => {
            ignored(state, "heard in this millisecond already", cx)
        }
        State::Reading { memory, .. } => read_on(memory, cx),
        State::Waiting { .. }
        | State::Resuming { .. }
        | State::Answered
        | State::NotObserved { .. } => ignored(state, "nothing is being read", cx),
    }
}

fn received(
    state: State,
    id: Option<EventCursor>,
    retry: Option<Millis>,
    cx: &Context<'_>,
) -> Step {
    let State::Reading { mut memory, .. } = state else {
        return ignored(state, "nothing is being read", cx);
    };
    if let Some(id) = id {
        let cursor = stream::cursor(id);
        if cursor != memory.cursor {
            memory.fruitless = 0;
        }
        memory.cursor = cursor;
    }
    if let Some(retry) = retry {
        memory.retry = Some(stream::honoured(retry));
    }
    read_on(memory, cx)
}

fn answered(state: State, cx: &Context<'_>) -> Step {
    // The end of the POST stream follows by itself. A GET may stay open, and is not wanted: there is
    // one GET stream per session (ST-08).
    let actions = match &state {
        State::Reading { memory, .. } if memory.broke.is_none() => Vec::new(),
        State::Reading { .. } | State::Resuming { .. } => vec![Action::Close],
        State::Waiting { .. } => Vec::new(),
        State::Answered | State::NotObserved { .. } => {
            return ignored(state, "the stream is finished", cx);
        }
    };
    enter(State::Answered, actions, cx)
}

fn broken(state: State, how: Break, cx: &Context<'_>) -> Step {
    match state {
        State::Reading { memory, .. } => after_break(memory, how, Vec::new(), cx),
        State::Waiting { .. }
        | State::Resuming { .. }
        | State::Answered
        | State::NotObserved { .. } => ignored(state, "nothing is being read", cx),
    }
}

fn resumed(state: State, attempt: AttemptId, cx: &Context<'_>) -> Step {
    match under_way(state, attempt, cx) {
        // The cursor stays until a new id comes (ST-05).
        Ok(resume) => read_on(resume.memory, cx),
        Err(ignored) => *ignored,
    }
}

fn resume_refused(state: State, attempt: AttemptId, why: &str, cx: &Context<'_>) -> Step {
    match under_way(state, attempt, cx) {
        Ok(resume) => give_up(&resume.memory, why, Vec::new(), cx),
        Err(ignored) => *ignored,
    }
}

fn resume_failed(
    state: State,
    attempt: AttemptId,
    retry_after: Option<Millis>,
    cx: &Context<'_>,
) -> Step {
    match under_way(state, attempt, cx) {
        Ok(resume) => resume_later(resume, retry_after, Vec::new(), cx),
        Err(ignored) => *ignored,
    }
}

fn session_lost(state: State, cx: &Context<'_>) -> Step {
    let why = "its session was lost";
    match state {
        State::Reading { mut memory, .. } => {
            memory.cursor = None;
            read_on(memory, cx)
        }
        State::Waiting { memory, .. } => give_up(&memory, why, Vec::new(), cx),
        State::Resuming { memory, .. } => give_up(&memory, why, vec![Action::Close], cx),
        State::Answered | State::NotObserved { .. } => ignored(state, "the stream is finished", cx),
    }
}

fn due(state: State, cx: &Context<'_>) -> Step {
    if deadline(&state, cx.policy).is_none_or(|deadline| cx.now.mono < deadline.at) {
        return ignored(state, "nothing is due", cx);
    }
    match state {
        State::Reading { memory, .. } => {
            after_break(memory, Break::Silence, vec![Action::Close], cx)
        }
        State::Waiting {
            cursor, mut memory, ..
        } => {
            memory.fruitless = memory.fruitless.saturating_add(1);
            let resume = Action::Resume {
                attempt: cx.attempt,
                cursor: cursor.clone(),
            };
            let state = State::Resuming {
                attempt: cx.attempt,
                since: cx.now.mono,
                cursor,
                memory,
            };
            enter(state, vec![resume], cx)
        }
        State::Resuming { cursor, memory, .. } => {
            resume_later(Resume { cursor, memory }, None, vec![Action::Close], cx)
        }
        State::Answered | State::NotObserved { .. } => ignored(state, "the stream is finished", cx),
    }
}

/// Where to go on, and what is remembered.
struct Resume {
    cursor: EventCursor,
    memory: Memory,
}

/// The resume under way, if this attempt is it; else the step that ignores it.
fn under_way(state: State, attempt: AttemptId, cx: &Context<'_>) -> Result<Resume, Box<Step>> {
    match state {
        State::Resuming {
            attempt: present,
            cursor,
            memory,
            ..
        } if present == attempt => Ok(Resume { cursor, memory }),
        State::Reading { .. }
        | State::Waiting { .. }
        | State::Resuming { .. }
        | State::Answered
        | State::NotObserved { .. } => {
            Err(Box::new(ignored(state, "a resume that was given up", cx)))
        }
    }
}

fn after_break(mut memory: Memory, how: Break, actions: Vec<Action>, cx: &Context<'_>) -> Step {
    memory.broke = Some(how);
    match memory.cursor.clone() {
        Some(cursor) => resume_later(Resume { cursor, memory }, None, actions, cx),
        // Nothing to resume with: the caller learns it at once (ST-01).
        None => give_up(&memory, "", actions, cx),
    }
}

fn resume_later(
    resume: Resume,
    retry_after: Option<Millis>,
    actions: Vec<Action>,
    cx: &Context<'_>,
) -> Step {
    let Resume { cursor, memory } = resume;
    if memory.fruitless >= cx.policy.resume_attempts {
        let why = format!("{} attempts to resume brought nothing", memory.fruitless);
        return give_up(&memory, &why, actions, cx);
    }
    let failures = memory.fruitless.saturating_add(1);
    let wait = stream::pause(memory.retry, failures, cx.policy, cx.jitter);
    let wait = backoff::honour(wait, retry_after, cx.policy.first, cx.jitter);
    let state = State::Waiting {
        due: cx.now.mono + wait,
        cursor,
        memory,
    };
    enter(state, actions, cx)
}

fn give_up(memory: &Memory, why: &str, mut actions: Vec<Action>, cx: &Context<'_>) -> Step {
    let broke = memory.broke.map_or("", Break::evidence);
    let between = if broke.is_empty() || why.is_empty() {
        ""
    } else {
        "; "
    };
    let evidence = format!("{broke}{between}{why}");
    actions.push(Action::GiveUp {
        evidence: evidence.clone(),
    });
    enter(State::NotObserved { evidence }, actions, cx)
}

fn read_on(memory: Memory, cx: &Context<'_>) -> Step {
    let heard = cx.now.mono;
    enter(State::Reading { memory, heard }, Vec::new(), cx)
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
