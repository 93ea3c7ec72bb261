//! Writes down what happens to one operation, in order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::Now;
use steadfast_core::operation::{Event, Evidence, Fact, State};
use steadfast_core::step::Outcome;
use steadfast_store::{Error, OperationRecord, Problem, Swap};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::live::Writing;
use super::tracked::{Along, NotWritten, same_call};
use super::{Fed, Lasting, Ledger};
use crate::clock;

/// How soon a write that the store refused is tried again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What is to be written.
#[derive(Debug)]
pub(super) enum Work {
    /// Something happened.
    Feed(Happened),
    /// Its agent is given the response.
    Given,
    /// Its agent went away before it took the response.
    NotTaken(Bytes),
    /// Its agent came back for it.
    Taken,
    /// Says when everything before it is written.
    Flush(oneshot::Sender<()>),
    /// The same, and what it is where nothing of it is on record.
    Look(oneshot::Sender<Option<OperationRecord>>),
}

/// Something that happened, and who waits until it is written.
#[derive(Debug)]
pub(super) struct Happened {
    event: Event,
    now: Now,
    along: Along,
    done: Option<oneshot::Sender<Result<Fed, NotWritten>>>,
}

impl Work {
    pub(super) fn feed(
        event: Event,
        along: Along,
        done: Option<oneshot::Sender<Result<Fed, NotWritten>>>,
    ) -> Self {
        Self::Feed(Happened {
            event,
            now: clock::now(),
            along,
            done,
        })
    }
}

/// What writes.
pub(super) struct Scribe {
    ledger: Arc<Ledger>,
    record: OperationRecord,
    /// Whether it is not on record yet.
    is_new: bool,
    /// What happened before it was.
    before: Vec<Fact>,
    /// Whether its agent was given the answer on record.
    given: bool,
}

impl Scribe {
    /// Of an operation that is not on record yet.
    pub(super) fn begin(ledger: &Arc<Ledger>, mut record: OperationRecord, insists: bool) -> Self {
        let insisted = insists.then(|| {
            let decision = "its agent says that a further call is meant";
            ledger.noted(&mut record, Evidence::MeantAsFurther, decision)
        });
        Self {
            ledger: Arc::clone(ledger),
            record,
            is_new: true,
            before: insisted.into_iter().collect(),
            given: false,
        }
    }

