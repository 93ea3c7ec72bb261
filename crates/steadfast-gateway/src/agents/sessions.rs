//! Legacy sessions of agents. They are on record, so that neither a restart of the gateway nor a long
//! silence is noticed; in memory are only those that are in use, so that agents that go away without
//! a word cost nothing (OP-06).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use steadfast_core::bridge::Client;
use steadfast_core::{AgentName, Revision, ServerName, SessionId, Wall};
use steadfast_store::{AgentSessionRecord, IdHash, SharedRecords, hash_id};

use super::Scope;
use super::session::Session;
use crate::clock;
use crate::unguessable::Unguessable;

/// How much later than noted, in milliseconds, a session must have been used before that is noted again.
const NOTE_EVERY: i64 = 600_000;

/// How many uses are noted at a time: the store makes one transaction of what comes together.
const NOTES_TOGETHER: usize = 64;

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    records: SharedRecords,
    by_key: RwLock<HashMap<IdHash, Arc<Session>>>,
    /// Those whose agents listen.
    listening: RwLock<HashMap<Scope, Vec<Weak<Session>>>>,
    /// What agents say of themselves is nearly always the same: it is kept once.
    clients: Mutex<Vec<Weak<Client>>>,
    ids: Arc<Unguessable>,
    most_in_memory: usize,
    idle: Duration,
    input_wait: Duration,
}

impl Sessions {
    pub(crate) fn new(
        records: SharedRecords,
        ids: Arc<Unguessable>,
        in_memory: usize,
        idle: Duration,
        input_wait: Duration,
    ) -> Self {
        Self {
            records,
            by_key: RwLock::default(),
            listening: RwLock::default(),
            clients: Mutex::default(),
            ids,
            most_in_memory: in_memory,
            idle,
            input_wait,
        }
    }

    /// Opens a session: on record before its id is given away.
    pub(crate) async fn open(
        &self,
        agent: AgentName,
        server: Option<ServerName>,
        revision: Revision,
        client: Client,
    ) -> Result<(String, Arc<Session>), steadfast_store::Error> {
        // "globally unique and cryptographically secure", visible ASCII (2025-11-25 transports,
        // "Session Management" 1).
        let id = self.ids.text();
        let now = clock::wall();
        let record = AgentSessionRecord {
            id_hash: hash_id(&SessionId::from(id.as_str())),
            agent,
            server,
            revision,
            client_info: client.info.clone(),
            capabilities: client.capabilities.clone(),
            log_level: None,
            subscriptions: Vec::new(),
            opened_at: now,
            used_at: now,
        };
        self.records.put_agent_session(&record).await?;
        let session = Arc::new(self.session(record, client));
        if self.keep(&session) > self.most_in_memory {
            self.relieve().await;
        }
        Ok((id, session))
    }

    /// Keeps a session in memory. How many there are then.
    fn keep(&self, session: &Arc<Session>) -> usize {
        let mut by_key = self.by_key.write();
        by_key.insert(session.key, Arc::clone(session));
        by_key.len()
    }

    /// The session with this id, if it is this agent's with this server, or with all of its servers.
    pub(crate) async fn find(
        &self,
        id: &str,
        agent: &AgentName,
        server: Option<&ServerName>,
    ) -> Result<Option<Arc<Session>>, steadfast_store::Error> {
        let key = hash_id(&SessionId::from(id));
        let known = self.by_key.read().get(&key).cloned();
        let session = match known {
            Some(session) => Some(session),
            None => Box::pin(self.recall(&key)).await?,
        };
        let session = session.filter(|it| it.agent == *agent && it.server.as_ref() == server);
        if let Some(session) = &session {
            session.used(clock::wall());
        }
        Ok(session)
    }

    async fn recall(&self, key: &IdHash) -> Result<Option<Arc<Session>>, steadfast_store::Error> {
        let Some(record) = self.records.agent_session(key).await? else {
            return Ok(None);
        };
        let client = Client {
            info: record.client_info.clone(),
            capabilities: record.capabilities.clone(),
            log_level: record.log_level.clone(),
        };
        let session = self.session(record, client);
        // Another request may have recalled it meanwhile: there is one of each.
        let mut by_key = self.by_key.write();
        let session = by_key.entry(*key).or_insert_with(|| Arc::new(session));
        Ok(Some(Arc::clone(session)))
    }

    fn session(&self, record: AgentSessionRecord, client: Client) -> Session {
        Session::from_record(
            record,
            self.shared(client),
            self.ids.number(),
            self.input_wait,
        )
    }

    fn shared(&self, client: Client) -> Arc<Client> {
        let mut clients = self.clients.lock();
        clients.retain(|known| known.strong_count() > 0);
        let known = clients
            .iter()
            .filter_map(Weak::upgrade)
            .find(|known| **known == client);
        known.unwrap_or_else(|| {
            let client = Arc::new(client);
            clients.push(Arc::downgrade(&client));
            client
        })
    }

    /// The agent set its log level.
    pub(crate) async fn set_log_level(
        &self,
        session: &Session,
        level: String,
    ) -> Result<(), steadfast_store::Error> {
        let mut client = Client::clone(&session.client());
        client.log_level = Some(level);
        session.set_client(self.shared(client));
        self.write_down(session).await
    }

    /// Puts a session that changed on record.
    pub(crate) async fn write_down(&self, session: &Session) -> Result<(), steadfast_store::Error> {
        self.records.put_agent_session(&session.record()).await
    }

