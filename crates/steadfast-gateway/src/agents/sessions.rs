//! Legacy sessions of agents. They are on record, so that neither a restart of the gateway nor a long
//! silence is noticed; in memory are only those that are in use, so that agents that go away without
//! a word cost nothing (OP-06).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use steadfast::{CallHandle, ServerRequest};
use steadfast_core::bridge::Client;
use steadfast_core::wire::{envelope, json, splice};
use steadfast_core::{AgentName, Revision, RpcId, ServerName, SessionId, Wall};
use steadfast_store::{AgentSessionRecord, IdHash, SharedRecords, hash_id};
use tokio::time::Instant;

use super::events::Stream;
use crate::clock;
use crate::unguessable::Unguessable;

/// How much later than noted a session must have been used before that is noted again.
const NOTE_EVERY: i64 = 60_000;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) key: IdHash,
    pub(crate) agent: AgentName,
    pub(crate) server: ServerName,
    pub(crate) revision: Revision,
    opened_at: Wall,
    used_at: AtomicI64,
    noted_at: AtomicI64,
    /// Whether the server was not known yet when the session was opened.
    pub(crate) unseen: AtomicBool,
    live: Mutex<Live>,
}

/// What a session has under way.
#[derive(Debug)]
struct Live {
    client: Arc<Client>,
    calls: Vec<(u64, RpcId, CallHandle)>,
    calls_made: u64,
    questions: Vec<Question>,
    next_question: i64,
    listening: Option<Arc<Stream>>,
}

/// A question of the server that waits for the agent.
#[derive(Debug)]
struct Question {
    /// The id that the agent sees.
    id: i64,
    /// The id that the server gave it.
    server_id: Option<RpcId>,
    asked_at: Instant,
    /// The call that caused it; none for the listening stream.
    call: Option<u64>,
    request: ServerRequest,
}

impl Session {
    fn from_record(
        record: AgentSessionRecord,
        server: ServerName,
        client: Arc<Client>,
        first_question: u32,
    ) -> Self {
        Self {
            key: record.id_hash,
            agent: record.agent,
            server,
            revision: record.revision,
            opened_at: record.opened_at,
            used_at: AtomicI64::new(record.used_at.0),
            noted_at: AtomicI64::new(record.used_at.0),
            unseen: AtomicBool::new(false),
            live: Mutex::new(Live {
                client,
                calls: Vec::new(),
                calls_made: 0,
                questions: Vec::new(),
                // Ids of before a restart must not answer questions of after it.
                next_question: i64::from(first_question) << 8,
                listening: None,
            }),
        }
    }

    fn record(&self) -> AgentSessionRecord {
        let client = self.client();
        AgentSessionRecord {
            id_hash: self.key,
            agent: self.agent.clone(),
            server: Some(self.server.clone()),
            revision: self.revision,
            client_info: client.info.clone(),
            capabilities: client.capabilities.clone(),
            log_level: client.log_level.clone(),
            subscriptions: Vec::new(),
            opened_at: self.opened_at,
            used_at: Wall(self.used_at.load(Ordering::Relaxed)),
        }
    }