    /// Of one that is.
    pub(super) fn go_on(ledger: &Arc<Ledger>, record: OperationRecord) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            record,
            is_new: false,
            before: Vec::new(),
            given: false,
        }
    }

    /// Runs until nobody tracks the operation any more.
    pub(super) async fn run(mut self, mut queue: UnboundedReceiver<Work>, writing: Writing) {
        while let Some(work) = queue.recv().await {
            self.write(work).await;
        }
        if !self.is_new && self.record.state.is_in_flight() {
            // Whoever read its answer is gone without a word: nothing may stay under way for ever.
            let evidence = "Steadfast stopped reading before there was an answer".to_owned();
            let bytes_sent = self.record.state.trail().bytes_sent;
            let lost = Event::Lost {
                bytes_sent,
                evidence,
                retry_after: None,
            };
            self.write(Work::feed(lost, Along::default(), None)).await;
        }
        if self.is_being_given() && !self.given {
            self.not_taken(None).await;
        }
        let call = same_call(&self.record);
        self.ledger.live.remove(&self.record.id, &call);
        drop(writing);
    }

    async fn write(&mut self, work: Work) {
        match work {
            Work::Feed(happened) => self.happened(happened).await,
            Work::Given => {
                if self.is_being_given() {
                    self.given = true;
                    self.ledger.given.add(&self.record);
                }
            }
            Work::NotTaken(response) => {
                // What came late was never for this call: it is kept already.
                let untaken = matches!(self.record.state, State::Observed { late: false, .. });
                if untaken && !self.is_new {
                    self.not_taken(Some(&response)).await;
                }
            }
            Work::Taken => {
                if self.record.undelivered {
                    let kept = self.ledger.taken(self.record.clone()).await;
                    let kept = kept.map(|record| {
                        if let Some(record) = record {
                            self.record = record;
                        }
                    });
                    self.note(kept);
                }
            }
            Work::Flush(done) => {
                let _ = done.send(());
            }
            Work::Look(done) => {
                let _ = done.send(self.is_new.then(|| self.record.clone()));
            }
        }
    }

    async fn happened(&mut self, happened: Happened) {
        let Happened {
            event,
            now,
            along,
            done,
        } = happened;
        let leaves = matches!(event, Event::Leave { .. });
        let (mut pause, longest) = AGAIN;
        let mut done = done;
        loop {
            let written = self.feed(&event, now, &along).await;
            let is_written = written.is_ok();
            let mut is_closed = false;
            if let Err(NotWritten::Store(error)) = &written {
                let id = &self.record.id;
                tracing::error!(%id, %error, "an operation cannot be written");
                is_closed = error.problem() == Problem::Closed;
            }
            if let Some(done) = done.take() {
                let _ = done.send(written);
            }
            // What could not leave did not. Anything else has happened, whether it is written or not.
            if is_written || leaves || is_closed {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    async fn feed(&mut self, event: &Event, now: Now, along: &Along) -> Result<Fed, NotWritten> {
        if self.is_new {
            return self.put_on_record(event, now).await;
        }
        let record = self.record.clone();
        let ledger = Arc::clone(&self.ledger);
        // Nothing leaves before that is safe; what became of it may follow.
        let lasting = match event {
            Event::Leave { .. } => {
                self.given = false;
                Lasting::Synced
            }
            _ => Lasting::Behind,
        };
        let along = |record: &mut OperationRecord| ledger.put_along(record, along);
        let fed = ledger.feed_as(record, event, now, lasting, along);
        let fed = fed.await.map_err(NotWritten::Store)?;
        self.record = fed.record.clone();
        Ok(fed)
    }

    /// Puts it on record when it leaves. What happened before that goes along; what it came to without ever leaving
    /// is nobody's business.
    async fn put_on_record(&mut self, event: &Event, now: Now) -> Result<Fed, NotWritten> {
        let ledger = &self.ledger;
        let contract = &self.record.contract;
        let step = ledger.step(self.record.state.clone(), event.clone(), contract, now);
        let fed = |record: &OperationRecord, outcome: Outcome| Fed {
            record: record.clone(),
            actions: step.actions.clone(),
            outcome,
        };
        let next = match event {
            Event::Leave { .. } | Event::AgentLeft if !step.facts.is_empty() => {
                ledger.entering(&self.record, step.state.clone(), now)
            }
            _ => return Ok(fed(&self.record, step.outcome)),
        };
        let facts: Vec<Fact> = self.before.iter().chain(&step.facts).cloned().collect();
        if !matches!(next.state, State::Sent { .. }) {
            (self.record, self.before) = (next, facts);
            return Ok(fed(&self.record, step.outcome));
        }
        let stored = ledger.store.intend(&next, &facts).await;
        match stored.map_err(NotWritten::Store)? {
            Swap::Stored(version) => {
                self.record = next;
                self.record.version = version;
                self.is_new = false;
                ledger.publish(&self.record);
                Ok(fed(&self.record, step.outcome))
            }
            Swap::Lost(Some(present)) => Err(NotWritten::Taken(present)),
            Swap::Lost(None) => Err(NotWritten::Store(super::contended(&self.record.id))),
        }
    }

    /// Whether the answer on record is for an agent that waits for it here.
    fn is_being_given(&self) -> bool {
        let record = &self.record;
        matches!(record.state, State::Observed { .. })
            && record.undelivered
            && record.driver.as_ref() == Some(&self.ledger.name)
    }

    /// Its agent went away before it took the answer.
    async fn not_taken(&mut self, response: Option<&Bytes>) {
        let kept = self.keep(response).await;
        self.note(kept);
    }

    /// Keeps the response for the identical call that asks for it.
    async fn keep(&mut self, response: Option<&Bytes>) -> Result<(), Error> {
        let mut next = self.record.clone();
        next.undelivered = true;
        next.driver = None;
        if let Some(response) = response {
            next.result = Some(self.ledger.vault.seal_result(&next.id, response)?);
        }
        let decision = "its agent went away before it took the answer, which is kept";
        let fact = self.ledger.noted(&mut next, Evidence::AgentLeft, decision);
        match self.ledger.append(next, &[fact], Lasting::Behind).await? {
            Ok(record) | Err(record) => self.record = record,
        }
        Ok(())
    }

    fn note(&self, kept: Result<(), Error>) {
        if let Err(error) = kept {
            let id = &self.record.id;
            tracing::error!(%id, %error, "whether an answer was given cannot be written");
        }
    }
}
