//! One operation under way. What happens to it is written in order by a task of its own: what must be durable first
//! (that it leaves) and what decides how to go on (that its answer is lost) is waited for, and so is the answer before
//! its agent gets it. Everything else is written behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::effect::Executed;
use steadfast_core::operation::{Action, Event, State};
use steadfast_core::{Mono, OperationId, RpcId};
use steadfast_store::{Digest, Error, OperationRecord, Problem, Version};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};

use super::live::SameCall;
use super::scribe::{Scribe, Work};
use super::{Admitted, Fed, Ledger, OperationReport, unwritten};
use crate::call::{NotObserved, WhyKeptBack};

/// The longest that an answer waits to be on record.
const HOLDING_BACK: Duration = Duration::from_secs(2);

/// One operation under way.
#[derive(Debug)]
pub(crate) struct Tracked {
    id: OperationId,
    call_digest: Digest,
    ledger: Arc<Ledger>,
    works: mpsc::UnboundedSender<Work>,
    /// The id of the last attempt.
    rpc_id: AtomicI64,
    /// Whether its agent went away.
    left: AtomicBool,
    /// Its response, as long as its agent may not have taken it.
    response: Mutex<Option<Bytes>>,
    /// What is known of the last attempt whose answer was lost.
    lost: Mutex<Option<Box<NotObserved>>>,
}

/// What is written together with an event.
#[derive(Debug, Default)]
pub(crate) struct Along {
    /// The server's response, as it came.
    pub(crate) response: Option<Bytes>,
    /// Whether its agent is there, and is given it next.
    pub(crate) is_awaited: bool,
    /// Whether nobody is there whom it could be given.
    pub(crate) undelivered: bool,
    /// With what the next leg continues it.
    pub(crate) leg_hash: Option<Digest>,
}

/// Why an event is not on record.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// The key of the operation belongs to another one by now.
    Taken(Box<OperationRecord>),
    /// The store refuses.
    Store(Error),
}

/// How it goes on after a loss.
#[derive(Debug)]
pub(crate) enum AfterLoss {
    /// It is sent once more, at this time.
    Again(Mono),
    /// It is not; this is what its agent is told, unless following the task that the server made of it brings its
    /// answer first.
    Followed(Box<NotObserved>),
    /// It is not; this is what its agent is told.
    Reported(Box<NotObserved>),
}

/// How it goes on after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// It may leave again at once.
    Again,
    /// It may leave again at this time: an attempt before this one may have been executed.
    Later(Mono),
    /// It must not leave again.
    Never,
}

impl Tracked {
    /// Begins with an operation that is put on record when it first leaves. `insists`: its agent says that it means
    /// a further call.
    pub(super) fn begin(ledger: &Arc<Ledger>, record: OperationRecord, insists: bool) -> Arc<Self> {
        let known_by = (record.id.clone(), same_call(&record));
        Self::start(ledger, known_by, Scribe::begin(ledger, record, insists))
    }

    /// Goes on with one that is on record.
    pub(super) fn go_on(ledger: &Arc<Ledger>, record: OperationRecord) -> Arc<Self> {
        let known_by = (record.id.clone(), same_call(&record));
        Self::start(ledger, known_by, Scribe::go_on(ledger, record))
    }

    fn start(
        ledger: &Arc<Ledger>,
        (id, call): (OperationId, SameCall),
        scribe: Scribe,
    ) -> Arc<Self> {
        let (works, queue) = mpsc::unbounded_channel();
        let tracked = Arc::new(Self {
            id,
            call_digest: call.2,
            ledger: Arc::clone(ledger),
            works,
            rpc_id: AtomicI64::new(0),
            left: AtomicBool::new(false),
            response: Mutex::default(),
            lost: Mutex::default(),
        });
        let writing = ledger.live.add(&tracked, call);
        tokio::spawn(scribe.run(queue, writing));
        tracked
    }

    pub(crate) fn id(&self) -> &OperationId {
        &self.id
    }

