//! What an agent can resume, and what not.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use steadfast_core::bridge::Client;
use steadfast_core::replay::Reach;
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{AgentSessionRecord, MemoryEvents, MemoryRecords};

use super::*;
use crate::agents::stream_body::Source as _;

const DAY: Duration = Duration::from_secs(86_400);

/// A store, the log in it, and the daemons that use both.
struct Place {
    store: SharedStore,
    log: SharedEvents,
}

impl Place {
    fn new() -> Self {
        Self {
            store: Arc::new(MemoryRecords::new()),
            log: Arc::new(MemoryEvents::new()),
        }
    }

    async fn daemon(&self) -> Arc<EventLog> {
        let (log, store) = (Arc::clone(&self.log), Arc::clone(&self.store));
        let names = Arc::new(Unguessable::new().unwrap());
        let url = "https://gw.test".parse().unwrap();
        EventLog::open(log, store, DAY, u64::MAX, names, url)
            .await
            .unwrap()
    }
}

async fn daemon() -> Arc<EventLog> {
    Place::new().daemon().await
}

fn session(number: u8) -> Arc<Session> {
    let record = AgentSessionRecord {
        id_hash: [number; 32],
        agent: AgentName::from("support"),
        server: Some(ServerName::from("booking")),
        revision: Revision::V2025_11_25,
        client_info: "{}".to_owned(),
        capabilities: "{}".to_owned(),
        log_level: None,
        subscriptions: Vec::new(),
        opened_at: Wall(0),
        used_at: Wall(0),
    };
    let client = Arc::new(Client {
        info: "{}".to_owned(),
        capabilities: "{}".to_owned(),
        log_level: None,
    });
    Arc::new(Session::from_record(record, client, 0, DAY))
}

fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

fn key() -> Access {
    Access::of_key(AgentName::from("support"))
}

fn token(audiences: &[&str]) -> Access {
    Access {
        reach: Reach::Only(audiences.iter().map(|it| resource(it)).collect()),
        ..key()
    }
}

const FIND: &str = "https://gw.test/mcp/booking/tools/find";
const BOOK: &str = "https://gw.test/mcp/booking/tools/book";

fn answering(priming: Priming) -> About {
    About::answering(priming, Vec::new())
}

fn begin(log: &Arc<EventLog>, priming: Priming) -> Arc<Stream> {
    log.begin(&session(1), answering(priming), [resource(FIND)])
}

/// Everything that is there once all is on disk, and whether the stream has ended.
async fn ready_now(log: &EventLog, reader: &mut Reader) -> (String, bool) {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        log.scribe.finish().await;
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
        if ended || out.len() == before {
            return (String::from_utf8(out).unwrap(), ended);
        }
    }
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

async fn resume(log: &Arc<EventLog>, id: &str, access: &Access) -> Result<Resumed, NotResumed> {
    log.resume(&session(1), id, access).await
}

async fn resumed(log: &Arc<EventLog>, id: &str) -> Reader {
    match resume(log, id, &key()).await.unwrap() {
        Resumed::Held(reader)
        | Resumed::Listening(reader)
        | Resumed::Interrupted { reader, .. } => reader,
    }
}

async fn is_unknown(log: &Arc<EventLog>, id: &str) -> bool {
    matches!(resume(log, id, &key()).await, Err(NotResumed::Unknown))
}

#[tokio::test]
async fn every_event_has_an_id_and_can_be_resumed_from() {
    let log = daemon().await;
    let stream = begin(&log, Priming::Event);
    let mut reader = stream.read(key());
    stream.append(Bytes::from_static(b"a"));
    stream.append(Bytes::from_static(b"b"));
    let (text, ended) = ready_now(&log, &mut reader).await;
    assert!(!ended && text.starts_with("id: ") && text.contains("retry: 1000"));
    assert_eq!((ids(&text).len(), data(&text)), (3, vec!["a", "b"]));
    stream.append(Bytes::from_static(b"c"));
    stream.end();
    for (at, rest) in [
        (0, vec!["a", "b", "c"]),
        (1, vec!["b", "c"]),
        (2, vec!["c"]),
    ] {
        let mut again = resumed(&log, ids(&text)[at]).await;
        let (again, ended) = ready_now(&log, &mut again).await;
        assert!(ended);
        assert_eq!(data(&again), rest);
        assert!(
            !ids(&again).contains(&ids(&text)[at]),
            "what was seen does not come again"
        );
    }
}