    /// What the agent said of itself.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.live.lock().client)
    }

    /// Whether the agent declared `capability` in `initialize`.
    fn can(&self, capability: &str) -> bool {
        let client = self.client();
        let object = client.capabilities.as_bytes();
        json::at_path(object, 0..object.len(), &[capability]).is_some()
    }

    /// Notes a call under way; it is forgotten when what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>, id: RpcId, handle: CallHandle) -> UnderWay {
        let mut live = self.live.lock();
        live.calls_made += 1;
        let number = live.calls_made;
        live.calls.push((number, id, handle));
        drop(live);
        UnderWay {
            session: Arc::clone(self),
            number,
        }
    }

    /// The agent cancels a call. `reason` is raw JSON.
    pub(crate) fn cancel(&self, id: &RpcId, reason: Option<&String>) {
        let live = self.live.lock();
        for (_, _, handle) in live
            .calls
            .iter()
            .filter(|(_, under_way, _)| under_way == id)
        {
            handle.cancel(reason.cloned());
        }
    }

    /// Asks the agent something: the message to send, with an id of our own. The question comes back
    /// where the agent did not declare that it can answer (GW-05).
    pub(crate) fn ask(
        &self,
        request: ServerRequest,
        call: Option<u64>,
    ) -> Result<Bytes, ServerRequest> {
        let source = &request.message;
        let Ok(envelope) = envelope::read(source) else {
            return Err(request);
        };
        let able = match &*envelope.method(source) {
            "sampling/createMessage" => self.can("sampling"),
            "elicitation/create" => self.can("elicitation"),
            "roots/list" => self.can("roots"),
            _ => true,
        };
        let Some(range) = envelope.id.clone().filter(|_| able) else {
            return Err(request);
        };
        let server_id = envelope.rpc_id(source);
        let mut live = self.live.lock();
        live.next_question += 1;
        let id = live.next_question;
        let with = id.to_string();
        let mut edits = [splice::Edit {
            range,
            with: with.as_bytes(),
        }];
        let message = splice::apply(source, &mut edits).into();
        live.questions.push(Question {
            id,
            server_id,
            asked_at: Instant::now(),
            call,
            request,
        });
        Ok(message)
    }

    /// Takes the question that the agent answers.
    pub(crate) fn take_question(&self, id: &RpcId) -> Option<ServerRequest> {
        let RpcId::Integer(id) = id else {
            return None;
        };
        let mut live = self.live.lock();
        let at = live
            .questions
            .iter()
            .position(|question| question.id == *id)?;
        Some(live.questions.swap_remove(at).request)
    }

    /// A notification on its way to the agent. Where it takes a question back, it gets the id that the
    /// agent knows (2025-11-25 cancellation: `requestId` of "a request that was previously issued").
    pub(crate) fn translate(&self, message: Bytes) -> Bytes {
        if self.live.lock().questions.is_empty() {
            return message;
        }
        self.taken_back(&message).unwrap_or(message)
    }

    fn taken_back(&self, message: &Bytes) -> Option<Bytes> {
        let envelope = envelope::read(message).ok()?;
        if envelope.method(message) != "notifications/cancelled" {
            return None;
        }
        let range = envelope::read_params(message, &envelope).request_id?;
        let text = std::str::from_utf8(message.get(range.clone())?).ok()?;
        let server_id = RpcId::from_json(text);
        let mut live = self.live.lock();
        let at = live
            .questions
            .iter()
            .position(|question| question.server_id == server_id)?;
        let id = live.questions.swap_remove(at).id.to_string();
        drop(live);
        let mut edits = [splice::Edit {
            range,
            with: id.as_bytes(),
        }];
        Some(splice::apply(message, &mut edits).into())
    }

    /// The listening stream, made where there is none yet.
    pub(crate) fn listening(&self, open: impl FnOnce() -> Arc<Stream>) -> Arc<Stream> {
        Arc::clone(self.live.lock().listening.get_or_insert_with(open))
    }

    /// The listening stream, if the agent ever opened it.
    pub(crate) fn listening_now(&self) -> Option<Arc<Stream>> {
        self.live.lock().listening.clone()
    }

    /// Nothing is under way, and nobody listens.
    fn is_quiet(&self) -> bool {
        let live = self.live.lock();
        live.calls.is_empty()
            && live.questions.is_empty()
            && !live
                .listening
                .as_ref()
                .is_some_and(|stream| stream.is_attached())
    }

    /// Questions that nobody answered for so long are dropped, which tells the server.
    fn give_up_questions(&self, wait: Duration) {
        let mut live = self.live.lock();
        let (late, open): (Vec<_>, Vec<_>) = std::mem::take(&mut live.questions)
            .into_iter()
            .partition(|question| question.asked_at.elapsed() > wait);
        live.questions = open;
        drop(live);
        drop(late);
    }

    fn close(&self) {
        let mut live = self.live.lock();
        let questions = std::mem::take(&mut live.questions);
        let listening = live.listening.take();
        drop(live);
        drop(questions);
        if let Some(stream) = listening {
            stream.discard();
        }
    }
}

/// A call that is noted in its session.
#[derive(Debug)]
pub(crate) struct UnderWay {
    session: Arc<Session>,
    number: u64,
}

