use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use tempfile::TempDir;

use super::*;
use crate::SharedStore;
use crate::error::Problem;
use crate::private_file;
use crate::records::Records as _;

mod due;
mod ledger;

/// How SQLite goes about a statement, step by step.
async fn plan(records: &SqliteRecords, sql: &'static str) -> Vec<String> {
    let explained = format!("EXPLAIN QUERY PLAN {sql}");
    let rows = sqlx::query(sqlx::AssertSqlSafe(explained))
        .fetch_all(&records.readers)
        .await
        .unwrap();
    rows.iter().map(|row| row.get("detail")).collect()
}

mod suite {
    use super::*;

    async fn fresh() -> (SharedStore, TempDir) {
        let (folder, path) = place();
        (Arc::new(open(&path).await.unwrap()), folder)
    }

    crate::instantiate!(fresh);
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steadfast.db");
    (folder, path)
}

async fn open(path: &Path) -> Result<SqliteRecords, Error> {
    SqliteRecords::open(path, SqliteOptions::default()).await
}

async fn open_impatient(path: &Path) -> Result<SqliteRecords, Error> {
    let options = SqliteOptions {
        busy_timeout: Duration::from_millis(20),
        ..SqliteOptions::default()
    };
    SqliteRecords::open(path, options).await
}

/// A connection past our own code, as another program would have it.
async fn raw(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path);
    options.create_if_missing(true).connect().await.unwrap()
}

async fn run(db: &mut SqliteConnection, statement: &'static str) {
    sqlx::raw_sql(statement).execute(db).await.unwrap();
}

/// A database with enough in it to have many pages, closed properly.
async fn filled(path: &Path) {
    let records = open(path).await.unwrap();
    for number in 0..50 {
        let value = "v".repeat(4_000);
        let key = number.to_string();
        records.put_meta(&key, &value).await.unwrap();
    }
    records.close().await;
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        // The shared memory of the processes that have it open: it holds no data.
        .filter(|path| !path.display().to_string().ends_with("-shm"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        // SQLite may leave an empty log.
        .filter(|(path, bytes)| !bytes.is_empty() || !path.display().to_string().ends_with("-wal"))
        .collect();
    all.sort();
    all
}

/// Opening is refused for this reason, names the file and the fix, and changes no byte.
async fn assert_refused(path: &Path, problem: Problem) {
    let folder = path.parent().unwrap();
    let before = contents(folder);
    let error = open_impatient(path).await.unwrap_err();
    assert_eq!(error.problem(), problem, "{error}");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("Nothing was changed."), "{text}");
    assert!(contents(folder) == before, "a byte was changed: {text}");
}

#[tokio::test]
async fn records_outlive_the_process() {
    let (_folder, path) = place();
    filled(&path).await;
    let records = open(&path).await.unwrap();
    let found = records.meta("49").await.unwrap().unwrap();
    assert_eq!(found.len(), 4_000);
}

#[tokio::test]
async fn writes_that_wait_together_share_a_commit() {
    let (_folder, path) = place();
    let records = Arc::new(open(&path).await.unwrap());
    // On one thread: all of them are in the queue before the writer gets its turn.
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..100 {
        let records = Arc::clone(&records);
        tasks.spawn(async move { records.put_meta(&number.to_string(), "1").await });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert!(records.commits() <= 2, "{} commits", records.commits());
    let alone = records.commits();
    for number in 0..3 {
        records.put_meta(&number.to_string(), "2").await.unwrap();
    }
    assert_eq!(records.commits(), alone + 3);
}

#[tokio::test]
async fn commits_are_synced() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    let settings = records.writer.write(|db| {
        Box::pin(async move {
            let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
                .fetch_one(&mut *db)
                .await?;
            let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
                .fetch_one(&mut *db)
                .await?;
            Ok((synchronous, journal))
        })
    });
    // 2 is FULL (sqlite.org/pragma.html#pragma_synchronous).
    assert_eq!(settings.await.unwrap(), (2, "wal".to_owned()));
}

#[tokio::test]
async fn a_write_whose_caller_has_gone_before_it_began_is_not_done() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    {
        // Polled once: it is in the queue, and the writer has not had its turn.
        let gone = std::pin::pin!(records.put_meta("gone", "1"));
        assert!(poll_once(gone).await.is_pending());
    }
    records.put_meta("next", "1").await.unwrap();
    assert_eq!(records.meta("gone").await.unwrap(), None);
}

/// What the first poll gives.
async fn poll_once<F: Future + Unpin>(mut future: F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut future).poll(context))
    })
    .await
}

#[tokio::test]
async fn a_write_that_fails_midway_takes_back_itself_and_no_other() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    let midway = records.writer.write(|db| {
        Box::pin(async move {
            sqlx::query("INSERT INTO meta VALUES ('half', '1')")
                .execute(&mut *db)
                .await?;
            sqlx::query("INSERT INTO meta VALUES ('half', '2')")
                .execute(&mut *db)
                .await
        })
    });
    // Polled in this order, and so in one transaction.
    let (before, failed, after) = tokio::join!(
        records.put_meta("before", "1"),
        midway,
        records.put_meta("after", "1")
    );
    before.unwrap();
    after.unwrap();
    failed.unwrap_err();
    assert_eq!(records.commits(), 1);
    assert_eq!(records.meta("half").await.unwrap(), None);
    for kept in ["before", "after"] {
        assert!(records.meta(kept).await.unwrap().is_some(), "{kept}");
    }
}

