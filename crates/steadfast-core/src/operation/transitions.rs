//! The transitions of an operation: what each event does in each state.

mod outcomes;
mod people;

use super::{Action, Context, Decider, Event, Evidence, Fact, Finding, Said, State, Step, Trail};
use crate::deadline::{Deadline, Reason};
use crate::identity::RpcId;
use crate::now::{Millis, Now, Wall};

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::Leave { rpc_id } => leave(state, &rpc_id, cx),
        Event::Refused { bytes_sent, proof } => outcomes::refused(state, bytes_sent, proof, cx),
        Event::GivenUp { why } => given_up(state, why, cx),
        Event::Lost {
            bytes_sent,
            evidence,
            retry_after,
        } => outcomes::lost(state, bytes_sent, evidence, retry_after, cx),
        Event::TaskStarted { task } => task_started(state, task, cx),
        Event::Answered { said, awaited } => outcomes::answered(state, said, awaited, cx),
        Event::AgentLeft => agent_left(state, cx),
        Event::Due => due(state, cx),
        Event::LookedUp { tries, finding } => outcomes::looked_up(state, tries, finding, cx),
        Event::Reconcile { name } => people::reconcile(state, name, cx),
        Event::Settle {
            verdict,
            name,
            note,
        } => people::settle(state, verdict, name, note, cx),
        Event::Interrupted => outcomes::interrupted(state, cx),
    }
}

