//! The operations under way in this process, and the RPC ids whose answers may still come late.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use steadfast_core::{AgentName, OperationId, ServerName};
use steadfast_store::{Digest, OperationRecord};
use tokio::sync::{MutexGuard, watch};

use super::Tracked;

/// How many lost answers are waited for; the oldest are forgotten first.
const MOST_LATE: usize = 4_096;

/// How many calls can be looked at at a time.
const TURNS: usize = 1 << 10;

/// Held by what writes an operation down: gone once everything is written.
pub(super) type Writing = watch::Sender<()>;

/// What identical calls have in common: who calls, where, and the digest of tool and arguments.
pub(super) type SameCall = (AgentName, ServerName, Digest);

#[derive(Debug, Default)]
pub(super) struct Live {
    entries: Mutex<Entries>,
    turns: Turns,
    /// By the id that the server knows the attempt by: ids only grow, and no two links share one.
    late: Mutex<BTreeMap<i64, OperationId>>,
}

/// Identical calls are looked at one after the other. Others share a turn by chance, which is short.
#[derive(Debug)]
struct Turns(Vec<tokio::sync::Mutex<()>>);

impl Default for Turns {
    fn default() -> Self {
        Self(
            std::iter::repeat_with(tokio::sync::Mutex::default)
                .take(TURNS)
                .collect(),
        )
    }
}

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<OperationId, Entry>,
    by_call: HashMap<SameCall, Vec<OperationId>>,
}

#[derive(Clone, Debug)]
struct Entry {
    tracked: Weak<Tracked>,
    written: watch::Receiver<()>,
}

impl Entry {
    /// Waits until everything that happened so far is on record.
    async fn flush(mut self) {
        match self.tracked.upgrade() {
            Some(tracked) => tracked.flush().await,
            // Nobody tracks it any more, and the rest is being written: an error only says that it is done.
            None => while self.written.changed().await.is_ok() {},
        }
    }
}

impl Live {
    /// Adds one; what is returned lives until everything of it is written.
    pub(super) fn add(&self, tracked: &Arc<Tracked>, call: SameCall) -> Writing {
        let (writing, written) = watch::channel(());
        let entry = Entry {
            tracked: Arc::downgrade(tracked),
            written,
        };
        let id = tracked.id();
        let mut entries = self.entries.lock();
        if entries.by_id.insert(id.clone(), entry).is_none() {
            entries.by_call.entry(call).or_default().push(id.clone());
        }
        writing
    }

    /// Forgets one of which everything is written, unless a later leg of it has begun.
    pub(super) fn remove(&self, id: &OperationId, call: &SameCall) {
        let mut entries = self.entries.lock();
        let entry = entries.by_id.get(id);
        if entry.is_none_or(|it| it.tracked.strong_count() > 0) {
            return;
        }
        entries.by_id.remove(id);
        if let Some(same) = entries.by_call.get_mut(call) {
            same.retain(|it| it != id);
            if same.is_empty() {
                entries.by_call.remove(call);
            }
        }
    }

    pub(super) fn get(&self, id: &OperationId) -> Option<Arc<Tracked>> {
        self.entries.lock().by_id.get(id)?.tracked.upgrade()
    }

    /// Waits until everything that happened to an operation so far is on record.
    pub(super) async fn flush(&self, id: &OperationId) {
        let entry = self.entries.lock().by_id.get(id).cloned();
        if let Some(entry) = entry {
            entry.flush().await;
        }
    }

    /// Waits for the turn of this call among identical ones: whoever has it sees the others that have begun.
    pub(super) async fn turn(&self, call: &SameCall) -> MutexGuard<'_, ()> {
        let [first, second, ..] = call.2;
        let number = usize::from(u16::from_be_bytes([first, second])) % TURNS;
        self.turns.0[number].lock().await
    }

    /// The identical calls under way that nobody waits for any more: the store may know nothing of them yet.
    pub(super) fn abandoned(&self, call: &SameCall) -> Vec<OperationId> {
        let entries = self.entries.lock();
        let same = entries.by_call.get(call).into_iter().flatten();
        let is_abandoned = |id: &&OperationId| {
            let entry = entries.by_id.get(*id);
            let waits = |entry: &Entry| entry.tracked.upgrade().is_some_and(|it| !it.has_left());
            entry.is_some_and(|entry| !waits(entry))
        };
        same.filter(is_abandoned).cloned().collect()
    }

    /// The same, and what it is where nothing of it is on record, since it has not left yet.
    pub(super) async fn unwritten(&self, id: &OperationId) -> Option<OperationRecord> {
        let entry = self.entries.lock().by_id.get(id).cloned()?;
        match entry.tracked.upgrade() {
            Some(tracked) => tracked.unwritten().await,
            None => {
                entry.flush().await;
                None
            }
        }
    }

    /// The same for all.
    pub(super) async fn flush_all(&self) {
        let entries: Vec<Entry> = self.entries.lock().by_id.values().cloned().collect();
        for entry in entries {
            entry.flush().await;
        }
    }

    /// The answer to this attempt was lost, and may still come.
    pub(super) fn await_late(&self, rpc_id: i64, id: &OperationId) {
        let mut late = self.late.lock();
        late.insert(rpc_id, id.clone());
        if late.len() > MOST_LATE {
            late.pop_first();
        }
    }

    /// Whether its answer is waited for.
    pub(super) fn awaits(&self, rpc_id: i64) -> bool {
        self.late.lock().contains_key(&rpc_id)
    }

    /// Whose attempt it was, if its answer is waited for; once.
    pub(super) fn take_late(&self, rpc_id: i64) -> Option<OperationId> {
        self.late.lock().remove(&rpc_id)
    }
}
