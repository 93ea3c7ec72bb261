//! The event log: what was sent on the streams of legacy agents, so that an agent that lost its connection gets the
//! rest, also after the daemon was killed (2025-11-25 transports, "Resumability and Redelivery").
//!
//! It is no part of a [`crate::Store`]: events are many, short-lived and never waited for by anything but their own
//! stream, so they have a file and a writer of their own, and a burst of them cannot queue before the ledger.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::replay::{Requirement, Resource, Until};
use steadfast_core::{AgentName, Wall};

use crate::error::Error;
use crate::keys::IdHash;

/// The name of one stream: when it was opened (48 bits, so that what is written together lies together), and 80 bits
/// that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(pub [u8; 16]);

impl StreamName {
    /// Of a stream that is opened now.
    #[must_use]
    pub fn new(at: Wall, unguessable: u128) -> Self {
        let time = u128::try_from(at.0).unwrap_or_default();
        let name = (time & 0xffff_ffff_ffff) << 80 | (unguessable & ((1 << 80) - 1));
        Self(name.to_be_bytes())
    }

    /// Reads what [`fmt::Display`] writes: 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_one = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let name = u128::from_str_radix(text, 16).ok().filter(|_| is_one)?;
        Some(Self(name.to_be_bytes()))
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Whoever knows a name is half way to the events, so it does not print.
impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamName(…)")
    }
}

/// A stream, as it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventStreamRecord {
    /// Its name.
    pub name: StreamName,
    /// Whose it is.
    pub agent: AgentName,
    /// The session that it belongs to.
    pub session: IdHash,
    /// What another daemon needs to know to go on with it; JSON.
    pub about: String,
    /// The daemon that holds it.
    pub owner: String,
    /// When it was opened.
    pub opened_at: Wall,
}

/// A stream, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventStream {
    /// As it was opened; `owner` is who holds it now.
    pub record: EventStreamRecord,
    /// The numbers of the events that are there. What is below the start was forgotten.
    pub kept: Range<u64>,
    /// Whether nothing more comes.
    pub ended: bool,
    /// What its events require of their reader.
    pub requirements: Vec<Requirement>,
}

/// One change of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventWrite {
    /// Opens a stream.
    Open(Box<EventStreamRecord>),
    /// Adds an event. The numbers of a stream count up from 1.
    Append {
        /// The stream.
        stream: StreamName,
        /// The number of the event.
        number: u64,
        /// When.
        at: Wall,
        /// Its data.
        data: Bytes,
    },
    /// Says what events require, and until which of them.
    Require {
        /// The stream.
        stream: StreamName,
        /// What their reader must be allowed to use.
        resource: Resource,
        /// The last of them.
        until: Until,
    },
    /// Nothing more comes.
    End {
        /// The stream.
        stream: StreamName,
        /// When it ended.
        at: Wall,
    },
    /// Says anew what another daemon needs to know.
    About {
        /// The stream.
        stream: StreamName,
        /// It.
        about: String,
    },
    /// Nobody holds it any more; more may come once somebody does.
    Leave {
        /// The stream.
        stream: StreamName,
        /// When.
        at: Wall,
    },
    /// Forgets a stream at once.
    Forget {
        /// The stream.
        stream: StreamName,
    },
    /// Forgets all streams of a session at once.
    ForgetSession {
        /// The session.
        session: IdHash,
    },
}

/// What a log promises: a write that has returned `Ok` survives a kill of the process and a loss of power, all of it or
/// nothing of it; and of a stream, what is kept is every event from the first one kept to the last.
#[async_trait]
pub trait EventLog: Send + Sync + fmt::Debug {
    /// Makes these changes, in their order. They are durable together.
    async fn write(&self, writes: Vec<EventWrite>) -> Result<(), Error>;
    /// One stream.
    async fn stream(&self, name: StreamName) -> Result<Option<EventStream>, Error>;
    /// The data of consecutive events from this number on: at least one where there is one, and about `bytes`.
    async fn read(&self, name: StreamName, from: u64, bytes: usize) -> Result<Vec<Bytes>, Error>;
    /// Takes over a stream that has not ended from the daemon that held it. Whether it was still held by that one.
    async fn adopt(&self, name: StreamName, from: &str, by: &str) -> Result<bool, Error>;
    /// The daemons that hold streams.
    async fn owners(&self) -> Result<Vec<String>, Error>;
    /// A daemon is no more: its streams can be taken over, and are forgotten in time.
    async fn abandon(&self, owner: &str, at: Wall) -> Result<(), Error>;
    /// Forgets some of what is older than `before` and, while all is larger than `budget` bytes, of what is oldest.
    /// Whether there is more to forget: each call takes a small time, so that writes find their way between.
    async fn trim(&self, before: Wall, budget: u64) -> Result<bool, Error>;
    /// Closes it. What was written is there.
    async fn close(&self);
}

/// A log, shared by all who use it.
pub type SharedEvents = Arc<dyn EventLog>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = StreamName::new(Wall(1_000), u128::MAX);
        let text = name.to_string();
        assert_eq!(text, "0000000003e8ffffffffffffffffffff");
        assert_eq!(StreamName::parse(&text), Some(name));
        let cut = &text[1..];
        for other in [
            "",
            cut,
            "+000000003e8ffffffffffffffffffff",
            &format!("0{text}"),
        ] {
            assert_eq!(StreamName::parse(other), None, "{other}");
        }
        assert!(StreamName::new(Wall(1), u128::MAX) < StreamName::new(Wall(2), 0));
        assert_eq!(format!("{name:?}"), "StreamName(…)");
    }
}
