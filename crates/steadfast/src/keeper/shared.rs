//! What all drivers share, and what is done behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use steadfast_core::{connection, session, stream};
use steadfast_store::{SharedRecords, Transition};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clock;
use crate::config;
use crate::fleet::Fleet;

/// What all drivers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: SharedRecords,
    pub(crate) retry: Arc<config::Retry>,
    pub(crate) connection_policy: connection::Policy,
    pub(crate) session_policy: session::Policy,
    pub(crate) stream_policy: stream::Policy,
    /// What all connections are opened through.
    pub(crate) fleet: Arc<Fleet>,
    /// Polite ends of sessions that are still under way.
    pub(crate) farewells: Farewells,
    pub(super) history: mpsc::UnboundedSender<Transition>,
    pub(super) stopping: AtomicBool,
}

impl Shared {
    /// History is written behind.
    pub(crate) fn record(&self, transition: Transition) {
        let _ = self.history.send(transition);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// Tasks that tell servers goodbye; waited for, within limits, when the keeper stops.
#[derive(Debug, Default)]
pub(crate) struct Farewells(Mutex<Vec<JoinHandle<()>>>);

impl Farewells {
    pub(crate) fn spawn(&self, farewell: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(farewell));
    }

    pub(super) async fn all(&self) {
        let tasks = std::mem::take(&mut *self.0.lock());
        for task in tasks {
            let _ = task.await;
        }
    }
}

/// Appends what happened to the history, many entries at a time.
pub(super) async fn write_history(
    store: SharedRecords,
    mut entries: mpsc::UnboundedReceiver<Transition>,
) {
    const BATCH: usize = 256;
    let mut batch = Vec::new();
    while entries.recv_many(&mut batch, BATCH).await > 0 {
        if let Err(error) = store.append_history(&batch).await {
            tracing::warn!(%error, lost = batch.len(), "history cannot be written");
        }
        batch.clear();
    }
}

/// A session may outlive this process, and its ids must not come twice (2025-11-25 basic, "Requests":
/// MUST NOT be reused within the session). So the count begins at the microsecond of the start, which
/// no count of an earlier process has reached; every JSON parser holds such a number exactly.
pub(super) fn first_id() -> i64 {
    clock::wall().0.saturating_mul(1_000)
}
