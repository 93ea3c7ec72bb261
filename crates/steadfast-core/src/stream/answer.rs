//! The response stream of one POST in the legacy era. If it breaks and has a cursor it is resumed by
//! GET with Last-Event-ID, after the server's `retry`; if not, or if resuming brings nothing, the
//! result was not observed (2025-11-25 transports, "Resumability and Redelivery"; ST-01, ST-05, ST-06).
//! A stream that has given its answer is finished, whatever its ids say (ST-08).

use serde::{Deserialize, Serialize};

use super::{Break, Policy};
use crate::identity::{AttemptId, EventCursor};
use crate::now::{Jitter, Millis, Mono, Now, Wall};

/// The state of one response stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Being read.
    Reading {
        /// What is remembered.
        memory: Memory,
        /// When a byte last came: comments count (SP-04).
        heard: Mono,
    },
    /// Broken; resumed at `due`.
    Waiting {
        /// When.
        due: Mono,
        /// Where to go on.
        cursor: EventCursor,
        /// What is remembered.
        memory: Memory,
    },
    /// A GET is under way.
    Resuming {
        /// Fences the outcome.
        attempt: AttemptId,
        /// Since when.
        since: Mono,
        /// Where to go on.
        cursor: EventCursor,
        /// What is remembered.
        memory: Memory,
    },
    /// The response came.
    Answered,
    /// It will not come.
    NotObserved {
        /// What was seen, in one clause.
        evidence: String,
    },
}

/// What survives a break.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The last event id of this stream.
    pub cursor: Option<EventCursor>,
    /// The server's `retry`, capped.
    pub retry: Option<Millis>,
    /// Resumes in a row that brought no new event id, the one under way included.
    pub fruitless: u32,
    /// How it last broke.
    pub broke: Option<Break>,
}

/// What can happen to a response stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes came that complete no event, or a comment.
    Heard,
    /// An event came that is not the response.
    Received {
        /// The event's id.
        id: Option<EventCursor>,
        /// The `retry` field, in milliseconds.
        retry: Option<Millis>,
    },
    /// The response came.
    Answered,
    /// The body ended.
    Broken {
        /// How.
        how: Break,
    },
    /// A resume is open: 200 and text/event-stream.
    Resumed {
        /// Which.
        attempt: AttemptId,
    },
    /// A resume was refused for good: the server does not replay, or no longer knows the session.
    ResumeRefused {
        /// Which.
        attempt: AttemptId,
        /// What was seen, in one clause.
        why: String,
    },
    /// A resume failed for a fault that time mends.
    ResumeFailed {
        /// Which.
        attempt: AttemptId,
        /// What the server asked for.
        retry_after: Option<Millis>,
    },
    /// The session that the stream belongs to is gone: it cannot be resumed. A stream that is still
    /// being read may bring the answer all the same, and is read on (architecture, connections 9).
    SessionLost,
    /// The deadline has come.
    Due,
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// GET with Last-Event-ID.
    Resume {
        /// Fences the outcome.
        attempt: AttemptId,
        /// Where to go on.
        cursor: EventCursor,
    },
    /// Stop reading: nothing came for too long, or the call is over.
    Close,
    /// Tell the caller that the result was not observed.
    GiveUp {
        /// What was seen, in one clause.
        evidence: String,
    },
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
    /// The limits.
    pub policy: &'a Policy,
}

impl State {
    /// As diagrams and logs write it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Reading { .. } => "reading",
            Self::Waiting { .. } => "waiting",
            Self::Resuming { .. } => "resuming",
            Self::Answered => "answered",
            Self::NotObserved { .. } => "not_observed",
        }
    }
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;

mod transitions;

#[cfg(test)]
mod tests;

pub use transitions::{deadline, replay, step};
