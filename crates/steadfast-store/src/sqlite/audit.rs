use async_trait::async_trait;
use sqlx::query;
use steadfast_core::Wall;

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use super::statement::{count, number};
use crate::audit::{Audit, AuditEntry, AuditRecord, Via};
use crate::error::{Error, Problem};

impl Stored for AuditEntry {
    const TABLE: &'static str = "audit";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        let via: String = row.get("via")?;
        let number: i64 = row.get("seq")?;
        Ok(Self {
            number: number.unsigned_abs(),
            record: AuditRecord {
                at: row.wall("at")?,
                who: row.get("who")?,
                via: Via::find(&via).ok_or_else(|| row.unreadable(Problem::Newer, "via"))?,
                action: row.get("action")?,
                target: row.get("target")?,
                detail: row.get("detail")?,
            },
        })
    }
}

#[async_trait]
impl Audit for SqliteRecords {
    async fn append_audit(&self, record: &AuditRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT INTO audit (at, who, via, action, target, detail) VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(record.at.0)
        .bind(record.who.clone())
        .bind(record.via.as_str())
        .bind(record.action.clone())
        .bind(record.target.clone())
        .bind(record.detail.clone());
        self.execute(statement).await.map(|_| ())
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>, Error> {
        let statement = query("SELECT * FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?")
            .bind(before.map_or(i64::MAX, number))
            .bind(count(limit));
        self.all(statement).await
    }

    async fn remove_old_audit(&self, before: Wall) -> Result<u64, Error> {
        let statement = query("DELETE FROM audit WHERE at < ?").bind(before.0);
        self.execute(statement).await
    }
}
