//! Secrets by name: what `${vault:NAME}` stands for.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::Wall;

use crate::error::Error;
use crate::vault::Sealed;

/// A secret of the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultEntry {
    /// Its name.
    pub name: String,
    /// Its value, sealed.
    pub sealed: Sealed,
    /// When it was set.
    pub set_at: Wall,
}

/// The secrets by name.
#[async_trait]
pub trait VaultEntries: Send + Sync + fmt::Debug {
    /// Sets a secret, in place of the one before.
    async fn put_vault_entry(&self, entry: &VaultEntry) -> Result<(), Error>;
    /// One secret.
    async fn vault_entry(&self, name: &str) -> Result<Option<VaultEntry>, Error>;
    /// All of them, in the order of their names.
    async fn vault_entries(&self) -> Result<Vec<VaultEntry>, Error>;
    /// Removes a secret. Whether it was there.
    async fn remove_vault_entry(&self, name: &str) -> Result<bool, Error>;
}
