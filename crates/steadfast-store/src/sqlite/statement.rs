//! Running statements, and the values that go into them.

use serde::Serialize;
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use steadfast_core::{AgentName, ServerName};

use super::SqliteRecords;
use super::fault;
use super::rows::{self, Stored};
use super::writer::Work;
use crate::error::{Error, Problem};
use crate::swap::{Swap, Version};
use crate::versioned;

pub(super) type Statement = Query<'static, Sqlite, SqliteArguments>;

impl SqliteRecords {
    /// Runs one statement; how many rows it changed.
    pub(super) async fn execute(&self, statement: Statement) -> Result<u64, Error> {
        self.writer.write(|db| changed(db, statement)).await
    }

    pub(super) async fn all<T: Stored>(&self, statement: Statement) -> Result<Vec<T>, Error> {
        let rows = statement
            .fetch_all(&self.readers)
            .await
            .map_err(|error| fault::classify(&self.place, &error))?;
        rows.iter()
            .map(|row| rows::read(row, &self.place))
            .collect()
    }

    pub(super) async fn one<T: Stored>(&self, statement: Statement) -> Result<Option<T>, Error> {
        let row = statement
            .fetch_optional(&self.readers)
            .await
            .map_err(|error| fault::classify(&self.place, &error))?;
        row.map(|row| rows::read(&row, &self.place)).transpose()
    }

    pub(super) fn json<T: Serialize>(&self, value: &T) -> Result<String, Error> {
        versioned::encode(value).map_err(|error| {
            self.place.error(
                Problem::Io,
                format!("a value cannot be written as JSON: {error}"),
            )
        })
    }
}

pub(super) fn changed(db: &mut SqliteConnection, statement: Statement) -> Work<'_, u64> {
    Box::pin(async move { Ok(statement.execute(db).await?.rows_affected()) })
}

/// SQLite counts rows with 64 bits and a sign.
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn text(name: &AgentName) -> String {
    name.as_str().to_owned()
}

pub(super) fn server_text(name: &ServerName) -> String {
    name.as_str().to_owned()
}

/// What became of a compare-and-swap, before the row of whoever was faster is read.
pub(super) enum Swapped {
    /// It is stored.
    Stored,
    /// This is there, if anything is.
    Lost(Option<SqliteRow>),
}

/// Runs `write`, which changes one row or, where the version is another, none; then reads what is there.
pub(super) fn swap(
    db: &mut SqliteConnection,
    write: Statement,
    read: Statement,
) -> Work<'_, Swapped> {
    Box::pin(async move {
        if write.execute(&mut *db).await?.rows_affected() > 0 {
            return Ok(Swapped::Stored);
        }
        Ok(Swapped::Lost(read.fetch_optional(db).await?))
    })
}

impl SqliteRecords {
    /// Runs a compare-and-swap of the record with this version.
    pub(super) async fn swap<T: Stored>(
        &self,
        version: Version,
        write: Statement,
        read: Statement,
    ) -> Result<Swap<T>, Error> {
        let swapped = self.writer.write(|db| swap(db, write, read)).await?;
        match swapped {
            Swapped::Stored => Ok(Swap::Stored(version.next())),
            Swapped::Lost(row) => {
                let present = row.map(|row| rows::read(&row, &self.place)).transpose()?;
                Ok(Swap::Lost(present.map(Box::new)))
            }
        }
    }
}

/// SQLite's whole numbers have 64 bits and a sign. Ours count up from nothing and never come that far.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
