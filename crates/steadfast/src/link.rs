//! One agent's connection to one server, as callers see it.

mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use steadfast_core::bridge;
use steadfast_core::catalog::List;
use steadfast_core::now::{Mono, Wall};
use steadfast_core::question::Refusal;
use steadfast_core::wire::envelope::{self, Kind as MessageKind};
use steadfast_core::{
    AgentName, Deadline, Era, Fault, Generation, Revision, RpcId, ServerName, connection,
};
use steadfast_store::IdHash;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::call::{Answer, Call, Message, Origin};
use crate::catalog::Catalog;
use crate::clock;
use crate::drive::Input;
use crate::grants::Credential;
use crate::handle::CallHandle;
use crate::keeper::{Change, Listener};
use crate::levels::Levels;
use crate::operations::Ledger;
use crate::question::ServerRequest;
use crate::report::{self, FaultReport, GrantReport, Report};
use crate::route::{Route, Upstream};
use crate::send::{self, Stray};
use crate::subscriber::Wishes;

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

/// Whether requests can go out now.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// They can, on this route.
    Ready(Arc<Route>),
    /// An attempt is under way: worth waiting for.
    Opening,
    /// Not now.
    Down,
}

/// What the server was asked to remember for the session: restored in the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remembered {
    /// The level of `logging/setLevel`, as its raw params.
    pub(crate) log_level: Option<String>,
    /// The URIs of `resources/subscribe`.
    pub(crate) subscriptions: BTreeSet<String>,
}

/// What is shown of the connection; written by its driver only.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) state: connection::State,
    pub(crate) since: Wall,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) stream_deadline: Option<Deadline>,
    pub(crate) stream_note: Option<String>,
    pub(crate) session_since: Option<Mono>,
}

/// Whose a connection is that serves one conversation only.
#[derive(Debug)]
pub(crate) struct Private {
    pub(crate) conversation: IdHash,
    /// What its client said of itself.
    pub(crate) client: Arc<bridge::Client>,
}

/// One agent's connection to one server.
#[derive(Debug)]
pub struct Link {
    pub(crate) agent: AgentName,
    pub(crate) server: ServerName,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) view: Mutex<View>,
    pub(crate) hello: RwLock<Option<Arc<Hello>>>,
    pub(crate) catalog: Catalog,
    pub(crate) remembered: Mutex<Remembered>,
    pub(crate) wishes: Wishes,
    pub(crate) levels: Levels,
    /// The configured server; `None` where its configuration cannot work.
    pub(crate) upstream: RwLock<Option<Arc<Upstream>>>,
    /// The grant of the agent for the server.
    pub(crate) credential: Credential,
    pub(crate) inbox: mpsc::UnboundedSender<Input>,
    pub(crate) listener: Arc<RwLock<Option<Arc<dyn Listener>>>>,
    pub(crate) changes: broadcast::Sender<Change>,
    /// The last RPC id; one count for all links.
    ids: Arc<AtomicI64>,
    /// Where consequential calls are put on record.
    pub(crate) ledger: Arc<Ledger>,
    stray: Stray,
    pub(crate) private: Option<Private>,
    last_answer: AtomicU64,
    last_answer_wall: AtomicI64,
    no_ping: AtomicBool,
}

impl Link {
    pub(crate) fn new(
        credential: Credential,
        inbox: mpsc::UnboundedSender<Input>,
        listener: Arc<RwLock<Option<Arc<dyn Listener>>>>,
        changes: broadcast::Sender<Change>,
        ids: Arc<AtomicI64>,
        ledger: Arc<Ledger>,
        catalog: Catalog,
    ) -> Self {
        let (agent, server) = credential.owner().clone();
        Self {
            agent,
            server,
            credential,
            // Until its driver has begun there is something to wait for.
            phase: watch::Sender::new(Phase::Opening),
            view: Mutex::new(View {
                state: connection::State::Disabled,
                since: clock::wall(),
                deadline: None,
                stream_deadline: None,
                stream_note: None,
                session_since: None,
            }),
            hello: RwLock::default(),
            catalog,
            remembered: Mutex::default(),
            wishes: Wishes::default(),
            levels: Levels::default(),
            upstream: RwLock::default(),
            inbox,
            listener,
            changes,
            ids,
            ledger,
            stray: Stray::default(),
            private: None,
            last_answer: AtomicU64::new(0),
            last_answer_wall: AtomicI64::new(0),
            no_ping: AtomicBool::new(false),
        }
    }

