//! May the reader of a stream still see all that it is owed?
//!
//! Replay seems to be a matter of transport only: reconnect, name the last event, get the rest. With tokens for
//! single tools it is one of authorization as well, because each event carries what a tool said. The rule is all
//! or nothing: either the token covers what every event still owed requires, or the replay is refused and the
//! missing resources are named. Nothing is left out in silence, and a refusal consumes nothing.

mod access;
mod resource;

pub use access::Access;
pub use resource::{Audiences, Reach, Resource};

use std::collections::BTreeSet;
use std::ops::Range;

/// What some events of a stream require of their reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What the reader's credential must cover.
    pub resource: Resource,
    /// Which of the events are the last that require it.
    pub until: Until,
}

/// How long a stream requires something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The event with this number is the last.
    Event(u64),
    /// Events that are still to come require it too.
    Open,
}

/// What a reader needs that has seen the events up to `after`.
pub fn owed(requirements: &[Requirement], after: u64) -> impl Iterator<Item = &Resource> {
    let still = requirements.iter().filter(move |it| match it.until {
        Until::Event(last) => last > after,
        Until::Open => true,
    });
    still.map(|it| &it.resource)
}

/// Whether everything may be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// All of it.
    Full,
    /// Nothing of it.
    Refused {
        /// What the credential would have to cover as well, in the order of their identifiers.
        missing: Vec<Resource>,
    },
}

/// Decides on a replay, from what each event that is still owed requires and how far the reader's credential
/// reaches.
pub fn plan_replay<'a>(owed: impl IntoIterator<Item = &'a Resource>, reach: &Reach) -> Plan {
    let missing: BTreeSet<_> = owed.into_iter().filter(|it| !reach.covers(it)).collect();
    if missing.is_empty() {
        return Plan::Full;
    }
    Plan::Refused {
        missing: missing.into_iter().cloned().collect(),
    }
}

/// Why a stream cannot be gone on with after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Events after it are no longer kept.
    Forgotten,
    /// No such event was ever sent.
    Unsent,
}

/// The number of the event with which a reader goes on that has seen the events up to `after`, on a stream of which
/// the events in `kept` are there. Number 0 is what primes a stream.
pub fn next_after(after: u64, kept: &Range<u64>) -> Result<u64, Gap> {
    match after.checked_add(1) {
        Some(next) if next > kept.end => Err(Gap::Unsent),
        Some(next) if next >= kept.start => Ok(next),
        Some(_) => Err(Gap::Forgotten),
        None => Err(Gap::Unsent),
    }
}

#[cfg(test)]
mod tests;