    /// Puts on record that it leaves under this id. Nothing may leave before that, or where it is refused.
    pub(crate) async fn leave(&self, id: i64) -> Result<(), WhyKeptBack> {
        let rpc_id = RpcId::Integer(id);
        self.rpc_id.store(id, Ordering::Relaxed);
        match self.feed(Event::Leave { rpc_id }, Along::default()).await {
            Ok(fed) if fed.actions.is_empty() => {
                let report = OperationReport::from(&fed.record);
                Err(WhyKeptBack::PossibleRepeat(report))
            }
            Ok(_) => Ok(()),
            Err(NotWritten::Taken(by)) => {
                let report = OperationReport::from(&*by);
                Err(if by.call_digest == self.call_digest {
                    WhyKeptBack::PossibleRepeat(report)
                } else {
                    WhyKeptBack::KeyTaken(report)
                })
            }
            Err(NotWritten::Store(error)) => Err(WhyKeptBack::StoreUnavailable(unwritten(&error))),
        }
    }

    /// The attempt under way was not executed: that is proven.
    pub(crate) async fn refused(&self, bytes_sent: u64, proof: &str) -> AfterRefusal {
        let proof = proof.to_owned();
        let event = Event::Refused { bytes_sent, proof };
        let Ok(fed) = self.feed(event, Along::default()).await else {
            return AfterRefusal::Never;
        };
        match fed.record.state {
            State::Intended { .. } | State::Observed { .. } => AfterRefusal::Again,
            State::NotObserved { due, .. } => AfterRefusal::Later(due),
            State::Sent { .. }
            | State::Reconciling { .. }
            | State::Confirmed { .. }
            | State::NoEffect { .. }
            | State::Held { .. }
            | State::Abandoned { .. } => AfterRefusal::Never,
        }
    }

    /// The answer to the attempt under way was not observed.
    pub(crate) async fn lost(&self, lost: Box<NotObserved>) -> AfterLoss {
        let event = Event::Lost {
            bytes_sent: lost.bytes_sent,
            evidence: lost.evidence.clone(),
            retry_after: lost.fault.as_ref().and_then(|fault| fault.retry_after),
        };
        *self.lost.lock() = Some(lost.clone());
        let rpc_id = self.rpc_id.load(Ordering::Relaxed);
        self.ledger.live.await_late(rpc_id, &self.id);
        match self.feed(event, Along::default()).await {
            Ok(fed) => match fed.record.state {
                State::NotObserved { due, .. } if fed.actions.contains(&Action::Repeat) => {
                    AfterLoss::Again(due)
                }
                State::Reconciling { ref trail, .. } if trail.task.is_some() => {
                    AfterLoss::Followed(with(lost, &fed.record))
                }
                _ => AfterLoss::Reported(with(lost, &fed.record)),
            },
            // It is written as soon as the store can be.
            Err(_) => AfterLoss::Reported(lost),
        }
    }

    /// Waits for what following its task comes to: the server's response, where there is one and its agent still waits.
    pub(crate) async fn followed(&self) -> Option<Bytes> {
        let mut changes = self.ledger.changes();
        loop {
            let record = self.ledger.store.operation(&self.id).await.ok()??;
            match record.state {
                State::Reconciling { .. } => {}
                State::Observed { .. } if record.undelivered && !self.has_left() => {
                    return match self.ledger.hand_over(record).await.ok()?? {
                        Admitted::Answered(response) => Some(response),
                        Admitted::Go(..) | Admitted::KeptBack(_) => None,
                    };
                }
                _ => return None,
            }
            loop {
                match changes.recv().await {
                    Ok(report) if report.id != self.id.as_str() => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return None,
                }
            }
        }
    }

