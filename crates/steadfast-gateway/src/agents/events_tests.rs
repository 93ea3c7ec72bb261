//! What an agent can resume, and what not.

use std::future::poll_fn;

use super::*;

const SESSION: IdHash = [1; 32];

fn log() -> Arc<EventLog> {
    with_budget(1 << 20)
}

fn with_budget(budget: usize) -> Arc<EventLog> {
    let names = Arc::new(Unguessable::new().unwrap());
    EventLog::new(Duration::from_secs(3_600), budget, names)
}

/// Everything that is there now, and whether the stream has ended.
async fn ready_now(reader: &mut Reader) -> (String, bool) {
    let mut out = Vec::new();
    let ended = poll_fn(|cx| {
        loop {
            match reader.poll_write(cx, &mut out) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(true),
                Poll::Pending => return Poll::Ready(false),
            }
        }
    })
    .await;
    (String::from_utf8(out).unwrap(), ended)
}

fn ids(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .collect()
}

fn data(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter(|data| !data.is_empty()).collect()
}

#[tokio::test]
async fn every_event_has_an_id_and_can_be_resumed_from() {
    let log = log();
    let stream = log.open(SESSION, Priming::Event, None);
    let mut reader = stream.read();
    stream.append(Bytes::from_static(b"a"));
    stream.append(Bytes::from_static(b"b"));
    let (text, ended) = ready_now(&mut reader).await;
    assert!(!ended && text.starts_with("id: ") && text.contains("retry: 1000"));
    assert_eq!((ids(&text).len(), data(&text)), (3, vec!["a", "b"]));
    stream.append(Bytes::from_static(b"c"));
    stream.end();
    for (at, rest) in [
        (0, vec!["a", "b", "c"]),
        (1, vec!["b", "c"]),
        (2, vec!["c"]),
    ] {
        let mut resumed = log.resume(&SESSION, ids(&text)[at]).unwrap();
        let (again, ended) = ready_now(&mut resumed).await;
        assert!(ended);
        assert_eq!(data(&again), rest);
        assert!(
            !ids(&again).contains(&ids(&text)[at]),
            "what was seen does not come again"
        );
    }
}

#[tokio::test]
async fn ids_of_others_and_unknown_ids_are_refused() {
    let log = log();
    let stream = log.open(SESSION, Priming::Event, None);
    let mut reader = stream.read();
    stream.append(Bytes::from_static(b"a"));
    let (text, _) = ready_now(&mut reader).await;
    let last = *ids(&text).last().unwrap();
    assert!(log.resume(&[2; 32], last).is_none(), "another session's");
    let (name, _) = last.split_once('.').unwrap();
    for unknown in [
        "",
        "x",
        "1",
        ".",
        &format!("{name}.2"),
        &format!("{name}.x"),
        &format!("{name}."),
        "00.0",
    ] {
        assert!(log.resume(&SESSION, unknown).is_none(), "{unknown}");
    }
    stream.discard();
    assert!(log.resume(&SESSION, last).is_none(), "forgotten");
}

#[tokio::test(start_paused = true)]
async fn expired_events_are_not_skipped_in_silence() {
    let log = log();
    let stream = log.open(SESSION, Priming::Event, None);
    let mut reader = stream.read();
    stream.append(Bytes::from_static(b"old"));
    let (text, _) = ready_now(&mut reader).await;
    tokio::time::advance(Duration::from_secs(3_601)).await;
    stream.append(Bytes::from_static(b"new"));
    let cursors = ids(&text);
    assert!(
        log.resume(&SESSION, cursors[0]).is_none(),
        "an event after it is gone"
    );
    let mut resumed = log.resume(&SESSION, cursors[1]).unwrap();
    assert_eq!(data(&ready_now(&mut resumed).await.0), ["new"]);
}

