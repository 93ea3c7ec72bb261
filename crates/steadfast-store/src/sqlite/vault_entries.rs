use async_trait::async_trait;
use sqlx::query;

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use crate::error::Error;
use crate::vault_entries::{VaultEntries, VaultEntry};

impl Stored for VaultEntry {
    const TABLE: &'static str = "vault_entries";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            name: row.get("name")?,
            sealed: row.sealed()?,
            set_at: row.wall("set_at")?,
        })
    }
}

#[async_trait]
impl VaultEntries for SqliteRecords {
    async fn put_vault_entry(&self, entry: &VaultEntry) -> Result<(), Error> {
        let statement =
            query("INSERT OR REPLACE INTO vault_entries (name, sealed, set_at) VALUES (?, ?, ?)")
                .bind(entry.name.clone())
                .bind(entry.sealed.as_bytes().to_vec())
                .bind(entry.set_at.0);
        self.execute(statement).await.map(|_| ())
    }

    async fn vault_entry(&self, name: &str) -> Result<Option<VaultEntry>, Error> {
        let statement = query("SELECT * FROM vault_entries WHERE name = ?").bind(name.to_owned());
        self.one(statement).await
    }

    async fn vault_entries(&self) -> Result<Vec<VaultEntry>, Error> {
        self.all(query("SELECT * FROM vault_entries ORDER BY name"))
            .await
    }

    async fn remove_vault_entry(&self, name: &str) -> Result<bool, Error> {
        let statement = query("DELETE FROM vault_entries WHERE name = ?").bind(name.to_owned());
        Ok(self.execute(statement).await? > 0)
    }
}
