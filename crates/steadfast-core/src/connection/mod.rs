//! One connection: an agent's link to one server. Decides when to open, when to wait, and when only
//! a person can help. How a connection is opened (which era, which handshake) is [`handshake`].
//!
//! | state | what it means | wakes up for |
//! | --- | --- | --- |
//! | `disabled` | switched off | nothing |
//! | `misconfigured` | the configuration cannot work | nothing: a person must correct it |
//! | `connecting` | an attempt is under way | the limit of the attempt |
//! | `connected` | open; requests may go out | a health check, where nothing was heard |
//! | `retrying` | the last attempt failed for a fault that time mends | the next attempt |
//! | `awaiting_sign_in` | the server wants a credential that only a person can give | nothing |
//!
//! The table of transitions is drawn from the tests: `docs/machines/connection.md`.

pub mod handshake;
mod transitions;

#[cfg(test)]
mod tests;

pub use transitions::{deadline, replay, step};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::gate::Claim;
use crate::identity::{AttemptId, Generation};
use crate::now::{Jitter, Millis, Mono, Now};

/// The state of one connection. Holds only what is true in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Switched off by its operator, or not yet started.
    Disabled,
    /// The configuration cannot work.
    Misconfigured {
        /// What is wrong with it.
        fault: Fault,
    },
    /// An attempt is under way.
    Connecting {
        /// Fences the outcome.
        attempt: AttemptId,
        /// How many attempts failed in a row before this one.
        tries: u32,
        /// When it began.
        since: Mono,
        /// Why it is opened again; `None` for a first opening.
        fault: Option<Fault>,
    },
    /// Open.
    Connected {
        /// Which opening this is.
        generation: Generation,
        /// Since when.
        since: Mono,
        /// Attempts that had failed in a row before. Forgiven only once the connection has been
        /// stable, so that a server that accepts and drops is not called in a hot loop (OP-03).
        tries: u32,
        /// When to ask whether the server still answers; `None` where health checks are off.
        health_due: Option<Mono>,
        /// When it was last asked, so that many doubts make one question.
        asked: Option<Mono>,
    },
    /// Waiting for the next attempt.
    Retrying {
        /// The last fault.
        fault: Fault,
        /// Attempts that failed in a row.
        tries: u32,
        /// When the next attempt is due.
        due: Mono,
        /// Whether it is so late because the server is being connected to too often (OP-03).
        held: bool,
    },
    /// Only a person can help.
    AwaitingSignIn {
        /// What the server said.
        fault: Fault,
    },
}

/// What can happen to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is wanted, and its configuration is sound. Also fed when the configuration changed.
    Enable,
    /// It is no longer wanted.
    Disable,
    /// Its configuration cannot work.
    Misconfigure(Fault),
    /// A person or an API asks for it now: beats every schedule, in every state but `disabled`
    /// (architecture, grants 7). From `misconfigured` it tries again: a redirect may be gone.
    Reload,
    /// A person signed in, or a credential changed.
    SignedIn,
    /// The machine slept: whatever is waiting is tried again, as one event for all.
    Woke,
    /// An attempt succeeded. If it is stale, what it opened is closed again.
    Opened {
        /// Which.
        attempt: AttemptId,
        /// The opening that it made.
        generation: Generation,
    },
    /// An attempt failed.
    Failed {
        /// Which.
        attempt: AttemptId,
        /// Why.
        fault: Fault,
    },
    /// The gate lets no attempt pass now.
    Held {
        /// Which.
        attempt: AttemptId,
        /// When it is its turn.
        until: Mono,
    },
    /// What was open turned out dead, or refused our session. No `Close` follows: the driver drops what
    /// it holds of that opening, and [`crate::session`] deletes the old session when the next one opens.
    Lost {
        /// Which opening.
        generation: Generation,
        /// Why.
        fault: Fault,
    },
    /// Something went wrong that may or may not mean the connection is dead (one request that timed
    /// out, a stream that broke): ask the server. One timeout condemns nothing (OP-07).
    Doubt {
        /// Which opening.
        generation: Generation,
    },
    /// The deadline has come.
    Due {
        /// When the server last answered anything (any JSON-RPC answer is life).
        last_answer: Option<Mono>,
    },
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open it; answer with `Opened`, `Failed` or `Held` for this attempt.
    Open {
        /// Fences the outcome.
        attempt: AttemptId,
        /// With what claim it goes to the gate.
        claim: Claim,
    },
    /// Give up an attempt that is under way; its outcome no longer matters.
    Abandon {
        /// Which.
        attempt: AttemptId,
    },
    /// Close what is open, politely (DELETE for a session), without waiting for it.
    /// An upstream stream that still owes an answer stays open until it has given it.
    Close {
        /// Which opening.
        generation: Generation,
    },
    /// Ask whether the server still answers: ping, or server/discover in the modern era.
    /// A failure comes back as `Lost`.
    CheckHealth {
        /// Which opening.
        generation: Generation,
        /// How long to wait before.
        after: Millis,
    },
}

/// What became true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// When, as people count.
    pub at: crate::now::Wall,
    /// The state that was entered, whole.
    pub state: State,
    /// One clause: why.
    pub reason: String,
}

/// The delays that an operator can set (`[retry]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The first delay after a failure; doubled after each further one.
    pub first: Millis,
    /// The longest delay.
    pub max: Millis,
    /// How long one attempt may take in all.
    pub attempt_limit: Millis,
    /// How long nothing may be heard before the server is asked; zero turns it off.
    pub health_every: Millis,
    /// How long a connection must hold before earlier failures are forgiven.
    pub stable_after: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            first: Millis::secs(1),
            max: Millis::mins(5),
            attempt_limit: Millis::secs(200),
            health_every: Millis::secs(60),
            stable_after: Millis::secs(10),
        }
    }
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
    /// The delays.
    pub policy: &'a Policy,
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;

impl State {
    /// As the connection object writes it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Misconfigured { .. } => "misconfigured",
            Self::Connecting { .. } => "connecting",
            Self::Connected { .. } => "connected",
            Self::Retrying { .. } => "retrying",
            Self::AwaitingSignIn { .. } => "awaiting_sign_in",
        }
    }

    /// The fault that it shows, if any.
    #[must_use]
    pub const fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Disabled | Self::Connected { .. } => None,
            Self::Connecting { fault, .. } => fault.as_ref(),
            Self::Misconfigured { fault }
            | Self::Retrying { fault, .. }
            | Self::AwaitingSignIn { fault } => Some(fault),
        }
    }
}
