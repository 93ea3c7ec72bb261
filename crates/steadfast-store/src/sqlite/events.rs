//! The event log in an SQLite file of its own.

use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row as _, SqlitePool, query, query_scalar};
use steadfast_core::Wall;
use steadfast_core::replay::{Requirement, Resource, Until};

use super::open::{self, Opened};
use super::statement::{Statement, changed, number, text};
use super::writer::{Work, Writer};
use super::{SqliteOptions, fault};
use crate::error::{Error, Problem};
use crate::events::{EventLog, EventStream, EventStreamRecord, EventWrite, StreamName};
use crate::keys::IdHash;
use crate::place::Place;

/// How many events one statement adds. The rest of a batch is added one by one.
const TOGETHER: usize = 32;

/// How many events one transaction forgets.
const FORGOTTEN_TOGETHER: i64 = 1_000;

/// How many events are read at a time.
const READ_TOGETHER: i64 = 1_024;

/// An event log in an SQLite file.
#[derive(Debug)]
pub struct SqliteEvents {
    writer: Writer,
    readers: SqlitePool,
    place: Place,
}

impl SqliteEvents {
    /// Opens the file, or makes it, as [`super::SqliteRecords::open`] does.
    ///
    /// # Errors
    /// When the file cannot be used as it is. Nothing is changed then.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, Error> {
        let Opened {
            writer,
            readers,
            place,
            ..
        } = open::open(path.as_ref(), options, open::EVENTS).await?;
        Ok(Self {
            writer,
            readers,
            place,
        })
    }

    fn failed(&self, error: &sqlx::Error) -> Error {
        fault::classify(&self.place, error)
    }

    async fn requirements(&self, name: StreamName, end: u64) -> Result<Vec<Requirement>, Error> {
        let rows = query("SELECT resource, last FROM requirements WHERE stream = ?")
            .bind(blob(name))
            .fetch_all(&self.readers)
            .await
            .map_err(|error| self.failed(&error))?;
        let read = |row: &SqliteRow| -> sqlx::Result<_> {
            let resource: &str = row.try_get("resource")?;
            let last: Option<i64> = row.try_get("last")?;
            Ok((Resource::parse(resource), last))
        };
        let requirements = rows.iter().map(|row| {
            let (resource, last) = read(row).map_err(|error| self.failed(&error))?;
            let resource = resource.ok_or_else(|| {
                let detail =
                    "column resource of table requirements holds what cannot be understood";
                self.place.error(Problem::Damaged, detail)
            })?;
            // Below nothing is what was never written by us: everything requires it then.
            let until = last.map_or(Until::Open, |last| {
                Until::Event(u64::try_from(last).unwrap_or(end))
            });
            Ok(Requirement { resource, until })
        });
        requirements.collect()
    }

    /// The bytes of the file that hold something.
    async fn size(&self) -> Result<u64, Error> {
        let mut pragmas = [0_i64; 3];
        let questions = [
            "PRAGMA page_count",
            "PRAGMA freelist_count",
            "PRAGMA page_size",
        ];
        for (value, question) in pragmas.iter_mut().zip(questions) {
            *value = query_scalar(question)
                .fetch_one(&self.readers)
                .await
                .map_err(|error| self.failed(&error))?;
        }
        let [pages, free, page] = pragmas;
        Ok(u64::try_from((pages - free) * page).unwrap_or_default())
    }
}

fn blob(name: StreamName) -> Vec<u8> {
    name.0.to_vec()
}

/// The events of one statement.
type Run = Vec<(StreamName, u64, Wall, Bytes)>;

