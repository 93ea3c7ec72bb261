//! SP-04: whatever comes on a stream is life, and only JSON-RPC is a message.

use std::time::Duration;

use serde_json::json;
use testkit::reply::{event_stream, tool_text};
use testkit::script::{call, get};
use testkit::{Behaviour, Server};

use crate::rig::{BOTH, Era, PAIRINGS, Rig, assert_unknown, seen};

const HEARTBEATS: [&str; 9] = [
    ": ka\n\n",
    ":\n",
    ":",
    "event: ping\ndata: 2026-01-01\n\n",
    "event: keepalive\ndata: {}\n\n",
    "data: {\"type\":\"heartbeat\"}\n\n",
    "event: reconnect\ndata:\n\n",
    "\n\n",
    "unknown: field\n\n",
];

/// The silence that a stream survives, and the beat of the hearts.
const SILENCE: Duration = Duration::from_millis(600);
const BEAT: Duration = Duration::from_millis(100);
/// Enough beats for two silences.
const BEATS: u64 = 13;

#[tokio::test]
async fn sp_04_heartbeats_keep_a_call_alive_and_are_no_messages() {
    let [one, two, three, four] = PAIRINGS.map(|(agent, server)| keep_alive(agent, server));
    tokio::join!(one, two, three, four);
}

async fn keep_alive(agent: Era, server: Era) {
    let server = Server::start(server.behaviour()).await;
    for (n, beat) in HEARTBEATS.into_iter().enumerate() {
        let shape = call("add_row").when(move |request| request.arguments()["n"] == json!(n));
        // A lone colon begins a comment that goes on for as long as the beats do.
        let beats = event_stream().row().repeat(beat, BEAT, Some(BEATS));
        let alive = json!({"result": tool_text("alive")});
        let reply = beats.body("\n\n").rpc_event(alive);
        server.script().on(shape).reply(reply);
    }
    let rig = Rig::with(agent, server, |daemon| {
        daemon.set(
            "retry.silence_timeout",
            &format!("\"{}ms\"", SILENCE.as_millis()),
        )
    })
    .await;
    let mut calls = Vec::new();
    for n in 0..HEARTBEATS.len() {
        let params = json!({"name": "add_row", "arguments": {"n": n}});
        calls.push(rig.agent.start("tools/call", params).await.unwrap());
    }
    for (call, beat) in calls.into_iter().zip(HEARTBEATS) {
        let answer = call.finish().await.unwrap();
        assert_eq!(answer.text(), "alive", "{agent:?} {beat:?}: {answer:?}");
        assert_eq!(answer.notifications().len(), 0, "{beat:?}: {answer:?}");
    }
    assert_eq!(rig.rows("add_row"), HEARTBEATS.len());
    assert_eq!(rig.calls("add_row"), HEARTBEATS.len());
    let connection = rig.connection().await;
    assert_eq!(connection["state"], "connected", "{connection}");
    assert_eq!(connection["fault"], json!(null), "{connection}");
}

#[tokio::test]
async fn sp_04_without_any_byte_the_silence_ends_the_call() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let silent = event_stream().row().wait_for("never");
        server.script().on(call("add_row")).reply(silent);
        let rig = Rig::with(era, server, |daemon| {
            daemon.set("retry.silence_timeout", "\"200ms\"")
        })
        .await;
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_unknown(&answer, "add_row", "silence");
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (1, 1));
        rig.works().await;
    }
}

#[tokio::test]
async fn sp_04_heartbeats_leave_the_get_stream_open() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let beats = HEARTBEATS.concat() + "\n\n";
    let listening = event_stream()
        .repeat(beats, BEAT, Some(BEATS))
        .rpc_event(changed)
        .wait_for("never");
    server.script().on(get()).reply(listening);
    let rig = Rig::with(Era::Legacy, server, |daemon| {
        daemon.set("retry.silence_timeout", "\"200ms\"")
    })
    .await;
    let lists = rig.server.log().count("tools/list");
    // The message behind all of them arrives, on the first stream.
    seen(&rig.server, |log| log.count("tools/list") > lists).await;
    assert_eq!(rig.server.log().http("GET").len(), 1);
    let connection = rig.connection().await;
    assert_eq!(connection["state"], "connected", "{connection}");
    assert_eq!(connection["fault"], json!(null), "{connection}");
}
