//! What is known of a stream that this daemon holds. Whoever changes it hands over what is to be written.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use steadfast::Receipt;
use steadfast_core::OperationId;
use steadfast_core::replay::{Requirement, Resource, Until};
use steadfast_store::{EventWrite, StreamName};

use super::About;
use crate::agents::legacy::call::{SessionCall, Step};
use crate::clock;

/// What one stream may hold in memory; a slow reader gets the rest from the disk.
const BUDGET: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct State {
    pub(super) about: About,
    /// The events in memory; the first of them has the number `first`. Number 0 is the priming event.
    pub(super) events: VecDeque<Bytes>,
    pub(super) first: u64,
    pub(super) bytes: usize,
    /// The number after the last event that is on disk.
    pub(super) on_disk: u64,
    /// Whether the stream itself is.
    pub(super) is_opened: bool,
    /// What opens it on disk, together with what comes first.
    pub(super) opening: Vec<EventWrite>,
    /// What is to be written next.
    pub(super) outbox: Vec<EventWrite>,
    /// Whether it could not be written: then it is only in memory.
    pub(super) is_volatile: bool,
    pub(super) ended: bool,
    pub(super) requirements: Vec<Requirement>,
    /// The call whose answer this is, as long as it is not complete.
    pub(super) call: Option<SessionCall>,
    /// For when the agent has gone during a consequential call, and comes back for the response.
    pub(super) receipt: Option<Receipt>,
    /// Whether a task of its own reads the call, because no agent does.
    pub(super) pumped: bool,
    /// Which reader is the present one. A later one takes the stream over.
    pub(super) turn: u64,
    pub(super) attached: bool,
    /// The number of the first event that no reader has taken.
    pub(super) untaken: u64,
    pub(super) waker: Option<Waker>,
}

impl State {
    pub(super) fn new(
        about: About,
        next: u64,
        is_opened: bool,
        requirements: Vec<Requirement>,
    ) -> Self {
        Self {
            about,
            events: VecDeque::new(),
            first: next,
            bytes: 0,
            on_disk: next,
            is_opened,
            opening: Vec::new(),
            outbox: Vec::new(),
            is_volatile: false,
            ended: false,
            requirements,
            call: None,
            receipt: None,
            pumped: false,
            turn: 0,
            attached: false,
            untaken: next,
            waker: None,
        }
    }

    /// The number after the last event.
    pub(super) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    pub(super) fn push(&mut self, stream: StreamName, data: Bytes) {
        let number = self.end();
        self.bytes += data.len();
        self.events.push_back(data.clone());
        let at = clock::wall();
        self.outbox.push(EventWrite::Append {
            stream,
            number,
            at,
            data,
        });
    }

    /// Lets go of what is on disk and nobody is about to take.
    pub(super) fn trim(&mut self) {
        while self.first < self.on_disk {
            let is_taken = !self.attached || self.first < self.untaken;
            let is_too_much = self.bytes > BUDGET;
            if !(is_too_much || is_taken && !self.is_volatile) {
                break;
            }
            let Some(event) = self.events.pop_front() else {
                break;
            };
            self.bytes -= event.len();
            self.first += 1;
        }
        if self.events.is_empty() {
            // Room that a burst took is not kept by a quiet stream.
            self.events.shrink_to_fit();
        }
    }

    pub(super) fn close(&mut self, stream: StreamName) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.call = None;
        let at = clock::wall();
        self.outbox.push(EventWrite::End { stream, at });
    }

    /// Takes what the call has: an event more, or the end.
    pub(super) fn poll_call(&mut self, cx: &mut Context<'_>, stream: StreamName) -> Poll<()> {
        let Some(call) = &mut self.call else {
            return Poll::Pending;
        };
        let polled = call.poll_step(cx);
        let operation = call.operation();
        self.know_operation(stream, 0, operation);
        match ready!(polled) {
            Step::Message(message) => self.push(stream, message),
            Step::Last(message) => {
                self.push(stream, message);
                self.close(stream);
            }
            Step::End => self.close(stream),
        }
        Poll::Ready(())
    }

    /// A call is on record in the ledger now: another daemon has to know as what.
    pub(super) fn know_operation(
        &mut self,
        stream: StreamName,
        call: usize,
        operation: Option<OperationId>,
    ) {
        let Some(call) = self.about.calls.get_mut(call) else {
            return;
        };
        if operation.is_none() || call.operation == operation {
            return;
        }
        call.operation = operation;
        self.write_about(stream);
    }

    pub(super) fn write_about(&mut self, stream: StreamName) {
        let about = self.about.to_json();
        let opened = self.opening.iter_mut().find_map(|write| match write {
            EventWrite::Open(record) => Some(record),
            EventWrite::Append { .. }
            | EventWrite::Require { .. }
            | EventWrite::End { .. }
            | EventWrite::About { .. }
            | EventWrite::Leave { .. }
            | EventWrite::Forget { .. }
            | EventWrite::ForgetSession { .. } => None,
        });
        match opened {
            Some(record) => record.about = about,
            None => self.outbox.push(EventWrite::About { stream, about }),
        }
    }

    pub(super) fn require(&mut self, stream: StreamName, resource: Resource) {
        if self.requirements.iter().any(|it| it.resource == resource) {
            return;
        }
        let until = Until::Open;
        self.outbox.push(EventWrite::Require {
            stream,
            resource: resource.clone(),
            until,
        });
        self.requirements.push(Requirement { resource, until });
    }

    /// Nothing in memory is needed any more.
    pub(super) fn is_done(&self) -> bool {
        self.ended && !self.attached && !self.is_volatile && self.on_disk == self.end()
    }
}