/// Puts a key that is not there yet.
fn put(
    key: &'static str,
) -> impl for<'c> FnOnce(&'c mut SqliteConnection) -> writer::Work<'c, ()> + Send + 'static {
    move |db| {
        Box::pin(async move {
            let insert = sqlx::query("INSERT INTO meta VALUES (?, '1')").bind(key);
            insert.execute(db).await.map(drop)
        })
    }
}

fn level_of_sync(db: &mut SqliteConnection) -> writer::Work<'_, i64> {
    Box::pin(async move {
        let level = sqlx::query_scalar("PRAGMA synchronous");
        level.fetch_one(db).await
    })
}

#[tokio::test]
async fn what_needs_no_sync_waits_for_nobody_and_leaves_the_next_synced() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    // Polled in this order, and so in one batch, of which the lazy ones are committed first.
    let (late, lazy, early) = tokio::join!(
        records.writer.write(put("twice")),
        records.writer.write_lazily(put("once")),
        records.writer.write_lazily(put("twice")),
    );
    lazy.unwrap();
    early.unwrap();
    late.unwrap_err();
    assert_eq!(records.commits(), 2);
    // 2 is FULL (sqlite.org/pragma.html#pragma_synchronous).
    assert_eq!(records.writer.write(level_of_sync).await.unwrap(), 2);
}

#[tokio::test]
async fn readers_cannot_write() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    let refused = sqlx::query("DELETE FROM meta")
        .execute(&records.readers)
        .await
        .unwrap_err();
    let error = fault::classify(&records.place, &refused);
    assert_eq!(error.problem(), Problem::ReadOnly);
}

#[tokio::test]
async fn another_format_is_refused() {
    let (_folder, path) = place();
    for text in ["[agents]\n", "x", "SQLite format 2\0 and so on"] {
        fs::write(&path, text).unwrap();
        assert_refused(&path, Problem::Foreign).await;
    }
}

#[tokio::test]
async fn the_database_of_another_program_is_refused() {
    let (_folder, path) = place();
    let mut db = raw(&path).await;
    run(&mut db, "CREATE TABLE agents (id INTEGER)").await;
    db.close().await.unwrap();
    assert_refused(&path, Problem::Foreign).await;
}

#[tokio::test]
async fn an_emptied_file_is_damage_and_not_a_new_store() {
    let (_folder, path) = place();
    filled(&path).await;
    fs::write(&path, "").unwrap();
    assert_refused(&path, Problem::Damaged).await;
}

