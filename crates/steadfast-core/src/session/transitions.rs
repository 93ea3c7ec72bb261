//! The transitions of a legacy session, one function per event.

use super::{Action, Context, Event, Fact, Policy, State, Step};
use crate::deadline::Deadline;
use crate::fault::{Fault, Kind};
use crate::identity::{Generation, SessionId};
use crate::now::Mono;

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::Opened { generation, id } => opened(state, generation, id, cx),
        Event::Refused { generation, rule } => refused(state, generation, rule, cx),
        Event::Closed {
            generation,
            reachable,
        } => closed(state, generation, reachable, cx),
    }
}

/// A session never wakes up by itself: its connection does, after the `retry_after` of
/// [`Action::Rest`].
#[must_use]
pub const fn deadline(state: &State, _policy: &Policy) -> Option<Deadline> {
    match state {
        State::None { .. }
        | State::Open { .. }
        | State::Rebuilding { .. }
        | State::Unstable { .. } => None,
    }
}

/// Folds one recorded fact: it carries the whole state that was entered.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

fn opened(state: State, generation: Generation, id: Option<SessionId>, cx: &Context<'_>) -> Step {
    if generation_of(&state).is_some_and(|present| generation <= present) {
        return ignored(state, "not a newer opening", cx);
    }
    let (old, lost) = match state {
        State::Open { id, lost, .. } => (id, lost),
        // The server does not know the old session any more: there is nothing to delete.
        State::None { lost } | State::Rebuilding { lost, .. } | State::Unstable { lost, .. } => {
            (None, lost)
        }
    };
    // The server answers, so the session that is replaced can be ended (OP-06). A server that gives
    // the same id again means the same session.
    let replaced = old.filter(|old| Some(old) != id.as_ref());
    let reason = match (&id, &replaced) {
        (None, _) => "opened without a session id",
        (Some(_), None) => "a session opened",
        (Some(_), Some(_)) => "a session opened in place of another",
    };
    let actions = replaced.into_iter().map(|id| Action::Delete { id });
    let state = State::Open {
        generation,
        id,
        lost: within_window(lost, cx),
    };
    enter(state, actions.collect(), reason, cx)
}

fn refused(state: State, generation: Generation, rule: &str, cx: &Context<'_>) -> Step {
    // Ten requests may be refused for one session, and one of them late (SE-04).
    if generation_of(&state) != Some(generation) {
        return ignored(state, "not the present session", cx);
    }
    let lost = match state {
        State::Open {
            id: Some(_), lost, ..
        } => lost,
        State::Open { id: None, .. } => {
            return ignored(state, "the server issued no session id", cx);
        }
        State::None { .. } | State::Rebuilding { .. } | State::Unstable { .. } => {
            return ignored(state, "this loss is known", cx);
        }
    };
    let mut lost = within_window(lost, cx);
    lost.push(cx.now.mono);
    let mendable = cx.policy.rebuilds as usize;
    if lost.len() <= mendable {
        let fault = Fault::new(Kind::SessionLost, format!("session refused ({rule})"));
        let state = State::Rebuilding { generation, lost };
        let rebuild = Action::Rebuild {
            lost: generation,
            fault,
        };
        return enter(state, vec![rebuild], format!("refused: {rule}"), cx);
    }
    // The oldest loss that still counts; those before it (a person may reload in spite of the rest)
    // leave the window sooner.
    let lost = lost.split_off(lost.len() - 1 - mendable);
    let oldest = lost.first().copied().unwrap_or(cx.now.mono);
    let until = oldest + cx.policy.window;
    let message = format!(
        "{} sessions refused within {} ms, the last one by {rule}",
        lost.len(),
        cx.policy.window.0
    );
    let fault = Fault::new(Kind::UnstableSessions, message).after(Some(until.since(cx.now.mono)));
    let state = State::Unstable {
        generation,
        until,
        lost,
    };
    let rest = Action::Rest {
        lost: generation,
        fault,
    };
    enter(state, vec![rest], format!("refused too often: {rule}"), cx)
}

fn closed(state: State, generation: Generation, reachable: bool, cx: &Context<'_>) -> Step {
    if generation_of(&state) != Some(generation) {
        return ignored(state, "not the present session", cx);
    }
    let (id, lost) = match state {
        State::Open { id, lost, .. } => (id, lost),
        State::None { lost } | State::Rebuilding { lost, .. } | State::Unstable { lost, .. } => {
            (None, lost)
        }
    };
    let delete = id.filter(|_| reachable).map(|id| Action::Delete { id });
    let state = State::None {
        lost: within_window(lost, cx),
    };
    enter(state, delete.into_iter().collect(), "closed", cx)
}

const fn generation_of(state: &State) -> Option<Generation> {
    match state {
        State::None { .. } => None,
        State::Open { generation, .. }
        | State::Rebuilding { generation, .. }
        | State::Unstable { generation, .. } => Some(*generation),
    }
}

fn within_window(mut lost: Vec<Mono>, cx: &Context<'_>) -> Vec<Mono> {
    lost.retain(|at| cx.now.mono.since(*at) < cx.policy.window);
    lost
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
