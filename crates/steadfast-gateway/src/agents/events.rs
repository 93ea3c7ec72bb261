//! The events of every stream of a legacy agent, so that an agent that lost its connection can go on
//! where it was (2025-11-25 transports, "Resumability and Redelivery").
//!
//! An event id is `{stream}.{number}`. The stream's name is random, so that ids are unguessable, and it
//! belongs to one session, which belongs to one agent. Replay is all or nothing: either every event
//! after the named one is still there, or the id is refused.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast::Receipt;
use steadfast_core::Revision;
use steadfast_core::wire::sse;
use steadfast_store::IdHash;
use tokio::time::Instant;

use super::legacy::call::{SessionCall, Step};
use super::stream_body::Source;
use crate::unguessable::Unguessable;

/// What one stream may hold; the oldest events go first.
const STREAM_BUDGET: usize = 4 << 20;
/// What a stream costs besides its events.
const STREAM_COST: usize = 512;
/// What agents are told to wait before they resume, in milliseconds.
const RETRY: u64 = 1_000;

/// All streams that can be resumed.
#[derive(Debug)]
pub(crate) struct EventLog {
    streams: Mutex<Streams>,
    retention: Duration,
    budget: usize,
    names: Arc<Unguessable>,
}

#[derive(Debug, Default)]
struct Streams {
    by_name: HashMap<u128, Arc<Stream>>,
    /// Those that have ended, oldest first, with their cost.
    ended: VecDeque<(Instant, u128, usize)>,
    cost: usize,
}

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priming {
    /// An event with an id and empty data (2025-11-25 transports, "Sending Messages" 6).
    Event,
    /// An id without data, which sets the last event id and dispatches nothing: readers of before
    /// 2025-11-25 take an event with empty data for broken JSON (SP-01).
    IdOnly,
    /// Nothing: the first event brings the first id.
    None,
}

impl Priming {
    /// For the answer to a POST.
    pub(crate) fn of_answer(revision: Revision) -> Self {
        if revision.since(Revision::V2025_11_25) {
            Self::Event
        } else {
            Self::IdOnly
        }
    }

    /// For the stream of a GET.
    pub(crate) fn of_listening(revision: Revision) -> Self {
        if revision.since(Revision::V2025_11_25) {
            Self::Event
        } else {
            Self::None
        }
    }
}

impl EventLog {
    pub(crate) fn new(retention: Duration, budget: usize, names: Arc<Unguessable>) -> Arc<Self> {
        Arc::new(Self {
            streams: Mutex::default(),
            retention,
            budget,
            names,
        })
    }

    /// Opens a stream of a session.
    pub(crate) fn open(
        self: &Arc<Self>,
        session: IdHash,
        priming: Priming,
        call: Option<SessionCall>,
    ) -> Arc<Stream> {
        let stream = Arc::new(Stream {
            name: self.names.name(),
            session,
            priming,
            log: Arc::clone(self),
            state: Mutex::new(State {
                call,
                ..State::default()
            }),
        });
        let mut streams = self.streams.lock();
        streams.by_name.insert(stream.name, Arc::clone(&stream));
        drop(streams);
        stream
    }

    /// Goes on after `last_event_id`. `None` where it is unknown, of another session, or no longer
    /// followed by every event that came after it.
    pub(crate) fn resume(&self, session: &IdHash, last_event_id: &str) -> Option<Reader> {
        let (name, number) = last_event_id.split_once('.')?;
        let name = u128::from_str_radix(name, 16).ok()?;
        let number: u64 = number.parse().ok()?;
        let stream = self.streams.lock().by_name.get(&name).cloned()?;
        if stream.session != *session {
            return None;
        }
        let mut state = stream.state.lock();
        state.forget(self.retention);
        let known = number < state.end() && number + 1 >= state.first;
        drop(state);
        known.then(|| stream.reader(number + 1, false))
    }

