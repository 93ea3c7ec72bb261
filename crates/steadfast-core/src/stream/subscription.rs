//! The keeper's `subscriptions/listen` toward a modern server: one stream per connection that brings
//! every change notification that anybody behind the keeper wants (2026-07-28
//! basic/patterns/subscriptions). Optional like the GET stream of the legacy era, and supervised like
//! it: losing it never takes the connection down, and it is asked for until it holds (PV-09).
//!
//! An open stream may be silent for days where the server sends no keep-alive comments: the health
//! check of its connection watches the server.

mod filter;
pub mod message;
mod recheck;
mod transitions;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::{Budget, Policy};
use crate::identity::AttemptId;
use crate::now::{Jitter, Millis, Mono, Now, Wall};

pub use filter::{Filter, is_within};
pub use recheck::{ask_again_at, unannounced};
pub use transitions::{deadline, replay, step};

/// How long changes of what is wanted are collected before the server is asked anew.
pub const DEBOUNCE: Millis = Millis(50);

/// The state of one subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// No modern connection is open.
    Off(Memory),
    /// There is nothing to ask for.
    Idle(Memory),
    /// Asked for, not yet acknowledged.
    Opening {
        /// Fences the outcome.
        attempt: AttemptId,
        /// Since when.
        since: Mono,
        /// What is asked for.
        asked: Filter,
        /// The stream that it replaces: open until the new one is acknowledged, so that nothing is lost.
        before: Option<Held>,
        /// What is remembered.
        memory: Memory,
    },
    /// Acknowledged.
    Open {
        /// The stream.
        held: Held,
        /// When to ask anew, where something else is wanted by now.
        renew_at: Option<Mono>,
        /// What is remembered.
        memory: Memory,
    },
    /// Dropped, or it could not be opened: asked for again at `due`.
    Waiting {
        /// When.
        due: Mono,
        /// What is remembered.
        memory: Memory,
    },
    /// The server ended it, refused it for a reason that may pass, or loses it too often: asked for
    /// again at `due`, much later.
    Resting {
        /// When.
        due: Mono,
        /// What is remembered.
        memory: Memory,
    },
    /// The server does not know the method: not asked again before the next opening.
    NotOffered(Memory),
}

/// An acknowledged stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The attempt that opened it.
    pub attempt: AttemptId,
    /// Since when.
    pub since: Mono,
    /// Whether it brought a notification.
    pub fruitful: bool,
    /// What was asked for.
    pub asked: Filter,
    /// What the server agreed to send of it.
    pub honoured: Filter,
}

/// What survives from one opening to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What is wanted now.
    pub wanted: Filter,
    /// Streams in a row that brought nothing and did not last.
    pub fruitless: u32,
    /// Failures to open in a row.
    pub failures: u32,
    /// How often it was asked for.
    pub budget: Budget,
}

/// What can happen to a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A modern connection opened.
    Connected {
        /// What is wanted of it.
        wanted: Filter,
    },
    /// The connection is gone.
    Disconnected,
    /// Something else is wanted.
    Wanted(Filter),
    /// The server acknowledged.
    Acknowledged {
        /// Which.
        attempt: AttemptId,
        /// What it agreed to send.
        honoured: Filter,
    },
    /// The server refused.
    Refused {
        /// Which.
        attempt: AttemptId,
        /// Whether it does not know the method.
        unknown: bool,
    },
    /// An attempt failed for a fault that time mends.
    Failed {
        /// Which.
        attempt: AttemptId,
        /// What the server asked for.
        retry_after: Option<Millis>,
    },
    /// A notification came on the stream.
    Received {
        /// Which.
        attempt: AttemptId,
    },
    /// The stream ended without the response.
    Broken {
        /// Which.
        attempt: AttemptId,
    },
    /// The server ended it with the response ("Graceful Closure").
    Ended {
        /// Which.
        attempt: AttemptId,
    },
    /// The deadline has come.
    Due,
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send `subscriptions/listen` under a new RPC id.
    Open {
        /// Fences the outcome.
        attempt: AttemptId,
        /// What to ask for.
        filter: Filter,
    },
    /// Stop reading and close.
    Close {
        /// Which.
        attempt: AttemptId,
    },
    /// Changes may have been missed while no stream was open: fetch the lists again, and tell agents.
    Relist,
    /// Ask the connection to check the server's health.
    Doubt,
}

/// What became true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// When, as people count.
    pub at: Wall,
    /// The state that was entered, whole.
    pub state: State,
}

/// What a step may look at besides state and event.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The clocks.
    pub now: Now,
    /// A fresh random number.
    pub jitter: Jitter,
    /// A fresh number for an attempt, should one begin.
    pub attempt: AttemptId,
    /// The operator's limits.
    pub policy: &'a Policy,
}

impl State {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off(_) => "off",
            Self::Idle(_) => "idle",
            Self::Opening { .. } => "opening",
            Self::Open { .. } => "open",
            Self::Waiting { .. } => "waiting",
            Self::Resting { .. } => "resting",
            Self::NotOffered(_) => "not_offered",
        }
    }

    /// What is remembered.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        match self {
            Self::Off(memory)
            | Self::Idle(memory)
            | Self::Opening { memory, .. }
            | Self::Open { memory, .. }
            | Self::Waiting { memory, .. }
            | Self::Resting { memory, .. }
            | Self::NotOffered(memory) => memory,
        }
    }

    /// What the server was asked for, and what it agreed to; `None` while its answer is awaited.
    #[must_use]
    pub fn answer(&self) -> Option<(Filter, Filter)> {
        match self {
            Self::Open { held, .. }
            | Self::Opening {
                before: Some(held), ..
            } => Some((held.asked.clone(), held.honoured.clone())),
            Self::Idle(memory) | Self::Resting { memory, .. } | Self::NotOffered(memory) => {
                Some((memory.wanted.clone(), Filter::default()))
            }
            Self::Off(_) | Self::Opening { before: None, .. } | Self::Waiting { .. } => None,
        }
    }
}

/// How long nothing at all may come on an open stream. A server that keeps it alive with comments and
/// then falls silent is gone; from one that never sent any, silence says nothing.
#[must_use]
pub fn silence_limit(kept_alive: bool, policy: &Policy) -> Option<Millis> {
    kept_alive.then_some(policy.silence)
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;
