use async_trait::async_trait;

use super::MemoryRecords;
use crate::error::Error;
use crate::vault_entries::{VaultEntries, VaultEntry};

#[async_trait]
impl VaultEntries for MemoryRecords {
    async fn put_vault_entry(&self, entry: &VaultEntry) -> Result<(), Error> {
        self.with(|state| {
            state
                .vault_entries
                .insert(entry.name.clone(), entry.clone());
        })
    }

    async fn vault_entry(&self, name: &str) -> Result<Option<VaultEntry>, Error> {
        self.with(|state| state.vault_entries.get(name).cloned())
    }

    async fn vault_entries(&self) -> Result<Vec<VaultEntry>, Error> {
        self.with(|state| state.vault_entries.values().cloned().collect())
    }

    async fn remove_vault_entry(&self, name: &str) -> Result<bool, Error> {
        self.with(|state| state.vault_entries.remove(name).is_some())
    }
}
