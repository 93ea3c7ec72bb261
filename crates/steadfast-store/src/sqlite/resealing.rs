use async_trait::async_trait;
use sqlx::query;
use steadfast_core::OperationId;
use steadfast_core::identity::GrantGeneration;

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use super::statement::{Statement, count};
use crate::error::{Error, Problem};
use crate::resealing::{Resealed, Resealing};
use crate::vault::{KeyId, Sealed, Slot, SlotKind};

struct Grant(Slot, Sealed);
struct Client(Slot, Sealed);
struct SignIn(Slot, Sealed);
struct Entry(Slot, Sealed);
struct Operation(OperationId, Sealed);

impl Stored for Grant {
    const TABLE: &'static str = "grants";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        let slot = Slot::Grant {
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            generation: row.number("generation").map(GrantGeneration)?,
        };
        Ok(Self(slot, row.sealed()?))
    }
}

impl Stored for Client {
    const TABLE: &'static str = "clients";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        let slot = Slot::Client {
            issuer: row.get("issuer")?,
            redirect_uri: row.get("redirect_uri")?,
        };
        Ok(Self(slot, row.sealed()?))
    }
}

impl Stored for SignIn {
    const TABLE: &'static str = "sign_ins";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        let slot = Slot::SignIn {
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            state_hash: row
                .hash("state_hash")?
                .ok_or_else(|| row.unreadable(Problem::Damaged, "state_hash"))?,
        };
        Ok(Self(slot, row.sealed()?))
    }
}

impl Stored for Entry {
    const TABLE: &'static str = "vault_entries";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        let name = row.get("name")?;
        Ok(Self(Slot::Entry { name }, row.sealed()?))
    }
}

impl Stored for Operation {
    const TABLE: &'static str = "operations";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        let id = row.get::<&str>("id").map(OperationId::from)?;
        Ok(Self(id, row.sealed()?))
    }
}

/// ?1 is the head under the new key, ?2 and ?3 the key of the row to go on after, ?4 how many.
macro_rules! others {
    ($table:literal, $key:literal, $more:literal) => {
        concat!(
            "SELECT ",
            $key,
            $more,
            ", sealed FROM ",
            $table,
            " WHERE sealed IS NOT NULL AND substr(sealed, 1, length(?1)) <> ?1 AND (?2 IS NULL OR (",
            $key,
            ") > (?2, ?3)) ORDER BY ",
            $key,
            " LIMIT ?4"
        )
    };
}

/// ?1 and ?2 are the key of the row, ?3 what was read there, ?4 what takes its place.
fn replace(value: &Resealed) -> Option<Statement> {
    let sql = match &value.slot {
        Slot::Grant { .. } => {
            "UPDATE grants SET sealed = ?4 WHERE agent = ?1 AND server = ?2 AND sealed = ?3"
        }
        Slot::Client { .. } => {
            "UPDATE clients SET sealed = ?4 WHERE issuer = ?1 AND redirect_uri = ?2 AND sealed = ?3"
        }
        Slot::SignIn { .. } => {
            "UPDATE sign_ins SET sealed = ?4 WHERE agent = ?1 AND server = ?2 AND sealed = ?3"
        }
        Slot::Entry { .. } => {
            "UPDATE vault_entries SET sealed = ?4 WHERE name = ?1 AND '' = ?2 AND sealed = ?3"
        }
        Slot::Operation { .. } => {
            "UPDATE operations SET sealed = ?4 WHERE id = ?1 AND '' = ?2 AND sealed = ?3"
        }
        Slot::OperationResult { .. } => {
            "UPDATE operations SET result = ?4 WHERE id = ?1 AND '' = ?2 AND result = ?3"
        }
        Slot::Notice { .. } | Slot::Check => return None,
    };
    let (first, second) = value.slot.key();
    Some(
        query(sql)
            .bind(first.to_owned())
            .bind(second.to_owned())
            .bind(value.from.as_bytes().to_vec())
            .bind(value.to.as_bytes().to_vec()),
    )
}

#[async_trait]
impl Resealing for SqliteRecords {
    async fn sealed_under_others(
        &self,
        kind: SlotKind,
        key: KeyId,
        after: Option<&Slot>,
        limit: usize,
    ) -> Result<Vec<(Slot, Sealed)>, Error> {
        let after = after.map(Slot::key);
        let bound = |sql: &'static str| {
            query(sql)
                .bind(Sealed::head(key).to_vec())
                .bind(after.map(|(first, _)| first.to_owned()))
                .bind(after.map(|(_, second)| second.to_owned()))
                .bind(count(limit))
        };
        Ok(match kind {
            SlotKind::Grants => self
                .all(bound(others!("grants", "agent, server", ", generation")))
                .await?
                .into_iter()
                .map(|Grant(slot, sealed)| (slot, sealed))
                .collect(),
            SlotKind::Clients => self
                .all(bound(others!("clients", "issuer, redirect_uri", "")))
                .await?
                .into_iter()
                .map(|Client(slot, sealed)| (slot, sealed))
                .collect(),
            SlotKind::SignIns => self
                .all(bound(others!("sign_ins", "agent, server", ", state_hash")))
                .await?
                .into_iter()
                .map(|SignIn(slot, sealed)| (slot, sealed))
                .collect(),
            SlotKind::Entries => self
                .all(bound(others!("vault_entries", "name, ''", "")))
                .await?
                .into_iter()
                .map(|Entry(slot, sealed)| (slot, sealed))
                .collect(),
            SlotKind::Operations => self
                .all(bound(others!("operations", "id, ''", "")))
                .await?
                .into_iter()
                .map(|Operation(id, sealed)| (Slot::Operation { id }, sealed))
                .collect(),
            SlotKind::OperationResults => self
                .all(bound(others!(
                    "(SELECT id, result AS sealed FROM operations)",
                    "id, ''",
                    ""
                )))
                .await?
                .into_iter()
                .map(|Operation(id, sealed)| (Slot::OperationResult { id }, sealed))
                .collect(),
        })
    }

    async fn reseal(&self, values: &[Resealed]) -> Result<u64, Error> {
        let statements: Vec<_> = values.iter().filter_map(replace).collect();
        let resealed = self.writer.write(|db| {
            Box::pin(async move {
                let mut replaced = 0;
                for statement in statements {
                    replaced += statement.execute(&mut *db).await?.rows_affected();
                }
                Ok(replaced)
            })
        });
        resealed.await
    }
}
