//! The ledger at work: a consequential call is on record before its first byte leaves, and what becomes of it is
//! appended (architecture, writes 12 to 15). Reads never come here.
//!
//! The store is where an operation lives. Every event is fed to the state that is stored, and written by
//! compare-and-swap: while a call is under way its driver ([`tracked`]) writes, afterwards whoever finds something out.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`reading`] | what a call means, and what identical calls have in common |
//! | [`admit`] | whether a call is a further one, and what goes on record |
//! | [`tracked`], [`scribe`] | one operation under way, and what writes down in order what happens to it |
//! | [`answer`] | what an answer says about its operation |
//! | [`given`] | the answers that have just been given, which is written behind |
//! | [`live`] | all of them, and the answers that may still come late |
//! | [`lookup`], [`supervisor`] | what became of it is found out, and what dead daemons left is taken over |
//! | [`people`] | what a person asks for, and decides |
//! | [`report`] | the operation object |

mod admit;
mod answer;
mod given;
mod live;
mod lookup;
mod people;
mod reading;
mod report;
mod scribe;
mod supervisor;
mod tracked;

use std::sync::Arc;

use steadfast_core::operation::{self, Action, Contract, Event, Evidence, Fact, Policy, State};
use steadfast_core::step::Outcome;
use steadfast_core::{AgentName, Fault, Kind, Millis, Now, OperationId, ServerName, Wall};
use steadfast_store::{Error, OperationRecord, Present, Problem, SharedStore, Swap, Vault};
use tokio::sync::{Notify, broadcast};

pub(crate) use admit::Admitted;
use given::Given;
use live::Live;
pub use people::NotDecided;
pub(crate) use reading::{Asked, hash_leg};
pub use report::{EvidenceReport, OperationDetails, OperationReport};
pub(crate) use supervisor::{Links, supervise};
pub(crate) use tracked::{AfterLoss, AfterRefusal, Along, Tracked};

use crate::clock;
use crate::config;
use crate::measure;
use crate::own_number;

/// How often a write that another task was faster with is tried again.
const SWAPS: usize = 32;

/// Who watches and is this far behind misses changes, and is told so.
const CHANGES: usize = 1_024;

/// How long after its time an operation that its driver was to send again is looked at by others.
const GRACE: Millis = Millis::secs(30);

/// The longest answer, in bytes, that is kept while it is given to its agent. Of a longer one only what became of the
/// operation is on record then.
const KEPT_IN_PASSING: usize = 64 << 10;

/// The ledger of this daemon.
#[derive(Debug)]
pub(crate) struct Ledger {
    store: SharedStore,
    vault: Arc<Vault>,
    policy: Policy,
    /// How long an identical call is in flight before another one is suspected to be its repeat.
    suspicion: Millis,
    /// The name under which this daemon drives operations.
    name: String,
    /// Says to others that it is at work, as long as this process lives.
    _present: Present,
    /// The operations under way here.
    live: Live,
    /// The answers that have just been given.
    given: Given,
    changes: broadcast::Sender<Arc<OperationReport>>,
    /// What is due may have changed.
    news: Notify,
    /// What waits for a person has changed.
    held: Notify,
}

/// How a write lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasting {
    /// It is there after a loss of power.
    Synced,
    /// It is there after a kill, and costs no sync: what became of a call that is known to have left. Without it,
    /// nobody knows what became of it, which is true.
    Behind,
}

/// What an event did.
#[derive(Clone, Debug)]
pub(crate) struct Fed {
    pub(crate) record: OperationRecord,
    pub(crate) actions: Vec<Action>,
    /// Whether it changed anything.
    pub(crate) outcome: Outcome,
}

impl Ledger {
    pub(crate) async fn open(
        store: SharedStore,
        vault: Arc<Vault>,
        settings: &config::Repeat,
    ) -> Result<Arc<Self>, Error> {
        let name = format!("{:016x}", own_number::draw());
        let ledger = Arc::new(Self {
            _present: store.appear(&name).await?,
            store,
            vault,
            policy: settings.policy(),
            suspicion: settings.suspicion.0,
            name,
            live: Live::default(),
            given: Given::default(),
            changes: broadcast::Sender::new(CHANGES),
            news: Notify::new(),
            held: Notify::new(),
        });
        tokio::spawn(given::write_down(Arc::downgrade(&ledger)));
        Ok(ledger)
    }

