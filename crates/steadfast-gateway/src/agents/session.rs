//! One legacy session of an agent, and what is under way in it: calls, questions of the server, the
//! listening stream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast::{CallHandle, Isolated, Keeper, Link, Message, Notice, ServerRequest};
use steadfast_core::bridge::{Client, Level};
use steadfast_core::question::{self, Refusal};
use steadfast_core::wire::{envelope, splice};
use steadfast_core::{AgentName, Revision, RpcId, ServerName, Wall};
use steadfast_store::{AgentSessionRecord, IdHash};

use super::events::Stream;
use super::legacy::resources::Subscriptions;
use crate::clock;

/// How many questions may wait for one agent; more are answered as if nobody could.
const MOST_QUESTIONS: usize = 64;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) key: IdHash,
    pub(crate) agent: AgentName,
    /// The server; none for a session with all the servers of the agent.
    pub(crate) server: Option<ServerName>,
    pub(crate) revision: Revision,
    opened_at: Wall,
    used_at: AtomicI64,
    noted_at: AtomicI64,
    /// How long a question may wait for the agent.
    input_wait: Duration,
    /// Whether the server was not known yet when the session was opened.
    pub(crate) unseen: AtomicBool,
    /// What the agent wants to hear of.
    pub(super) subscriptions: Subscriptions,
    live: Mutex<Live>,
    /// Connections of its own, where servers are configured so.
    isolated: Mutex<BTreeMap<ServerName, Isolated>>,
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
    /// Who asks.
    server: ServerName,
    /// The id that the server gave it.
    server_id: Option<RpcId>,
    /// The call that caused it; none for the listening stream.
    call: Option<u64>,
    /// None once the server has been told that nobody answers, and the agent has yet to learn it.
    request: Option<ServerRequest>,
}

impl Session {
    /// Of a record of the store.
    pub(crate) fn from_record(
        record: AgentSessionRecord,
        client: Arc<Client>,
        first_question: u32,
        input_wait: Duration,
    ) -> Self {
        Self {
            key: record.id_hash,
            agent: record.agent,
            server: record.server,
            revision: record.revision,
            opened_at: record.opened_at,
            used_at: AtomicI64::new(record.used_at.0),
            noted_at: AtomicI64::new(record.used_at.0),
            input_wait,
            unseen: AtomicBool::new(false),
            subscriptions: Subscriptions::of(record.subscriptions),
            live: Mutex::new(Live {
                client,
                calls: Vec::new(),
                calls_made: 0,
                questions: Vec::new(),
                // Ids of before a restart must not answer questions of after it.
                next_question: i64::from(first_question) << 8,
                listening: None,
            }),
            isolated: Mutex::default(),
        }
    }

    /// For the store.
    pub(super) fn record(&self) -> AgentSessionRecord {
        let client = self.client();
        AgentSessionRecord {
            id_hash: self.key,
            agent: self.agent.clone(),
            server: self.server.clone(),
            revision: self.revision,
            client_info: client.info.clone(),
            capabilities: client.capabilities.clone(),
            log_level: client.log_level.clone(),
            subscriptions: self.subscriptions.uris(),
            opened_at: self.opened_at,
            used_at: self.used_at(),
        }
    }

    /// It is used now.
    pub(super) fn used(&self, at: Wall) {
        self.used_at.store(at.0, Ordering::Relaxed);
    }

    /// When it was last used.
    pub(super) fn used_at(&self) -> Wall {
        Wall(self.used_at.load(Ordering::Relaxed))
    }

    /// Whether it was used this much later, in milliseconds, than the store knows.
    pub(super) fn is_news(&self, later: i64) -> bool {
        self.used_at().0 - self.noted_at.load(Ordering::Relaxed) >= later
    }

    /// The store knows that it was used then.
    pub(super) fn noted(&self, at: Wall) {
        self.noted_at.store(at.0, Ordering::Relaxed);
    }

    /// The agent said something else of itself.
    pub(super) fn set_client(&self, client: Arc<Client>) {
        self.live.lock().client = client;
    }

