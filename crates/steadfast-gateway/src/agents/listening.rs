//! Every stream that an agent listens on, in either era, and what ends them all.

use std::sync::Arc;

use steadfast_core::AgentName;

use super::modern::Hub;
use super::sessions::Sessions;

/// The listening streams of all agents. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ListeningStreams {
    sessions: Arc<Sessions>,
    hub: Arc<Hub>,
}

impl ListeningStreams {
    pub(crate) fn new(sessions: Arc<Sessions>, hub: Arc<Hub>) -> Self {
        Self { sessions, hub }
    }

    /// The connections of an agent end with its key; with the new one it resumes, or opens others, in the same sessions.
    pub(crate) fn end_of(&self, agent: &AgentName) {
        self.sessions
            .part_listening(|session| session.agent == *agent);
        self.hub.retain(|other, _| other != agent);
    }

    /// Ends all connections. The sessions stay, and what can be resumed.
    pub(crate) fn end_all(&self) {
        self.sessions.part_listening(|_| true);
        self.hub.retain(|_, _| false);
    }
}
