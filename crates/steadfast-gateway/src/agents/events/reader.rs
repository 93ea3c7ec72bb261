//! An agent that reads a stream: what is on disk first, then what comes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use steadfast_core::replay::{Access, Requirement};
use steadfast_core::wire::sse;
use steadfast_store::{Error, StreamName};

use super::stream::{Found, Stream};
use super::watch::{Watch, write_refusal};
use super::{EventLog, RETRY, write_id};
use crate::agents::stream_body::Source;

/// How much is read from the disk at a time.
const PART: usize = 256 << 10;

type Reading = Pin<Box<dyn Future<Output = Result<Vec<Bytes>, Error>> + Send>>;

/// An agent that reads a stream.
pub(crate) struct Reader {
    name: StreamName,
    from: From,
    log: Arc<EventLog>,
    watch: Watch,
    next: u64,
    /// Whether it still has to begin with a priming event.
    unprimed: bool,
    reading: Option<Reading>,
    /// What was read from the disk.
    read: VecDeque<Bytes>,
}

/// Where a reader gets what is not on disk yet.
#[derive(Debug)]
enum From {
    /// From here.
    Held { stream: Arc<Stream>, turn: u64 },
    /// From nowhere: there is no more of it, or another daemon has it.
    Disk {
        ended: bool,
        requirements: Vec<Requirement>,
    },
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("from", &self.from)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Reader {
    pub(super) fn live(
        stream: Arc<Stream>,
        turn: u64,
        next: u64,
        unprimed: bool,
        access: Access,
    ) -> Self {
        let (log, name) = (Arc::clone(stream.log()), stream.name);
        let from = From::Held { stream, turn };
        Self::new(log, name, from, next, unprimed, access)
    }

    /// Of what is on disk. Where that is not all, the agent is told when to ask for more.
    pub(super) fn of_disk(
        log: Arc<EventLog>,
        name: StreamName,
        ended: bool,
        requirements: Vec<Requirement>,
        next: u64,
        access: Access,
    ) -> Self {
        let from = From::Disk {
            ended,
            requirements,
        };
        Self::new(log, name, from, next, false, access)
    }

    fn new(
        log: Arc<EventLog>,
        name: StreamName,
        from: From,
        next: u64,
        unprimed: bool,
        access: Access,
    ) -> Self {
        Self {
            name,
            from,
            log,
            watch: Watch::new(access),
            next,
            unprimed,
            reading: None,
            read: VecDeque::new(),
        }
    }

    /// Whether the credential does not cover what comes next; then that is said.
    fn is_refused(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> bool {
        let after = self.next - 1;
        let missing = match &self.from {
            From::Held { stream, .. } => self.watch.missing(cx, &stream.requirements(), after),
            From::Disk { requirements, .. } => self.watch.missing(cx, requirements, after),
        };
        if missing.is_empty() {
            return false;
        }
        write_refusal(&write_id(self.name, after), &missing, out);
        true
    }

    fn write(&mut self, message: &Bytes, out: &mut Vec<u8>) {
        let id = write_id(self.name, self.next);
        sse::encode(out, Some(&id), None, message);
        self.next += 1;
    }

    /// Writes one event of the disk. Whether there was one.
    fn poll_disk(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
        if let Some(message) = self.read.pop_front() {
            self.write(&message, out);
            return Poll::Ready(true);
        }
        let (log, name, next) = (&self.log, self.name, self.next);
        let reading = self.reading.get_or_insert_with(|| {
            let log = Arc::clone(&log.log);
            Box::pin(async move { log.read(name, next, PART).await })
        });
        let read = ready!(reading.as_mut().poll(cx));
        self.reading = None;
        match read {
            Ok(read) => self.read = read.into(),
            Err(error) => tracing::error!(%error, "events cannot be read"),
        }
        let Some(message) = self.read.pop_front() else {
            return Poll::Ready(false);
        };
        self.write(&message, out);
        Poll::Ready(true)
    }

    /// The connection is closed on purpose, and the agent is told when to come back (2025-11-25 transports, "Sending
    /// Messages to the Server" 6).
    fn part(out: &mut Vec<u8>) -> Poll<bool> {
        out.extend_from_slice(format!("retry: {RETRY}\n\n").as_bytes());
        Poll::Ready(false)
    }
}

impl Source for Reader {
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
        if self.is_refused(cx, out) {
            return Poll::Ready(false);
        }
        let (stream, turn) = match &self.from {
            From::Held { stream, turn } => (Arc::clone(stream), *turn),
            From::Disk { ended, .. } => {
                let ended = *ended;
                return match ready!(self.poll_disk(cx, out)) {
                    true => Poll::Ready(true),
                    false if ended => Poll::Ready(false),
                    false => Self::part(out),
                };
            }
        };
        if !self.read.is_empty() {
            return self.poll_disk(cx, out);
        }
        // First, so that what is there already shares a transaction with the opening.
        let found = stream.poll_found(cx, turn, self.next);
        if self.unprimed {
            ready!(stream.poll_priming(cx, self.next, out));
            self.unprimed = false;
        }
        match ready!(found) {
            Found::Event(message) => {
                self.write(&message, out);
                Poll::Ready(true)
            }
            // An event that is neither here nor there was forgotten: that is learned by resuming only.
            Found::OnDisk => match ready!(self.poll_disk(cx, out)) {
                true => Poll::Ready(true),
                false => Self::part(out),
            },
            Found::End => Poll::Ready(false),
            Found::TakenOver => Self::part(out),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let From::Held { stream, turn } = &self.from {
            stream.detach(*turn);
        }
    }
}
