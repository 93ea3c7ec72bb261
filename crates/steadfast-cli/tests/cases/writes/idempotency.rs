//! SEP-3182, a proposal: a server that advertises `tools.idempotency` keeps the keys of calls by itself. Counted on only
//! where the operator says so.

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::reply::json_rpc_error_data;
use testkit::script::call;
use testkit::{Behaviour, Reply, Request};

use super::ledger::{id_of, operations, wait_for};
use super::{READ, WRITE, assert_nothing_follows, key, ran, server};
use crate::common::daemon;
use crate::rig::{BOTH, Era, agent_of};

const SETTING: &str = "servers.fake.idempotency";

fn advertising(era: Era) -> Behaviour {
    let mut behaviour = era.behaviour();
    behaviour.capabilities["tools"]["idempotency"] = json!({});
    behaviour
}

fn on(daemon: Builder) -> Builder {
    daemon
        .set(SETTING, "{ retention = \"1m\" }")
        .set("repeat.again_first", "\"20ms\"")
}

fn lost() -> Reply {
    ran(200).head().rst()
}

fn key_of(request: &Request) -> Option<&str> {
    request.pointer("/params/idempotencyKey")?.as_str()
}

#[tokio::test]
async fn a_call_gets_a_key_beside_its_arguments_and_is_repeated_with_it() {
    for era in BOTH {
        let server = server(advertising(era)).await;
        let daemon = on(daemon(&server)).read_tool("fake", READ);
        let daemon = daemon.start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        server.script().on(call(WRITE).times(1)).reply(lost());
        let answer = agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(answer.text(), "done", "{era:?}: {answer:?}");
        let sent = server.log().calls(WRITE);
        let [first, second] = &sent[..] else {
            panic!("{sent:?}");
        };
        let made = key_of(first).unwrap();
        assert!(made.len() >= 32, "{made}");
        assert_eq!(key_of(second), Some(made));
        assert_ne!(first.rpc_id(), second.rpc_id());
        assert_eq!(*first.arguments(), key("k"), "beside them, not in them");

        // Another call has another key, an agent's own key is its own, and a read needs none.
        agent.call(WRITE, key("other")).await.unwrap();
        assert_ne!(
            key_of(server.log().calls(WRITE).last().unwrap()),
            Some(made)
        );
        let own = json!({"name": WRITE, "arguments": key("own"), "idempotencyKey": "theirs"});
        server.script().on(call(WRITE).times(1)).reply(lost());
        let answer = agent.request("tools/call", own).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        let sent = server.log().calls(WRITE);
        let keys: Vec<_> = sent.iter().rev().take(2).map(|it| key_of(it)).collect();
        assert_eq!(keys, [Some("theirs"), Some("theirs")]);
        agent.call(READ, key("r")).await.unwrap();
        assert_eq!(key_of(&server.log().calls(READ)[0]), None);
    }
}

/// Off by default, and nothing without the server's word.
#[tokio::test]
async fn without_the_setting_or_the_capability_no_key_is_made_and_nothing_is_repeated() {
    let off: fn(Builder) -> Builder = |daemon| daemon;
    for (behaviour, settings) in [(advertising(Era::Modern), off), (Behaviour::modern(), on)] {
        let server = server(behaviour).await;
        let daemon = settings(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(Era::Modern, &daemon).await;
        server.script().on(call(WRITE).times(1)).reply(lost());
        let answer = agent.call(WRITE, key("k")).await.unwrap();
        wait_for(&daemon, &id_of(&answer), "held").await;
        assert_nothing_follows(&server).await;
        let sent = server.log().calls(WRITE);
        assert_eq!(sent.len(), 1);
        assert_eq!(key_of(&sent[0]), None);
        // What an agent says by itself passes unchanged all the same.
        let own = json!({"name": WRITE, "arguments": key("own"), "idempotencyKey": "theirs"});
        agent.request("tools/call", own).await.unwrap();
        assert_eq!(key_of(&server.log().calls(WRITE)[1]), Some("theirs"));
    }
}

/// "Already in progress" is an answer about the key, and says nothing of the call.
#[tokio::test]
async fn a_repeat_that_comes_too_early_is_no_answer() {
    for era in BOTH {
        let server = server(advertising(era)).await;
        let daemon = on(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        let data = json!({ "type": "idempotency_key_in_progress", "idempotencyKey": "k" });
        let busy = json_rpc_error_data(200, -32602, "already in progress", data.clone());
        let on_stream =
            json!({ "error": {"code": -32602, "message": "in progress", "data": data} });
        let on_stream = testkit::reply::event_stream().rpc_event(on_stream);
        let replies = [lost(), busy, on_stream];
        server.script().on(call(WRITE)).replies(replies);
        let answer = agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(answer.text(), "done", "{era:?}: {answer:?}");
        let id = operations(&daemon).await[0]["id"].clone();
        let record = wait_for(&daemon, id.as_str().unwrap(), "observed").await;
        assert_eq!(record["attempts"], 4, "{record}");
    }
}

/// The server comes back as one that promises nothing any more: what was sent under its promise is held.
#[tokio::test]
async fn a_promise_that_is_taken_back_covers_no_repeat() {
    let server = server(advertising(Era::Modern)).await;
    let daemon = on(daemon(&server))
        .set("repeat.again_first", "\"1s\"")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &daemon).await;
    let exits = Reply::new().row().exit();
    server.script().on(call(WRITE).times(1)).reply(exits);
    let params = json!({"name": WRITE, "arguments": key("k")});
    let pending = agent.start("tools/call", params).await.unwrap();
    daemon.wait_state("dev", "fake", "retrying").await.unwrap();
    server.change(|behaviour| behaviour.capabilities["tools"]["idempotency"] = Value::Null);
    server.restart().await;
    let answer = pending.finish().await.unwrap();
    assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
    let held = wait_for(&daemon, &id_of(&answer), "held").await;
    assert_eq!(server.log().calls(WRITE).len(), 1, "{held}");
}
