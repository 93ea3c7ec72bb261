//! The legacy session (2025-03-26 to 2025-11-25): which id is live, whether a refusal is about it,
//! and whether a new one may be opened now. A late refusal of an older session changes nothing
//! (architecture, connections 8; SE-04).
//!
//! | state | what it means |
//! | --- | --- |
//! | `none` | nothing is open, or the server speaks the modern era |
//! | `open` | a session is live; `id` is `None` where the server issued none (SE-07) |
//! | `rebuilding` | the server refused the session; a new one is being opened |
//! | `unstable` | sessions were lost too often; waiting before the next one |

mod transitions;

#[cfg(test)]
mod tests;

pub use transitions::{deadline, replay, step};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::identity::{Generation, SessionId};
use crate::now::{Millis, Mono, Now, Wall};

/// The state of one legacy session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Nothing is open, or the server has no sessions.
    None {
        /// When sessions were lost, oldest first, within the window.
        lost: Vec<Mono>,
    },
    /// A session is live.
    Open {
        /// The opening that made it.
        generation: Generation,
        /// Its id; `None` where the server issued none.
        id: Option<SessionId>,
        /// When sessions were lost, oldest first, within the window.
        lost: Vec<Mono>,
    },
    /// The server refused the session of `generation`; its successor is being opened.
    Rebuilding {
        /// The opening whose session was refused.
        generation: Generation,
        /// When sessions were lost, oldest first, within the window.
        lost: Vec<Mono>,
    },
    /// Lost too often: no new session before `until`.
    Unstable {
        /// The opening whose session was refused last.
        generation: Generation,
        /// When the oldest loss leaves the window.
        until: Mono,
        /// When sessions were lost, oldest first, within the window.
        lost: Vec<Mono>,
    },
}

/// What can happen to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection opened (`id: None`: the server issued no session id, or is modern).
    Opened {
        /// The opening.
        generation: Generation,
        /// The session id of the server.
        id: Option<SessionId>,
    },
    /// A request that carried the session of `generation` was refused as "unknown session".
    Refused {
        /// Whose session it carried.
        generation: Generation,
        /// The rule of [`crate::quirks`] that recognised it.
        rule: &'static str,
    },
    /// The connection is closed or given up, and its session with it.
    Closed {
        /// Which opening.
        generation: Generation,
        /// Whether the server can still be told (DELETE).
        reachable: bool,
    },
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a new session now: feed the connection `Lost` with this fault.
    Rebuild {
        /// Whose session was refused.
        lost: Generation,
        /// `session_lost`.
        fault: Fault,
    },
    /// Too many losses: feed the connection `Lost` with this fault, whose `retry_after` is the wait.
    Rest {
        /// Whose session was refused.
        lost: Generation,
        /// `unstable_sessions`.
        fault: Fault,
    },
    /// Tell the server that the session ends (DELETE), best effort.
    Delete {
        /// The session.
        id: SessionId,
    },
}

/// What became true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// When, as people count.
    pub at: Wall,
    /// The state that was entered, whole.
    pub state: State,
    /// One clause: why, with the name of the rule that recognised a refusal.
    pub reason: String,
}

/// The limits that an operator can set (`[retry]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many losses within `window` are mended at once.
    pub rebuilds: u32,
    /// The window.
    pub window: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            rebuilds: 5,
            window: Millis::mins(1),
        }
    }
}

/// What a step may look at besides state and event.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The clocks.
    pub now: Now,
    /// The limits.
    pub policy: &'a Policy,
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;

impl State {
    /// As diagrams and logs write it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None { .. } => "none",
            Self::Open { .. } => "open",
            Self::Rebuilding { .. } => "rebuilding",
            Self::Unstable { .. } => "unstable",
        }
    }
}