    fn ended(&self, stream: &Stream, cost: usize) {
        let mut streams = self.streams.lock();
        let cost = cost + STREAM_COST;
        streams.ended.push_back((Instant::now(), stream.name, cost));
        streams.cost += cost;
        let budget = self.budget;
        // The newest stays, however large: its agent may be about to resume it.
        streams.forget(|cost, _, left| cost > budget && left > 1);
    }

    /// Forgets what is older than the retention.
    pub(crate) fn sweep(&self) {
        let Some(before) = Instant::now().checked_sub(self.retention) else {
            return;
        };
        let mut streams = self.streams.lock();
        streams.forget(|_, ended, _| ended < before);
        let open: Vec<_> = streams.by_name.values().cloned().collect();
        drop(streams);
        for stream in open {
            stream.state.lock().forget(self.retention);
        }
    }

    /// Forgets a stream at once.
    fn remove(&self, name: u128) {
        self.streams.lock().by_name.remove(&name);
    }
}

impl Streams {
    fn forget(&mut self, too_much: impl Fn(usize, Instant, usize) -> bool) {
        while let Some((at, name, cost)) = self.ended.front().copied() {
            if !too_much(self.cost, at, self.ended.len()) {
                break;
            }
            self.ended.pop_front();
            self.by_name.remove(&name);
            self.cost -= cost;
        }
    }
}

/// One stream of one session.
#[derive(Debug)]
pub(crate) struct Stream {
    name: u128,
    session: IdHash,
    priming: Priming,
    log: Arc<EventLog>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The events that are kept; the first of them has the number `first`. Number 0 is the priming event.
    events: VecDeque<(Instant, Bytes)>,
    first: u64,
    bytes: usize,
    ended: bool,
    /// The call whose answer this is, as long as it is not complete.
    call: Option<SessionCall>,
    /// For when the agent has gone during a consequential call, and comes back for the response.
    receipt: Option<Receipt>,
    /// Whether a task of its own reads the call, because no agent does.
    pumped: bool,
    /// Which reader is the present one. A later one takes the stream over.
    turn: u64,
    attached: bool,
    /// The number of the first event that no reader has taken.
    untaken: u64,
    waker: Option<Waker>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            first: 1,
            bytes: 0,
            ended: false,
            call: None,
            receipt: None,
            pumped: false,
            turn: 0,
            attached: false,
            untaken: 1,
            waker: None,
        }
    }
}

impl State {
    /// The number after the last event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.events.push_back((Instant::now(), message));
        while self.bytes > STREAM_BUDGET && self.events.len() > 1 {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some((_, message)) = self.events.pop_front() {
            self.bytes -= message.len();
            self.first += 1;
        }
    }

    fn forget(&mut self, retention: Duration) {
        while self
            .events
            .front()
            .is_some_and(|(at, _)| at.elapsed() > retention)
        {
            self.pop();
        }
    }

    /// Takes what the call has: an event more, or the end.
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(call) = &mut self.call else {
            return Poll::Pending;
        };
        match ready!(call.poll_step(cx)) {
            Step::Message(message) => self.push(message),
            Step::Last(message) => {
                self.push(message);
                self.close();
            }
            Step::End => self.close(),
        }
        Poll::Ready(())
    }

    fn close(&mut self) {
        self.ended = true;
        self.call = None;
    }
}

impl Stream {
    /// Reads from event `next` on, and ends every earlier reader: a message goes to one connection
    /// only (2025-11-25 transports, "Multiple Connections" 2).
    fn reader(self: &Arc<Self>, next: u64, unprimed: bool) -> Reader {
        let mut state = self.state.lock();
        state.turn += 1;
        state.attached = true;
        let turn = state.turn;
        let before = state.waker.take();
        drop(state);
        if let Some(waker) = before {
            waker.wake();
        }
        Reader {
            stream: Arc::clone(self),
            turn,
            next,
            unprimed,
        }
    }

    /// Reads what no reader has taken yet: of a new stream, everything.
    pub(crate) fn read(self: &Arc<Self>) -> Reader {
        let state = self.state.lock();
        let next = state.untaken.max(state.first);
        drop(state);
        self.reader(next, true)
    }