    /// Ends a session.
    pub(crate) async fn remove(&self, session: &Session) -> Result<(), steadfast_store::Error> {
        self.records.remove_agent_session(&session.key).await?;
        self.by_key.write().remove(&session.key);
        session.close();
        Ok(())
    }

    /// The agent of this session listens from now on.
    pub(crate) fn listens(&self, session: &Arc<Session>) {
        let scope = (session.agent.clone(), session.server.clone());
        let mut listening = self.listening.write();
        let those = listening.entry(scope).or_default();
        those.retain(|other| other.strong_count() > 0);
        if !those
            .iter()
            .any(|other| other.as_ptr() == Arc::as_ptr(session))
        {
            those.push(Arc::downgrade(session));
        }
    }

    /// The sessions whose agents listen: with one server, or with all of the agent's servers.
    pub(crate) fn listeners(
        &self,
        agent: &AgentName,
        server: Option<&ServerName>,
    ) -> Vec<Arc<Session>> {
        let scope = (agent.clone(), server.cloned());
        let listening = self.listening.read();
        let those = listening.get(&scope).map(Vec::as_slice).unwrap_or_default();
        those.iter().filter_map(Weak::upgrade).collect()
    }

    /// The sessions in memory that may be served by a connection, those with all servers among them: all
    /// that were used since the gateway started, but those that have ended or were forgotten.
    pub(crate) fn of(&self, agent: &AgentName, server: &ServerName) -> Vec<Arc<Session>> {
        let by_key = self.by_key.read();
        let those = by_key.values();
        those
            .filter(|it| it.agent == *agent)
            .filter(|it| it.server.as_ref().is_none_or(|its| its == server))
            .cloned()
            .collect()
    }

    /// How many are in memory.
    pub(crate) fn count(&self) -> usize {
        self.by_key.read().len()
    }

    /// A session that is in memory.
    pub(crate) fn in_memory(&self, key: &IdHash) -> Option<Arc<Session>> {
        self.by_key.read().get(key).cloned()
    }

    /// Ends the connections that read the listening streams of some sessions. Streams and sessions stay.
    pub(crate) fn part_listening(&self, of: impl Fn(&Session) -> bool) {
        for session in self.by_key.read().values().filter(|session| of(session)) {
            session.part_listening();
        }
    }

    /// Drops the sessions of connections and agents that are no more. Where one comes back, so do those
    /// of its sessions that are still on record.
    pub(crate) fn retain(&self, still_there: impl Fn(&AgentName, Option<&ServerName>) -> bool) {
        let gone = |session: &Session| !still_there(&session.agent, session.server.as_ref());
        let dropped: Vec<_> = {
            let mut by_key = self.by_key.write();
            let dropped = by_key.extract_if(|_, session| gone(session));
            dropped.map(|(_, session)| session).collect()
        };
        for session in dropped {
            session.close();
        }
    }

    /// Drops the longest unused sessions from memory, down to what may be there. They stay on record.
    async fn relieve(&self) {
        let dropped = self.drop_quiet();
        self.note_all(&dropped).await;
        for session in dropped {
            session.close();
        }
    }

    fn drop_quiet(&self) -> Vec<Arc<Session>> {
        let mut by_key = self.by_key.write();
        let mut quiet: Vec<_> = by_key
            .values()
            .filter(|session| Arc::strong_count(session) == 1 && session.is_quiet())
            .map(|session| (session.used_at(), session.key))
            .collect();
        // A tenth more than needed, so that this is not done for every new session.
        let surplus = by_key.len().saturating_sub(self.most_in_memory * 9 / 10);
        quiet.sort_unstable();
        quiet.truncate(surplus);
        quiet
            .iter()
            .filter_map(|(_, key)| by_key.remove(key))
            .collect()
    }

    /// Writes down when sessions were used, as far as that is news.
    async fn note_all(&self, sessions: &[Arc<Session>]) {
        let news: Vec<_> = sessions
            .iter()
            .filter(|it| it.is_news(NOTE_EVERY))
            .collect();
        for some in news.chunks(NOTES_TOGETHER) {
            join_all(some.iter().map(|session| self.note(session))).await;
        }
    }

    async fn note(&self, session: &Session) {
        let used = session.used_at();
        match self.records.touch_agent_session(&session.key, used).await {
            Ok(_) => session.noted(used),
            Err(error) => tracing::warn!(%error, "the use of a session could not be noted"),
        }
    }

    /// Notes what was used, and forgets what was not for too long.
    pub(crate) async fn sweep(&self) {
        let all: Vec<_> = self.by_key.read().values().cloned().collect();
        let idle = i64::try_from(self.idle.as_millis()).unwrap_or(i64::MAX);
        let before = Wall(clock::wall().0.saturating_sub(idle));
        self.note_all(&all).await;
        for session in all {
            if session.used_at() < before && session.is_quiet() {
                self.by_key.write().remove(&session.key);
                session.close();
            }
        }
        self.forget_listeners();
        if let Err(error) = self.records.remove_idle_agent_sessions(before).await {
            tracing::warn!(%error, "idle sessions could not be removed from the store");
        }
    }

    fn forget_listeners(&self) {
        self.listening.write().retain(|_, those| {
            those.retain(|session| session.strong_count() > 0);
            !those.is_empty()
        });
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
