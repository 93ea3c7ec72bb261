//! SSE streams. [`listen`] is the standalone GET stream of a legacy session, [`subscription`] its
//! successor toward a modern server; [`answer`] is the response stream of one POST. They share the
//! retry rules below and nothing else: each stream resumes with its own cursor only (ST-06).

pub mod answer;
mod budget;
pub mod listen;
pub mod subscription;

pub use budget::{BURST, BURST_WINDOW, Budget, HOURLY};

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::identity::EventCursor;
use crate::now::{Jitter, Millis};

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

/// A stream that ended sooner and brought nothing was fruitless.
const LASTING: Millis = Millis::secs(1);

/// The shortest `retry` that is honoured: with `retry: 0` a server that closes at once would otherwise
/// be asked in a hot loop.
pub const MIN_RETRY: Millis = Millis(50);

/// How long to wait before a stream is opened again. The server's `retry` is a lower bound ("the client
/// MUST respect the retry attribute", 2025-11-25 transports, "Sending Messages to the Server"); both are
/// doubled while openings bring nothing (`fruitless`, 1 for the first).
fn pause(retry: Option<Millis>, fruitless: u32, policy: &Policy, jitter: Jitter) -> Millis {
    match retry {
        None => backoff::delay(policy.first, policy.max, fruitless, jitter),
        Some(retry) => {
            let longer = backoff::doubled(retry, policy.max, fruitless);
            let wait = retry.max(longer);
            Millis(wait.0 + jitter.of(Millis(wait.0 / 8)).0)
        }
    }
}

/// What is remembered of a `retry` field.
fn honoured(retry: Millis) -> Millis {
    retry.clamp(MIN_RETRY, MAX_RETRY)
}

/// What is remembered of an `id` field: an empty one takes the cursor back (HTML, "Server-sent
/// events": with an empty last event id no Last-Event-ID is sent).
fn cursor(id: EventCursor) -> Option<EventCursor> {
    (!id.as_str().is_empty()).then_some(id)
}

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
