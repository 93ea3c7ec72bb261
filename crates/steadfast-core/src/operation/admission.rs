//! Whether a consequential call is a further call, or a repeat of one that an agent made before
//! (interface, "When a result was not observed"). What is held back here is held back here: that says nothing
//! about what the provider does.

use crate::identity::OperationId;
use crate::now::{Millis, Wall};
use crate::operation::State;

/// A call that an agent makes.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Whether the agent named its intention (`dev.steadfast/operationKey`).
    pub has_key: bool,
    /// Whether the agent says that it means a further call (`dev.steadfast/repeat` = `intended`).
    pub intended: bool,
    /// Whether the operator switched holding off for this tool (`repeat = "send"`).
    pub send_always: bool,
    /// When.
    pub at: Wall,
    /// How long an identical call is in flight before another one is suspected to be its repeat.
    pub suspicion: Millis,
}

/// An operation on record that may be the same one: of the same agent at the same server, and with the same
/// key or, where the call has none, the same tool and arguments.
#[derive(Clone, Debug)]
pub struct Earlier<'a> {
    /// Its id.
    pub id: &'a OperationId,
    /// How it stands.
    pub state: &'a State,
    /// Whether it is of the same tool, with the same arguments.
    pub same_call: bool,
    /// Whether it was made under the same key.
    pub same_key: bool,
    /// Whether there is something to tell of its outcome that its agent was never told.
    pub undelivered: bool,
}

/// What becomes of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is a further call: record it and send it.
    Further,
    /// It asks for what is on record: answer from there, and send nothing.
    Answer {
        /// Which operation.
        of: OperationId,
    },
    /// It may be a repeat of this one, which is unresolved or in flight: held, and nothing is sent.
    Held {
        /// Which operation.
        duplicate_of: OperationId,
    },
    /// Its key names another tool or other arguments.
    KeyTaken {
        /// Which operation has the key.
        by: OperationId,
    },
}