    /// Adds a message.
    pub(crate) fn append(&self, message: Bytes) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        state.push(message);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        state.close();
        let cost = state.bytes;
        let waker = state.waker.take();
        drop(state);
        self.log.ended(self, cost);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether an agent reads it now.
    pub(crate) fn is_attached(&self) -> bool {
        self.state.lock().attached
    }

    /// Ends it and forgets it.
    pub(crate) fn discard(&self) {
        let mut state = self.state.lock();
        state.close();
        let waker = state.waker.take();
        drop(state);
        self.log.remove(self.name);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The agent has gone. What is still to come is read all the same, so that the agent can resume,
    /// and the upstream is told nothing (architecture, connections 9).
    fn detach(self: &Arc<Self>, turn: u64) {
        let mut state = self.state.lock();
        if state.turn != turn {
            return;
        }
        state.attached = false;
        state.waker = None;
        if let Some(call) = &state.call {
            state.receipt = call.agent_left();
        }
        let orphaned = state.call.is_some() && !state.pumped;
        // Without a runtime the process is ending, and the keeper sees to what is under way.
        let Some(runtime) = tokio::runtime::Handle::try_current()
            .ok()
            .filter(|_| orphaned)
        else {
            return;
        };
        state.pumped = true;
        drop(state);
        let stream = Arc::clone(self);
        runtime.spawn(async move { std::future::poll_fn(|cx| stream.poll_pump(cx)).await });
    }

    /// Reads the call to its end.
    fn poll_pump(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut state = self.state.lock();
            if state.call.is_none() {
                return Poll::Ready(());
            }
            if state.poll_call(cx).is_pending() {
                return Poll::Pending;
            }
            let waker = state.waker.take();
            let ended = state.ended.then_some(state.bytes);
            drop(state);
            if let Some(cost) = ended {
                self.log.ended(self, cost);
            }
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn id(&self, number: u64) -> String {
        let mut id = String::with_capacity(40);
        // Writing to a String cannot fail.
        let _ = write!(id, "{:032x}.{number}", self.name);
        id
    }

    /// The beginning of a reader that goes on with event `next`.
    fn write_priming(&self, next: u64, out: &mut Vec<u8>) {
        let id = self.id(next - 1);
        match self.priming {
            Priming::Event => sse::encode(out, Some(&id), Some(RETRY), b""),
            Priming::IdOnly => {
                out.extend_from_slice(format!("id: {id}\nretry: {RETRY}\n\n").as_bytes());
            }
            Priming::None => {}
        }
    }
}

/// An agent that reads a stream.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: Arc<Stream>,
    turn: u64,
    next: u64,
    /// Whether it still has to begin with a priming event.
    unprimed: bool,
}

impl Source for Reader {
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
        if std::mem::take(&mut self.unprimed) {
            self.stream.write_priming(self.next, out);
        }
        let mut state = self.stream.state.lock();
        // Another connection has taken over, or this one is so slow that events are gone: it can only
        // learn that by resuming.
        if state.turn != self.turn || self.next < state.first {
            return Poll::Ready(false);
        }
        if self.next == state.end() && !state.ended {
            let polled = if state.pumped {
                Poll::Pending
            } else {
                state.poll_call(cx)
            };
            if polled.is_pending() {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if state.ended {
                let cost = state.bytes;
                drop(state);
                self.stream.log.ended(&self.stream, cost);
                state = self.stream.state.lock();
            }
        }
        let at = usize::try_from(self.next - state.first).unwrap_or(usize::MAX);
        if let Some((_, message)) = state.events.get(at) {
            let id = self.stream.id(self.next);
            out.reserve(message.len() + id.len() + 16);
            sse::encode(out, Some(&id), None, message);
            self.next += 1;
            state.untaken = state.untaken.max(self.next);
        }
        if state.ended
            && self.next == state.end()
            && let Some(receipt) = state.receipt.take()
        {
            receipt.taken();
        }
        Poll::Ready(!(state.ended && self.next == state.end()))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stream.detach(self.turn);
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
