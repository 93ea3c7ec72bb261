//! SP-05: big answers, and answers without an end.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use testkit::reply::{content, event_stream};
use testkit::script::{call, get};
use testkit::{Behaviour, Daemon, Ending, Server};

use crate::rig::{BOTH, Era, Rig, assert_unknown, event, seen};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn sp_05_big_answers_pass() {
    // The biggest once in each form: an unoptimised build takes its time for it.
    let biggest = |era| (era == Era::Legacy, 12 * MIB);
    for era in BOTH {
        let rig = Rig::new(era, era.behaviour()).await;
        let sizes = [65 * 1024, MIB + MIB / 10];
        let both = sizes.map(|size| [(false, size), (true, size)]);
        for (streams, size) in both.into_iter().flatten().chain([biggest(era)]) {
            rig.server
                .change(|behaviour| behaviour.stream_answers = streams);
            let answer = rig.agent.call("big", json!({"bytes": size})).await.unwrap();
            let text = answer.text();
            assert_eq!(text.len(), size, "{era:?} streams: {streams}");
            assert!(text.bytes().all(|byte| byte == b'x'));
        }
        assert_eq!(rig.calls("big"), 5);
    }
}

#[tokio::test]
async fn sp_05_above_the_limit_one_call_fails_and_no_other() {
    for era in BOTH {
        for streams in [false, true] {
            let mut behaviour = era.behaviour();
            behaviour.stream_answers = streams;
            let server = Server::start(behaviour).await;
            let rig = Rig::with(era, server, |daemon| {
                daemon.set_text("limits.max_message", "1MiB")
            })
            .await;
            let other = json!({"name": "slow", "arguments": {"gate": "other"}});
            let other = rig.agent.start("tools/call", other).await.unwrap();
            seen(&rig.server, |log| log.calls("slow").len() == 1).await;
            let size = json!({"bytes": 2 * MIB});
            let answer = rig.agent.call("big", size).await.unwrap();
            assert_unknown(&answer, "big", "larger than limits.max_message");
            assert_eq!((rig.rows("big"), rig.calls("big")), (1, 1));
            rig.server.open("other");
            let answer = other.finish().await.unwrap();
            assert_eq!(answer.text(), "slow is done", "{answer:?}");
            rig.works().await;
            assert_undisturbed(&rig).await;
        }
    }
}

/// The connection, its session and its stream are those of the beginning.
async fn assert_undisturbed(rig: &Rig) {
    let connection = rig.connection().await;
    assert_eq!(connection["state"], "connected", "{connection}");
    assert_eq!(connection["fault"], json!(null), "{connection}");
    let log = rig.server.log();
    assert!(log.count("initialize") <= 1, "{log}");
    assert!(log.http("GET").len() <= 1, "{log}");
}

#[tokio::test]
async fn sp_05_an_endless_line_ends_its_own_call_in_bounded_memory() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        // 10 MB/s for as long as anybody reads.
        let piece = Bytes::from(vec![b'x'; 100 * 1024]);
        let endless = |head: testkit::Reply| head.row().repeat(piece.clone(), BEAT, None);
        let on = |streams: bool| {
            call("add_row").when(move |request| request.arguments()["streams"] == streams)
        };
        let script = server.script();
        script
            .on(on(true))
            .reply(endless(event_stream().body("data: ")));
        script
            .on(on(false))
            .reply(endless(content(200, "application/json", "\"").head()));
        let rig = Rig::with(era, server, |daemon| {
            daemon.set_text("limits.max_message", "1MiB")
        })
        .await;
        rig.works().await;
        let before = peak_memory(&rig.daemon);
        for (n, streams) in [true, false].into_iter().enumerate() {
            let arguments = json!({"streams": streams});
            let answer = rig.agent.call("add_row", arguments).await.unwrap();
            assert_unknown(&answer, "add_row", "larger than limits.max_message");
            let index = rig.server.log().calls("add_row")[n].index;
            // Nobody goes on reading it.
            seen(&rig.server, |log| {
                log.ending(index)
                    .is_some_and(|(_, how)| how == Ending::PeerGone)
            })
            .await;
        }
        let grown = peak_memory(&rig.daemon).saturating_sub(before);
        assert!(grown < 8 * MIB, "{grown} bytes more at the peak");
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (2, 2));
        rig.works().await;
        assert_undisturbed(&rig).await;
    }
}

const BEAT: Duration = Duration::from_millis(10);

/// The most memory that the process ever had, in bytes.
fn peak_memory(daemon: &Daemon) -> usize {
    let pid = daemon.pid().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse::<usize>();
    kib.unwrap() * 1024
}

#[tokio::test]
async fn sp_05_a_long_line_on_the_get_stream_is_dropped_and_the_stream_goes_on() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let piece = Bytes::from(vec![b'x'; 100 * 1024]);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let listening = event_stream()
        .wait_for("flood")
        .body("id: 8\ndata: ")
        .repeat(piece, Duration::from_millis(1), Some(30))
        .body("\n\n")
        .body(event(None, &changed.to_string()))
        .wait_for("drop")
        .fin();
    server.script().on(get().times(1)).reply(listening);
    let rig = Rig::with(Era::Legacy, server, |daemon| {
        daemon.set_text("limits.max_message", "1MiB")
    })
    .await;
    let lists = rig.server.log().count("tools/list");
    rig.server.open("flood");
    seen(&rig.server, |log| log.count("tools/list") > lists).await;
    assert_undisturbed(&rig).await;
    rig.server.open("drop");
    seen(&rig.server, |log| log.http("GET").len() == 2).await;
    let again = rig.server.log().http("GET").pop().unwrap();
    // What was too large is not asked for again.
    assert_eq!(again.header("last-event-id"), Some("8"));
}
