//! Records that last as long as the process: for tests.

mod audit;
mod clients;
mod documents;
mod events;
mod grants;
mod issuers;
mod leases;
mod notices;
mod operations;
mod presence;
mod resealing;
mod sign_ins;
mod vault_entries;

pub use events::MemoryEvents;

use std::collections::BTreeMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use steadfast_core::connection::handshake::Known;
use steadfast_core::{AgentName, ServerName, SessionId, Wall};

use crate::clients::ClientRecord;
use crate::documents::DocumentRecord;
use crate::error::{Error, Problem};
use crate::grants::GrantRecord;
use crate::issuers::IssuerRecord;
use crate::keys::{IdHash, KeyHash};
use crate::leases::LeaseKey;
use crate::model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ServerRecord, SessionRecord, Transition,
};
use crate::notices::NoticeRecord;
use crate::records::Records;
use crate::sign_ins::SignInRecord;
use crate::vault_entries::VaultEntry;

/// A connection: one agent's link to one server.
type Connection = (AgentName, ServerName);

/// Records in memory. They keep every promise of [`Records`] but durability.
#[derive(Debug, Default)]
pub struct MemoryRecords(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    closed: bool,
    agents: BTreeMap<AgentName, AgentRecord>,
    servers: BTreeMap<ServerName, ServerRecord>,
    eras: BTreeMap<String, Known>,
    sessions: BTreeMap<Connection, SessionRecord>,
    history: BTreeMap<Connection, Vec<Transition>>,
    agent_sessions: BTreeMap<IdHash, AgentSessionRecord>,
    parked_calls: BTreeMap<IdHash, ParkedCallRecord>,
    meta: BTreeMap<String, String>,
    grants: BTreeMap<Connection, GrantRecord>,
    leases: BTreeMap<LeaseKey, leases::Held>,
    clients: BTreeMap<(String, String), ClientRecord>,
    sign_ins: BTreeMap<Connection, SignInRecord>,
    notices: BTreeMap<Connection, NoticeRecord>,
    vault_entries: BTreeMap<String, VaultEntry>,
    documents: BTreeMap<String, DocumentRecord>,
    /// In the order in which they were recorded.
    operations: Vec<operations::Entry>,
    present: BTreeMap<String, std::sync::Weak<()>>,
    issuers: BTreeMap<String, IssuerRecord>,
    audit: audit::Log,
}

impl State {
    /// Forgets what goes with a connection that is no longer there. Its grant stays: it must be revoked first.
    fn forget(&mut self, gone: impl Fn(&Connection) -> bool) {
        self.sessions.retain(|connection, _| !gone(connection));
        self.sign_ins.retain(|connection, _| !gone(connection));
        self.notices.retain(|connection, _| !gone(connection));
    }

    /// One key means one agent.
    fn check_key(&self, name: &AgentName, key: KeyHash) -> Result<(), Error> {
        let taken = self
            .agents
            .values()
            .any(|other| other.name != *name && other.key == Some(key));
        if taken {
            return Err(error(
                Problem::Conflict,
                "the key belongs to another agent already",
            ));
        }
        Ok(())
    }
}

fn error(problem: Problem, detail: &str) -> Error {
    Error::new(problem, "memory", detail)
}

impl MemoryRecords {
    /// Empty records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(error(Problem::Closed, "the store has been closed"));
        }
        Ok(work(&mut state))
    }
}

#[async_trait]
impl Records for MemoryRecords {
    async fn put_agent(&self, agent: &AgentRecord) -> Result<(), Error> {
        self.with(|state| {
            if let Some(key) = agent.key {
                state.check_key(&agent.name, key)?;
            }
            let mut next = agent.clone();
            if let Some(present) = state.agents.get(&agent.name) {
                next.key = agent.key.or(present.key);
                next.created_at = present.created_at;
            }
            state.agents.insert(agent.name.clone(), next);
            Ok(())
        })?
    }

    async fn agents(&self) -> Result<Vec<AgentRecord>, Error> {
        self.with(|state| state.agents.values().cloned().collect())
    }

    async fn agent(&self, name: &AgentName) -> Result<Option<AgentRecord>, Error> {
        self.with(|state| state.agents.get(name).cloned())
    }

    async fn agent_by_key(&self, key: &KeyHash) -> Result<Option<AgentRecord>, Error> {
        self.with(|state| {
            let mut agents = state.agents.values();
            agents.find(|agent| agent.key == Some(*key)).cloned()
        })
    }

    async fn remove_agent(&self, name: &AgentName) -> Result<bool, Error> {
        self.with(|state| {
            state.forget(|(agent, _)| agent == name);
            state
                .agent_sessions
                .retain(|_, session| session.agent != *name);
            state.parked_calls.retain(|_, call| call.agent != *name);
            state.agents.remove(name).is_some()
        })
    }

    async fn set_agent_key(&self, name: &AgentName, key: KeyHash) -> Result<bool, Error> {
        self.with(|state| {
            state.check_key(name, key)?;
            let agent = state.agents.get_mut(name);
            Ok(agent.map(|agent| agent.key = Some(key)).is_some())
        })?
    }

    async fn put_server(&self, server: &ServerRecord) -> Result<(), Error> {
        self.with(|state| {
            state.servers.insert(server.name.clone(), server.clone());
        })
    }

    async fn servers(&self) -> Result<Vec<ServerRecord>, Error> {
        self.with(|state| state.servers.values().cloned().collect())
    }

