use async_trait::async_trait;
use steadfast_core::Wall;

use super::MemoryRecords;
use crate::audit::{Audit, AuditEntry, AuditRecord};
use crate::error::Error;

/// The entries, oldest first, and how many there ever were.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<AuditEntry>,
    count: u64,
}

#[async_trait]
impl Audit for MemoryRecords {
    async fn append_audit(&self, record: &AuditRecord) -> Result<(), Error> {
        self.with(|state| {
            state.audit.count += 1;
            state.audit.entries.push(AuditEntry {
                number: state.audit.count,
                record: record.clone(),
            });
        })
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>, Error> {
        self.with(|state| {
            let entries = state.audit.entries.iter().rev();
            entries
                .filter(|entry| before.is_none_or(|before| entry.number < before))
                .take(limit)
                .cloned()
                .collect()
        })
    }

    async fn remove_old_audit(&self, before: Wall) -> Result<u64, Error> {
        self.with(|state| {
            let entries = &mut state.audit.entries;
            let count = entries.len();
            entries.retain(|entry| entry.record.at >= before);
            (count - entries.len()) as u64
        })
    }
}