    /// Every operation that changes from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Arc<OperationReport>> {
        self.changes.subscribe()
    }

    /// Waits until there is more, or less, that waits for a person.
    pub(crate) async fn held_changed(&self) {
        self.held.notified().await;
    }

    /// One step of the machine.
    fn step(&self, state: State, event: Event, contract: &Contract, now: Now) -> operation::Step {
        let context = operation::Context {
            now,
            jitter: clock::jitter(),
            contract,
            policy: &self.policy,
        };
        operation::step(state, event, &context)
    }

    /// Feeds one event to an operation on record, and writes what follows together with what `along` changes. A write
    /// that somebody else was faster with begins anew with what they wrote.
    async fn feed(
        &self,
        record: OperationRecord,
        event: &Event,
        now: Now,
        along: impl FnMut(&mut OperationRecord) + Send,
    ) -> Result<Fed, Error> {
        self.feed_as(record, event, now, Lasting::Synced, along)
            .await
    }

    async fn feed_as(
        &self,
        mut record: OperationRecord,
        event: &Event,
        now: Now,
        lasting: Lasting,
        mut along: impl FnMut(&mut OperationRecord) + Send,
    ) -> Result<Fed, Error> {
        for _ in 0..SWAPS {
            let state = operation::restore(record.state.clone(), record.wake_at, now);
            let step = self.step(state, event.clone(), &record.contract, now);
            if step.facts.is_empty() {
                return Ok(Fed {
                    record,
                    actions: step.actions,
                    outcome: step.outcome,
                });
            }
            let was_held = matches!(record.state, State::Held { .. });
            let mut next = self.entering(&record, step.state, now);
            along(&mut next);
            match self.append(next, &step.facts, lasting).await? {
                Ok(record) => {
                    if was_held != matches!(record.state, State::Held { .. }) {
                        self.held.notify_one();
                    }
                    return Ok(Fed {
                        record,
                        actions: step.actions,
                        outcome: step.outcome,
                    });
                }
                Err(present) => record = present,
            }
        }
        Err(contended(&record.id))
    }

    /// The record of an operation that enters a state.
    fn entering(&self, record: &OperationRecord, state: State, now: Now) -> OperationRecord {
        let mut next = record.clone();
        next.wake_at = operation::wake_at(&state, now);
        let is_driven = match state {
            State::Intended { .. } => true,
            State::Sent { .. } => {
                // What an earlier leg was answered is over.
                (next.undelivered, next.result) = (false, None);
                true
            }
            State::NotObserved { .. } => {
                // Its driver has the first turn.
                let late = |at: Wall| Wall(at.0.saturating_add_unsigned(GRACE.0));
                next.wake_at = next.wake_at.map(late);
                true
            }
            State::Observed { .. }
            | State::Reconciling { .. }
            | State::Confirmed { .. }
            | State::NoEffect { .. }
            | State::Held { .. }
            | State::Abandoned { .. } => false,
        };
        next.driver = is_driven.then(|| self.name.clone());
        next.state = state;
        next.changed_at = now.wall;
        next
    }

    /// Writes by compare-and-swap. The record as it is stored now, or the one that is there instead.
    async fn append(
        &self,
        mut record: OperationRecord,
        facts: &[Fact],
        lasting: Lasting,
    ) -> Result<Result<OperationRecord, OperationRecord>, Error> {
        let written = match lasting {
            Lasting::Synced => self.store.advance(&record, facts).await?,
            Lasting::Behind => self.store.advance_lazily(&record, facts).await?,
        };
        match written {
            Swap::Stored(version) => {
                record.version = version;
                measure::operation(&record.server, facts);
                self.publish(&record);
                Ok(Ok(record))
            }
            Swap::Lost(Some(present)) => Ok(Err(*present)),
            Swap::Lost(None) => Err(contended(&record.id)),
        }
    }

    /// What is written together with an answer.
    fn put_along(&self, record: &mut OperationRecord, along: &Along) {
        if along.leg_hash.is_some() {
            record.leg_hash = along.leg_hash;
        }
        let Some(response) = &along.response else {
            return;
        };
        // Until its agent has it: a daemon that is killed before that leaves an answer that the identical call is given.
        let is_passing = along.is_awaited && response.len() <= KEPT_IN_PASSING;
        record.undelivered = along.is_awaited || along.undelivered;
        record.driver = along.is_awaited.then(|| self.name.clone());
        // A key asks for its result again and again; without one it is kept only for whoever did not get it.
        if along.undelivered || is_passing || record.key_hash.is_some() {
            match self.vault.seal_result(&record.id, response) {
                Ok(sealed) => record.result = Some(sealed),
                Err(error) => tracing::error!(%error, "a result cannot be kept"),
            }
        }
    }

    /// A fact that leaves the state as it is.
    fn noted(&self, record: &mut OperationRecord, evidence: Evidence, decision: &str) -> Fact {
        let at = clock::wall();
        record.changed_at = at;
        Fact {
            at,
            evidence,
            state: record.state.clone(),
            decision: decision.to_owned(),
        }
    }

    /// Whether the answer to this attempt was lost here, and may still come.
    pub(crate) fn awaits(&self, rpc_id: i64) -> bool {
        self.live.awaits(rpc_id)
    }

    /// An answer that nobody waits for any more: it settles the operation all the same.
    pub(crate) async fn late_answer(
        &self,
        owner: (&AgentName, &ServerName),
        rpc_id: i64,
        event: Event,
        along: Along,
    ) -> Result<(), Error> {
        let Some(id) = self.live.take_late(rpc_id) else {
            return Ok(());
        };
        let record = self.store.operation(&id).await?;
        let record = record.filter(|it| (&it.agent, &it.server) == owner);
        if let Some(record) = record {
            let now = clock::now();
            self.feed(record, &event, now, |record| self.put_along(record, &along))
                .await?;
        }
        Ok(())
    }

    /// Waits until everything that happened here so far is on record.
    pub(crate) async fn flush(&self) {
        self.live.flush_all().await;
        self.write_given().await;
    }

    /// Tells everyone who watches.
    fn publish(&self, record: &OperationRecord) {
        if self.changes.receiver_count() > 0 {
            let report = Arc::new(OperationReport::from(record));
            let _ = self.changes.send(report);
        }
        if record.wake_at.is_some() {
            self.news.notify_one();
        }
    }
}

fn contended(id: &OperationId) -> Error {
    let detail = "other tasks change it all the time, or it is gone";
    Error::new(Problem::Io, format!("the operation {id}"), detail)
}

/// The SHA-256 of a text, as people read one.
fn digest_of(text: &str) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(text.as_bytes());
    format!("sha256:{}", report::hex(&digest))
}

/// Why nothing leaves: what is not on record must not.
fn unwritten(error: &Error) -> Fault {
    let message = format!("the call cannot be put on record: {error}");
    Fault::new(Kind::StoreUnavailable, message)
}
