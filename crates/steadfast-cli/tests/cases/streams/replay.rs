//! What an agent is owed on its streams reaches it: after its own drops, a stop, and kills of the daemon.

use serde_json::{Value, json};
use testkit::client::EventStream;
use testkit::{Agent, Behaviour, Daemon, Server};

use super::log_message;
use crate::common::{LIMIT, agent, daemon};

/// The id that a stream begins with.
async fn primed(stream: &mut EventStream) -> String {
    let seen = tokio::time::timeout(LIMIT, stream.next()).await;
    let seen = seen.unwrap().unwrap().unwrap();
    seen.event().unwrap().id.clone().unwrap()
}

/// The next message, and the id that it came with.
async fn next(stream: &mut EventStream) -> (Value, String) {
    loop {
        let seen = tokio::time::timeout(LIMIT, stream.next()).await;
        let seen = seen.unwrap().unwrap().unwrap();
        if let (Some(message), Some(event)) = (seen.message(), seen.event()) {
            return (message, event.id.clone().unwrap());
        }
    }
}

async fn resume(agent: &Agent, cursor: &str) -> EventStream {
    let stream = agent.open_get(Some(cursor)).await.unwrap();
    assert_eq!(stream.response.status, 200);
    stream
}

/// Everything up to the end of the stream.
async fn rest(agent: &Agent, cursor: &str) -> Vec<Value> {
    let mut stream = resume(agent, cursor).await;
    let mut messages = Vec::new();
    while let Some(message) = tokio::time::timeout(LIMIT, stream.message())
        .await
        .unwrap()
        .unwrap()
    {
        messages.push(message);
    }
    messages
}

async fn restarted(daemon: &mut Daemon) {
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
}

/// A slow call with progress, which streams: its first event has been read.
async fn slow_call(server: &Server, agent: &Agent, gate: &str) -> String {
    let params = json!({
        "name": "slow", "arguments": { "gate": gate }, "_meta": { "progressToken": gate },
    });
    let mut call = agent.start("tools/call", params).await.unwrap();
    server.gates().arrived(gate, 1).await;
    primed(call.stream().await.unwrap()).await
}

/// Numbers that look random, the same in each run.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// What was sent once comes again to whoever asks for it, after a kill at any point: in order, once, and without a gap.
#[tokio::test]
async fn a_killed_daemon_loses_no_event_and_repeats_none() {
    const EVENTS: usize = 12;
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let mut numbers = Seeded(7);
    let mut sent = 0;
    let mut live = agent.open_get(None).await.unwrap();
    // Where each event is, by the cursor after it; the first cursor is before all of them.
    let mut cursors = vec![primed(&mut live).await];
    for round in 0..4 {
        let until = EVENTS * (round + 1);
        let open = |_: &testkit::RequestLog| server.open_streams() == 1;
        server.log().wait_for(open, LIMIT).await.unwrap();
        let quits_at = sent + numbers.below(EVENTS);
        while sent < until {
            if sent == quits_at {
                // The agent loses its connection, and comes back with its last cursor.
                drop(live);
                live = resume(&agent, cursors.last().unwrap()).await;
            }
            server.notify(&log_message(&format!("event {sent}")));
            let (message, cursor) = next(&mut live).await;
            assert_eq!(message["params"]["data"], format!("event {sent}"));
            cursors.push(cursor);
            sent += 1;
        }
        daemon.kill9().await.unwrap();
        drop(live);
        restarted(&mut daemon).await;
        // What this connection got is asked for once more, from any point on.
        let from = numbers.below(sent);
        live = resume(&agent, &cursors[from]).await;
        let mut number = from;
        while number < sent {
            let (message, cursor) = next(&mut live).await;
            // That the server is there again is announced in its place, behind what was stored.
            if message["method"] != "notifications/message" {
                continue;
            }
            assert_eq!(
                message["params"]["data"],
                format!("event {number}"),
                "{round}"
            );
            assert_eq!(cursor, cursors[number + 1]);
            number += 1;
        }
    }
}

/// A write whose answer nobody reads any more is told as not observed, on its own stream: once, with its operation.
#[tokio::test]
async fn a_call_that_a_kill_interrupted_is_told_on_its_stream() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let cursor = slow_call(&server, &agent, "one").await;
    let (_, operations) = daemon.get("/api/v1/operations").await.unwrap();
    let operation = operations["operations"][0]["id"].clone();
    assert!(operation.is_string(), "{operations}");
    daemon.kill9().await.unwrap();
    restarted(&mut daemon).await;

    let told = rest(&agent, &cursor).await;
    assert_eq!(told.len(), 1, "{told:?}");
    let said = &told[0]["result"]["_meta"]["dev.steadfast/operation"];
    assert_eq!(told[0]["result"]["isError"], true);
    assert_eq!(said["id"], operation, "{said}");
    assert_eq!(said["state"], "not_observed");
    assert_eq!(said["executed"], "unknown");
    let evidence = said["evidence"].as_str().unwrap();
    assert!(evidence.contains("restarted"), "{evidence}");
    assert_eq!(
        rest(&agent, &cursor).await,
        told,
        "the same cursor gets the same"
    );
    restarted(&mut daemon).await;
    assert_eq!(
        rest(&agent, &cursor).await,
        told,
        "also from the next daemon"
    );
    assert_eq!(server.log().count("tools/call"), 1, "{}", server.log());
    server.open("one");
}