#[tokio::test]
async fn a_later_reader_takes_the_stream_over() {
    let log = log();
    let stream = log.open(SESSION, Priming::None, None);
    let mut first = stream.read();
    assert_eq!(ready_now(&mut first).await, (String::new(), false));
    stream.append(Bytes::from_static(b"a"));
    assert_eq!(data(&ready_now(&mut first).await.0), ["a"]);
    let mut second = stream.read();
    assert_eq!(ready_now(&mut first).await, (String::new(), true));
    drop(first);
    assert!(
        stream.is_attached(),
        "the earlier reader's end is not the later one's"
    );
    stream.append(Bytes::from_static(b"b"));
    assert_eq!(data(&ready_now(&mut second).await.0), ["b"]);
    drop(second);
    assert!(!stream.is_attached());
    stream.append(Bytes::from_static(b"c"));
    assert_eq!(
        data(&ready_now(&mut stream.read()).await.0),
        ["c"],
        "what nobody took is still there"
    );
}

#[tokio::test]
async fn before_2025_11_25_the_first_block_dispatches_nothing() {
    let log = log();
    let priming = Priming::of_answer(Revision::V2025_06_18);
    let stream = log.open(SESSION, priming, None);
    let (text, _) = ready_now(&mut stream.read()).await;
    assert!(text.starts_with("id: ") && !text.contains("data"), "{text}");
    let mut resumed = log.resume(&SESSION, ids(&text)[0]).unwrap();
    stream.append(Bytes::from_static(b"a"));
    assert_eq!(data(&ready_now(&mut resumed).await.0), ["a"]);
    assert_eq!(Priming::of_answer(Revision::V2025_11_25), Priming::Event);
    assert_eq!(Priming::of_listening(Revision::V2025_06_18), Priming::None);
}

#[tokio::test]
async fn ended_streams_are_forgotten_oldest_first_within_the_budget() {
    let log = with_budget(3 * (STREAM_COST + 100));
    let mut last = Vec::new();
    for _ in 0..4 {
        let stream = log.open(SESSION, Priming::Event, None);
        let mut reader = stream.read();
        stream.append(Bytes::from(vec![b'x'; 100]));
        let (text, _) = ready_now(&mut reader).await;
        last.push((*ids(&text).first().unwrap()).to_owned());
        stream.end();
    }
    let known: Vec<_> = last
        .iter()
        .map(|id| log.resume(&SESSION, id).is_some())
        .collect();
    assert_eq!(known, [false, true, true, true]);
    let large = log.open(SESSION, Priming::Event, None);
    let mut reader = large.read();
    large.append(Bytes::from(vec![b'y'; 10_000]));
    let (text, _) = ready_now(&mut reader).await;
    large.end();
    assert!(
        log.resume(&SESSION, ids(&text)[0]).is_some(),
        "the newest stays, however large"
    );
    assert!(log.resume(&SESSION, &last[3]).is_none());
}

#[tokio::test]
async fn one_stream_cannot_grow_for_ever() {
    let log = log();
    let stream = log.open(SESSION, Priming::Event, None);
    let mut slow = stream.read();
    let (text, _) = ready_now(&mut slow).await;
    for _ in 0..6 {
        stream.append(Bytes::from(vec![b'x'; 1 << 20]));
    }
    assert!(stream.state.lock().bytes <= STREAM_BUDGET);
    assert_eq!(
        ready_now(&mut slow).await,
        (String::new(), true),
        "a reader that missed events ends"
    );
    assert!(log.resume(&SESSION, ids(&text)[0]).is_none());
}

#[tokio::test]
async fn an_append_wakes_the_reader() {
    let log = log();
    let stream = log.open(SESSION, Priming::None, None);
    let mut reader = stream.read();
    let reading = tokio::spawn(async move {
        let mut out = Vec::new();
        poll_fn(|cx| reader.poll_write(cx, &mut out)).await;
        out
    });
    tokio::task::yield_now().await;
    stream.append(Bytes::from_static(b"a"));
    assert_eq!(
        data(std::str::from_utf8(&reading.await.unwrap()).unwrap()),
        ["a"]
    );
}
