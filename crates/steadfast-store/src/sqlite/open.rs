//! Opening: look, make if there is nothing, check without changing anything, migrate, then start.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, SqlitePool};

use super::SqliteOptions;
use super::fault;
use super::file::{self, Found};
use super::writer::Writer;
use crate::error::{Error, Problem};
use crate::place::Place;
use crate::private_file;

static RECORDS_MIGRATOR: Migrator = sqlx::migrate!();
static EVENTS_MIGRATOR: Migrator = sqlx::migrate!("./migrations-events");

/// What a file holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    migrator: &'static Migrator,
    /// Marks a database as ours (sqlite.org/fileformat.html, section 1.3.18).
    application_id: i32,
}

/// "STFD".
pub(super) const RECORDS: Kind = Kind {
    migrator: &RECORDS_MIGRATOR,
    application_id: 0x5354_4644,
};

/// "STFE".
pub(super) const EVENTS: Kind = Kind {
    migrator: &EVENTS_MIGRATOR,
    application_id: 0x5354_4645,
};

/// A database that is open: one connection that writes, and some that read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) writer: Writer,
    pub(super) readers: SqlitePool,
    pub(super) place: Place,
    pub(super) path: PathBuf,
}

/// How many steps of the check, most of them a page, lie between two looks at the clock.
const CHECK_STRIDE: i32 = 50;

/// How long a read waits for one of the reading connections.
const READER_WAIT: Duration = Duration::from_secs(10);

/// How large the write-ahead log may stay after a checkpoint, in bytes.
const LOG_SIZE: &str = "67108864";

pub(super) async fn open(path: &Path, options: SqliteOptions, kind: Kind) -> Result<Opened, Error> {
    let path = std::path::absolute(path)
        .map_err(|error| Place::of(path).io("it is not a path", &error))?;
    let place = Place::of(&path);
    if matches!(file::look(&path, &place)?, Found::Nothing) {
        private_file::make_folder(private_file::folder_of(&path), &place)?;
        create(&path, options, kind, &place).await?;
    }

    let mut checking = connect(&read_only(&path, options), &place).await?;
    let checked = check(&mut checking, options, kind, &place).await;
    let opened = match checked {
        Ok(()) => {
            file::tighten(&path);
            open_writing(&path, options, kind, &place).await
        }
        Err(error) => Err(error),
    };
    // Only now: as the last connection it would try to move the log into the database.
    close(checking, &place).await;
    let db = opened?;

    let readers = SqlitePoolOptions::new()
        .max_connections(options.readers.max(1))
        .acquire_timeout(READER_WAIT)
        // A connection to a file does not die while it idles; asking it costs as much as a short read.
        .test_before_acquire(false)
        .connect_lazy_with(base(&path, options).pragma("query_only", "ON"));
    Ok(Opened {
        writer: Writer::start(db, writing(&path, options), place.clone()),
        readers,
        place,
        path,
    })
}

async fn open_writing(
    path: &Path,
    options: SqliteOptions,
    kind: Kind,
    place: &Place,
) -> Result<SqliteConnection, Error> {
    let mut db = connect(&writing(path, options), place).await?;
    match migrate(&mut db, kind, place).await {
        Ok(()) => Ok(db),
        Err(error) => {
            close(db, place).await;
            Err(error)
        }
    }
}

/// Closes a connection that has nothing more to say, before the file is looked at again.
async fn close(db: SqliteConnection, place: &Place) {
    if let Err(error) = db.close().await {
        tracing::debug!(error = %fault::classify(place, &error), "a connection did not close cleanly");
    }
}

fn base(path: &Path, options: SqliteOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        .busy_timeout(options.busy_timeout)
        .disable_statement_logging()
}

fn read_only(path: &Path, options: SqliteOptions) -> SqliteConnectOptions {
    base(path, options).read_only(true)
}

fn writing(path: &Path, options: SqliteOptions) -> SqliteConnectOptions {
    base(path, options)
        .journal_mode(SqliteJournalMode::Wal)
        // A commit is on disk when it returns; NORMAL would lose the last ones with the power.
        .synchronous(SqliteSynchronous::Full)
        // Where a plain fsync stops at the drive's cache (macOS).
        .pragma("fullfsync", "ON")
        .pragma("journal_size_limit", LOG_SIZE)
}