#[tokio::test]
async fn nothing_is_sent_before_it_is_on_disk() {
    let log = daemon().await;
    let stream = begin(&log, Priming::Event);
    let mut reader = stream.read(key());
    stream.append(Bytes::from_static(b"a"));
    // The scribe has not run yet: this task has not let go of the thread.
    let mut out = Vec::new();
    let polled = poll_fn(|cx| Poll::Ready(reader.poll_write(cx, &mut out))).await;
    assert!(polled.is_pending() && out.is_empty());
    let (text, _) = ready_now(&log, &mut reader).await;
    assert_eq!(data(&text), ["a"]);
}

#[tokio::test]
async fn ids_of_others_and_unknown_ids_are_refused() {
    let log = daemon().await;
    let stream = begin(&log, Priming::Event);
    let mut reader = stream.read(key());
    stream.append(Bytes::from_static(b"a"));
    let (text, _) = ready_now(&log, &mut reader).await;
    let last = *ids(&text).last().unwrap();
    let (name, _) = last.split_once('.').unwrap();
    let foreign = log.resume(&session(2), last, &key()).await;
    assert!(matches!(foreign, Err(NotResumed::Unknown)));
    for unknown in [
        "",
        "x",
        "1",
        ".",
        &format!("{name}.2"),
        &format!("{name}.+1"),
        &format!("{name}.x"),
        &format!("{name}."),
        "00.0",
    ] {
        assert!(is_unknown(&log, unknown).await, "{unknown}");
    }
    log.forget_session(session(1).key);
    log.scribe.finish().await;
    assert!(is_unknown(&log, last).await, "forgotten");
}

#[tokio::test]
async fn a_later_reader_takes_the_stream_over() {
    let log = daemon().await;
    let stream = begin(&log, Priming::None);
    let mut first = stream.read(key());
    assert_eq!(ready_now(&log, &mut first).await, (String::new(), false));
    stream.append(Bytes::from_static(b"a"));
    assert_eq!(data(&ready_now(&log, &mut first).await.0), ["a"]);
    let mut second = stream.read(key());
    let parted = ready_now(&log, &mut first).await;
    assert_eq!(parted, ("retry: 1000\n\n".to_owned(), true));
    drop(first);
    assert!(
        stream.is_attached(),
        "the earlier reader's end is not the later one's"
    );
    stream.append(Bytes::from_static(b"b"));
    assert_eq!(data(&ready_now(&log, &mut second).await.0), ["b"]);
    drop(second);
    assert!(!stream.is_attached());
    stream.append(Bytes::from_static(b"c"));
    assert_eq!(
        data(&ready_now(&log, &mut stream.read(key())).await.0),
        ["c"],
        "what nobody took is still there"
    );
}

#[tokio::test]
async fn before_2025_11_25_the_first_block_dispatches_nothing() {
    let log = daemon().await;
    let stream = begin(&log, Priming::of_answer(Revision::V2025_06_18));
    let mut reader = stream.read(key());
    stream.append(Bytes::from_static(b"a"));
    let (text, _) = ready_now(&log, &mut reader).await;
    let first = text.split("\n\n").next().unwrap();
    assert!(
        first.starts_with("id: ") && !first.contains("data"),
        "{text}"
    );
    let mut again = resumed(&log, ids(&text)[0]).await;
    assert_eq!(data(&ready_now(&log, &mut again).await.0), ["a"]);
    assert_eq!(Priming::of_answer(Revision::V2025_11_25), Priming::Event);
    assert_eq!(Priming::of_listening(Revision::V2025_06_18), Priming::None);
}

