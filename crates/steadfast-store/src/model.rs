//! What is kept.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::{AgentName, EventCursor, Fault, Revision, ServerName, SessionId, Wall};

use crate::keys::{IdHash, KeyHash};

/// Where an agent or a server was defined. What came from a file is read-only in the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The configuration file.
    File,
    /// The admin API, the command line or the console.
    Admin,
}

/// An agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRecord {
    /// Its name.
    pub name: AgentName,
    /// Its table `[agents.NAME]`, as JSON.
    pub config: Value,
    /// Where it was defined.
    pub source: Source,
    /// The hash of its key; none as long as no key has been made.
    pub key: Option<KeyHash>,
    /// When it was first put.
    pub created_at: Wall,
}

/// An upstream server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRecord {
    /// Its name.
    pub name: ServerName,
    /// Its table `[servers.NAME]`, as JSON.
    pub config: Value,
    /// Where it was defined.
    pub source: Source,
}

/// The open session of one connection with its upstream server, so that a restart goes on in it.
#[derive(Clone, PartialEq)]
pub struct SessionRecord {
    /// Whose connection it is.
    pub agent: AgentName,
    /// The server.
    pub server: ServerName,
    /// The address that the session was opened at. A session never goes to another address.
    pub address: String,
    /// Its id; none where the server does not use session ids.
    pub id: Option<SessionId>,
    /// The revision that was agreed on.
    pub revision: Revision,
    /// What the server answered to `initialize`: its JSON as it came.
    pub initialize_result: String,
    /// When it was opened.
    pub opened_at: Wall,
    /// What the session holds at the server: subscriptions and the log level.
    pub state: Value,
}

/// The server's own words stay out of logs: they may be long, and they may quote secrets.
impl fmt::Debug for SessionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRecord")
            .field("agent", &self.agent)
            .field("server", &self.server)
            .field("id", &self.id)
            .field("revision", &self.revision)
            .field("opened_at", &self.opened_at)
            .finish_non_exhaustive()
    }
}

/// One change of a connection's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: Wall,
    /// Whose connection.
    pub agent: AgentName,
    /// To which server.
    pub server: ServerName,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// The fault that caused it, if one did.
    pub fault: Option<Fault>,
    /// Why, in one sentence.
    pub reason: String,
}

/// A legacy session of an agent with the gateway, so that the agent does not notice a restart.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentSessionRecord {
    /// The hash of its id ([`crate::hash_id`]); the id itself is never stored.
    pub id_hash: IdHash,
    /// Whose session it is.
    pub agent: AgentName,
    /// The server; none for a session with all the servers of the agent.
    pub server: Option<ServerName>,
    /// The revision that was agreed on.
    pub revision: Revision,
    /// The `clientInfo` of the agent's `initialize`: its JSON as it came.
    pub client_info: String,
    /// The `capabilities` of the agent's `initialize`: their JSON as it came.
    pub capabilities: String,
    /// The level that the agent set with `logging/setLevel`.
    pub log_level: Option<String>,
    /// The resources that the agent subscribed to.
    pub subscriptions: Vec<String>,
    /// When it was opened.
    pub opened_at: Wall,
    /// When the agent last used it.
    pub used_at: Wall,
}

impl fmt::Debug for AgentSessionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSessionRecord")
            .field("agent", &self.agent)
            .field("server", &self.server)
            .field("revision", &self.revision)
            .field("opened_at", &self.opened_at)
            .field("used_at", &self.used_at)
            .finish_non_exhaustive()
    }
}

/// A call of a modern agent on a legacy server that waits for its second leg, so that it can be gone on
/// with after a restart. Its arguments are not kept: the second leg brings them.
#[derive(Clone, PartialEq, Eq)]
pub struct ParkedCallRecord {
    /// The hash of its `requestState` ([`crate::hash_state`]); the state itself is never stored.
    pub state_hash: IdHash,
    /// Whose call it is.
    pub agent: AgentName,
    /// The server that asks.
    pub server: ServerName,
    /// The session with the server; none where it uses no session ids.
    pub session: Option<SessionId>,
    /// The RPC id that the server knows the call by.
    pub rpc_id: i64,
    /// The last event of the call's stream; none where its events have no ids.
    pub cursor: Option<EventCursor>,
    /// What the server asked.
    pub questions: Vec<ParkedQuestion>,
    /// The method of the call.
    pub method: String,
    /// Its tool, for `tools/call`.
    pub tool: Option<String>,
    /// The SHA-256 of what its legs have in common.
    pub digest: IdHash,
    /// When it left.
    pub sent_at: Wall,
    /// How many bytes of its body left.
    pub bytes_sent: i64,
    /// Until when its second leg is waited for.
    pub expires_at: Wall,
}

/// One question of a server that is parked with its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedQuestion {
    /// Its key among the `inputRequests`.
    pub key: String,
    /// The server's id of it, as raw JSON.
    pub id: String,
    /// Its method.
    pub method: String,
}

impl fmt::Debug for ParkedCallRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedCallRecord")
            .field("agent", &self.agent)
            .field("server", &self.server)
            .field("rpc_id", &self.rpc_id)
            .field("questions", &self.questions)
            .field("method", &self.method)
            .field("tool", &self.tool)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
