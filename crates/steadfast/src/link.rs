//! One agent's connection to one server, as callers see it.
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::{AgentName, Era, Revision, ServerName};

use crate::call::{Answer, Call, CallHandle, Origin};
use crate::report::Report;

/// What the server said of itself when the connection opened. Kept while it is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The revision that it speaks.
    pub revision: Revision,
    /// The `result` of `initialize` or `server/discover`, as raw JSON.
    pub result: Bytes,
}

impl Hello {
    /// Its era.
    #[must_use]
    pub fn era(&self) -> Era {
        self.revision.era()
    }
}

/// A question of the server to its agent. Answer it, or drop it: then the server is told that nobody
/// answers, so that nothing hangs.
#[derive(Debug)]
pub struct ServerRequest {
    /// The request, with the server's own id in it.
    pub message: Bytes,
}

impl ServerRequest {
    /// Sends the agent's answer: `result` or `error` as raw JSON members of `answer`, a JSON-RPC
    /// response whose id is replaced by the server's own.
    pub async fn answer(self, answer: Bytes) {
        let _ = answer;
        unimplemented!()
    }
}

/// One agent's connection to one server.
#[derive(Debug)]
pub struct Link {
}

impl Link {
    /// The agent.
    pub fn agent(&self) -> &AgentName {
        unimplemented!()
    }

    /// The server.
    pub fn server(&self) -> &ServerName {
        unimplemented!()
    }

    /// The connection object.
    pub fn report(&self) -> Report {
        unimplemented!()
    }

    /// What the server said of itself; `None` before it was ever connected.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        unimplemented!()
    }

    /// The last complete list of tools: the raw JSON array of the server's own definitions;
    /// `None` before it was ever seen. Kept while the server is down.
    pub fn tools(&self) -> Option<Bytes> {
        unimplemented!()
    }

    /// Whether the last complete list of tools has this one.
    pub fn knows_tool(&self, name: &str) -> bool {
        let _ = name;
        unimplemented!()
    }

    /// Waits until it is connected, at most this long.
    pub async fn connected(&self, limit: Duration) -> bool {
        let _ = limit;
        unimplemented!()
    }

    /// Sends one request and waits for its answer, or for what is known without one. The future may
    /// be dropped at any time; what the upstream is then told is the policy's business.
    pub async fn call(self: &Arc<Self>, call: Call, handle: CallHandle) -> Answer {
        let _ = (call, handle);
        unimplemented!()
    }

    /// Passes a notification of the agent on, best effort. Not for `initialized` and `cancelled`.
    pub async fn notify(self: &Arc<Self>, message: Bytes, origin: &Origin) {
        let _ = (message, origin);
        unimplemented!()
    }

    /// Reconnects now, whatever the schedule says, and waits until it has settled or `limit` is over.
    pub async fn reload(&self, limit: Duration) -> Report {
        let _ = limit;
        unimplemented!()
    }
}