/// An answer that came while its agent was away is there after a restart, and as often as it is asked for: a drop
/// before a new event leaves the cursor where it was (ST-05).
#[tokio::test]
async fn an_answer_waits_for_its_agent_over_a_restart() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let cursor = slow_call(&server, &agent, "one").await;
    // Twice resumed, twice dropped, and nothing new yet.
    for _ in 0..2 {
        drop(resume(&agent, &cursor).await);
    }
    let mut waiting = resume(&agent, &cursor).await;
    server.open("one");
    let (answer, _) = next(&mut waiting).await;
    assert_eq!(answer["result"]["content"][0]["text"], "slow is done");
    drop(waiting);
    for kill in [false, true] {
        if kill {
            daemon.kill9().await.unwrap();
        }
        restarted(&mut daemon).await;
        let told = rest(&agent, &cursor).await;
        assert_eq!(told, std::slice::from_ref(&answer), "{kill}");
    }
    assert_eq!(server.log().count("tools/call"), 1, "{}", server.log());
}

/// Two calls on one stream (2025-03-26 has batches): what was answered before a kill is replayed, and only what was not is
/// told as not observed.
#[tokio::test]
async fn of_two_calls_on_one_stream_each_is_told_what_is_true() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = daemon.legacy_agent("dev", "fake").await.unwrap();
    let agent = agent.with_revision("2025-03-26");
    agent.initialize().await.unwrap();
    let call = |gate: &str| {
        let params = json!({
            "name": "slow", "arguments": { "gate": gate }, "_meta": { "progressToken": gate },
        });
        json!({ "jsonrpc": "2.0", "id": gate, "method": "tools/call", "params": params })
    };
    let batch = json!([call("one"), call("two")]);
    let headers = agent.headers(None);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, it)| (&**name, &**it)).collect();
    let body = batch.to_string();
    let (answer, ()) = tokio::join!(agent.raw_post(&headers, body.as_bytes()), async {
        server.gates().arrived("one", 1).await;
        server.gates().arrived("two", 1).await;
        server.open("one");
    });
    let mut stream = answer.unwrap().events();
    let cursor = primed(&mut stream).await;
    let (answered, _) = next(&mut stream).await;
    assert_eq!(answered["id"], "one", "{answered}");
    daemon.kill9().await.unwrap();
    restarted(&mut daemon).await;

    let told = rest(&agent, &cursor).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], answered);
    assert_eq!(told[1]["id"], "two");
    let said = &told[1]["result"]["_meta"]["dev.steadfast/operation"];
    assert_eq!(said["state"], "not_observed", "{said}");
    assert!(said["id"].is_string(), "{said}");
    assert_eq!(server.log().count("tools/call"), 2, "{}", server.log());
    server.open("two");
}

/// Who asks decides: another session of the same agent gets nothing, and another agent does not even learn that there is
/// such a session. After a restart as before.
#[tokio::test]
async fn events_are_for_their_session_and_agent() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).agent("other").start().await.unwrap();
    let own = agent(&daemon).await;
    let cursor = slow_call(&server, &own, "one").await;
    server.open("one");
    assert_eq!(rest(&own, &cursor).await.len(), 1);
    let session_of_same = daemon.legacy_agent("dev", "fake").await.unwrap();
    session_of_same.initialize().await.unwrap();
    let other = daemon.legacy_agent("other", "fake").await.unwrap();
    daemon
        .wait_state("other", "fake", "connected")
        .await
        .unwrap();
    other.initialize().await.unwrap();
    let others_session = daemon.legacy_agent("other", "fake").await.unwrap();
    others_session.set_session(own.session().as_deref());
    let (name, _) = cursor.split_once('.').unwrap();
    for _ in 0..2 {
        let refused = [
            (&session_of_same, cursor.clone(), 400),
            (&other, cursor.clone(), 400),
            (&others_session, cursor.clone(), 404),
            (&own, format!("{name}.99"), 400),
            (&own, "garbled".to_owned(), 400),
        ];
        for (asker, cursor, status) in refused {
            let answer = asker.open_get(Some(&cursor)).await.unwrap();
            assert_eq!(answer.response.status, status, "{cursor}");
        }
        assert_eq!(rest(&own, &cursor).await.len(), 1);
        restarted(&mut daemon).await;
    }
}

/// A new key ends the connections of the old one. What they were still owed is there for the new one.
#[tokio::test]
async fn a_stream_is_resumed_with_the_new_key() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let mut live = agent.open_get(None).await.unwrap();
    let cursor = primed(&mut live).await;
    daemon.new_agent_key("dev").await.unwrap();
    while let Some(seen) = live.next().await.unwrap() {
        assert_eq!(seen.message(), None);
    }
    let with_the_new_key = daemon.legacy_agent("dev", "fake").await.unwrap();
    with_the_new_key.set_session(agent.session().as_deref());
    server.notify(&log_message("meanwhile"));
    let mut live = resume(&with_the_new_key, &cursor).await;
    let (message, _) = next(&mut live).await;
    assert_eq!(message["params"]["data"], "meanwhile");
    let refused = agent.open_get(Some(&cursor)).await.unwrap();
    assert_eq!(refused.response.status, 401);
}