    /// The agent.
    pub fn agent(&self) -> &AgentName {
        &self.agent
    }

    /// The server.
    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// The conversation that it serves; `None` where it serves all those of its agent.
    pub fn conversation(&self) -> Option<IdHash> {
        self.private.as_ref().map(|private| private.conversation)
    }

    /// Whether each conversation of the agent is to have a session of its own at the server
    /// (`isolate_sessions`). A modern server has no sessions that could be told apart.
    pub fn isolates(&self) -> bool {
        let upstream = self.upstream.read();
        upstream
            .as_ref()
            .is_some_and(|it| it.config.isolate_sessions)
            && self.hello().is_none_or(|hello| hello.era() == Era::Legacy)
    }

    /// The same, for one conversation only.
    pub(crate) fn private_to(self, private: Private) -> Self {
        Self {
            private: Some(private),
            ..self
        }
    }

    /// Takes over what another connection of the agent knows of the server.
    pub(crate) fn inherit(&self, other: &Self) {
        *self.hello.write() = other.hello();
        self.catalog.inherit(&other.catalog);
    }

    /// The connection object.
    pub fn report(&self) -> Report {
        let view = self.view.lock().clone();
        let hello = self.hello();
        let now = clock::now();
        let next = [view.deadline, view.stream_deadline]
            .into_iter()
            .flatten()
            .filter_map(|deadline| {
                let left = deadline.at.since(now.mono).0;
                let at = Wall(now.wall.0.saturating_add_unsigned(left));
                Some((deadline.at, report::next(deadline, at, &view.state)?))
            })
            .min_by_key(|(at, _)| *at)
            .map(|(_, next)| next);
        let held = self.credential.held();
        // While calls succeed the connection is connected, whatever became of a renewal; what a person must
        // know about it is said all the same (interface, "The connection object").
        let of_grant = held.state.fault().filter(|fault| fault.person_needed());
        let of_scope = held.step_up.fault();
        let fault = view.state.fault().or(of_grant).or(of_scope.as_ref());
        let grant = GrantReport::from(&held);
        let last = self.last_answer_wall.load(Ordering::Relaxed);
        Report {
            agent: self.agent.as_str().to_owned(),
            server: self.server.as_str().to_owned(),
            state: view.state.name().to_owned(),
            since: report::rfc3339(view.since),
            fault: fault.map(FaultReport::from),
            next,
            revision: hello.as_ref().map(|hello| hello.revision.to_string()),
            era: hello.as_ref().map(|hello| hello.era().as_str().to_owned()),
            session_age_s: view
                .session_since
                .map(|since| now.mono.since(since).0 / 1_000),
            tools: self.listed(List::Tools).map(|tools| tools.entries.len()),
            last_answer_at: (last > 0).then(|| report::rfc3339(Wall(last))),
            stream: view.stream_note,
            grant,
            sign_in_url: self.credential.sign_in_url(),
        }
    }

