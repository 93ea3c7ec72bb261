//! What a machine returns for one event.

use crate::deadline::Deadline;

/// The outcome of feeding one event to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<State, Fact, Action> {
    /// The new state; the old one where the event changed nothing.
    pub state: State,
    /// What became true. Folding all facts with `replay` gives `state`.
    pub facts: Vec<Fact>,
    /// What must happen outside. Their outcomes come back as events.
    pub actions: Vec<Action>,
    /// When to feed the due event, and why. `None` only where a person must act or nothing is wanted.
    pub deadline: Option<Deadline>,
    /// Whether the event was used.
    pub outcome: Outcome,
}

impl<State, Fact, Action> Step<State, Fact, Action> {
    /// The event was used: `fact` says which state was entered.
    pub(crate) fn entered(
        state: State,
        fact: Fact,
        actions: Vec<Action>,
        deadline: Option<Deadline>,
    ) -> Self {
        Self {
            state,
            facts: vec![fact],
            actions,
            deadline,
            outcome: Outcome::Used,
        }
    }

    /// The event changed nothing.
    pub(crate) const fn ignored(
        state: State,
        why: &'static str,
        deadline: Option<Deadline>,
    ) -> Self {
        Self {
            state,
            facts: Vec::new(),
            actions: Vec::new(),
            deadline,
            outcome: Outcome::Ignored { why },
        }
    }
}

/// Whether an event was used. Nothing is dropped without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The event was used.
    Used,
    /// The event was legal and changed nothing: a stale attempt, an early wake-up, a repeated wish.
    Ignored {
        /// One clause, for the log.
        why: &'static str,
    },
    /// The driver fed an event that cannot happen in this state. Our bug; the state is kept.
    Violation {
        /// One clause, for the log.
        why: &'static str,
    },
}
