//! The event log: what is kept is whole, in order, and forgotten from its beginning.

use bytes::Bytes;
use steadfast_core::Wall;
use steadfast_core::replay::{Requirement, Resource, Until};

use crate::events::{EventStreamRecord, EventWrite, SharedEvents, StreamName};

fn name(number: u128) -> StreamName {
    StreamName::new(Wall(1_000), number)
}

fn opened(number: u8) -> EventStreamRecord {
    EventStreamRecord {
        name: name(number.into()),
        agent: "support".into(),
        session: [number; 32],
        about: r#"{"n":1.0}"#.to_owned(),
        owner: "one".to_owned(),
        opened_at: Wall(1_000),
    }
}

fn append(stream: StreamName, number: u64, at: i64) -> EventWrite {
    EventWrite::Append {
        stream,
        number,
        at: Wall(at),
        data: data(number),
    }
}

fn data(number: u64) -> Bytes {
    Bytes::from(format!("event {number:04}"))
}

async fn open(log: &SharedEvents, number: u8, events: u64) -> StreamName {
    let record = opened(number);
    let name = record.name;
    let mut writes = vec![EventWrite::Open(Box::new(record))];
    writes.extend((1..=events).map(|event| append(name, event, 1_000)));
    log.write(writes).await.unwrap();
    name
}

async fn end(log: &SharedEvents, stream: StreamName, at: i64) {
    let at = Wall(at);
    log.write(vec![EventWrite::End { stream, at }])
        .await
        .unwrap();
}

async fn kept(log: &SharedEvents, name: StreamName) -> Option<std::ops::Range<u64>> {
    log.stream(name).await.unwrap().map(|stream| stream.kept)
}

async fn trim(log: &SharedEvents, before: i64, budget: u64) {
    while log.trim(Wall(before), budget).await.unwrap() {}
}

/// In any parts, and with nothing after the end.
pub async fn events_come_back_in_the_order_of_appending(log: SharedEvents) {
    let name = open(&log, 1, 70).await;
    let stream = log.stream(name).await.unwrap().unwrap();
    assert_eq!(stream.record, opened(1));
    assert_eq!((stream.kept, stream.ended), (1..71, false));
    let (mut read, mut parts) = (Vec::new(), 0);
    loop {
        let part = log.read(name, read.len() as u64 + 1, 100).await.unwrap();
        if part.is_empty() {
            break;
        }
        parts += 1;
        read.extend(part);
    }
    assert!(parts > 1 && parts < 70, "{parts} parts of about 100 bytes");
    assert_eq!(read, (1..=70).map(data).collect::<Vec<_>>());
    assert_eq!(log.read(name, 1, 0).await.unwrap().len(), 1);
    assert_eq!(log.stream(StreamName([9; 16])).await.unwrap(), None);
    end(&log, name, 2_000).await;
    let stream = log.stream(name).await.unwrap().unwrap();
    assert_eq!((stream.kept, stream.ended), (1..71, true));
}

/// Also events that were written with those of others.
pub async fn events_of_streams_do_not_mix(log: SharedEvents) {
    let (first, second) = (open(&log, 1, 0).await, open(&log, 2, 0).await);
    let both = [first, second];
    let writes = (1..=40).flat_map(|event| both.map(|name| append(name, event, 1_000)));
    log.write(writes.collect()).await.unwrap();
    for name in both {
        let read = log.read(name, 39, 1_000).await.unwrap();
        assert_eq!(read, [data(39), data(40)]);
    }
}

/// The latest word on each resource counts.
pub async fn requirements_are_kept_by_resource(log: SharedEvents) {
    let name = open(&log, 1, 3).await;
    let resource = |tool| Resource::parse(&format!("https://gw.test/mcp/b/tools/{tool}")).unwrap();
    let require = |tool, until| EventWrite::Require {
        stream: name,
        resource: resource(tool),
        until,
    };
    let first = vec![require("find", Until::Open), require("book", Until::Open)];
    log.write(first).await.unwrap();
    log.write(vec![require("find", Until::Event(2))])
        .await
        .unwrap();
    let mut requirements = log.stream(name).await.unwrap().unwrap().requirements;
    requirements.sort_by(|one, other| one.resource.cmp(&other.resource));
    let required = |tool, until| Requirement {
        resource: resource(tool),
        until,
    };
    let expected = [
        required("book", Until::Open),
        required("find", Until::Event(2)),
    ];
    assert_eq!(requirements, expected);
}

