//! One legacy session of an agent, and what is under way in it: calls, questions of the server, the
//! listening stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast::{CallHandle, ServerRequest};
use steadfast_core::bridge::Client;
use steadfast_core::wire::{envelope, json, splice};
use steadfast_core::{AgentName, Revision, RpcId, ServerName, Wall};
use steadfast_store::{AgentSessionRecord, IdHash};
use tokio::time::Instant;

use super::events::Stream;

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
    /// Who asks.
    server: ServerName,
    /// The id that the server gave it.
    server_id: Option<RpcId>,
    asked_at: Instant,
    /// The call that caused it; none for the listening stream.
    call: Option<u64>,
    request: ServerRequest,
}

impl Session {
    /// Of a record of the store.
    pub(super) fn from_record(
        record: AgentSessionRecord,
        client: Arc<Client>,
        first_question: u32,
    ) -> Self {
        Self {
            key: record.id_hash,
            agent: record.agent,
            server: record.server,
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
            subscriptions: Vec::new(),
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

    /// Whether the agent declared `capability` in `initialize`.
    pub(super) fn can(&self, capability: &str) -> bool {
        let client = self.client();
        let object = client.capabilities.as_bytes();
        json::at_path(object, 0..object.len(), &[capability]).is_some()
    }

    /// Notes a call under way; it is forgotten when what is returned is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        server: &ServerName,
        id: RpcId,
        handle: CallHandle,
    ) -> UnderWay {
        let mut live = self.live.lock();
        live.calls_made += 1;
        let number = live.calls_made;
        live.calls.push((number, id, handle));
        drop(live);
        UnderWay {
            session: Arc::clone(self),
            server: server.clone(),
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
        server: &ServerName,
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
        if live.questions.len() >= MOST_QUESTIONS {
            drop(live);
            return Err(request);
        }
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
            server: server.clone(),
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

    /// A notification of a server on its way to the agent. Where it takes a question back, it gets the id
    /// that the agent knows (2025-11-25 cancellation: `requestId` of "a request that was previously
    /// issued").
    pub(crate) fn translate(&self, server: &ServerName, message: Bytes) -> Bytes {
        if self.live.lock().questions.is_empty() {
            return message;
        }
        self.taken_back(server, &message).unwrap_or(message)
    }

    fn taken_back(&self, server: &ServerName, message: &Bytes) -> Option<Bytes> {
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
            .position(|it| it.server == *server && it.server_id == server_id)?;
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

    /// Ends the listening stream.
    pub(super) fn end_listening(&self) {
        let listening = self.live.lock().listening.take();
        if let Some(stream) = listening {
            stream.discard();
        }
    }

    /// Nothing is under way, and nobody listens.
    pub(super) fn is_quiet(&self) -> bool {
        let live = self.live.lock();
        let idle = live.calls.is_empty() && live.questions.is_empty();
        let listening = live.listening.clone();
        // A stream is never locked within its session: the other order is that of a call that ends.
        drop(live);
        idle && !listening.is_some_and(|stream| stream.is_attached())
    }

    /// Questions that nobody answered for so long are dropped, which tells the server.
    pub(super) fn give_up_questions(&self, wait: Duration) {
        let mut live = self.live.lock();
        let (late, open): (Vec<_>, Vec<_>) = std::mem::take(&mut live.questions)
            .into_iter()
            .partition(|question| question.asked_at.elapsed() > wait);
        live.questions = open;
        drop(live);
        drop(late);
    }

    /// It is over, or leaves the memory.
    pub(super) fn close(&self) {
        let mut live = self.live.lock();
        let questions = std::mem::take(&mut live.questions);
        drop(live);
        drop(questions);
        self.end_listening();
    }
}

/// A call that is noted in its session.
#[derive(Debug)]
pub(crate) struct UnderWay {
    session: Arc<Session>,
    server: ServerName,
    number: u64,
}

impl UnderWay {
    /// A notification of the server on its way to the agent.
    pub(crate) fn translate(&self, message: Bytes) -> Bytes {
        self.session.translate(&self.server, message)
    }

    /// Asks the agent something on the stream of this call.
    pub(crate) fn ask(&self, request: ServerRequest) -> Result<Bytes, ServerRequest> {
        self.session.ask(&self.server, request, Some(self.number))
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