async fn connect(options: &SqliteConnectOptions, place: &Place) -> Result<SqliteConnection, Error> {
    options
        .connect()
        .await
        .map_err(|error| fault::classify(place, &error))
}

/// Makes a complete database under another name and then gives it its own. A process that dies meanwhile
/// leaves no half of one, so that an empty file always means damage; and two processes that start
/// together agree on one.
async fn create(
    path: &Path,
    options: SqliteOptions,
    kind: Kind,
    place: &Place,
) -> Result<(), Error> {
    let draft = private_file::draft_of(path, place)?;
    private_file::make_private(&draft, place)?;
    let made = fill_draft(&draft, options, kind, place)
        .await
        .and_then(|()| private_file::publish(&draft, path, place));
    file::remove_draft(&draft);
    made
}

async fn fill_draft(
    draft: &Path,
    options: SqliteOptions,
    kind: Kind,
    place: &Place,
) -> Result<(), Error> {
    let options = writing(draft, options).pragma("application_id", kind.application_id.to_string());
    let mut db = connect(&options, place).await?;
    let migrated = migrate(&mut db, kind, place).await;
    let closed = db.close().await;
    migrated?;
    closed.map_err(|error| fault::classify(place, &error))
}

/// Whether the database is ours, of a version that we know, and whole.
async fn check(
    db: &mut SqliteConnection,
    options: SqliteOptions,
    kind: Kind,
    place: &Place,
) -> Result<(), Error> {
    let failed = |error: sqlx::Error| fault::classify(place, &error);
    let id: i32 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut *db)
        .await
        .map_err(failed)?;
    if id != kind.application_id {
        return Err(place.error(
            Problem::Foreign,
            "the file is an SQLite database of another program",
        ));
    }
    let newest: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut *db)
        .await
        .map_err(failed)?;
    let known = kind
        .migrator
        .iter()
        .map(|migration| migration.version)
        .max();
    if newest > known {
        return Err(newer(place, newest.unwrap_or_default()));
    }
    quick_check(db, options, place).await
}

fn newer(place: &Place, version: i64) -> Error {
    place.error(
        Problem::Newer,
        format!("its schema has version {version}, which this version of Steadfast does not know"),
    )
}

async fn quick_check(
    db: &mut SqliteConnection,
    options: SqliteOptions,
    place: &Place,
) -> Result<(), Error> {
    let failed = |error: sqlx::Error| fault::classify(place, &error);
    let deadline = Instant::now() + options.check_time;
    db.lock_handle()
        .await
        .map_err(failed)?
        .set_progress_handler(CHECK_STRIDE, move || Instant::now() < deadline);
    let verdict: sqlx::Result<String> = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(&mut *db)
        .await;
    db.lock_handle()
        .await
        .map_err(failed)?
        .remove_progress_handler();
    match verdict {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(verdict) => Err(place.error(
            Problem::Damaged,
            format!("SQLite's check of it says: {verdict}"),
        )),
        Err(error) if fault::interrupted(&error) => {
            tracing::info!("the store is large; its check at start was cut short");
            Ok(())
        }
        Err(error) => Err(failed(error)),
    }
}

/// Brings the schema up to date, in one transaction: all of it, or nothing. Also finds out now, rather
/// than at the first write, that the file is held by another program or cannot be written.
async fn migrate(db: &mut SqliteConnection, kind: Kind, place: &Place) -> Result<(), Error> {
    let failed = |error: sqlx::Error| fault::classify(place, &error);
    let mut transaction = db.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    kind.migrator
        .run(&mut *transaction)
        .await
        .map_err(|error| match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                fault::classify(place, &error)
            }
            MigrateError::VersionMissing(version) => newer(place, version),
            MigrateError::VersionMismatch(version) => place.error(
                Problem::Newer,
                format!("its schema version {version} is another than ours"),
            ),
            other => place.error(Problem::Damaged, other.to_string()),
        })?;
    // BEGIN IMMEDIATE quietly begins to read where a file is read-only; a statement that may write fails.
    sqlx::query("DELETE FROM meta WHERE false")
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
    transaction.commit().await.map_err(failed)
}