fn insert(run: Run) -> Statement {
    macro_rules! rows {
        ($more:literal) => {
            concat!(
                "INSERT INTO events (stream, number, at, data) VALUES (?, ?, ?, ?)",
                $more
            )
        };
    }
    let sql = if run.len() == TOGETHER {
        rows!(
            ", (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?)\
             , (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?)\
             , (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?)\
             , (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?)"
        )
    } else {
        rows!("")
    };
    let statement = query(sql);
    run.into_iter().fold(statement, |statement, event| {
        let (stream, at_number, at, data) = event;
        let statement = statement.bind(blob(stream)).bind(number(at_number));
        statement.bind(at.0).bind(Vec::from(data))
    })
}

/// One statement for each write, but for events, which come in runs.
fn statements(writes: Vec<EventWrite>) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut run = Run::new();
    for write in writes {
        let write = match write {
            EventWrite::Append {
                stream,
                number,
                at,
                data,
            } => {
                run.push((stream, number, at, data));
                if run.len() == TOGETHER {
                    statements.push(insert(std::mem::take(&mut run)));
                }
                continue;
            }
            other => other,
        };
        // What is forgotten must be there before.
        statements.extend(run.drain(..).map(|event| insert(vec![event])));
        other(write, &mut statements);
    }
    statements.extend(run.into_iter().map(|event| insert(vec![event])));
    statements
}

/// Everything but an event.
fn other(write: EventWrite, out: &mut Vec<Statement>) {
    match write {
        EventWrite::Append { .. } => {}
        EventWrite::Open(record) => {
            let statement = query(
                "INSERT INTO streams (name, agent, session, about, owner, opened_at) VALUES (?, ?, ?, ?, ?, ?)",
            );
            let statement = statement.bind(blob(record.name)).bind(text(&record.agent));
            let statement = statement.bind(record.session.to_vec()).bind(record.about);
            out.push(statement.bind(record.owner).bind(record.opened_at.0));
        }
        EventWrite::Require {
            stream,
            resource,
            until,
        } => {
            let last = match until {
                Until::Open => None,
                Until::Event(last) => Some(number(last)),
            };
            let statement = query(
                "INSERT OR REPLACE INTO requirements (stream, resource, last) VALUES (?, ?, ?)",
            );
            let statement = statement.bind(blob(stream));
            out.push(statement.bind(resource.as_str().to_owned()).bind(last));
        }
        EventWrite::End { stream, at } => {
            let statement = query("UPDATE streams SET ended = 1, left_at = ? WHERE name = ?");
            out.push(statement.bind(at.0).bind(blob(stream)));
        }
        EventWrite::About { stream, about } => {
            let statement = query("UPDATE streams SET about = ? WHERE name = ?");
            out.push(statement.bind(about).bind(blob(stream)));
        }
        EventWrite::Leave { stream, at } => {
            let statement = query("UPDATE streams SET left_at = ? WHERE name = ?");
            out.push(statement.bind(at.0).bind(blob(stream)));
        }
        EventWrite::Forget { stream } => {
            for sql in [
                "DELETE FROM events WHERE stream = ?",
                "DELETE FROM requirements WHERE stream = ?",
                "DELETE FROM streams WHERE name = ?",
            ] {
                out.push(query(sql).bind(blob(stream)));
            }
        }
        EventWrite::ForgetSession { session } => {
            for sql in [
                "DELETE FROM events WHERE stream IN (SELECT name FROM streams WHERE session = ?)",
                "DELETE FROM requirements WHERE stream IN (SELECT name FROM streams WHERE session = ?)",
                "DELETE FROM streams WHERE session = ?",
            ] {
                out.push(query(sql).bind(session.to_vec()));
            }
        }
    }
}

fn all(db: &mut SqliteConnection, statements: Vec<Statement>) -> Work<'_, ()> {
    Box::pin(async move {
        for statement in statements {
            statement.execute(&mut *db).await?;
        }
        Ok(())
    })
}

