//! The standalone GET stream of a legacy session: optional for the server, so losing it never takes
//! the connection down, and asking for it must never become a hot loop (ST-02 to ST-04, ST-07, ST-08).
//!
//! An open stream has no deadline: it may be silent for days, and the health check of its connection
//! watches the server.

use serde::{Deserialize, Serialize};

use super::{Break, Budget, Policy};
use crate::identity::{AttemptId, EventCursor};
use crate::now::{Jitter, Millis, Mono, Now, Wall};

/// The state of one GET stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Not wanted: no legacy session is open.
    Off(Memory),
    /// Asked for.
    Opening {
        /// Fences the outcome.
        attempt: AttemptId,
        /// Since when.
        since: Mono,
        /// What is remembered.
        memory: Memory,
    },
    /// Open.
    Open {
        /// Which attempt opened it.
        attempt: AttemptId,
        /// Since when.
        since: Mono,
        /// Whether it brought an event.
        fruitful: bool,
        /// What is remembered.
        memory: Memory,
    },
    /// Closed; asked for again at `due`.
    Waiting {
        /// When.
        due: Mono,
        /// What is remembered.
        memory: Memory,
    },
    /// The server does not offer it, or it closes too often: asked for again at `recheck`, or only
    /// with the next session where that is `None`.
    NotOffered {
        /// When to ask again.
        recheck: Option<Mono>,
        /// What is remembered.
        memory: Memory,
    },
}

/// What survives from one opening to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The last event id of this session's stream.
    pub cursor: Option<EventCursor>,
    /// The server's `retry`, capped.
    pub retry: Option<Millis>,
    /// Openings in a row that brought nothing and did not last.
    pub fruitless: u32,
    /// Failures to open in a row.
    pub failures: u32,
    /// How often it was asked for.
    pub budget: Budget,
    /// How long the stream lasted when something in front of the server cut it, the last two times
    /// (ST-07: shown as "idle cut ~2 s observed" when they agree).
    pub lasted: Vec<Millis>,
    /// The server answered with something that is no event stream: not asked again before this,
    /// in whatever session (ST-03).
    pub barred_until: Option<Mono>,
    /// It was declined for the whole of the present session (405, or no event stream).
    pub declined: bool,
    /// It was open in the present session: that it is refused now may mean more.
    #[serde(default)]
    pub was_open: bool,
}

/// What can happen to a GET stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A legacy session opened. A new session starts without a cursor; the same one goes on with it.
    SessionOpened {
        /// Whether it is a new session.
        new: bool,
    },
    /// The session is gone.
    SessionClosed,
    /// An attempt succeeded: 200 and text/event-stream.
    Opened {
        /// Which.
        attempt: AttemptId,
    },
    /// The server does not offer it.
    Refused {
        /// Which.
        attempt: AttemptId,
        /// 405: not before the next session. Anything else: a slow recheck. Not an event stream
        /// (`None`): not before the next session, and not within the hour.
        status: Option<u16>,
    },
    /// An attempt failed for a fault that time mends.
    Failed {
        /// Which.
        attempt: AttemptId,
        /// What the server asked for.
        retry_after: Option<Millis>,
    },
    /// An event came. Its data may be empty, its id absent. A block that sets only `retry` is no event,
    /// and does not make the stream fruitful.
    Received {
        /// The event's id.
        id: Option<EventCursor>,
        /// The `retry` field, in milliseconds.
        retry: Option<Millis>,
    },
    /// It ended.
    Broken {
        /// Which attempt had opened it.
        attempt: AttemptId,
        /// How.
        how: Break,
    },
    /// The deadline has come.
    Due,
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// GET, with this cursor as Last-Event-ID where there is one.
    Open {
        /// Fences the outcome.
        attempt: AttemptId,
        /// Where to go on.
        cursor: Option<EventCursor>,
    },
    /// Stop reading and close.
    Close,
    /// Ask the connection to check the server's health: the stream was refused or could not be
    /// opened in a way that may mean more (a 404 with a session id, a refused connection).
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
    /// The limits.
    pub policy: &'a Policy,
}

impl State {
    /// As diagrams and logs write it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off(_) => "off",
            Self::Opening { .. } => "opening",
            Self::Open { .. } => "open",
            Self::Waiting { .. } => "waiting",
            Self::NotOffered { .. } => "not_offered",
        }
    }

    /// What is remembered.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        match self {
            Self::Off(memory)
            | Self::Opening { memory, .. }
            | Self::Open { memory, .. }
            | Self::Waiting { memory, .. }
            | Self::NotOffered { memory, .. } => memory,
        }
    }
}

impl Memory {
    /// After how long something in front of the server cuts a silent stream, where the last two times
    /// agree within a tenth (ST-07).
    #[must_use]
    pub fn idle_cut(&self) -> Option<Millis> {
        let [earlier, later] = self.lasted[..] else {
            return None;
        };
        (earlier.0.abs_diff(later.0) <= earlier.0.max(later.0) / 10).then_some(later)
    }
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;

mod transitions;

#[cfg(test)]
mod tests;

pub use transitions::{deadline, replay, step};
