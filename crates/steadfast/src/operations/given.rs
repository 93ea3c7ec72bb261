//! The answers that have just been given to their agents. That an answer is on record is written before its agent gets
//! it, and that it was given a moment later, for many at once: a daemon that is killed between the two leaves an answer
//! that is given to the identical call that asks again, and nothing is sent.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::OperationId;
use steadfast_core::operation::Evidence;
use steadfast_store::{Error, OperationRecord, Version};
use tokio::sync::Notify;

use super::{Lasting, Ledger};

/// How long others are waited for: one write is for all of them. Also so long an answer that was handed over has to get
/// as far as the operating system.
const GATHERING: Duration = Duration::from_millis(20);
/// How soon a write that the store refused is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Answers that were given, which is not written yet.
#[derive(Debug, Default)]
pub(super) struct Given {
    entries: Mutex<HashMap<OperationId, Version>>,
    news: Arc<Notify>,
}

impl Given {
    pub(super) fn add(&self, record: &OperationRecord) {
        self.entries
            .lock()
            .insert(record.id.clone(), record.version);
        self.news.notify_one();
    }

    /// Whether the answer that is on record here was given.
    pub(super) fn has(&self, record: &OperationRecord) -> bool {
        self.entries.lock().get(&record.id) == Some(&record.version)
    }

    fn all(&self) -> Vec<(OperationId, Version)> {
        let entries = self.entries.lock();
        entries
            .iter()
            .map(|(id, version)| (id.clone(), *version))
            .collect()
    }

    fn remove(&self, written: &[(OperationId, Version)]) {
        let mut entries = self.entries.lock();
        for (id, version) in written {
            // A later leg may have been answered meanwhile.
            if entries.get(id) == Some(version) {
                entries.remove(id);
            }
        }
    }
}

impl Ledger {
    /// What is known of it is given to the identical call that asks. `false` where somebody else changed it meanwhile.
    pub(super) async fn give(&self, mut record: OperationRecord) -> Result<bool, Error> {
        // Until that is written, so that it is not lost with this daemon.
        record.driver = Some(self.name.clone());
        let decision = "what had become of it is given to the identical call that asks";
        let fact = self.noted(&mut record, Evidence::Delivered, decision);
        let claimed = self.append(record, &[fact], Lasting::Behind).await?;
        if let Ok(record) = &claimed {
            self.given.add(record);
        }
        Ok(claimed.is_ok())
    }

    /// Its agent came back for the answer, and has it.
    pub(super) async fn taken(
        &self,
        mut record: OperationRecord,
    ) -> Result<Option<OperationRecord>, Error> {
        record.undelivered = false;
        if record.key_hash.is_none() {
            record.result = None;
        }
        let decision = "its agent came back for the answer";
        let fact = self.noted(&mut record, Evidence::Delivered, decision);
        Ok(self.append(record, &[fact], Lasting::Behind).await?.ok())
    }

    /// Writes down what was given so far; whether that could be written.
    pub(super) async fn write_given(&self) -> bool {
        let given = self.given.all();
        if given.is_empty() {
            return true;
        }
        match self.store.answers_given(&given).await {
            Ok(()) => self.given.remove(&given),
            Err(error) => {
                tracing::error!(%error, "that answers were given cannot be written");
                return false;
            }
        }
        true
    }
}

/// Runs for as long as the ledger is there.
pub(super) async fn write_down(ledger: Weak<Ledger>) {
    while let Some(news) = ledger.upgrade().map(|it| Arc::clone(&it.given.news)) {
        // Now and then, to see whether the ledger is still there.
        let _ = tokio::time::timeout(Duration::from_secs(10), news.notified()).await;
        tokio::time::sleep(GATHERING).await;
        if let Some(ledger) = ledger.upgrade()
            && !ledger.write_given().await
        {
            tokio::time::sleep(AGAIN).await;
            news.notify_one();
        }
    }
}
