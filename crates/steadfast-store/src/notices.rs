//! Notices: what a person must know, once, until it is mended.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::{AgentName, Fault, ServerName, Wall};

use crate::error::Error;

/// The notice of a connection: there is one row for each, and it is opened again when it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRecord {
    /// Whose connection.
    pub agent: AgentName,
    /// To which server.
    pub server: ServerName,
    /// Which opening this is: grows by one at each.
    pub number: u64,
    /// Why a person must act: the fault that was the latest while it was open.
    pub fault: Fault,
    /// When it was opened.
    pub opened_at: Wall,
    /// When it was cleared; `None` while it is open.
    pub cleared_at: Option<Wall>,
    /// What has been told of this opening, and by which channel, sorted.
    pub told: Vec<Telling>,
}

/// One message about a notice. Sorted by what it says, then by channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Telling {
    /// What it says.
    pub moment: Moment,
    /// By which channel, such as `webhook`.
    pub channel: String,
}

/// What a message about a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// That it is open.
    Opened,
    /// That it was cleared.
    Cleared,
}

/// What opening a notice did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It was not open, and is now.
    Opened,
    /// It was open for another fault; it shows this one now, and nobody is told anew.
    Changed,
    /// It was open for the same fault.
    Unchanged,
}

/// The notices of all connections. They go with their agent and their server.
#[async_trait]
pub trait Notices: Send + Sync + fmt::Debug {
    /// Opens the notice of a connection.
    async fn open_notice(
        &self,
        agent: &AgentName,
        server: &ServerName,
        fault: &Fault,
        at: Wall,
    ) -> Result<Opening, Error>;
    /// Clears it. Whether it was open.
    async fn clear_notice(
        &self,
        agent: &AgentName,
        server: &ServerName,
        at: Wall,
    ) -> Result<bool, Error>;
    /// All of them, open and cleared: those that were opened last come first.
    async fn notices(&self) -> Result<Vec<NoticeRecord>, Error>;
    /// Claims a message about this opening of a notice, before it is sent. Of several who claim it, one is told
    /// so; nobody where the notice was opened again since.
    async fn claim_telling(
        &self,
        agent: &AgentName,
        server: &ServerName,
        number: u64,
        telling: &Telling,
    ) -> Result<bool, Error>;
    /// Gives a claim back: the message could not be sent. Whether it was claimed.
    async fn release_telling(
        &self,
        agent: &AgentName,
        server: &ServerName,
        number: u64,
        telling: &Telling,
    ) -> Result<bool, Error>;
    /// Forgets the notice of a connection, open or cleared, with what was told of it. Whether there was one.
    async fn remove_notice(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error>;
    /// Forgets those that were cleared before `before`. How many.
    async fn remove_cleared_notices(&self, before: Wall) -> Result<u64, Error>;
}