    /// It is not tried again, for this reason. What is on record of it then, and what is known of an attempt
    /// that may have been executed.
    pub(crate) async fn given_up(&self, why: &str) -> GivenUp {
        let why = why.to_owned();
        let fed = self.feed(Event::GivenUp { why }, Along::default()).await;
        let record = fed.ok().map(|fed| fed.record);
        let record = record.filter(|record| record.version != Version::NONE);
        let lost = self.lost.lock().clone();
        let executed = record.as_ref().map(|record| record.state.executed());
        let lost = lost.filter(|_| executed != Some(Executed::No));
        GivenUp {
            lost: lost.map(|lost| match &record {
                Some(record) => with(lost, record),
                None => lost,
            }),
            operation: record.as_ref().map(OperationReport::from),
        }
    }

    /// Something happened that nobody waits for: written behind it.
    pub(crate) fn post(&self, event: Event, along: Along) {
        let _ = self.works.send(Work::feed(event, along, None));
    }

    /// Whether an attempt of it here may have been executed without anybody having seen its answer.
    pub(crate) fn is_repeated(&self) -> bool {
        self.lost.lock().is_some()
    }

    /// Its agent went away.
    pub(crate) fn agent_left(&self) {
        if !self.left.swap(true, Ordering::Relaxed) {
            self.post(Event::AgentLeft, Along::default());
        }
    }

    /// Whether its agent went away.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// The server's response, which its agent may still go away before.
    pub(super) fn note_response(&self, response: &Bytes) {
        *self.response.lock() = Some(response.clone());
    }

    /// Its agent is given the response now.
    pub(crate) fn given(&self) {
        if !self.has_left() {
            let _ = self.works.send(Work::Given);
        }
    }

    /// Waits until what is known by now is on record: a daemon that is killed once its agent has the answer must not take
    /// it for lost. A store that cannot be written holds no answer back for long.
    pub(crate) async fn on_record(&self) {
        if tokio::time::timeout(HOLDING_BACK, self.flush())
            .await
            .is_err()
        {
            tracing::error!(id = %self.id, "an answer is given before it is on record");
        }
    }

    /// Its agent went away before it took the response, which is kept.
    pub(crate) fn not_taken(&self) {
        if let Some(response) = self.response.lock().take() {
            let _ = self.works.send(Work::NotTaken(response));
        }
    }

    /// Its agent, which had gone, came back for the response.
    pub(crate) fn taken(&self) {
        let _ = self.works.send(Work::Taken);
    }

    /// Waits until everything that happened to it so far is on record.
    pub(super) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.works.send(Work::Flush(done)).is_ok() {
            let _ = is_done.await;
        }
    }

    /// The same, and what it is where nothing of it is on record.
    pub(super) async fn unwritten(&self) -> Option<OperationRecord> {
        let (done, is_done) = oneshot::channel();
        self.works.send(Work::Look(done)).ok()?;
        is_done.await.ok()?
    }

    async fn feed(&self, event: Event, along: Along) -> Result<Fed, NotWritten> {
        let (done, is_done) = oneshot::channel();
        let gone = || {
            let detail = "what writes it down has ended";
            let place = format!("the operation {}", self.id);
            NotWritten::Store(Error::new(Problem::Closed, place, detail))
        };
        let work = Work::feed(event, along, Some(done));
        self.works.send(work).map_err(|_| gone())?;
        is_done.await.map_err(|_| gone())?
    }
}

/// What is known of an operation that is not tried again.
#[derive(Debug)]
pub(crate) struct GivenUp {
    /// An attempt that may have been executed.
    pub(crate) lost: Option<Box<NotObserved>>,
    /// How it stands, where it is on record.
    pub(crate) operation: Option<OperationReport>,
}

/// What it has in common with identical calls.
pub(super) fn same_call(record: &OperationRecord) -> SameCall {
    let (agent, server) = (record.agent.clone(), record.server.clone());
    (agent, server, record.call_digest)
}

/// What is known, with how the operation stands.
fn with(mut lost: Box<NotObserved>, record: &OperationRecord) -> Box<NotObserved> {
    lost.executed = record.state.executed();
    lost.operation = Some(Box::new(OperationReport::from(record)));
    lost
}
