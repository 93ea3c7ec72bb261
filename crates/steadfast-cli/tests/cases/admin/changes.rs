//! `GET /changes`: what every page and every `--watch` lives by.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::EventStream;
use testkit::{Behaviour, Daemon, Server};

use crate::common::{LIMIT, daemon};

/// A stream of changes. What is told of one thing comes in order, of several things in any.
struct Watcher {
    events: EventStream,
    /// What came and was not asked for yet.
    passed: Vec<(String, Value)>,
}

impl Watcher {
    async fn of(daemon: &Daemon) -> Self {
        Self {
            events: daemon.changes().await.unwrap(),
            passed: Vec::new(),
        }
    }

    /// The first event of this kind for which something holds; it is not seen again.
    async fn seen(&mut self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let is_it = |(its, data): &(String, Value)| its == kind && holds(data);
        let wait = async {
            loop {
                if let Some(at) = self.passed.iter().position(is_it) {
                    return self.passed.remove(at).1;
                }
                let seen = self.events.next().await.unwrap().expect("it goes on");
                let kind = seen.event().and_then(|it| it.event.clone());
                self.passed.extend(kind.zip(seen.message()));
            }
        };
        let found = tokio::time::timeout(LIMIT, wait).await;
        found.unwrap_or_else(|_| {
            panic!("no {kind}:\n{}", String::from_utf8_lossy(self.events.raw()))
        })
    }
}

/// First what is so now, then what changes: of connections, notices, operations and the configuration.
#[tokio::test]
async fn changes_begin_with_what_is_so_now_and_leave_nothing_out() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut events = Watcher::of(&daemon).await;
    events.seen("connection", |it| it["server"] == "fake").await;
    events.seen("current", |_| true).await;

    // A server that nobody can sign in to: its connection waits for a person, who is told.
    let put = async |path: &str, body: Value| {
        let answer = daemon.admin("PUT", path, Some(&body)).await.unwrap();
        assert!(answer.0 < 300, "{answer:?}");
    };
    let missing = json!({"url": server.url(), "headers": {"X-Key": "${vault:MISSING}"}});
    put("/api/v1/servers/second", missing).await;
    events
        .seen("configuration", |it| {
            *it == json!({"kind": "server", "name": "second", "change": "put"})
        })
        .await;
    put("/api/v1/agents/new", json!({"servers": ["second"]})).await;
    let opened = events
        .seen("notice", |it| {
            it["agent"] == "new" && it["cleared_at"].is_null()
        })
        .await;
    assert_eq!(
        (&opened["agent"], &opened["server"]),
        (&json!("new"), &json!("second"))
    );
    assert_eq!(opened["fault"]["code"], "SF0009", "{opened}");

    // Who comes later is told of it first thing.
    let mut later = Watcher::of(&daemon).await;
    later.seen("notice", |it| *it == opened).await;
    later.seen("current", |_| true).await;

    put("/api/v1/vault/MISSING", json!({"value": "x"})).await;
    for events in [&mut events, &mut later] {
        events
            .seen("configuration", |it| it["kind"] == "secret")
            .await;
        events
            .seen("notice", |it| {
                it["agent"] == "new" && it["cleared_at"].is_string()
            })
            .await;
    }
    let call = json!({"tool": "add_row", "arguments": {}});
    daemon
        .post("/api/v1/agents/dev/servers/fake/call", &call)
        .await
        .unwrap();
    events
        .seen("operation", |it| {
            it["tool"] == "add_row" && it["state"] == "observed"
        })
        .await;
    daemon
        .admin("DELETE", "/api/v1/agents/new", None)
        .await
        .unwrap();
    events.seen("removed", |it| it["agent"] == "new").await;
    events
        .seen("configuration", |it| {
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
        let mut events = Watcher::of(&daemon).await;
        events.seen("current", |_| true).await;
        watchers.push(events);
    }
    let body = json!({"servers": ["fake"]});
    daemon
        .admin("PUT", "/api/v1/agents/new", Some(&body))
        .await
        .unwrap();
    for events in &mut watchers {
        events
            .seen("connection", |it| {
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
    let mut events = Watcher::of(&daemon).await;
    events.seen("current", |_| true).await;
    let (status, took) = daemon.terminate().await.unwrap();
    assert!(status.success());
    assert!(took < Duration::from_secs(3), "{took:?}");
    while let Ok(Some(_)) = events.events.next().await {}
}
