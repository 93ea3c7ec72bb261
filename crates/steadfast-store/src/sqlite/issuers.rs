use async_trait::async_trait;
use sqlx::query;

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use crate::error::Error;
use crate::issuers::{IssuerRecord, Issuers};

impl Stored for IssuerRecord {
    const TABLE: &'static str = "issuers";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            issuer: row.get("issuer")?,
            no_offline_access: row.get("no_offline_access")?,
            learned_at: row.wall("learned_at")?,
        })
    }
}

#[async_trait]
impl Issuers for SqliteRecords {
    async fn put_issuer(&self, issuer: &IssuerRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT OR REPLACE INTO issuers (issuer, no_offline_access, learned_at) VALUES (?, ?, ?)",
        )
        .bind(issuer.issuer.clone())
        .bind(issuer.no_offline_access)
        .bind(issuer.learned_at.0);
        self.execute(statement).await.map(|_| ())
    }

    async fn issuer(&self, issuer: &str) -> Result<Option<IssuerRecord>, Error> {
        let statement = query("SELECT * FROM issuers WHERE issuer = ?").bind(issuer.to_owned());
        self.one(statement).await
    }
}
