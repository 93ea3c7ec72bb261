//! One stream that this daemon holds. In memory is only what is not on disk yet, and what its reader has not taken.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use steadfast_core::replay::{Access, Requirement, Resource, Until};
use steadfast_core::wire::sse;
use steadfast_core::{AgentName, OperationId, ServerName, Wall};
use steadfast_store::{EventStreamRecord, EventWrite, IdHash, StreamName};

use super::state::State;
use super::{About, EventLog, Priming, RETRY, Reader, write_id};
use crate::agents::legacy::call::SessionCall;
use crate::clock;

/// How far a call is read ahead of the disk.
const AHEAD: usize = 1 << 20;

/// One stream of one session.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) name: StreamName,
    pub(super) session: IdHash,
    priming: Priming,
    log: Arc<EventLog>,
    state: Mutex<State>,
}

/// What a reader finds.
pub(super) enum Found {
    /// The next event.
    Event(Bytes),
    /// It is no longer in memory.
    OnDisk,
    /// There is no more, and will be none.
    End,
    /// There is more, for another reader.
    TakenOver,
}

impl Stream {
    pub(super) fn new(
        log: &Arc<EventLog>,
        name: StreamName,
        session: IdHash,
        about: About,
    ) -> Arc<Self> {
        Self::made(log, name, session, about, (1, false), Vec::new())
    }

    /// One of which the events before `next` are on disk.
    pub(super) fn going_on(
        log: &Arc<EventLog>,
        name: StreamName,
        session: IdHash,
        about: About,
        next: u64,
        requirements: Vec<Requirement>,
    ) -> Arc<Self> {
        Self::made(log, name, session, about, (next, true), requirements)
    }

