//! `GET /changes`: what every page and every `--watch` lives by.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::EventStream;
use testkit::{Behaviour, Daemon, Server};

use crate::common::{LIMIT, daemon};

/// The next event of this kind for which something holds.
async fn seen(events: &mut EventStream, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let seen = events.next().await.unwrap().expect("the stream goes on");
            let Some(data) = seen.message() else {
                continue;
            };
            let is_kind = seen
                .event()
                .is_some_and(|it| it.event.as_deref() == Some(kind));
            if is_kind && holds(&data) {
                return data;
            }
        }
    };
    let found = tokio::time::timeout(LIMIT, wait).await;
    found.unwrap_or_else(|_| panic!("no {kind}:\n{}", String::from_utf8_lossy(events.raw())))
}

/// First what is so now, then what changes: of connections, notices, operations and the configuration.
#[tokio::test]
async fn changes_begin_with_what_is_so_now_and_leave_nothing_out() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut events = daemon.changes().await.unwrap();
    seen(&mut events, "connection", |it| it["server"] == "fake").await;
    seen(&mut events, "current", |_| true).await;

    // A server that nobody can sign in to: its connection waits for a person, who is told.
    let put = async |path: &str, body: Value| {
        let answer = daemon.admin("PUT", path, Some(&body)).await.unwrap();
        assert!(answer.0 < 300, "{answer:?}");
    };
    let missing = json!({"url": server.url(), "headers": {"X-Key": "${vault:MISSING}"}});
    put("/api/v1/servers/second", missing).await;
    seen(&mut events, "configuration", |it| {
        *it == json!({"kind": "server", "name": "second", "change": "put"})
    })
    .await;
    put("/api/v1/agents/new", json!({"servers": ["second"]})).await;
    let opened = seen(&mut events, "notice", |it| {
        it["agent"] == "new" && it["cleared_at"].is_null()
    })
    .await;
    assert_eq!(
        (&opened["agent"], &opened["server"]),
        (&json!("new"), &json!("second"))
    );
    assert_eq!(opened["fault"]["code"], "SF0009", "{opened}");

    // Who comes later is told of it first thing.
    let mut later = daemon.changes().await.unwrap();
    seen(&mut later, "notice", |it| *it == opened).await;
    seen(&mut later, "current", |_| true).await;

    put("/api/v1/vault/MISSING", json!({"value": "x"})).await;
    for events in [&mut events, &mut later] {
        seen(events, "configuration", |it| it["kind"] == "secret").await;
        seen(events, "notice", |it| {
            it["agent"] == "new" && it["cleared_at"].is_string()
        })
        .await;
    }
    let call = json!({"tool": "add_row", "arguments": {}});
    daemon
        .post("/api/v1/agents/dev/servers/fake/call", &call)
        .await
        .unwrap();
    seen(&mut events, "operation", |it| {
        it["tool"] == "add_row" && it["state"] == "observed"
    })
    .await;
    daemon
        .admin("DELETE", "/api/v1/agents/new", None)
        .await
        .unwrap();
    seen(&mut events, "removed", |it| it["agent"] == "new").await;
    seen(&mut events, "configuration", |it| {
        *it == json!({"kind": "agent", "name": "new", "change": "removed"})
    })
    .await;
}

/// Fifty pages are open: each sees each change, and soon.
#[tokio::test]
async fn fifty_watchers_see_every_change() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut watchers = Vec::new();
    for _ in 0..50 {
        let mut events = daemon.changes().await.unwrap();
        seen(&mut events, "current", |_| true).await;
        watchers.push(events);
    }
    let body = json!({"servers": ["fake"]});
    daemon
        .admin("PUT", "/api/v1/agents/new", Some(&body))
        .await
        .unwrap();
    for events in &mut watchers {
        seen(events, "connection", |it| {
            it["agent"] == "new" && it["state"] == "connected"
        })
        .await;
    }
}

/// A watcher holds up neither a daemon that stops nor itself.
#[tokio::test]
async fn the_stream_of_changes_ends_with_the_daemon() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon: Daemon = daemon(&server).start().await.unwrap();
    let mut events = daemon.changes().await.unwrap();
    seen(&mut events, "current", |_| true).await;
    let (status, took) = daemon.terminate().await.unwrap();
    assert!(status.success());
    assert!(took < Duration::from_secs(3), "{took:?}");
    while let Ok(Some(_)) = events.next().await {}
}
