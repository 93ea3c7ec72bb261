//! The operations under way in this process, and the RPC ids whose answers may still come late.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use steadfast_core::OperationId;
use tokio::sync::watch;

use super::Tracked;

/// How many lost answers are waited for; the oldest are forgotten first.
const MOST_LATE: usize = 4_096;

/// Held by what writes an operation down: gone once everything is written.
pub(super) type Writing = watch::Sender<()>;

#[derive(Debug, Default)]
pub(super) struct Live {
    entries: Mutex<HashMap<OperationId, Entry>>,
    /// By the id that the server knows the attempt by: ids only grow, and no two links share one.
    late: Mutex<BTreeMap<i64, OperationId>>,
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
    pub(super) fn add(&self, tracked: &Arc<Tracked>) -> Writing {
        let (writing, written) = watch::channel(());
        let entry = Entry {
            tracked: Arc::downgrade(tracked),
            written,
        };
        self.entries.lock().insert(tracked.id().clone(), entry);
        writing
    }

    /// Forgets one of which everything is written, unless a later leg of it has begun.
    pub(super) fn remove(&self, id: &OperationId) {
        let mut entries = self.entries.lock();
        if entries
            .get(id)
            .is_some_and(|it| it.tracked.strong_count() == 0)
        {
            entries.remove(id);
        }
    }

    pub(super) fn get(&self, id: &OperationId) -> Option<Arc<Tracked>> {
        self.entries.lock().get(id)?.tracked.upgrade()
    }

    /// Waits until everything that happened to an operation so far is on record.
    pub(super) async fn flush(&self, id: &OperationId) {
        let entry = self.entries.lock().get(id).cloned();
        if let Some(entry) = entry {
            entry.flush().await;
        }
    }

    /// The same for all.
    pub(super) async fn flush_all(&self) {
        let entries: Vec<Entry> = self.entries.lock().values().cloned().collect();
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