/// Forgets the first events of a stream up to `last`, a part of them, and the stream where nothing is left of one that is
/// left itself. Whether it did anything.
fn forget(db: &mut SqliteConnection, name: StreamName, last: i64) -> Work<'_, bool> {
    Box::pin(async move {
        let part: Option<i64> = query_scalar(
            "SELECT max(number) FROM (SELECT number FROM events WHERE stream = ?1 AND number <= ?2 ORDER BY number LIMIT ?3)",
        )
        .bind(blob(name))
        .bind(last)
        .bind(FORGOTTEN_TOGETHER)
        .fetch_one(&mut *db)
        .await?;
        if let Some(last) = part {
            query("DELETE FROM events WHERE stream = ? AND number <= ?")
                .bind(blob(name))
                .bind(last)
                .execute(&mut *db)
                .await?;
            query("UPDATE streams SET horizon = ? WHERE name = ?")
                .bind(last + 1)
                .bind(blob(name))
                .execute(&mut *db)
                .await?;
            return Ok(true);
        }
        let gone = query("DELETE FROM streams WHERE name = ? AND left_at IS NOT NULL")
            .bind(blob(name))
            .execute(&mut *db)
            .await?;
        if gone.rows_affected() == 0 {
            return Ok(false);
        }
        query("DELETE FROM requirements WHERE stream = ?")
            .bind(blob(name))
            .execute(db)
            .await?;
        Ok(true)
    })
}

/// What is forgotten next, because it is old: a stream, and its last event that is.
const OLD: [&str; 2] = [
    "SELECT name, 9223372036854775807 AS last FROM streams WHERE left_at < ?1 ORDER BY left_at LIMIT 1",
    "SELECT name, (SELECT max(number) FROM events WHERE stream = name AND at < ?1) AS last \
     FROM streams WHERE left_at IS NULL AND opened_at < ?1 AND last IS NOT NULL LIMIT 1",
];

/// What is forgotten next, because there is too much: of what is left the oldest; else of what is open, whose last event
/// stays.
const SURPLUS: [&str; 2] = [
    "SELECT name, 9223372036854775807 AS last FROM streams WHERE left_at IS NOT NULL ORDER BY left_at, name LIMIT 1",
    "SELECT name, (SELECT max(number) - 1 FROM events WHERE stream = name) AS last \
     FROM streams WHERE left_at IS NULL AND last >= horizon ORDER BY name LIMIT 1",
];