    fn made(
        log: &Arc<EventLog>,
        name: StreamName,
        session: IdHash,
        about: About,
        (next, is_opened): (u64, bool),
        requirements: Vec<Requirement>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            session,
            priming: about.priming,
            log: Arc::clone(log),
            state: Mutex::new(State::new(about, next, is_opened, requirements)),
        })
    }

    pub(super) fn record(&self, agent: AgentName, owner: String, at: Wall) -> EventStreamRecord {
        EventStreamRecord {
            name: self.name,
            agent,
            session: self.session,
            about: self.state.lock().about.to_json(),
            owner,
            opened_at: at,
        }
    }

    /// Opens it on disk, together with what comes first.
    pub(super) fn opens(
        &self,
        record: EventStreamRecord,
        requires: impl IntoIterator<Item = Resource>,
    ) {
        let mut state = self.state.lock();
        for resource in requires {
            state.require(self.name, resource);
        }
        let requirements = std::mem::take(&mut state.outbox);
        state.opening = vec![EventWrite::Open(Box::new(record))];
        state.opening.extend(requirements);
    }

    /// The call whose answer this is.
    pub(crate) fn answers(self: &Arc<Self>, call: SessionCall) {
        self.state.lock().call = Some(call);
    }

    /// Hands over what is to be written.
    fn flush(self: &Arc<Self>, state: &mut MutexGuard<'_, State>) {
        let mut writes = std::mem::take(&mut state.opening);
        writes.append(&mut state.outbox);
        if !writes.is_empty() {
            self.log.scribe.write_of(self, writes, state.end());
        }
    }

    /// The events before `end` are on disk.
    pub(super) fn is_on_disk(&self, end: u64) {
        let mut state = self.state.lock();
        state.is_opened = true;
        state.on_disk = state.on_disk.max(end);
        state.trim();
        let waker = state.waker.take();
        let is_done = state.is_done();
        drop(state);
        if is_done {
            self.log.let_go(self.name);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The disk does not take it: what is sent from now on is in memory only.
    pub(super) fn cannot_be_kept(&self) {
        self.state.lock().is_volatile = true;
    }

    pub(super) fn is_volatile(&self) -> bool {
        self.state.lock().is_volatile
    }

    /// The events in memory, and what all of its events require.
    pub(super) fn standing(&self) -> (Range<u64>, Vec<Requirement>) {
        let state = self.state.lock();
        let (end, ended) = (state.end(), state.ended);
        let requirements = state.requirements.iter().cloned().map(|it| Requirement {
            until: match it.until {
                Until::Open if ended => Until::Event(end - 1),
                until => until,
            },
            ..it
        });
        (state.first..end, requirements.collect())
    }

    pub(super) fn requirements(&self) -> MappedRequirements<'_> {
        MutexGuard::map(self.state.lock(), |state| &mut state.requirements)
    }

    /// Reads from event `next` on, and ends every earlier reader: a message goes to one connection
    /// only (2025-11-25 transports, "Multiple Connections" 2).
    pub(super) fn reader(self: &Arc<Self>, next: u64, unprimed: bool, access: Access) -> Reader {
        let mut state = self.state.lock();
        state.turn += 1;
        state.attached = true;
        let turn = state.turn;
        let before = state.waker.take();
        drop(state);
        if let Some(waker) = before {
            waker.wake();
        }
        Reader::live(Arc::clone(self), turn, next, unprimed, access)
    }

    /// Reads what no reader has taken yet: of a new stream, everything.
    pub(crate) fn read(self: &Arc<Self>, access: Access) -> Reader {
        let next = self.state.lock().untaken;
        self.reader(next, true, access)
    }

    /// Adds a message.
    pub(crate) fn append(self: &Arc<Self>, message: Bytes) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        state.push(self.name, message);
        self.flush(&mut state);
    }

    /// Adds a message of a server, which its reader must be allowed to use.
    pub(crate) fn append_from(self: &Arc<Self>, server: &ServerName, message: Bytes) {
        let resource = Resource::server(&self.log.public_url, server);
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        state.require(self.name, resource);
        state.push(self.name, message);
        self.flush(&mut state);
    }

    /// Adds the answer to the call with this id. Nothing more comes of what it required, unless another call does.
    pub(crate) fn append_answer(
        self: &Arc<Self>,
        id: &str,
        message: Option<Bytes>,
        settled: Option<&Resource>,
    ) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        if let Some(message) = message {
            state.push(self.name, message);
        }
        let until = Until::Event(state.end() - 1);
        let requirements = state.requirements.iter_mut();
        for requirement in requirements.filter(|it| Some(&it.resource) == settled) {
            requirement.until = until;
        }
        if let Some(resource) = settled {
            state.outbox.push(EventWrite::Require {
                stream: self.name,
                resource: resource.clone(),
                until,
            });
        }
        state.about.calls.retain(|call| call.id != id);
        state.write_about(self.name);
        self.flush(&mut state);
    }

    /// A call, by its id, is this operation.
    pub(crate) fn know_operation(self: &Arc<Self>, id: &str, operation: Option<OperationId>) {
        let mut state = self.state.lock();
        let at = state.about.calls.iter().position(|call| call.id == id);
        if let Some(at) = at {
            state.know_operation(self.name, at, operation);
            self.flush(&mut state);
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.close(self.name);
        self.flush(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether an agent reads it now.
    pub(crate) fn is_attached(&self) -> bool {
        self.state.lock().attached
    }

    /// Ends its reader, which is told when to come back. The stream goes on.
    pub(crate) fn part(&self) {
        let mut state = self.state.lock();
        state.turn += 1;
        state.attached = false;
        state.trim();
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The session leaves the memory, and the stream with it. Whoever resumes it takes it up again.
    pub(crate) fn leave(self: &Arc<Self>) {
        self.part();
        let mut state = self.state.lock();
        // One that was never written is known to nobody.
        if state.opening.is_empty() {
            let (stream, at) = (self.name, clock::wall());
            state.outbox.push(EventWrite::Leave { stream, at });
            self.flush(&mut state);
        }
        drop(state);
        self.log.let_go(self.name);
    }

    /// Ends it; it is forgotten.
    pub(super) fn discard(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.call = None;
        drop(state);
        self.part();
    }

    /// The agent has gone. What is still to come is read all the same, so that the agent can resume,
    /// and the upstream is told nothing (architecture, connections 9).
    pub(super) fn detach(self: &Arc<Self>, turn: u64) {
        let mut state = self.state.lock();
        if state.turn != turn {
            return;
        }
        state.attached = false;
        state.waker = None;
        state.trim();
        if let Some(call) = &state.call {
            state.receipt = call.agent_left();
        }
        let is_done = state.is_done();
        let orphaned = state.call.is_some() && !state.pumped;
        // Without a runtime the process is ending, and the keeper sees to what is under way.
        let runtime = tokio::runtime::Handle::try_current().ok();
        if let Some(runtime) = runtime.filter(|_| orphaned) {
            state.pumped = true;
            drop(state);
            let stream = Arc::clone(self);
            runtime.spawn(async move { std::future::poll_fn(|cx| stream.poll_pump(cx)).await });
        } else if is_done {
            drop(state);
            self.log.let_go(self.name);
        }
    }

    /// Reads the call to its end.
    fn poll_pump(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut state = self.state.lock();
            if state.call.is_none() {
                return Poll::Ready(());
            }
            let polled = state.poll_call(cx, self.name);
            self.flush(&mut state);
            if polled.is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// What comes for the reader whose turn this is: what is on disk, in its order.
    pub(super) fn poll_found(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        turn: u64,
        next: u64,
    ) -> Poll<Found> {
        let mut state = self.state.lock();
        if state.turn != turn {
            return Poll::Ready(Found::TakenOver);
        }
        let mut ahead = AHEAD;
        while next >= state.on_disk && !state.ended && !state.pumped && ahead > 0 {
            let before = state.bytes;
            if state.poll_call(cx, self.name).is_pending() {
                break;
            }
            ahead = ahead.saturating_sub((state.bytes - before).max(1));
        }
        self.flush(&mut state);
        if next < state.first {
            return Poll::Ready(Found::OnDisk);
        }
        if next < state.on_disk {
            let at = usize::try_from(next - state.first).unwrap_or(usize::MAX);
            let event = state.events.get(at).cloned();
            state.untaken = state.untaken.max(next + 1);
            state.trim();
            return Poll::Ready(event.map_or(Found::End, Found::Event));
        }
        if state.ended && next >= state.end() {
            if let Some(receipt) = state.receipt.take() {
                receipt.taken();
            }
            return Poll::Ready(Found::End);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The beginning of a reader that goes on with event `next`, once the stream is on disk: what an agent knows can be
    /// resumed.
    pub(super) fn poll_priming(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        next: u64,
        out: &mut Vec<u8>,
    ) -> Poll<()> {
        if self.priming == Priming::None {
            return Poll::Ready(());
        }
        let mut state = self.state.lock();
        if !state.is_opened {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        let id = write_id(self.name, next - 1);
        match self.priming {
            Priming::Event => sse::encode(out, Some(&id), Some(RETRY), b""),
            Priming::IdOnly => {
                out.extend_from_slice(format!("id: {id}\nretry: {RETRY}\n\n").as_bytes());
            }
            Priming::None => {}
        }
        Poll::Ready(())
    }

    pub(super) fn log(&self) -> &Arc<EventLog> {
        &self.log
    }
}

pub(super) type MappedRequirements<'a> = parking_lot::MappedMutexGuard<'a, Vec<Requirement>>;