impl UnderWay {
    /// Its session.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Asks the agent something on the stream of this call.
    pub(crate) fn ask(&self, request: ServerRequest) -> Result<Bytes, ServerRequest> {
        self.session.ask(request, Some(self.number))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut live = self.session.live.lock();
        live.calls.retain(|(number, _, _)| *number != self.number);
        // A question ends with the call that caused it; dropping it tells the server.
        let (over, open) = std::mem::take(&mut live.questions)
            .into_iter()
            .partition(|question| question.call == Some(self.number));
        live.questions = open;
        drop(live);
        let over: Vec<Question> = over;
        drop(over);
    }
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    records: SharedRecords,
    by_key: RwLock<HashMap<IdHash, Arc<Session>>>,
    /// Those whose agents listen, by connection.
    listening: RwLock<HashMap<(AgentName, ServerName), Vec<Weak<Session>>>>,
    /// What agents say of themselves is nearly always the same: it is kept once.
    clients: Mutex<Vec<Weak<Client>>>,
    ids: Arc<Unguessable>,
    in_memory: usize,
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
            in_memory,
            idle,
            input_wait,
        }
    }

    /// Opens a session: on record before its id is given away.
    pub(crate) async fn open(
        &self,
        agent: AgentName,
        server: ServerName,
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
            server: Some(server.clone()),
            revision,
            client_info: client.info.clone(),
            capabilities: client.capabilities.clone(),
            log_level: None,
            subscriptions: Vec::new(),
            opened_at: now,
            used_at: now,
        };
        self.records.put_agent_session(&record).await?;
        let session = Arc::new(self.session(record, server, client));
        if self.keep(&session) > self.in_memory {
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

    /// The session with this id, if it is this agent's with this server.
    pub(crate) async fn find(
        &self,
        id: &str,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<Arc<Session>>, steadfast_store::Error> {
        let key = hash_id(&SessionId::from(id));
        let known = self.by_key.read().get(&key).cloned();
        let session = match known {
            Some(session) => Some(session),
            None => self.recall(&key).await?,
        };
        let session = session.filter(|it| it.agent == *agent && it.server == *server);
        if let Some(session) = &session {
            session.used_at.store(clock::wall().0, Ordering::Relaxed);
        }
        Ok(session)
    }

    async fn recall(&self, key: &IdHash) -> Result<Option<Arc<Session>>, steadfast_store::Error> {
        let Some(record) = self.records.agent_session(key).await? else {
            return Ok(None);
        };
        let Some(server) = record.server.clone() else {
            return Ok(None);
        };
        let client = Client {
            info: record.client_info.clone(),
            capabilities: record.capabilities.clone(),
            log_level: record.log_level.clone(),
        };
        let session = self.session(record, server, client);
        // Another request may have recalled it meanwhile: there is one of each.
        let mut by_key = self.by_key.write();
        let session = by_key.entry(*key).or_insert_with(|| Arc::new(session));
        Ok(Some(Arc::clone(session)))
    }

    fn session(&self, record: AgentSessionRecord, server: ServerName, client: Client) -> Session {
        Session::from_record(record, server, self.shared(client), self.ids.number())
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
        session.live.lock().client = self.shared(client);
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
        let connection = (session.agent.clone(), session.server.clone());
        let mut listening = self.listening.write();
        let those = listening.entry(connection).or_default();
        those.retain(|other| other.strong_count() > 0);
        if !those
            .iter()
            .any(|other| other.as_ptr() == Arc::as_ptr(session))
        {
            those.push(Arc::downgrade(session));
        }
    }

    /// The sessions of a connection whose agents listen.
    pub(crate) fn listeners(&self, agent: &AgentName, server: &ServerName) -> Vec<Arc<Session>> {
        let connection = (agent.clone(), server.clone());
        let listening = self.listening.read();
        let those = listening
            .get(&connection)
            .map(Vec::as_slice)
            .unwrap_or_default();
        those.iter().filter_map(Weak::upgrade).collect()
    }

    /// Ends every listening stream: the gateway stops.
    pub(crate) fn end_listening(&self) {
        for session in self.by_key.read().values() {
            if let Some(stream) = session.listening_now() {
                stream.discard();
            }
        }
    }

    /// Drops the longest unused sessions from memory, down to what may be there. They stay on record.
    async fn relieve(&self) {
        for session in self.drop_quiet() {
            self.note(&session).await;
            session.close();
        }
    }

    fn drop_quiet(&self) -> Vec<Arc<Session>> {
        let mut by_key = self.by_key.write();
        let mut quiet: Vec<_> = by_key
            .values()
            .filter(|session| Arc::strong_count(session) == 1 && session.is_quiet())
            .map(|session| (session.used_at.load(Ordering::Relaxed), session.key))
            .collect();
        // A tenth more than needed, so that this is not done for every new session.
        let surplus = by_key.len().saturating_sub(self.in_memory * 9 / 10);
        quiet.sort_unstable();
        quiet.truncate(surplus);
        quiet
            .iter()
            .filter_map(|(_, key)| by_key.remove(key))
            .collect()
    }

    /// Writes down when a session was used, if that is news.
    async fn note(&self, session: &Session) {
        let used = session.used_at.load(Ordering::Relaxed);
        if used - session.noted_at.load(Ordering::Relaxed) < NOTE_EVERY {
            return;
        }
        match self
            .records
            .touch_agent_session(&session.key, Wall(used))
            .await
        {
            Ok(_) => session.noted_at.store(used, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "the use of a session could not be noted"),
        }
    }

    /// Notes what was used, forgets what was not for too long, and gives up unanswered questions.
    pub(crate) async fn sweep(&self) {
        let all: Vec<_> = self.by_key.read().values().cloned().collect();
        let before = clock::wall().0 - i64::try_from(self.idle.as_millis()).unwrap_or(i64::MAX);
        for session in all {
            self.note(&session).await;
            session.give_up_questions(self.input_wait);
            if session.used_at.load(Ordering::Relaxed) < before && session.is_quiet() {
                self.by_key.write().remove(&session.key);
                session.close();
            }
        }
        self.forget_listeners();
        if let Err(error) = self.records.remove_idle_agent_sessions(Wall(before)).await {
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