    async fn server(&self, name: &ServerName) -> Result<Option<ServerRecord>, Error> {
        self.with(|state| state.servers.get(name).cloned())
    }

    async fn remove_server(&self, name: &ServerName) -> Result<bool, Error> {
        self.with(|state| {
            state.forget(|(_, server)| server == name);
            state
                .agent_sessions
                .retain(|_, session| session.server.as_ref() != Some(name));
            state.parked_calls.retain(|_, call| call.server != *name);
            state.servers.remove(name).is_some()
        })
    }

    async fn era(&self, address: &str) -> Result<Option<Known>, Error> {
        self.with(|state| state.eras.get(address).cloned())
    }

    async fn put_era(&self, address: &str, known: &Known) -> Result<(), Error> {
        self.with(|state| {
            state.eras.insert(address.to_owned(), known.clone());
        })
    }

    async fn forget_era(&self, address: &str) -> Result<bool, Error> {
        self.with(|state| state.eras.remove(address).is_some())
    }

    async fn session(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<SessionRecord>, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| state.sessions.get(&connection).cloned())
    }

    async fn put_session(&self, session: &SessionRecord) -> Result<(), Error> {
        let connection = (session.agent.clone(), session.server.clone());
        self.with(|state| {
            state.sessions.insert(connection, session.clone());
        })
    }

    async fn remove_session(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| state.sessions.remove(&connection).is_some())
    }

    async fn append_history(&self, transitions: &[Transition]) -> Result<(), Error> {
        self.with(|state| {
            for transition in transitions {
                let connection = (transition.agent.clone(), transition.server.clone());
                let history = state.history.entry(connection).or_default();
                history.push(transition.clone());
            }
        })
    }

    async fn history(
        &self,
        agent: &AgentName,
        server: &ServerName,
        limit: usize,
    ) -> Result<Vec<Transition>, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| {
            let history = state.history.get(&connection).into_iter().flatten();
            history.rev().take(limit).cloned().collect()
        })
    }

    async fn trim_history(&self, keep_per_connection: usize) -> Result<u64, Error> {
        self.with(|state| {
            let mut dropped = 0;
            for history in state.history.values_mut() {
                let surplus = history.len().saturating_sub(keep_per_connection);
                dropped += history.drain(..surplus).len() as u64;
            }
            dropped
        })
    }

    async fn put_agent_session(&self, session: &AgentSessionRecord) -> Result<(), Error> {
        self.with(|state| {
            state
                .agent_sessions
                .insert(session.id_hash, session.clone());
        })
    }

    async fn agent_session(&self, id_hash: &IdHash) -> Result<Option<AgentSessionRecord>, Error> {
        self.with(|state| state.agent_sessions.get(id_hash).cloned())
    }

    async fn agent_sessions(&self) -> Result<Vec<AgentSessionRecord>, Error> {
        self.with(|state| state.agent_sessions.values().cloned().collect())
    }

    async fn touch_agent_session(&self, id_hash: &IdHash, at: Wall) -> Result<bool, Error> {
        self.with(|state| {
            let session = state.agent_sessions.get_mut(id_hash);
            session
                .map(|session| session.used_at = session.used_at.max(at))
                .is_some()
        })
    }

    async fn remove_agent_session(&self, id_hash: &IdHash) -> Result<bool, Error> {
        self.with(|state| state.agent_sessions.remove(id_hash).is_some())
    }

    async fn remove_idle_agent_sessions(&self, before: Wall) -> Result<u64, Error> {
        self.with(|state| {
            let count = state.agent_sessions.len();
            state
                .agent_sessions
                .retain(|_, session| session.used_at >= before);
            (count - state.agent_sessions.len()) as u64
        })
    }

    async fn put_parked_call(&self, call: &ParkedCallRecord) -> Result<(), Error> {
        self.with(|state| {
            state.parked_calls.insert(call.state_hash, call.clone());
        })
    }

    async fn parked_call(&self, state_hash: &IdHash) -> Result<Option<ParkedCallRecord>, Error> {
        self.with(|state| state.parked_calls.get(state_hash).cloned())
    }

    async fn is_waited_for(
        &self,
        agent: &AgentName,
        server: &ServerName,
        session: &SessionId,
        now: Wall,
    ) -> Result<bool, Error> {
        self.with(|state| {
            state.parked_calls.values().any(|call| {
                call.agent == *agent
                    && call.server == *server
                    && call.session.as_ref() == Some(session)
                    && call.expires_at >= now
            })
        })
    }

    async fn remove_parked_call(&self, state_hash: &IdHash) -> Result<bool, Error> {
        self.with(|state| state.parked_calls.remove(state_hash).is_some())
    }

    async fn remove_expired_parked_calls(&self, before: Wall) -> Result<u64, Error> {
        self.with(|state| {
            let count = state.parked_calls.len();
            state
                .parked_calls
                .retain(|_, call| call.expires_at >= before);
            (count - state.parked_calls.len()) as u64
        })
    }

    async fn meta(&self, key: &str) -> Result<Option<String>, Error> {
        self.with(|state| state.meta.get(key).cloned())
    }

    async fn put_meta(&self, key: &str, value: &str) -> Result<(), Error> {
        self.with(|state| {
            state.meta.insert(key.to_owned(), value.to_owned());
        })
    }

    async fn close(&self) {
        self.0.lock().closed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::SharedStore;

    async fn fresh() -> (SharedStore, ()) {
        (Arc::new(MemoryRecords::new()), ())
    }

    crate::instantiate!(fresh);
}