/// By age: a stream that is left as a whole, of an open one what is old, from its beginning.
pub async fn old_events_are_forgotten_from_the_beginning(log: SharedEvents) {
    let (ended, open_one) = (open(&log, 1, 3).await, open(&log, 2, 3).await);
    log.write(vec![append(open_one, 4, 3_000)]).await.unwrap();
    end(&log, ended, 2_000).await;
    trim(&log, 2_000, u64::MAX).await;
    assert_eq!(kept(&log, ended).await, Some(1..4), "it ended at that time");
    assert_eq!(kept(&log, open_one).await, Some(4..5));
    assert_eq!(
        log.read(open_one, 3, 1_000).await.unwrap(),
        [] as [Bytes; 0]
    );
    assert_eq!(log.read(open_one, 4, 1_000).await.unwrap(), [data(4)]);
    trim(&log, 5_000, u64::MAX).await;
    assert_eq!(kept(&log, ended).await, None);
    assert_eq!(kept(&log, open_one).await, Some(5..5), "it goes on");
    log.write(vec![append(open_one, 5, 6_000)]).await.unwrap();
    assert_eq!(kept(&log, open_one).await, Some(5..6));
}

/// By size: what was left first goes first, and the last event of an open stream stays.
pub async fn a_log_that_is_too_large_forgets_the_oldest(log: SharedEvents) {
    let (ended, open_one) = (open(&log, 1, 3).await, open(&log, 2, 3).await);
    end(&log, ended, 2_000).await;
    trim(&log, 0, u64::MAX).await;
    assert_eq!(kept(&log, ended).await, Some(1..4));
    trim(&log, 0, 0).await;
    assert_eq!(kept(&log, ended).await, None);
    assert_eq!(kept(&log, open_one).await, Some(3..4));
}

/// At once, with everything of it.
pub async fn streams_go_with_their_session(log: SharedEvents) {
    let (first, second) = (open(&log, 1, 3).await, open(&log, 2, 3).await);
    let third = open(&log, 3, 3).await;
    let session = [2; 32];
    let writes = vec![
        EventWrite::ForgetSession { session },
        EventWrite::Forget { stream: third },
    ];
    log.write(writes).await.unwrap();
    assert_eq!(kept(&log, first).await, Some(1..4));
    for gone in [second, third] {
        assert_eq!(kept(&log, gone).await, None);
        assert!(log.read(gone, 1, 1_000).await.unwrap().is_empty());
    }
}

/// And is held by one daemon at a time.
pub async fn a_stream_of_a_daemon_that_is_no_more_is_taken_over_once(log: SharedEvents) {
    let (name, other) = (open(&log, 1, 3).await, open(&log, 2, 3).await);
    end(&log, other, 2_000).await;
    assert_eq!(log.owners().await.unwrap(), ["one"]);
    log.abandon("one", Wall(3_000)).await.unwrap();
    assert!(log.owners().await.unwrap().is_empty());
    assert!(log.adopt(name, "one", "two").await.unwrap());
    assert!(!log.adopt(name, "one", "three").await.unwrap());
    assert!(
        !log.adopt(other, "one", "two").await.unwrap(),
        "it has ended"
    );
    let (stream, about) = (name, r#"{"n":2}"#.to_owned());
    log.write(vec![EventWrite::About { stream, about }])
        .await
        .unwrap();
    let found = log.stream(name).await.unwrap().unwrap();
    assert_eq!(found.record.about, r#"{"n":2}"#);
    assert_eq!(log.owners().await.unwrap(), ["two"]);
    trim(&log, 4_000, u64::MAX).await;
    assert_eq!(kept(&log, name).await, Some(4..4), "it is held again");
    assert_eq!(kept(&log, other).await, None);
    let (stream, at) = (name, Wall(5_000));
    log.write(vec![EventWrite::Leave { stream, at }])
        .await
        .unwrap();
    assert!(log.owners().await.unwrap().is_empty());
    assert!(
        log.adopt(name, "two", "two").await.unwrap(),
        "who left it may come back"
    );
}

/// Everything says so, and nothing panics.
pub async fn a_closed_log_says_so(log: SharedEvents) {
    let name = open(&log, 1, 1).await;
    log.close().await;
    assert!(log.write(vec![append(name, 2, 1_000)]).await.is_err());
    assert!(log.stream(name).await.is_err());
    assert!(log.read(name, 1, 1).await.is_err());
}
