//! A legacy agent cancels a write (GW-02): the server is told, the agent gets nothing more, and what became of the write
//! is recorded where it still comes.

use serde_json::{Value, json};
use testkit::reply::{event_stream, json_rpc_result, status, tool_text};
use testkit::script::{call, post};
use testkit::{Behaviour, Ending, Pending, Reply, RequestLog};

use super::ledger::{kinds, operations, wait_for};
use super::{WRITE, assert_nothing_follows, key, server};
use crate::common::daemon;
use crate::rig::{Era, agent_of, seen};

const CANCELLED: &str = "notifications/cancelled";

struct Stage {
    server: testkit::Server,
    daemon: testkit::Daemon,
    agent: testkit::Agent,
}

impl Stage {
    async fn new(
        behaviour: Behaviour,
        settings: impl FnOnce(testkit::daemon::Builder) -> testkit::daemon::Builder,
    ) -> Self {
        let server = server(behaviour).await;
        // It may do as it likes ("Receivers MAY ignore"): this one goes on.
        let taken_note_of = post(CANCELLED);
        server.script().on(taken_note_of).reply(status(202));
        let daemon = settings(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(Era::Legacy, &daemon).await;
        Self {
            server,
            daemon,
            agent,
        }
    }

    /// A write under way that is answered so.
    async fn begin(&self, reply: Reply, arguments: Value) -> Pending {
        self.server.script().on(call(WRITE).times(1)).reply(reply);
        let before = self.calls();
        let params = json!({"name": WRITE, "arguments": arguments});
        let pending = self.agent.start("tools/call", params).await.unwrap();
        seen(&self.server, |log| log.calls(WRITE).len() > before).await;
        pending
    }

    /// Cancels it; its agent is answered with nothing.
    async fn cancel(&self, pending: Pending) {
        self.agent.cancel(&pending.id).await.unwrap();
        let answer = pending.finish().await.unwrap();
        assert_eq!(answer.message, Value::Null, "{answer:?}");
    }

    fn calls(&self) -> usize {
        self.server.log().calls(WRITE).len()
    }

    async fn newest(&self) -> String {
        let newest = operations(&self.daemon).await.remove(0);
        newest["id"].as_str().unwrap().to_owned()
    }
}

fn legacy() -> Behaviour {
    Behaviour::legacy("2025-11-25")
}

fn result() -> Value {
    json!({ "result": tool_text("done all the same") })
}

/// What the server answers once the gate is open: before its head, in the middle of a stream, in the middle of a body.
fn answers() -> [(&'static str, Reply); 3] {
    let whole = json_rpc_result(tool_text("done all the same"));
    let json = || Reply::new().header("content-type", "application/json");
    [
        (
            "before the head",
            Reply::new().row().wait_for("end").then(whole),
        ),
        (
            "on a stream",
            event_stream().row().wait_for("end").rpc_event(result()),
        ),
        (
            "after the head",
            json().row().head().wait_for("end").rpc(result()),
        ),
    ]
}

#[tokio::test]
async fn gw_02_the_outcome_of_a_cancelled_write_is_recorded_and_its_agent_gets_nothing_more() {
    for (what, reply) in answers() {
        let stage = Stage::new(legacy(), |daemon| daemon).await;
        let pending = stage.begin(reply, key("k")).await;
        stage.cancel(pending).await;
        seen(&stage.server, |log| log.count(CANCELLED) == 1).await;
        let told = stage.server.log().posts(CANCELLED)[0].clone();
        let sent = stage.server.log().calls(WRITE)[0].clone();
        assert_eq!(told.pointer("/params/requestId"), sent.rpc_id(), "{what}");

        // Nobody knows yet: the identical call is held.
        let id = stage.newest().await;
        let repeat = stage.agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(
            repeat.operation()["duplicate_of"],
            *id,
            "{what}: {repeat:?}"
        );

        stage.server.open("end");
        let observed = wait_for(&stage.daemon, &id, "observed").await;
        assert_eq!(observed["executed"], "yes", "{what}: {observed}");
        assert_eq!(
            kinds(&observed),
            ["leaving", "agent_left", "answered"],
            "{what}"
        );
        let ended = |log: &RequestLog| log.ending(sent.index).is_some();
        seen(&stage.server, ended).await;
        let (_, ending) = stage.server.log().ending(sent.index).unwrap();
        assert_eq!(ending, Ending::Complete, "{what}: it was read to its end");

        // Who asks for it again is told, once, and nothing is sent.
        let again = stage.agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(again.text(), "done all the same", "{what}: {again:?}");
        assert_eq!(stage.calls(), 1, "{what}");
        assert_eq!(stage.server.log().count(CANCELLED), 1, "{what}");
    }
}

/// A server that stops, as it should, sends no response: nobody knows how far it came.
#[tokio::test]
async fn gw_02_a_cancelled_write_without_an_answer_is_held() {
    let endings = [
        ("the stream ends", event_stream().row().wait_for("end")),
        (
            "the connection ends",
            Reply::new().row().wait_for("end").fin(),
        ),
    ];
    for (what, reply) in endings {
        let stage = Stage::new(legacy(), |daemon| daemon).await;
        let pending = stage.begin(reply, key("k")).await;
        stage.cancel(pending).await;
        stage.server.open("end");
        let id = stage.newest().await;
        let held = wait_for(&stage.daemon, &id, "held").await;
        assert_eq!(held["executed"], "unknown", "{what}: {held}");
        assert_eq!(kinds(&held), ["leaving", "agent_left", "lost"], "{what}");
        let repeat = stage.agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(repeat.operation()["duplicate_of"], *id, "{what}");
        assert_nothing_follows(&stage.server).await;
        assert_eq!(stage.calls(), 1, "{what}");
    }
}

/// Whoever cancelled a call wants no repeat of it, whatever the provider promises.
#[tokio::test]
async fn gw_02_a_cancelled_write_is_not_sent_once_more_under_a_contract() {
    let contract = "{ argument = \"$.idempotency_key\", retention = \"1h\", scope = \"account\", \
                    atomic = true, payload_bound = true, propagated = true }";
    let stage = Stage::new(legacy(), |daemon| {
        daemon
            .set(
                &format!("servers.fake.tools.{WRITE}.duplicate_key"),
                contract,
            )
            .set("repeat.again_first", "\"10ms\"")
    })
    .await;
    let arguments = json!({ "key": "k", "idempotency_key": "i" });
    let reply = event_stream().row().wait_for("end").rst();
    let pending = stage.begin(reply, arguments).await;
    stage.cancel(pending).await;
    stage.server.open("end");
    let id = stage.newest().await;
    wait_for(&stage.daemon, &id, "held").await;
    assert_nothing_follows(&stage.server).await;
    assert_eq!(stage.calls(), 1);
}

/// A modern server is told by the end of the stream: nothing can be read after it.
#[tokio::test]
async fn gw_02_at_a_modern_server_the_stream_ends_and_the_write_is_held() {
    let stage = Stage::new(Behaviour::modern(), |daemon| daemon).await;
    let pending = stage
        .begin(event_stream().row().black_hole(), key("k"))
        .await;
    stage.cancel(pending).await;
    let id = stage.newest().await;
    let held = wait_for(&stage.daemon, &id, "held").await;
    assert_eq!(held["executed"], "unknown", "{held}");
    let sent = stage.server.log().calls(WRITE)[0].index;
    let closed = |log: &RequestLog| log.ending(sent).map(|(_, how)| how) == Some(Ending::PeerGone);
    seen(&stage.server, closed).await;
    assert_eq!(stage.server.log().count(CANCELLED), 0);
}