#[tokio::test]
async fn a_log_without_its_database_is_damage_and_not_a_new_store() {
    let (_folder, path) = place();
    fs::write(private_file::beside(&path, "-wal"), "frames").unwrap();
    assert_refused(&path, Problem::Damaged).await;
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_refused_wherever_the_cut_is() {
    let (_folder, path) = place();
    filled(&path).await;
    let whole = fs::read(&path).unwrap();
    for length in [16, 100, 4_095, 4_096, whole.len() / 2, whole.len() - 4_096] {
        fs::write(&path, &whole[..length]).unwrap();
        let error = open(&path).await.unwrap_err();
        assert!(
            matches!(error.problem(), Problem::Damaged | Problem::Foreign),
            "at {length}: {error}"
        );
        assert_eq!(error.code(), steadfast_core::code::STORE_DAMAGED);
        assert_refused(&path, error.problem()).await;
    }
    fs::write(&path, &whole).unwrap();
    open(&path).await.unwrap();
}

#[tokio::test]
async fn damage_inside_is_refused_and_the_log_is_left_alone() {
    let (folder, path) = place();
    let records = open(&path).await.unwrap();
    for number in 0..50 {
        let value = "v".repeat(4_000);
        records.put_meta(&number.to_string(), &value).await.unwrap();
    }
    records.close().await;
    // What a killed process leaves: changes that are only in the log.
    let records = open(&path).await.unwrap();
    records.put_meta("in the log", "1").await.unwrap();
    let crashed = folder.path().join("crashed");
    fs::create_dir(&crashed).unwrap();
    let copy = crashed.join("steadfast.db");
    for suffix in ["", "-wal"] {
        fs::copy(
            private_file::beside(&path, suffix),
            private_file::beside(&copy, suffix),
        )
        .unwrap();
    }
    let mut bytes = fs::read(&copy).unwrap();
    let middle = (bytes.len() / 2) & !4_095;
    bytes[middle..middle + 4_096].fill(0xa5);
    fs::write(&copy, bytes).unwrap();
    assert!(
        fs::metadata(private_file::beside(&copy, "-wal"))
            .unwrap()
            .len()
            > 0
    );
    assert_refused(&copy, Problem::Damaged).await;
}

#[tokio::test]
async fn a_check_that_takes_too_long_is_cut_short() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    let entry = crate::Transition {
        at: steadfast_core::Wall(1),
        agent: "a".into(),
        server: "crm".into(),
        from: "connected".to_owned(),
        to: "retrying".to_owned(),
        fault: None,
        reason: "r".repeat(400),
    };
    // Some 200 pages of rows, one after the other.
    records.append_history(&vec![entry; 2_000]).await.unwrap();
    records.put_meta("1", "1").await.unwrap();
    records.close().await;
    let mut bytes = fs::read(&path).unwrap();
    // Behind the roots of all trees. SQLite checks the last leaf of a tree first, so that this one comes late.
    bytes[80 * 4_096..81 * 4_096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    assert_refused(&path, Problem::Damaged).await;
    // What lies behind the cut is not found, which shows that there was one.
    let options = SqliteOptions {
        check_time: Duration::ZERO,
        ..SqliteOptions::default()
    };
    let records = SqliteRecords::open(&path, options).await.unwrap();
    assert!(records.meta("1").await.unwrap().is_some());
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (_folder, path) = place();
    filled(&path).await;
    let mut db = raw(&path).await;
    let add = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
               VALUES (9999, 'later', true, x'00', 0)";
    run(&mut db, add).await;
    db.close().await.unwrap();
    assert_refused(&path, Problem::Newer).await;
}

#[tokio::test]
async fn a_row_of_a_newer_version_is_an_error_and_not_a_row_less() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    let mut db = raw(&path).await;
    let add = r#"INSERT INTO servers VALUES ('crm', '{"v":2,"value":"secret"}', 'file')"#;
    run(&mut db, add).await;
    let error = records.servers().await.unwrap_err();
    assert_eq!(error.problem(), Problem::Newer);
    run(&mut db, "UPDATE servers SET config = '{\"v\":1,\"secret'").await;
    let error = records.servers().await.unwrap_err();
    assert_eq!(error.problem(), Problem::Damaged);
    let text = format!("{error} {error:?}");
    assert!(text.contains("column config of table servers"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_held_file_is_an_error_and_can_be_used_afterwards() {
    let (_folder, path) = place();
    let records = open_impatient(&path).await.unwrap();
    records.put_meta("a", "1").await.unwrap();
    let mut holder = raw(&path).await;
    run(&mut holder, "BEGIN EXCLUSIVE").await;
    assert_refused(&path, Problem::Locked).await;
    let error = records.put_meta("a", "2").await.unwrap_err();
    assert_eq!(error.problem(), Problem::Locked);
    assert_eq!(error.code(), steadfast_core::code::STORE_UNAVAILABLE);
    assert_eq!(records.meta("a").await.unwrap().as_deref(), Some("1"));
    run(&mut holder, "ROLLBACK").await;
    records.put_meta("a", "3").await.unwrap();
    assert_eq!(records.meta("a").await.unwrap().as_deref(), Some("3"));
    open_impatient(&path).await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_refused() {
    let (_folder, path) = place();
    filled(&path).await;
    let mut bytes = fs::read(&path).unwrap();
    // Read-only for every user, also for one whom file modes do not stop: a write version above 2
    // (sqlite.org/fileformat.html, section 1.3.3).
    bytes[18] = 3;
    fs::write(&path, bytes).unwrap();
    assert_refused(&path, Problem::ReadOnly).await;
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_changes_nothing() {
    let (_folder, path) = place();
    let records = open(&path).await.unwrap();
    records.put_meta("a", "1").await.unwrap();
    let limit = records.writer.write(|db| {
        Box::pin(async move {
            let pages: i64 = sqlx::query_scalar("PRAGMA page_count")
                .fetch_one(&mut *db)
                .await?;
            let limit = format!("PRAGMA max_page_count = {pages}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(limit))
                .execute(&mut *db)
                .await?;
            Ok(())
        })
    });
    limit.await.unwrap();
    let error = records
        .put_meta("a", &"v".repeat(100_000))
        .await
        .unwrap_err();
    assert_eq!(error.problem(), Problem::Full, "{error}");
    assert!(error.to_string().contains("steadfast.db"), "{error}");
    assert_eq!(records.meta("a").await.unwrap().as_deref(), Some("1"));
    records.put_meta("a", "2").await.unwrap();
    assert_eq!(records.meta("a").await.unwrap().as_deref(), Some("2"));
}

#[tokio::test]
async fn files_of_ours_that_others_could_read_are_closed_to_them() {
    let (_folder, path) = place();
    filled(&path).await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let records = open(&path).await.unwrap();
    records.put_meta("a", "1").await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mode = fs::metadata(private_file::beside(&path, suffix))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
}

#[tokio::test]
async fn a_path_that_cannot_be_made_is_named() {
    let (folder, _) = place();
    let occupied = folder.path().join("file");
    fs::write(&occupied, "x").unwrap();
    let error = open(&occupied.join("steadfast.db")).await.unwrap_err();
    assert_eq!(error.problem(), Problem::Io);
    assert!(error.to_string().contains("file/steadfast.db"), "{error}");
}