#[tokio::test]
async fn a_quiet_stream_costs_no_memory_and_loses_nothing() {
    let log = daemon().await;
    let stream = begin(&log, Priming::Event);
    let mut slow = stream.read(key());
    let event = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..8 {
        stream.append(event.clone());
        log.scribe.finish().await;
    }
    let (in_memory, _) = stream.standing();
    assert!(
        in_memory.start > 1,
        "{in_memory:?}: a slow reader reads from the disk"
    );
    let (text, _) = ready_now(&log, &mut slow).await;
    assert_eq!(data(&text).len(), 8);
    drop(slow);
    assert_eq!(stream.standing().0, 9..9);
    stream.end();
    log.scribe.finish().await;
    assert!(log.held.lock().is_empty());
}

#[tokio::test]
async fn an_append_wakes_the_reader() {
    let log = daemon().await;
    let stream = begin(&log, Priming::None);
    let mut reader = stream.read(key());
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

/// A stream with events of two tools, dropped after the first event, with an aggregate token.
async fn of_two_tools(log: &Arc<EventLog>) -> (Arc<Stream>, String) {
    let requires = [resource(FIND), resource(BOOK)];
    let stream = log.begin(&session(1), answering(Priming::Event), requires);
    let mut reader = stream.read(token(&["https://gw.test/mcp"]));
    stream.append(Bytes::from_static(b"found"));
    let (text, _) = ready_now(log, &mut reader).await;
    let last = (*ids(&text).last().unwrap()).to_owned();
    drop(reader);
    stream.append_answer(
        "1",
        Some(Bytes::from_static(b"both")),
        Some(&resource(BOOK)),
    );
    stream.append(Bytes::from_static(b"more"));
    log.scribe.finish().await;
    (stream, last)
}

#[tokio::test]
async fn a_narrowed_token_gets_nothing_and_loses_nothing() {
    let place = Place::new();
    let log = place.daemon().await;
    let (_stream, last) = of_two_tools(&log).await;
    let after_restart = place.daemon().await;
    for log in [&log, &after_restart] {
        for (audiences, expected) in [
            (&[FIND][..], vec![resource(BOOK)]),
            (
                &["https://gw.test/mcp/other"],
                vec![resource(BOOK), resource(FIND)],
            ),
        ] {
            match resume(log, &last, &token(audiences)).await {
                Err(NotResumed::NotCovered(missing)) => assert_eq!(missing, expected),
                other => panic!("{other:?}"),
            }
        }
    }
    for covering in [&[FIND, BOOK][..], &["https://gw.test/mcp/booking"]] {
        let Ok(Resumed::Held(mut reader)) = resume(&log, &last, &token(covering)).await else {
            panic!("it is covered");
        };
        let (text, _) = ready_now(&log, &mut reader).await;
        assert_eq!(data(&text), ["both", "more"], "nothing was consumed");
    }
}

#[tokio::test]
async fn what_is_settled_and_seen_is_required_no_more() {
    let log = daemon().await;
    let (_stream, last) = of_two_tools(&log).await;
    let (name, _) = last.split_once('.').unwrap();
    let resumed = resume(&log, &format!("{name}.2"), &token(&[FIND])).await;
    let Ok(Resumed::Held(mut reader)) = resumed else {
        panic!("{resumed:?}");
    };
    assert_eq!(data(&ready_now(&log, &mut reader).await.0), ["more"]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_ends_the_stream_and_says_so() {
    let log = daemon().await;
    let stream = begin(&log, Priming::Event);
    let access = Access {
        expires_at: Some(Wall(clock::wall().0 + 60_000)),
        ..token(&[FIND])
    };
    let mut reader = stream.read(access);
    stream.append(Bytes::from_static(b"a"));
    let (text, ended) = ready_now(&log, &mut reader).await;
    assert!(!ended);
    let last = (*ids(&text).last().unwrap()).to_owned();
    let mut reader = stream.read(Access {
        expires_at: Some(Wall(clock::wall().0)),
        ..token(&[FIND])
    });
    stream.append(Bytes::from_static(b"b"));
    let (text, ended) = ready_now(&log, &mut reader).await;
    assert!(ended && text.starts_with("event: error\n"), "{text}");
    let said: serde_json::Value = serde_json::from_str(data(&text)[0]).unwrap();
    assert_eq!(said["last_event_id"], last);
    assert_eq!(said["missing"], serde_json::json!([FIND]));
    assert_eq!(ids(&text), [] as [&str; 0]);
    drop(reader);
    let mut again = resumed(&log, &last).await;
    assert_eq!(data(&ready_now(&log, &mut again).await.0), ["b"]);
}

#[tokio::test]
async fn an_event_of_another_server_needs_a_token_for_it() {
    let log = daemon().await;
    let own = resource("https://gw.test/mcp/booking");
    let about = About::listening(Priming::Event);
    let stream = log.begin(&session(1), about, [own]);
    let mut reader = stream.read(token(&["https://gw.test/mcp/booking"]));
    stream.append_from(&"booking".into(), Bytes::from_static(b"a"));
    assert_eq!(data(&ready_now(&log, &mut reader).await.0), ["a"]);
    stream.append_from(&"mail".into(), Bytes::from_static(b"b"));
    let (text, ended) = ready_now(&log, &mut reader).await;
    assert!(ended && text.contains("https://gw.test/mcp/mail"), "{text}");
    assert!(!text.contains("data: b"));
}

#[tokio::test]
async fn a_listening_stream_goes_on_in_the_next_daemon() {
    let place = Place::new();
    let first = place.daemon().await;
    let stream = first.begin(&session(1), About::listening(Priming::Event), []);
    let mut reader = stream.read(key());
    stream.append(Bytes::from_static(b"a"));
    let (text, _) = ready_now(&first, &mut reader).await;
    let primed = ids(&text)[0].to_owned();
    let elsewhere = place.daemon().await;
    let mut polled = resumed(&elsewhere, &primed).await;
    let (text, ended) = ready_now(&elsewhere, &mut polled).await;
    assert!(
        ended && text.ends_with("retry: 1000\n\n"),
        "its daemon has it: {text}"
    );
    assert_eq!(data(&text), ["a"]);

    // As a kill does: nobody holds it, and nobody said so.
    drop(reader);
    first.let_go(stream.name);
    drop(stream);
    drop(Arc::try_unwrap(first).unwrap());
    let session = session(1);
    let resumed = elsewhere.resume(&session, &primed, &key()).await;
    let Ok(Resumed::Listening(mut reader)) = resumed else {
        panic!("{resumed:?}");
    };
    let listening = session.listening_now().unwrap();
    listening.append(Bytes::from_static(b"b"));
    let (text, ended) = ready_now(&elsewhere, &mut reader).await;
    assert!(!ended);
    assert_eq!(data(&text), ["a", "b"]);
    assert_eq!(ids(&text).len(), 2);
}

#[tokio::test]
async fn a_disk_that_is_full_holds_up_no_answer() {
    let place = Place::new();
    let log = place.daemon().await;
    let stream = begin(&log, Priming::Event);
    let mut reader = stream.read(key());
    stream.append(Bytes::from_static(b"a"));
    let (text, _) = ready_now(&log, &mut reader).await;
    place.log.close().await;
    tokio::time::pause();
    stream.append(Bytes::from_static(b"b"));
    let (more, _) = ready_now(&log, &mut reader).await;
    assert_eq!(data(&more), ["b"]);
    drop(reader);
    let mut again = resumed(&log, ids(&text)[1]).await;
    assert_eq!(data(&ready_now(&log, &mut again).await.0), ["b"]);
}