/// When to feed [`Event::Due`], and why.
#[must_use]
pub const fn deadline(state: &State) -> Option<Deadline> {
    match state {
        State::NotObserved { due, .. } => Some(Deadline {
            at: *due,
            reason: Reason::RepeatCall,
        }),
        State::Reconciling { due, asking, .. } => Some(Deadline {
            at: *due,
            reason: if *asking {
                Reason::LookupLimit
            } else {
                Reason::LookUp
            },
        }),
        State::Intended { .. }
        | State::Sent { .. }
        | State::Observed { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => None,
    }
}

/// Folds one recorded fact: it carries the whole state that was entered.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

/// A state as another process, or this one before a restart, wrote it down. Its waits were counted on a clock that is
/// not ours; `wake_at` says when they end.
#[must_use]
pub fn restore(mut state: State, wake_at: Option<Wall>, now: Now) -> State {
    let wait = wake_at.map_or(Millis::ZERO, |at| at.until(now.wall));
    match &mut state {
        State::NotObserved { due, .. } | State::Reconciling { due, .. } => *due = now.mono + wait,
        State::Intended { .. }
        | State::Sent { .. }
        | State::Observed { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => {}
    }
    state
}

/// When a state must be looked at again, on the clock that everybody shares.
#[must_use]
pub fn wake_at(state: &State, now: Now) -> Option<Wall> {
    deadline(state).map(|deadline| deadline.on_wall(now))
}

fn leave(state: State, rpc_id: &RpcId, cx: &Context<'_>) -> Step {
    let decision = match &state {
        State::Intended { trail } if trail.attempts == 0 => "it is on record, and leaves",
        State::Intended { .. } => "nothing was executed so far, and it leaves again",
        State::Observed {
            said: Said::InputRequired,
            ..
        } => "the next leg of the same call leaves",
        State::NotObserved { .. } => {
            "it leaves again: the duplicate-prevention contract covers a repeat"
        }
        State::NoEffect { repeat: true, .. } => "it leaves again: a person wants it",
        State::Sent { .. }
        | State::Observed { .. }
        | State::Reconciling { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => return ignored(state, "it must not leave"),
    };
    let mut trail = state.trail().clone();
    trail.attempts += 1;
    trail.first_sent = trail.first_sent.or(Some(cx.now.wall));
    trail.last_sent = Some(cx.now.wall);
    trail.bytes_sent = 0;
    let attempt = trail.attempts;
    let evidence = Evidence::Leaving {
        attempt,
        rpc_id: rpc_id.to_json(),
    };
    let actions = vec![Action::Send { attempt }];
    enter(State::Sent { trail }, evidence, actions, decision, cx)
}

/// Its driver does not try again, and nothing that left was executed.
fn given_up(state: State, why: String, cx: &Context<'_>) -> Step {
    match state {
        State::Intended { trail } => {
            let state = State::NoEffect {
                trail,
                by: Decider::Wire,
                repeat: false,
            };
            let decision = "nothing that left was executed";
            let evidence = Evidence::GivenUp { why };
            enter(state, evidence, vec![Action::Settled], decision, cx)
        }
        State::NotObserved { trail, .. } => {
            let evidence = Evidence::GivenUp { why };
            outcomes::find_out(trail, evidence, None, cx)
        }
        State::NoEffect {
            trail,
            by,
            repeat: true,
        } => {
            let state = State::NoEffect {
                trail,
                by,
                repeat: false,
            };
            let evidence = Evidence::GivenUp { why };
            enter(state, evidence, Vec::new(), "it was not sent again", cx)
        }
        State::Sent { .. } => ignored(state, "what is under way ends with an outcome"),
        State::Observed { .. }
        | State::Reconciling { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => ignored(state, "nothing is being sent"),
    }
}

/// The server made a task of it: its handle is a way to find out.
fn task_started(state: State, task: String, cx: &Context<'_>) -> Step {
    match state {
        State::Sent { mut trail } => {
            trail.task = Some(task.clone());
            let evidence = Evidence::TaskStarted { task };
            let decision = "the server made a task of it, which can be followed";
            enter(State::Sent { trail }, evidence, Vec::new(), decision, cx)
        }
        State::Intended { .. }
        | State::Observed { .. }
        | State::NotObserved { .. }
        | State::Reconciling { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => ignored(state, "nothing is under way"),
    }
}

/// An agent that goes away does not end a write: the keeper reads on, to learn its outcome.
fn agent_left(mut state: State, cx: &Context<'_>) -> Step {
    let trail = match &mut state {
        State::Intended { trail } | State::Sent { trail } | State::NotObserved { trail, .. } => {
            trail
        }
        State::Observed { .. }
        | State::Reconciling { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => return ignored(state, "nobody waits for it any more"),
    };
    if trail.agent_left {
        return ignored(state, "nobody waits for it any more");
    }
    trail.agent_left = true;
    let decision = "the answer is read all the same";
    enter(state, Evidence::AgentLeft, Vec::new(), decision, cx)
}

fn due(state: State, cx: &Context<'_>) -> Step {
    let has_come = deadline(&state).is_some_and(|due| due.at <= cx.now.mono);
    if !has_come {
        return ignored(state, "nothing is due");
    }
    match state {
        State::NotObserved { trail, .. } => {
            // Its driver was to send it again, and did not.
            let why = "it was not sent again in time".to_owned();
            outcomes::find_out(trail, Evidence::GivenUp { why }, None, cx)
        }
        State::Reconciling {
            trail,
            tries,
            asking: false,
            ..
        } => outcomes::ask(trail, tries, cx),
        State::Reconciling { tries, .. } => {
            let why = "the lookup took too long".to_owned();
            let finding = Finding::Unclear { why };
            outcomes::looked_up(state, tries, finding, cx)
        }
        State::Intended { .. }
        | State::Sent { .. }
        | State::Observed { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => ignored(state, "nothing is due"),
    }
}

fn enter(
    state: State,
    evidence: Evidence,
    actions: Vec<Action>,
    decision: impl Into<String>,
    cx: &Context<'_>,
) -> Step {
    let fact = Fact {
        at: cx.now.wall,
        evidence,
        state: state.clone(),
        decision: decision.into(),
    };
    let deadline = deadline(&state);
    Step::entered(state, fact, actions, deadline)
}

fn ignored(state: State, why: &'static str) -> Step {
    let deadline = deadline(&state);
    Step::ignored(state, why, deadline)
}

/// What the trail says once the attempt under way may have been executed.
fn unanswered(mut trail: Trail, bytes_sent: u64) -> Trail {
    trail.bytes_sent = bytes_sent;
    trail.unknown += 1;
    trail
}
