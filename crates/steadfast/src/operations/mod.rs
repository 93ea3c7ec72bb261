//! The ledger at work: a consequential call is on record before its first byte leaves, and what becomes of it is
//! appended (architecture, writes 12 to 15). Reads never come here.
//!
//! The store is where an operation lives. Every event is fed to the state that is stored, and written by
//! compare-and-swap.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`people`] | what a person asks for, and decides |
//! | [`report`] | the operation object |

mod people;
mod report;

use std::sync::Arc;

use steadfast_core::operation::{self, Contract, Event, Fact, Policy, State};
use steadfast_core::step::Outcome;
use steadfast_core::{Millis, Now, OperationId, Wall};
use steadfast_store::{Error, OperationRecord, Problem, SharedStore, Swap, Vault};
use tokio::sync::broadcast;

pub use people::NotDecided;
pub use report::{EvidenceReport, OperationDetails, OperationReport};

use crate::clock;
use crate::config;

/// How often a write that another task was faster with is tried again.
const SWAPS: usize = 32;

/// Who watches and is this far behind misses changes, and is told so.
const CHANGES: usize = 1_024;

/// How long after its time an operation that its driver was to send again is looked at by others.
const GRACE: Millis = Millis::secs(30);

/// The ledger of this daemon.
#[derive(Debug)]
pub(crate) struct Ledger {
    store: SharedStore,
    vault: Arc<Vault>,
    policy: Policy,
    /// The name under which this daemon drives operations.
    name: String,
    changes: broadcast::Sender<Arc<OperationReport>>,
}

/// What an event did.
#[derive(Clone, Debug)]
pub(crate) struct Fed {
    pub(crate) record: OperationRecord,
    /// Whether it changed anything.
    pub(crate) outcome: Outcome,
}

impl Ledger {
    pub(crate) fn new(
        store: SharedStore,
        vault: Arc<Vault>,
        settings: &config::Repeat,
    ) -> Arc<Self> {
        let mut number = [0; 8];
        // Without random numbers two daemons of one machine differ by their process at least.
        if getrandom::fill(&mut number).is_err() {
            number = u64::from(std::process::id()).to_be_bytes();
        }
        Arc::new(Self {
            store,
            vault,
            policy: settings.policy(),
            name: format!("{:016x}", u64::from_be_bytes(number)),
            changes: broadcast::Sender::new(CHANGES),
        })
    }

    /// Every operation that changes from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Arc<OperationReport>> {
        self.changes.subscribe()
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
        mut record: OperationRecord,
        event: &Event,
        now: Now,
        mut along: impl FnMut(&mut OperationRecord) + Send,
    ) -> Result<Fed, Error> {
        for _ in 0..SWAPS {
            let state = operation::restore(record.state.clone(), record.wake_at, now);
            let step = self.step(state, event.clone(), &record.contract, now);
            if step.facts.is_empty() {
                return Ok(Fed {
                    record,
                    outcome: step.outcome,
                });
            }
            let mut next = self.entering(&record, step.state, now);
            along(&mut next);
            match self.append(next, &step.facts).await? {
                Ok(record) => {
                    return Ok(Fed {
                        record,
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
            State::Intended { .. } | State::Sent { .. } => true,
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
    ) -> Result<Result<OperationRecord, OperationRecord>, Error> {
        match self.store.advance(&record, facts).await? {
            Swap::Stored(version) => {
                record.version = version;
                self.publish(&record);
                Ok(Ok(record))
            }
            Swap::Lost(Some(present)) => Ok(Err(*present)),
            Swap::Lost(None) => Err(contended(&record.id)),
        }
    }

    /// Tells everyone who watches.
    fn publish(&self, record: &OperationRecord) {
        if self.changes.receiver_count() > 0 {
            let report = Arc::new(OperationReport::from(record));
            let _ = self.changes.send(report);
        }
    }
}

fn contended(id: &OperationId) -> Error {
    let detail = "other tasks change it all the time, or it is gone";
    Error::new(Problem::Io, format!("the operation {id}"), detail)
}
