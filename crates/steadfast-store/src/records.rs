//! What a backend can do, and what it promises.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use steadfast_core::connection::handshake::Known;
use steadfast_core::{AgentName, ServerName, SessionId, Wall};

use crate::error::Error;
use crate::keys::{IdHash, KeyHash};
use crate::model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ServerRecord, SessionRecord, Transition,
};

/// The records of a backend, shared by all who use them.
pub type SharedRecords = Arc<dyn Records>;

/// What is kept about agents, servers and their connections.
///
/// - A write that returned `Ok` is durable, and every later read sees it.
/// - A write that returned an error has changed nothing, unless the error is
///   [`Problem::Unconfirmed`](crate::Problem::Unconfirmed). Nor has a write whose caller went away
///   before it began; one that has begun is completed.
/// - Lists are in the order of their names, byte by byte, unless a method says otherwise.
#[async_trait]
pub trait Records: Send + Sync + fmt::Debug {
    /// Adds an agent, or replaces its configuration and source. The key of an agent that is there
    /// already stays where the record brings none, and so does its `created_at`.
    async fn put_agent(&self, agent: &AgentRecord) -> Result<(), Error>;
    /// All agents.
    async fn agents(&self) -> Result<Vec<AgentRecord>, Error>;
    /// One agent.
    async fn agent(&self, name: &AgentName) -> Result<Option<AgentRecord>, Error>;
    /// The agent that has this key.
    async fn agent_by_key(&self, key: &KeyHash) -> Result<Option<AgentRecord>, Error>;
    /// Removes an agent with its sessions in both directions, its parked calls, its sign-ins and its
    /// notices. Its history stays, and so do its grants, which must be revoked first. Whether it was there.
    async fn remove_agent(&self, name: &AgentName) -> Result<bool, Error>;
    /// Gives an agent a key; the one before is worth nothing from then on. Whether the agent is there.
    async fn set_agent_key(&self, name: &AgentName, key: KeyHash) -> Result<bool, Error>;

    /// Adds a server, or replaces it.
    async fn put_server(&self, server: &ServerRecord) -> Result<(), Error>;
    /// All servers.
    async fn servers(&self) -> Result<Vec<ServerRecord>, Error>;
    /// One server.
    async fn server(&self, name: &ServerName) -> Result<Option<ServerRecord>, Error>;
    /// Removes a server with its sessions in both directions, its parked calls, its sign-ins and its
    /// notices. Its history stays, and so do what was learned about its address and its grants, which must be
    /// revoked first. Whether it was there.
    async fn remove_server(&self, name: &ServerName) -> Result<bool, Error>;

    /// What was learned about the server at an address.
    async fn era(&self, address: &str) -> Result<Option<Known>, Error>;
    /// Remembers what was learned.
    async fn put_era(&self, address: &str, known: &Known) -> Result<(), Error>;
    /// Forgets it. Whether something was known.
    async fn forget_era(&self, address: &str) -> Result<bool, Error>;

    /// The session of a connection.
    async fn session(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<SessionRecord>, Error>;
    /// Remembers the session of a connection, in place of the one before.
    async fn put_session(&self, session: &SessionRecord) -> Result<(), Error>;
    /// Forgets the session of a connection. Whether there was one.
    async fn remove_session(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error>;

    /// Appends to the history: all of them, or none.
    async fn append_history(&self, transitions: &[Transition]) -> Result<(), Error>;
    /// The history of a connection, newest first: what was appended last comes first, whatever the
    /// wall clock said.
    async fn history(
        &self,
        agent: &AgentName,
        server: &ServerName,
        limit: usize,
    ) -> Result<Vec<Transition>, Error>;
    /// Drops all but the newest `keep_per_connection` of each connection. How many were dropped.
    async fn trim_history(&self, keep_per_connection: usize) -> Result<u64, Error>;

    /// Remembers a session of an agent with the gateway, in place of the one before.
    async fn put_agent_session(&self, session: &AgentSessionRecord) -> Result<(), Error>;
    /// The session with this hash of its id.
    async fn agent_session(&self, id_hash: &IdHash) -> Result<Option<AgentSessionRecord>, Error>;
    /// All of them, in the order of their hashes.
    async fn agent_sessions(&self) -> Result<Vec<AgentSessionRecord>, Error>;
    /// Notes that it was used; an earlier time than the one noted changes nothing. Whether it is there.
    async fn touch_agent_session(&self, id_hash: &IdHash, at: Wall) -> Result<bool, Error>;
    /// Forgets it. Whether it was there.
    async fn remove_agent_session(&self, id_hash: &IdHash) -> Result<bool, Error>;
    /// Forgets those that were last used before `before`. How many.
    async fn remove_idle_agent_sessions(&self, before: Wall) -> Result<u64, Error>;

    /// Remembers a call that waits for its second leg.
    async fn put_parked_call(&self, call: &ParkedCallRecord) -> Result<(), Error>;
    /// The call with this hash of its state.
    async fn parked_call(&self, state_hash: &IdHash) -> Result<Option<ParkedCallRecord>, Error>;
    /// Whether calls wait in this session with a server for longer than until `now`.
    async fn is_waited_for(
        &self,
        agent: &AgentName,
        server: &ServerName,
        session: &SessionId,
        now: Wall,
    ) -> Result<bool, Error>;
    /// Forgets it. Whether it was there: of several who do this at a time one is told so.
    async fn remove_parked_call(&self, state_hash: &IdHash) -> Result<bool, Error>;
    /// Forgets those that expired before `before`. How many.
    async fn remove_expired_parked_calls(&self, before: Wall) -> Result<u64, Error>;

    /// A setting of Steadfast's own.
    async fn meta(&self, key: &str) -> Result<Option<String>, Error>;
    /// Remembers a setting of Steadfast's own.
    async fn put_meta(&self, key: &str, value: &str) -> Result<(), Error>;

    /// Finishes the writes that have begun and lets go of files and connections. Later calls fail.
    async fn close(&self);
}
