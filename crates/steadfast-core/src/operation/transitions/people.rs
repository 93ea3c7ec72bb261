//! What a person asks for, and decides.

use super::{enter, ignored, outcomes};
use crate::operation::{Action, Context, Decider, Evidence, State, Step, Verdict};

/// Looks it up now, whatever the schedule says.
pub(super) fn reconcile(state: State, name: String, cx: &Context<'_>) -> Step {
    if cx.contract.lookup.is_none() && state.trail().task.is_none() {
        return ignored(state, "there is no lookup contract");
    }
    let trail = match state {
        State::Held { trail, .. }
        | State::Reconciling {
            trail,
            asking: false,
            ..
        } => trail,
        State::Reconciling { .. } => return ignored(state, "the provider is being asked"),
        State::Intended { .. } | State::Sent { .. } | State::NotObserved { .. } => {
            return ignored(state, "it is still under way");
        }
        State::Observed { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Abandoned { .. } => return ignored(state, "it is settled"),
    };
    let mut step = outcomes::ask(trail, 0, cx);
    if let Some(fact) = step.facts.first_mut() {
        fact.evidence = Evidence::Asked { name };
    }
    step
}

/// A person decides. What is under way is not theirs to decide; what was observed cannot be decided otherwise.
pub(super) fn settle(
    state: State,
    verdict: Verdict,
    name: String,
    note: Option<String>,
    cx: &Context<'_>,
) -> Step {
    let trail = match state {
        State::Held { trail, .. } | State::Reconciling { trail, .. } => trail,
        // Who closed it, or said what became of it, may have learned better.
        State::Abandoned { trail, .. }
        | State::Confirmed {
            trail,
            by: Decider::Person { .. },
        } => trail,
        State::Intended { .. } | State::Sent { .. } | State::NotObserved { .. } => {
            return ignored(state, "it is still under way");
        }
        State::Observed { .. } | State::Confirmed { .. } | State::NoEffect { .. } => {
            return ignored(state, "it is settled");
        }
    };
    let by = Decider::Person {
        name: name.clone(),
        note: note.clone(),
    };
    let evidence = Evidence::Settled {
        verdict,
        name,
        note,
    };
    let mut actions = vec![Action::Settled];
    let (state, decision) = match verdict {
        Verdict::Confirmed => (
            State::Confirmed { trail, by },
            "a person says that it had its effect",
        ),
        Verdict::NoEffect { repeat: true } => {
            actions.push(Action::Repeat);
            (
                State::NoEffect {
                    trail,
                    by,
                    repeat: true,
                },
                "a person says that it had no effect, and wants it sent again",
            )
        }
        Verdict::NoEffect { repeat: false } => (
            State::NoEffect {
                trail,
                by,
                repeat: false,
            },
            "a person says that it had no effect",
        ),
        Verdict::Abandoned => (
            State::Abandoned { trail, by },
            "a person closed it without knowing its outcome",
        ),
    };
    enter(state, evidence, actions, decision, cx)
}