    /// What the agent said of itself.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.live.lock().client)
    }

    /// The connection that serves this session: `shared`, or where the server is configured so one of its
    /// own, which is opened here and ends with the session.
    pub(crate) fn link(&self, keeper: &Keeper, shared: Arc<Link>) -> Arc<Link> {
        let server = shared.server();
        let mut isolated = self.isolated.lock();
        if !shared.isolates() {
            let no_longer = isolated.remove(server);
            drop(isolated);
            drop(no_longer);
            return shared;
        }
        if let Some(own) = isolated.get(server) {
            return Arc::clone(own.link());
        }
        let Some(own) = keeper.isolated(&shared, self.key, self.client()) else {
            return shared;
        };
        let link = Arc::clone(own.link());
        isolated.insert(server.clone(), own);
        link
    }

    /// Whether it has a connection of its own to this server.
    pub(crate) fn is_isolated(&self, server: &ServerName) -> bool {
        self.isolated.lock().contains_key(server)
    }

    /// Notes a call under way. It is forgotten once what is returned is dropped and nothing is done for it
    /// any more: an agent that lost its connection can still cancel.
    pub(crate) fn begin(
        self: &Arc<Self>,
        server: &ServerName,
        id: RpcId,
        handle: CallHandle,
    ) -> UnderWay {
        let mut live = self.live.lock();
        live.forget_calls();
        live.calls_made += 1;
        let number = live.calls_made;
        live.calls.push((number, id, handle));
        drop(live);
        UnderWay {
            session: Arc::clone(self),
            server: server.clone(),
            number,
            begun_at: clock::wall(),
        }
    }

    /// The agent cancels a call.
    pub(crate) fn cancel(&self, id: &RpcId, notice: &Notice) {
        let mut live = self.live.lock();
        live.forget_calls();
        for (_, _, handle) in live
            .calls
            .iter()
            .filter(|(_, under_way, _)| under_way == id)
        {
            handle.cancel(Some(notice.clone()));
        }
    }

    /// Asks the agent something: the message to send, with an id of our own. `None` where the agent did
    /// not declare that it can answer, of which the server is told at once (GW-05).
    pub(crate) fn ask(
        self: &Arc<Self>,
        server: &ServerName,
        request: ServerRequest,
        call: Option<u64>,
    ) -> Option<Bytes> {
        match self.put(server, request, call) {
            Ok(message) => Some(message),
            Err(refused) => {
                let (request, refusal) = *refused;
                request.refuse(refusal);
                None
            }
        }
    }

    fn put(
        self: &Arc<Self>,
        server: &ServerName,
        request: ServerRequest,
        call: Option<u64>,
    ) -> Result<Bytes, Box<(ServerRequest, Refusal)>> {
        let source = &request.message;
        let read = envelope::read(source).ok();
        let Some((read, range)) = read.and_then(|read| Some((read.clone(), read.id?))) else {
            return Err(Box::new((request, Refusal::Unable)));
        };
        let params = read.params.clone().and_then(|params| source.get(params));
        let capabilities = &self.client().capabilities;
        let able = question::check(
            capabilities.as_bytes(),
            &read.method(source),
            params.unwrap_or(b"{}"),
        );
        if let Err(refusal) = able {
            return Err(Box::new((request, refusal)));
        }
        let server_id = read.rpc_id(source);
        let mut live = self.live.lock();
        if live.questions.len() >= MOST_QUESTIONS {
            drop(live);
            return Err(Box::new((request, Refusal::Gone)));
        }
        live.next_question += 1;
        let id = live.next_question;
        let with = id.to_string();
        let mut edits = [splice::Edit {
            range,
            with: with.as_bytes(),
        }];
        let message = splice::apply(source, &mut edits).into();
        let is_ours_to_end = !request.ends_by_itself();
        live.questions.push(Question {
            id,
            server: server.clone(),
            server_id,
            call,
            request: Some(request),
        });
        drop(live);
        if is_ours_to_end {
            tokio::spawn(give_up(Arc::downgrade(self), id, self.input_wait));
        }
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
        live.questions.swap_remove(at).request
    }

    /// Nobody answered a question in time: the server is told, and so is the agent, on the stream on which
    /// it was asked.
    fn give_up(&self, id: i64) {
        let mut live = self.live.lock();
        let Some(question) = live.questions.iter_mut().find(|it| it.id == id) else {
            return;
        };
        let request = question.request.take();
        let own = request.as_ref().and_then(ServerRequest::id);
        // As the server would say it: the agent's id takes the place of the server's on the way.
        let message = Bytes::from(question::taken_back(own.unwrap_or("null")));
        let (server, call) = (question.server.clone(), question.call);
        let calls = live.calls.iter();
        let handle = calls
            .filter(|(number, ..)| Some(*number) == call)
            .map(|(.., handle)| handle.clone())
            .next();
        drop(live);
        drop(request);
        match (handle, self.listening_now()) {
            (Some(handle), _) => {
                // A call that is over takes its questions with it.
                let _ = handle.aside(Message::Notification(message));
            }
            (None, Some(stream)) => {
                if let Some(message) = self.translate(&server, message) {
                    stream.append_from(&server, message);
                }
            }
            (None, None) => drop(self.take_question(&RpcId::Integer(id))),
        }
    }

    /// A notification on its way to the agent. Where it takes a question back, it gets the id that the
    /// agent knows (2025-11-25 cancellation: `requestId` of "a request that was previously issued");
    /// `None` where that question is not this agent's.
    pub(crate) fn translate(&self, server: &ServerName, message: Bytes) -> Option<Bytes> {
        let Ok(read) = envelope::read(&message) else {
            return Some(message);
        };
        if read.method(&message) != "notifications/cancelled" {
            return Some(message);
        }
        let range = envelope::read_params(&message, &read).request_id?;
        let text = std::str::from_utf8(message.get(range.clone())?).ok()?;
        let server_id = RpcId::from_json(text);
        let mut live = self.live.lock();
        let at = live
            .questions
            .iter()
            .position(|it| it.server == *server && it.server_id == server_id)?;
        let question = live.questions.swap_remove(at);
        drop(live);
        let id = question.id.to_string();
        if let Some(request) = question.request {
            request.withdraw();
        }
        let mut edits = [splice::Edit {
            range,
            with: id.as_bytes(),
        }];
        Some(splice::apply(&message, &mut edits).into())
    }

    /// The server whose question has this progress token, as raw JSON.
    pub(crate) fn asker_of(&self, token: &[u8]) -> Option<ServerName> {
        let live = self.live.lock();
        let asked = live.questions.iter().find(|question| {
            let source = question.request.as_ref().map(|request| &request.message);
            source.is_some_and(|source| {
                let read = envelope::read(source).ok();
                let given =
                    read.and_then(|read| envelope::read_params(source, &read).progress_token);
                given.is_some_and(|range| source.get(range) == Some(token))
            })
        });
        asked.map(|question| question.server.clone())
    }

    /// Whether a notification is for this agent: no log message below the level that it set. The server was
    /// told the lowest level of all who share its session.
    pub(crate) fn wants(&self, message: &[u8]) -> bool {
        let client = self.client();
        let set = client.log_level.as_ref();
        let Some(set) = set.and_then(|set| Level::from_json(set.as_bytes())) else {
            return true;
        };
        let read = envelope::read(message).ok();
        read.and_then(|read| Level::of_message(message, &read))
            .is_none_or(|level| level >= set)
    }

    /// The listening stream, made where there is none yet.
    pub(crate) fn listening(&self, open: impl FnOnce() -> Arc<Stream>) -> Arc<Stream> {
        Arc::clone(self.live.lock().listening.get_or_insert_with(open))
    }

    /// The listening stream, if the agent ever opened it.
    pub(crate) fn listening_now(&self) -> Option<Arc<Stream>> {
        self.live.lock().listening.clone()
    }

    /// Whether the agent listens now.
    pub(crate) fn listens(&self) -> bool {
        // A stream is never locked within its session: the other order is that of a call that ends.
        self.listening_now()
            .is_some_and(|stream| stream.is_attached())
    }

    /// Ends the connection that reads the listening stream. The stream goes on.
    pub(super) fn part_listening(&self) {
        if let Some(stream) = self.listening_now() {
            stream.part();
        }
    }

    /// Nothing is under way, and nobody listens.
    pub(super) fn is_quiet(&self) -> bool {
        let mut live = self.live.lock();
        live.forget_calls();
        let idle = live.calls.is_empty() && live.questions.is_empty();
        drop(live);
        idle && !self.listens()
    }

    /// It is over, or leaves the memory.
    pub(super) fn close(&self) {
        let mut live = self.live.lock();
        let questions = std::mem::take(&mut live.questions);
        drop(live);
        drop(questions);
        let isolated = std::mem::take(&mut *self.isolated.lock());
        drop(isolated);
        let listening = self.live.lock().listening.take();
        if let Some(stream) = listening {
            stream.leave();
        }
    }
}

