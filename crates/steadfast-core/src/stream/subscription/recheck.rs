//! Lists whose changes the server was asked to announce and does not: they are asked for again while
//! somebody listens (PV-09).

use super::{Filter, State};
use crate::now::{Millis, Mono};
use crate::stream::Policy;

/// However short a list may be kept, it is not asked for more often than this.
const LEAST: Millis = Millis::secs(5);

/// The lists to ask for again. While the stream is being opened there are none: what was missed is made
/// up for once it is there.
#[must_use]
pub fn unannounced(state: &State) -> Filter {
    let missing = match state {
        State::Off(_)
        | State::Idle(_)
        | State::Waiting { .. }
        | State::Opening { before: None, .. } => Filter::default(),
        State::Open { .. }
        | State::Opening {
            before: Some(_), ..
        }
        | State::Resting { .. }
        | State::NotOffered(_) => state
            .answer()
            .map_or_else(Filter::default, |(asked, honoured)| {
                asked.without(&honoured)
            }),
    };
    Filter {
        // A resource is read anew by whoever wants to know.
        uris: Default::default(),
        ..missing
    }
}

/// When to ask again for a list that may be kept for `ttl`, as its server says; zero where it names no
/// time: then as seldom as for a stream that is not offered.
#[must_use]
pub fn ask_again_at(now: Mono, ttl: Millis, policy: &Policy) -> Mono {
    let wait = if ttl == Millis::ZERO {
        policy.recheck
    } else {
        ttl
    };
    now + wait.max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::super::{Held, Memory};
    use super::*;
    use crate::identity::AttemptId;

    fn memory() -> Memory {
        Memory {
            wanted: Filter::all_lists(),
            ..Memory::default()
        }
    }

    fn held() -> Held {
        Held {
            attempt: AttemptId(1),
            since: Mono(0),
            fruitful: false,
            asked: Filter {
                uris: ["a:b".to_owned()].into(),
                ..Filter::all_lists()
            },
            honoured: Filter {
                tools: true,
                ..Filter::default()
            },
        }
    }

    #[test]
    fn what_is_asked_for_and_not_honoured_is_asked_for_again() {
        let open = State::Open {
            held: held(),
            renew_at: None,
            memory: memory(),
        };
        assert_eq!(unannounced(&open).in_words(), "prompts, resources");
        let all = "tools, prompts, resources";
        assert_eq!(unannounced(&State::NotOffered(memory())).in_words(), all);
        let due = Mono(0);
        let resting = State::Resting {
            due,
            memory: memory(),
        };
        assert_eq!(unannounced(&resting).in_words(), all);
    }

    #[test]
    fn nothing_is_asked_for_again_while_the_stream_is_on_its_way() {
        let opening = State::Opening {
            attempt: AttemptId(2),
            since: Mono(0),
            asked: Filter::all_lists(),
            before: None,
            memory: memory(),
        };
        let waiting = State::Waiting {
            due: Mono(0),
            memory: memory(),
        };
        for state in [
            opening,
            waiting,
            State::Off(memory()),
            State::Idle(memory()),
        ] {
            assert!(unannounced(&state).is_empty(), "{state:?}");
        }
    }

    #[test]
    fn a_list_is_asked_for_when_it_is_stale_and_not_too_often() {
        let policy = Policy::default();
        for (ttl, wait) in [
            (Millis::secs(60), Millis::secs(60)),
            (Millis(1), LEAST),
            (Millis::ZERO, policy.recheck),
        ] {
            assert_eq!(ask_again_at(Mono(7), ttl, &policy), Mono(7) + wait);
        }
    }
}
