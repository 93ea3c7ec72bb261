//! What an SQLite file adds to the suite: it is there again after a kill, and apart from the records.

use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::SharedEvents;

async fn open_in(folder: &TempDir) -> SqliteEvents {
    let path = folder.path().join("steadfast-events.db");
    SqliteEvents::open(path, SqliteOptions::default())
        .await
        .unwrap()
}

async fn fresh() -> (SharedEvents, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Arc::new(open_in(&folder).await), folder)
}

crate::instantiate_events!(fresh);

fn batch(stream: StreamName, numbers: std::ops::Range<u64>) -> Vec<EventWrite> {
    let events = numbers.map(|number| EventWrite::Append {
        stream,
        number,
        at: Wall(1),
        data: Bytes::from_static(b"x"),
    });
    events.collect()
}

fn opening(name: StreamName) -> EventWrite {
    EventWrite::Open(Box::new(EventStreamRecord {
        name,
        agent: "support".into(),
        session: [1; 32],
        about: "{}".to_owned(),
        owner: "one".to_owned(),
        opened_at: Wall(1),
    }))
}

#[tokio::test]
async fn what_was_written_is_there_for_whoever_opens_the_file_next() {
    let folder = tempfile::tempdir().unwrap();
    let name = StreamName([1; 16]);
    let killed = open_in(&folder).await;
    let mut writes = vec![opening(name)];
    writes.extend(batch(name, 1..100));
    killed.write(writes).await.unwrap();
    assert_eq!(killed.writer.commits(), 1, "they share one sync");
    // Nothing is closed, as after a kill.
    let next = open_in(&folder).await;
    assert_eq!(next.stream(name).await.unwrap().unwrap().kept, 1..100);
    assert_eq!(next.read(name, 1, 1_000).await.unwrap().len(), 99);
}

#[tokio::test]
async fn a_write_is_there_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let log = open_in(&folder).await;
    let name = StreamName([1; 16]);
    log.write(vec![opening(name)]).await.unwrap();
    let mut twice = batch(name, 1..40);
    twice.extend(batch(name, 39..41));
    assert!(log.write(twice).await.is_err());
    assert_eq!(log.stream(name).await.unwrap().unwrap().kept, 1..1);
}

#[tokio::test]
async fn a_file_of_records_is_no_event_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steadfast.db");
    let options = SqliteOptions::default();
    let records = super::super::SqliteRecords::open(&path, options)
        .await
        .unwrap();
    drop(records);
    let refused = SqliteEvents::open(&path, options).await.unwrap_err();
    assert_eq!(refused.problem(), Problem::Foreign);
}

#[tokio::test]
async fn reading_and_forgetting_use_an_index() {
    let (folder, _) = (tempfile::tempdir().unwrap(), ());
    let log = open_in(&folder).await;
    for sql in [STREAM, OLD[0], OLD[1], SURPLUS[0], SURPLUS[1]] {
        let explained = format!("EXPLAIN QUERY PLAN {sql}");
        let rows = query(sqlx::AssertSqlSafe(explained))
            .fetch_all(&log.readers)
            .await
            .unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        assert!(
            plan.iter().all(|step| !step.starts_with("SCAN events")),
            "{sql}: {plan:?}"
        );
    }
}