impl Live {
    fn forget_calls(&mut self) {
        self.calls.retain(|(_, _, handle)| !handle.is_over());
    }
}

/// How long a question may wait.
async fn give_up(session: Weak<Session>, id: i64, wait: Duration) {
    tokio::time::sleep(wait).await;
    if let Some(session) = session.upgrade() {
        session.give_up(id);
    }
}

/// A call that is noted in its session.
#[derive(Debug)]
pub(crate) struct UnderWay {
    session: Arc<Session>,
    server: ServerName,
    number: u64,
    begun_at: Wall,
}

impl UnderWay {
    /// The server that is called.
    pub(crate) fn server(&self) -> &ServerName {
        &self.server
    }

    /// When it began.
    pub(crate) fn begun_at(&self) -> Wall {
        self.begun_at
    }

    /// A notification of the server on its way to the agent; see [`Session::translate`].
    pub(crate) fn translate(&self, message: Bytes) -> Option<Bytes> {
        self.session.translate(&self.server, message)
    }

    /// Asks the agent something on the stream of this call.
    pub(crate) fn ask(&self, request: ServerRequest) -> Option<Bytes> {
        self.session.ask(&self.server, request, Some(self.number))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut live = self.session.live.lock();
        live.calls
            .retain(|(number, _, handle)| *number != self.number || !handle.is_over());
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