    /// What the server said of itself; `None` before it was ever connected.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        self.hello.read().clone()
    }

    /// Whether the last complete list of tools has this one, and agents may see it.
    pub fn knows_tool(&self, name: &str) -> bool {
        self.listed(List::Tools)
            .is_some_and(|tools| tools.entry(name).is_some())
    }

    /// Whether the operator lets agents see and call this tool (`tools_allow`, `tools_deny`).
    pub fn allows_tool(&self, name: &str) -> bool {
        self.catalog.allows(name)
    }

    /// Sends one request and waits for its answer, or for what is known without one. The future may
    /// be dropped at any time; what the upstream is then told is the policy's business.
    pub fn call(
        self: &Arc<Self>,
        call: Call,
        handle: CallHandle,
    ) -> impl Future<Output = Answer> + Send + Unpin + use<> {
        send::detached(Arc::clone(self), call, handle)
    }

    /// Passes a notification of the agent on, best effort. Not for `initialized` and `cancelled`.
    pub async fn notify(self: &Arc<Self>, message: Bytes, origin: &Origin) {
        let Phase::Ready(route) = self.phase.borrow().clone() else {
            return;
        };
        // 2026-07-28 defines no notifications from client to server over HTTP ("Sending Messages").
        let eras_agree = match origin {
            Origin::Legacy { .. } => route.era() == Era::Legacy,
            Origin::Modern { .. } => route.era() == Era::Modern,
        };
        if eras_agree {
            send::post_quietly(self, &route, message).await;
        }
    }

    /// Reconnects now, whatever the schedule says, and waits until it has settled or `limit` is over.
    pub async fn reload(&self, limit: Duration) -> Report {
        // A renewal first: what it brings may be what the connection needs (architecture, grants 7).
        self.credential.reload(limit).await;
        let (settled, has_settled) = oneshot::channel();
        self.tell(Input::Reload(settled));
        let _ = tokio::time::timeout(limit, has_settled).await;
        self.report()
    }

    /// Puts on record what the session was asked to remember: a daemon that is killed the moment after
    /// the agent has its answer must not have forgotten it.
    pub(crate) async fn keep_remembered(&self) {
        let (kept, is_kept) = oneshot::channel();
        self.tell(Input::Remembered(kept));
        let _ = is_kept.await;
    }

    /// A fresh RPC id for the upstream, unlike any other in flight.
    pub(crate) fn next_id(&self) -> i64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// The server answered something: it lives.
    pub(crate) fn heard(&self) {
        let now = clock::now();
        self.last_answer.store(now.mono.0, Ordering::Relaxed);
        self.last_answer_wall.store(now.wall.0, Ordering::Relaxed);
    }

    /// When it last did.
    pub(crate) fn last_answer(&self) -> Option<Mono> {
        match self.last_answer.load(Ordering::Relaxed) {
            0 => None,
            at => Some(Mono(at)),
        }
    }

    /// The server does not know ping: not asked that way again.
    pub(crate) fn no_ping(&self) {
        self.no_ping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn knows_no_ping(&self) -> bool {
        self.no_ping.load(Ordering::Relaxed)
    }

    /// The operator changed which tools agents may see: for them the list changed.
    pub(crate) fn access_changed(self: &Arc<Self>) {
        self.announce();
        let Some(listener) = self.listener.read().clone() else {
            return;
        };
        let is_announced = |hello: Arc<Hello>| List::Tools.offer(&hello.result).announced;
        if !self.hello().is_none_or(is_announced) {
            // An agent of this server alone was promised no announcements and gets none; with others it may be.
            return listener.reopened(self);
        }
        let method = List::Tools.changed();
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        listener.notification(self, Bytes::from(message));
    }

    /// Tells everyone who watches what there is to see now.
    pub(crate) fn announce(&self) {
        if self.private.is_some() {
            return;
        }
        let report = Arc::new(self.report());
        let _ = self.changes.send(Change::Connection(report));
    }

    /// Tells the driver.
    pub(crate) fn tell(&self, input: Input) {
        let _ = self.inbox.send(input);
    }

    /// Tells the driver that an opening is lost.
    pub(crate) fn lost(&self, generation: Generation, fault: Fault) {
        self.tell(Input::Connection(connection::Event::Lost {
            generation,
            fault,
        }));
    }

    /// Asks the driver to find out whether the server still answers.
    pub(crate) fn doubt(&self, generation: Generation) {
        self.tell(Input::Connection(connection::Event::Doubt { generation }));
    }

    /// Whether anybody would hear a notification now.
    pub(crate) fn is_listened_to(&self) -> bool {
        let listener = self.listener.read().clone();
        listener.is_some_and(|listener| listener.is_listened_to(self))
    }

    /// Hands a notification to the listener.
    pub(crate) fn tell_listener(self: &Arc<Self>, message: Bytes) {
        if let Some(listener) = self.listener.read().clone() {
            listener.notification(self, message);
        }
    }

    /// Handles a message that came outside of any call: answers a ping, takes note of changed lists,
    /// and hands the rest to the listener.
    pub(crate) fn aside(self: &Arc<Self>, route: &Arc<Route>, message: Bytes) {
        self.heard();
        let Ok(read) = envelope::read(&message) else {
            // Heartbeats in many shapes (SP-04): life, nothing more.
            tracing::debug!(server = %self.server, "something on the stream is not JSON-RPC");
            return;
        };
        let method = read.method(&message);
        match read.kind {
            MessageKind::Request if method == "ping" => {
                self.answer_ping(route, &message, &read);
            }
            MessageKind::Request => {
                let request = ServerRequest::new(self, route, message);
                match self.listener.read().clone() {
                    Some(listener) => listener.request(self, request, &route.in_flight()),
                    None => request.refuse(Refusal::Unable),
                }
            }
            MessageKind::Notification if method == "notifications/progress" => {
                self.progress(route, &message, &read);
            }
            MessageKind::Notification => {
                // Before anybody is told: who asks then must get the new list.
                self.note_change(&method);
                self.tell_listener(message);
            }
            MessageKind::Result | MessageKind::Error => {
                if let Some((read, message)) = route.waiting.answered(read, message) {
                    self.came_late(&read, message);
                }
            }
        }
    }

    /// An answer that no call waits for: it may settle an operation whose answer was lost.
    pub(crate) fn came_late(self: &Arc<Self>, read: &envelope::Envelope, message: Bytes) {
        let Some(RpcId::Integer(id)) = read.rpc_id(&message) else {
            return;
        };
        if !self.ledger.awaits(id) {
            return;
        }
        let (link, read) = (Arc::clone(self), read.clone());
        tokio::spawn(async move {
            let owner = (&link.agent, &link.server);
            link.ledger.came_late(owner, id, &message, &read).await;
        });
    }

    /// Progress that came elsewhere than on the stream of its call: to that call, if it is in flight, and
    /// to nobody else (GW-03, GW-04).
    pub(crate) fn progress(&self, route: &Arc<Route>, message: &Bytes, read: &envelope::Envelope) {
        let known = send::token_of(message, read).and_then(|id| Some((id, route.call(id)?)));
        let for_agent = known
            .as_ref()
            .map(|(id, job)| (job, job.progress(*id, message, read)));
        match for_agent {
            // An agent that asked for none gets none.
            Some((job, Some(message))) => {
                let _ = job.handle().aside(Message::Notification(message));
            }
            Some((_, None)) | None => self.stray_progress(),
        }
    }

    /// One note for many: a server that does this does it all day (GW-04).
    pub(crate) fn stray_progress(&self) {
        if let Some(dropped) = self.stray.note(clock::mono()) {
            tracing::info!(
                agent = %self.agent, server = %self.server, dropped,
                "progress of no call in flight, or that goes backwards, is dropped"
            );
        }
    }

    /// 2025-11-25 basic/utilities/ping: the receiver MUST respond promptly.
    pub(crate) fn answer_ping(
        self: &Arc<Self>,
        route: &Arc<Route>,
        message: &Bytes,
        read: &envelope::Envelope,
    ) {
        let Some(id) = read.rpc_id(message) else {
            return;
        };
        let pong = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        let (link, route) = (Arc::clone(self), Arc::clone(route));
        tokio::spawn(async move {
            send::post_quietly(&link, &route, Bytes::from(pong)).await;
        });
    }
}
