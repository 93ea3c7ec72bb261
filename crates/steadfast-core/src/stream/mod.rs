//! SSE streams of the legacy era. [`listen`] is the standalone GET stream of a session; [`answer`]
//! is the response stream of one POST. They share the retry rules below and nothing else: each
//! stream resumes with its own cursor only (ST-06).

pub mod answer;
pub mod listen;

use serde::{Deserialize, Serialize};

use crate::now::Millis;

/// How a stream ended without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Break {
    /// The body ended where it may end.
    CleanEnd,
    /// The peer reset or closed the connection.
    Reset,
    /// The body ended in the middle of a chunk or below its length.
    CutShort,
    /// Nothing came for longer than the silence limit.
    Silence,
}

impl Break {
    /// As evidence says it.
    #[must_use]
    pub const fn evidence(self) -> &'static str {
        match self {
            Self::CleanEnd => "stream ended before the response",
            Self::Reset => "connection reset before the response",
            Self::CutShort => "body cut short before the response",
            Self::Silence => "nothing heard within the silence limit",
        }
    }
}

/// The longest `retry` that is honoured; a longer one counts as this (ST-06).
pub const MAX_RETRY: Millis = Millis::mins(5);

/// The limits that an operator can set (`[retry]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The delay before a stream is opened again where the server named none; doubled while fruitless.
    pub first: Millis,
    /// The longest such delay.
    pub max: Millis,
    /// How long nothing may come on a response stream that owes an answer.
    pub silence: Millis,
    /// Fruitless resumes (no new event id) before a pending call is not observed.
    pub resume_attempts: u32,
    /// How long the GET stream may take to open.
    pub open_timeout: Millis,
    /// How long until a server that refused the GET stream is asked again.
    pub recheck: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            first: Millis::secs(1),
            max: Millis::mins(5),
            silence: Millis::mins(5),
            resume_attempts: 5,
            open_timeout: Millis::secs(10),
            recheck: Millis::mins(10),
        }
    }
}
