use async_trait::async_trait;
use sqlx::query;
use steadfast_core::Wall;

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use crate::documents::{DocumentRecord, Documents};
use crate::error::Error;

impl Stored for DocumentRecord {
    const TABLE: &'static str = "documents";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            url: row.get("url")?,
            body: row.get("body")?,
            etag: row.get("etag")?,
            fetched_at: row.wall("fetched_at")?,
            fresh_until: row.wall("fresh_until")?,
        })
    }
}

#[async_trait]
impl Documents for SqliteRecords {
    async fn put_document(&self, document: &DocumentRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT OR REPLACE INTO documents (url, body, etag, fetched_at, fresh_until) \
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(document.url.clone())
        .bind(document.body.clone())
        .bind(document.etag.clone())
        .bind(document.fetched_at.0)
        .bind(document.fresh_until.0);
        self.execute(statement).await.map(|_| ())
    }

    async fn document(&self, url: &str) -> Result<Option<DocumentRecord>, Error> {
        let statement = query("SELECT * FROM documents WHERE url = ?").bind(url.to_owned());
        self.one(statement).await
    }

    async fn remove_document(&self, url: &str) -> Result<bool, Error> {
        let statement = query("DELETE FROM documents WHERE url = ?").bind(url.to_owned());
        Ok(self.execute(statement).await? > 0)
    }

    async fn remove_old_documents(&self, before: Wall) -> Result<u64, Error> {
        let statement = query("DELETE FROM documents WHERE fetched_at < ?").bind(before.0);
        self.execute(statement).await
    }
}
