//! A modern agent on a legacy server, and a legacy agent on a modern server, for plain calls.

use serde_json::{Value, json};
use testkit::{Behaviour, Server};

use crate::rig::{Era, PAIRINGS, Rig, agent_of};

const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

#[tokio::test]
async fn every_pairing_of_eras_lists_reads_and_calls() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let what = format!("{agent:?} on {server:?}");
        let lists = [
            ("tools/list", "tools", 6),
            ("resources/list", "resources", 1),
            ("prompts/list", "prompts", 1),
        ];
        for (method, member, count) in lists {
            let answer = rig.agent.request(method, json!({})).await.unwrap();
            let entries = answer.result()[member].as_array().map(Vec::len);
            assert_eq!(entries, Some(count), "{what}: {answer:?}");
            assert_shape(agent, &answer.message, &what);
        }
        let uri = json!({"uri": "test://note"});
        let read = rig.agent.request("resources/read", uri).await.unwrap();
        assert_eq!(read.result()["contents"][0]["text"], "a note", "{what}");
        assert_shape(agent, &read.message, &what);
        let name = json!({"name": "greeting"});
        let prompt = rig.agent.request("prompts/get", name).await.unwrap();
        assert!(prompt.result()["messages"].is_array(), "{what}: {prompt:?}");
        let answer = rig
            .agent
            .call("add_row", json!({"key": "k"}))
            .await
            .unwrap();
        assert_eq!(answer.text(), "done", "{what}: {answer:?}");
        assert_shape(agent, &answer.message, &what);
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (1, 1));
        let asked = &rig.server.log().calls("add_row")[0];
        assert_eq!(asked.arguments(), &json!({"key": "k"}));
        let modern = server == Era::Modern;
        assert_eq!(
            asked.pointer(VERSION).is_some(),
            modern,
            "{what}: {asked:?}"
        );
        assert_eq!(asked.session().is_some(), !modern, "{what}: {asked:?}");
    }
}

/// Results of the modern era say what kind they are; those of the legacy era do not know of it.
fn assert_shape(agent: Era, message: &Value, what: &str) {
    let kind = &message["result"]["resultType"];
    match agent {
        Era::Modern => assert_eq!(kind, "complete", "{what}: {message}"),
        Era::Legacy => assert_eq!(kind, &Value::Null, "{what}: {message}"),
    }
}

#[tokio::test]
async fn every_pairing_of_eras_keeps_ids_and_errors() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let what = format!("{agent:?} on {server:?}");
        for id in [json!(1), json!("1"), json!("é \"x\""), json!(-7)] {
            let params = json!({"name": "echo", "arguments": {"id": id}});
            let pending = rig.agent.start_with_id(id.clone(), "tools/call", params);
            let answer = pending.await.unwrap().finish().await.unwrap();
            assert_eq!(answer.message["id"], id, "{what}: {answer:?}");
        }
        let unknown = rig.agent.call("no such tool", json!({})).await.unwrap();
        assert_eq!(unknown.error_code(), Some(-32602), "{what}: {unknown:?}");
        let unknown = rig.agent.request("no/such/method", json!({})).await;
        let unknown = unknown.unwrap();
        assert_eq!(unknown.error_code(), Some(-32601), "{what}: {unknown:?}");
        rig.works().await;
    }
}

#[tokio::test]
async fn every_pairing_of_eras_passes_progress() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let meta = json!({"progressToken": "agent's token"});
        let arguments = json!({"steps": 2});
        let answer = rig.agent.call_with_meta("progress", arguments, meta).await;
        let answer = answer.unwrap();
        let what = format!("{agent:?} on {server:?}: {answer:?}");
        assert_eq!(answer.text(), "progress is done", "{what}");
        let progress = answer.notifications();
        assert_eq!(progress.len(), 2, "{what}");
        for (n, progress) in progress.iter().enumerate() {
            assert_eq!(
                progress["params"]["progressToken"], "agent's token",
                "{what}"
            );
            assert_eq!(progress["params"]["progress"], json!(n + 1), "{what}");
        }
    }
}

#[tokio::test]
async fn agents_of_both_eras_share_one_connection() {
    for behaviour in [
        Behaviour::legacy("2025-11-25"),
        Behaviour::modern(),
        Behaviour::dual(),
    ] {
        let server = Server::start(behaviour).await;
        let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
        let modern = agent_of(Era::Modern, &rig.daemon).await;
        let (one, other) = tokio::join!(
            rig.agent.call("add_row", json!({"key": "legacy"})),
            modern.call("add_row", json!({"key": "modern"})),
        );
        assert_eq!(
            (one.unwrap().text(), other.unwrap().text()),
            ("done", "done")
        );
        assert_eq!(rig.rows("add_row"), 2);
        assert!(rig.server.sessions_created() <= 1);
    }
}
