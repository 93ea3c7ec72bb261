//! Steps 1 and 2: what is done before a consequential call leaves.

use serde_json::{Value, json};
use testkit::reply::json_rpc_error_data;
use testkit::script::{call, post};
use testkit::{Behaviour, Reply};

use super::super::ledger::{details, operations};
use super::super::{WRITE, server};
use super::Stage;
use crate::common::daemon;
use crate::rig::{BOTH, Era, seen};

/// What may be asked of a server before anything is called: nothing of it changes anything.
const HARMLESS: [&str; 6] = [
    "POST server/discover",
    "POST initialize",
    "POST notifications/initialized",
    "POST tools/list",
    "POST subscriptions/listen",
    "GET",
];

#[tokio::test]
async fn step_1_the_era_is_known_before_anything_is_called_by_harmless_questions() {
    for behaviour in [
        Behaviour::legacy("2025-11-25"),
        Behaviour::modern(),
        Behaviour::dual(),
    ] {
        let server = server(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        let agent = daemon.modern_agent("dev", "fake").await.unwrap();
        // At once: the call waits for the era, and finds nothing out by itself.
        let answer = agent.call(WRITE, json!({ "key": "first" })).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        let order = server.log().order();
        let called = order.iter().position(|it| it.contains("tools/call"));
        for asked in &order[..called.unwrap()] {
            let is_harmless = HARMLESS.iter().any(|it| asked.starts_with(it));
            assert!(is_harmless, "{asked}: {order:?}");
        }
        assert_eq!(server.log().calls(WRITE).len(), 1, "{order:?}");
    }
}

/// A version error of a modern server asks for another version, or for a corrected request, never for the handshake of
/// the era before.
#[tokio::test]
async fn step_1_a_version_error_is_no_reason_for_the_era_before() {
    let server = server(Behaviour::dual()).await;
    let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
    let refused = json_rpc_error_data(400, -32022, "Unsupported protocol version", data);
    let once = post("server/discover").times(1);
    server.script().on(once).reply(refused.clone());
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = daemon.modern_agent("dev", "fake").await.unwrap();
    // The same for a call: it was refused before execution, which is proven.
    server.script().on(call(WRITE).times(1)).reply(refused);
    let answer = agent.call(WRITE, json!({ "key": "k" })).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    assert_eq!(server.log().count("initialize"), 0, "{}", server.log());
    assert_eq!(server.ledger().rows_of(WRITE).unwrap().len(), 1);
}

#[tokio::test]
async fn step_2_intent_target_arguments_rpc_id_and_keys_are_on_record_when_the_call_arrives() {
    for era in BOTH {
        let stage = Stage::new(era, super::with_key("", "")).await;
        let held = Reply::new().wait_for("go on").run();
        stage.server.script().on(call(WRITE).times(1)).reply(held);
        let params = json!({
            "name": WRITE, "arguments": {"room": "secret room", "idempotency_key": "provider-key"},
            "_meta": {"dev.steadfast/operationKey": "intention"},
        });
        let pending = stage.agent.start("tools/call", params).await.unwrap();
        seen(&stage.server, |log| log.calls(WRITE).len() == 1).await;

        let id = operations(&stage.daemon).await[0]["id"].clone();
        let record = details(&stage.daemon, id.as_str().unwrap()).await;
        let arrived = stage.server.log().calls(WRITE)[0].clone();
        assert_eq!(record["state"], "sent", "{record}");
        assert_eq!(record["executed"], "unknown", "{record}");
        assert_eq!(record["agent"], "dev", "{record}");
        assert_eq!(record["server"], "fake", "{record}");
        assert_eq!(record["tool"], WRITE, "{record}");
        assert_eq!(Some(&record["rpc_id"]), arrived.rpc_id(), "{record}");
        assert_eq!(record["policy"]["duplicate_key"]["present"], true);
        assert!(record["arguments_digest"].is_string(), "{record}");
        // Four identities, and none is another.
        for (one, other) in [
            (&record["id"], &json!("intention")),
            (&record["rpc_id"], &json!("provider-key")),
            (&record["id"], &record["rpc_id"]),
        ] {
            assert_ne!(one, other);
        }
        let sent = arrived.json.clone().unwrap();
        assert_eq!(arrived.arguments()["idempotency_key"], "provider-key");
        assert_eq!(
            sent.pointer("/params/_meta/dev.steadfast~1operationKey"),
            None
        );
        // What the call says is nobody's business who looks at the record.
        for secret in ["secret room", "provider-key", "intention"] {
            assert!(!record.to_string().contains(secret), "{secret}: {record}");
        }
        stage.server.open("go on");
        assert!(!pending.finish().await.unwrap().is_error());
    }
}

/// Refuses to take up any operation, as a disk that is full would.
async fn refuse_records(stage: &Stage, refuse: bool) {
    use sqlx::{Connection as _, Executor as _};
    let path = stage.daemon.data().join("steadfast.db");
    let url = format!("sqlite:{}", path.display());
    let mut store = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let change = match refuse {
        true => {
            "CREATE TRIGGER full BEFORE INSERT ON operations \
             BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        }
        false => "DROP TRIGGER full",
    };
    store.execute(change).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn step_2_what_cannot_be_put_on_record_does_not_leave() {
    for era in BOTH {
        let stage = Stage::new(era, |daemon| daemon.read_tool("fake", super::READ)).await;
        refuse_records(&stage, true).await;
        let answer = stage
            .agent
            .call(WRITE, json!({ "key": "k" }))
            .await
            .unwrap();
        assert!(answer.is_error(), "{answer:?}");
        let operation = answer.operation();
        assert_eq!(operation["executed"], "no", "{answer:?}");
        assert_eq!(
            operation["fault"]["kind"], "store_unavailable",
            "{answer:?}"
        );
        assert_eq!(operation["duplicate_of"], Value::Null, "{answer:?}");
        assert_eq!(stage.calls(WRITE), 0);
        // Reads need no record.
        let read = stage.agent.call(super::READ, json!({ "key": "r" })).await;
        assert_eq!(read.unwrap().text(), "done");

        refuse_records(&stage, false).await;
        let answer = stage
            .agent
            .call(WRITE, json!({ "key": "k" }))
            .await
            .unwrap();
        assert_eq!(answer.text(), "done", "{era:?}: {answer:?}");
        assert_eq!(stage.calls(WRITE), 1);
    }
}

/// A modern agent that goes away while nothing has left leaves nothing on record either.
#[tokio::test]
async fn step_2_what_never_leaves_is_nobodys_business() {
    let stage = Stage::new(Era::Modern, |daemon| daemon).await;
    stage.server.stop().await;
    stage
        .daemon
        .wait_state("dev", "fake", "retrying")
        .await
        .unwrap();
    let answer = stage
        .agent
        .call(WRITE, json!({ "key": "k" }))
        .await
        .unwrap();
    let connection = &answer.result()["_meta"]["dev.steadfast/connection"];
    assert_eq!(connection["state"], "retrying", "{answer:?}");
    assert_eq!(operations(&stage.daemon).await, Vec::<Value>::new());
}