/// Decides. `earlier`: the newest first.
#[must_use]
pub fn admit(asked: &Asked, earlier: &[Earlier<'_>]) -> Admission {
    if asked.has_key {
        return by_key(earlier);
    }
    if asked.intended || asked.send_always {
        return Admission::Further;
    }
    let mut same = earlier.iter().filter(|one| one.same_call);
    // What was found out goes first: it spares the agent to ask again.
    let known = same
        .clone()
        .find(|one| one.undelivered && !may_be_under_way(one.state));
    if let Some(one) = known {
        return Admission::Answer { of: one.id.clone() };
    }
    same.find(|one| is_suspect(asked, one.state))
        .map_or(Admission::Further, |one| Admission::Held {
            duplicate_of: one.id.clone(),
        })
}

/// The same key is the same operation, for as long as it is on record.
fn by_key(earlier: &[Earlier<'_>]) -> Admission {
    let Some(first) = earlier.iter().find(|one| one.same_key) else {
        return Admission::Further;
    };
    let id = first.id.clone();
    if !first.same_call {
        return Admission::KeyTaken { by: id };
    }
    match first.state {
        // It is proven that nothing happened: the intention is still to be carried out.
        State::NoEffect { .. } => Admission::Further,
        State::Observed { .. } | State::Confirmed { .. } | State::Abandoned { .. } => {
            Admission::Answer { of: id }
        }
        State::Intended { .. }
        | State::Sent { .. }
        | State::NotObserved { .. }
        | State::Reconciling { .. }
        | State::Held { .. } => Admission::Held { duplicate_of: id },
    }
}

const fn may_be_under_way(state: &State) -> bool {
    state.is_in_flight() || state.is_unresolved()
}

/// Two identical calls made together are two calls; one made while an earlier one is unresolved, or is in flight
/// with nobody waiting for it, is likely to be its repeat (WR-06).
fn is_suspect(asked: &Asked, state: &State) -> bool {
    if state.is_unresolved() {
        return true;
    }
    if !state.is_in_flight() {
        return false;
    }
    let trail = state.trail();
    trail.agent_left
        || trail.first_sent.is_some_and(|sent| {
            let elapsed = asked.at.0.saturating_sub(sent.0);
            u64::try_from(elapsed).is_ok_and(|elapsed| elapsed > asked.suspicion.0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Decider, Said, Trail};

    const ASKED: Asked = Asked {
        has_key: false,
        intended: false,
        send_always: false,
        at: Wall(20_000),
        suspicion: Millis::secs(10),
    };

    fn id(text: &str) -> OperationId {
        OperationId::from(text)
    }

    fn sent(at: i64, agent_left: bool) -> State {
        State::Sent {
            trail: Trail {
                attempts: 1,
                first_sent: Some(Wall(at)),
                agent_left,
                ..Trail::default()
            },
        }
    }

    fn observed() -> State {
        State::Observed {
            trail: Trail::default(),
            said: Said::Result,
            late: true,
        }
    }

    fn held() -> State {
        State::Held {
            trail: Trail::default(),
            why: "no contract".into(),
        }
    }

    fn no_effect() -> State {
        State::NoEffect {
            trail: Trail::default(),
            by: Decider::Wire,
            repeat: false,
        }
    }

    /// What is said of one earlier operation with the id `a`.
    fn alone(asked: Asked, state: &State, undelivered: bool) -> Admission {
        let id = id("a");
        let earlier = Earlier {
            id: &id,
            state,
            same_call: true,
            same_key: asked.has_key,
            undelivered,
        };
        admit(&asked, &[earlier])
    }

    fn duplicate() -> Admission {
        Admission::Held {
            duplicate_of: id("a"),
        }
    }

    fn answered() -> Admission {
        Admission::Answer { of: id("a") }
    }

    #[test]
    fn the_first_call_is_sent() {
        assert_eq!(admit(&ASKED, &[]), Admission::Further);
    }

    #[test]
    fn identical_calls_made_together_are_two_calls() {
        assert_eq!(
            alone(ASKED, &sent(19_000, false), false),
            Admission::Further
        );
        assert_eq!(alone(ASKED, &State::intended(), false), Admission::Further);
    }

    #[test]
    fn one_in_flight_beyond_suspicion_or_without_its_agent_holds_the_next() {
        assert_eq!(alone(ASKED, &sent(9_000, false), false), duplicate());
        assert_eq!(alone(ASKED, &sent(19_999, true), false), duplicate());
    }

    #[test]
    fn an_unresolved_one_holds_the_next_until_the_agent_insists() {
        assert_eq!(alone(ASKED, &held(), false), duplicate());
        let intended = Asked {
            intended: true,
            ..ASKED
        };
        assert_eq!(alone(intended, &held(), false), Admission::Further);
        let switched_off = Asked {
            send_always: true,
            ..ASKED
        };
        assert_eq!(alone(switched_off, &held(), false), Admission::Further);
    }

    #[test]
    fn a_late_result_is_given_once() {
        assert_eq!(alone(ASKED, &observed(), true), answered());
        assert_eq!(alone(ASKED, &observed(), false), Admission::Further);
    }

    #[test]
    fn what_had_no_effect_may_be_called_again() {
        assert_eq!(alone(ASKED, &no_effect(), false), Admission::Further);
    }

    #[test]
    fn a_key_names_one_operation_for_good() {
        let keyed = Asked {
            has_key: true,
            intended: true,
            ..ASKED
        };
        assert_eq!(alone(keyed, &observed(), false), answered());
        assert_eq!(alone(keyed, &held(), false), duplicate());
        assert_eq!(alone(keyed, &sent(19_999, false), false), duplicate());
        assert_eq!(alone(keyed, &no_effect(), false), Admission::Further);
        let id = id("a");
        let state = observed();
        let other = Earlier {
            id: &id,
            state: &state,
            same_call: false,
            same_key: true,
            undelivered: false,
        };
        assert_eq!(
            admit(&keyed, &[other]),
            Admission::KeyTaken { by: id.clone() }
        );
    }

    #[test]
    fn a_call_with_a_new_key_is_a_further_call() {
        let keyed = Asked {
            has_key: true,
            ..ASKED
        };
        let id = id("a");
        let state = held();
        let other = Earlier {
            id: &id,
            state: &state,
            same_call: true,
            same_key: false,
            undelivered: false,
        };
        assert_eq!(admit(&keyed, &[other]), Admission::Further);
    }
}