impl SqliteEvents {
    /// Forgets a part of the first that one of `questions` finds.
    async fn forget_one(&self, questions: [&'static str; 2], before: Wall) -> Result<bool, Error> {
        for question in questions {
            let found = query(question)
                .bind(before.0)
                .fetch_optional(&self.readers)
                .await
                .and_then(|row| {
                    row.map(|row| Ok((row.try_get::<Vec<u8>, _>("name")?, row.try_get("last")?)))
                        .transpose()
                })
                .map_err(|error| self.failed(&error))?;
            let Some((name, last)) = found else {
                continue;
            };
            let name = self.name(&name)?;
            if self.writer.write(move |db| forget(db, name, last)).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn name(&self, bytes: &[u8]) -> Result<StreamName, Error> {
        bytes.try_into().map(StreamName).map_err(|_| {
            let detail = "column name of table streams holds what cannot be understood";
            self.place.error(Problem::Damaged, detail)
        })
    }

    fn session(&self, bytes: &[u8]) -> Result<IdHash, Error> {
        bytes.try_into().map_err(|_| {
            let detail = "column session of table streams holds what cannot be understood";
            self.place.error(Problem::Damaged, detail)
        })
    }
}

/// A stream, with the number of its last event.
const STREAM: &str = "SELECT *, (SELECT max(number) FROM events WHERE stream = name) AS last FROM streams WHERE name = ?";

struct Found {
    record: EventStreamRecord,
    session: Vec<u8>,
    ended: bool,
    horizon: i64,
    last: Option<i64>,
}

fn found(name: StreamName, row: &SqliteRow) -> sqlx::Result<Found> {
    Ok(Found {
        record: EventStreamRecord {
            name,
            agent: row.try_get::<&str, _>("agent")?.into(),
            session: IdHash::default(),
            about: row.try_get("about")?,
            owner: row.try_get("owner")?,
            opened_at: Wall(row.try_get("opened_at")?),
        },
        session: row.try_get("session")?,
        ended: row.try_get("ended")?,
        horizon: row.try_get("horizon")?,
        last: row.try_get("last")?,
    })
}

#[async_trait]
impl EventLog for SqliteEvents {
    async fn write(&self, writes: Vec<EventWrite>) -> Result<(), Error> {
        let statements = statements(writes);
        self.writer.write(|db| all(db, statements)).await
    }

    async fn stream(&self, name: StreamName) -> Result<Option<EventStream>, Error> {
        let row = query(STREAM)
            .bind(blob(name))
            .fetch_optional(&self.readers)
            .await
            .map_err(|error| self.failed(&error))?;
        let Some(row) = row else {
            return Ok(None);
        };
        let mut found = found(name, &row).map_err(|error| self.failed(&error))?;
        found.record.session = self.session(&found.session)?;
        let start = u64::try_from(found.horizon).unwrap_or_default();
        let last = found.last.and_then(|last| u64::try_from(last).ok());
        let end = last.map_or(start, |last| last + 1);
        Ok(Some(EventStream {
            requirements: self.requirements(name, end).await?,
            record: found.record,
            kept: start..end,
            ended: found.ended,
        }))
    }

    async fn read(&self, name: StreamName, from: u64, bytes: usize) -> Result<Vec<Bytes>, Error> {
        let mut rows = query(
            "SELECT number, data FROM events WHERE stream = ? AND number >= ? ORDER BY number LIMIT ?",
        )
        .bind(blob(name))
        .bind(number(from))
        .bind(READ_TOGETHER)
        .fetch(&self.readers);
        let (mut events, mut size, mut next) = (Vec::new(), 0, number(from));
        while let Some(row) = rows.try_next().await.map_err(|error| self.failed(&error))? {
            let event = row
                .try_get("number")
                .and_then(|it| Ok((it, row.try_get("data")?)));
            let (at, data): (i64, Vec<u8>) = event.map_err(|error| self.failed(&error))?;
            // Forgotten meanwhile: then nothing may follow in its place.
            if at != next {
                break;
            }
            next += 1;
            size += data.len();
            events.push(Bytes::from(data));
            if size >= bytes {
                break;
            }
        }
        Ok(events)
    }

    async fn adopt(&self, name: StreamName, from: &str, by: &str) -> Result<bool, Error> {
        let statement = query(
            "UPDATE streams SET owner = ?, left_at = NULL WHERE name = ? AND owner = ? AND ended = 0",
        )
        .bind(by.to_owned())
        .bind(blob(name))
        .bind(from.to_owned());
        Ok(self.writer.write(|db| changed(db, statement)).await? > 0)
    }

    async fn owners(&self) -> Result<Vec<String>, Error> {
        query_scalar("SELECT DISTINCT owner FROM streams WHERE left_at IS NULL")
            .fetch_all(&self.readers)
            .await
            .map_err(|error| self.failed(&error))
    }

    async fn abandon(&self, owner: &str, at: Wall) -> Result<(), Error> {
        let statement = query("UPDATE streams SET left_at = ? WHERE owner = ? AND left_at IS NULL")
            .bind(at.0)
            .bind(owner.to_owned());
        let written = self.writer.write(|db| changed(db, statement)).await;
        written.map(|_| ())
    }

    async fn trim(&self, before: Wall, budget: u64) -> Result<bool, Error> {
        if self.forget_one(OLD, before).await? {
            return Ok(true);
        }
        Ok(self.size().await? > budget && self.forget_one(SURPLUS, before).await?)
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

#[cfg(test)]
#[path = "tests/events.rs"]
mod tests;
