//! GW-01: ids that collide.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::reply::{Reply, event_stream, json_rpc_result, tool_text};
use testkit::script::post;
use testkit::{Agent, Server};

use super::daemon_for;
use crate::rig::{BOTH, Era, PAIRINGS, Rig};

const AGENTS: [&str; 4] = ["one", "two", "three", "always_1"];
const ROUNDS: usize = 6;
const PARALLEL: usize = 5;

/// Answers wait for a gate of their round and come back in the order in which the gates are opened.
async fn echoing(era: Era) -> Server {
    let server = Server::start(era.behaviour()).await;
    let secret = |request: &testkit::Request| {
        let secret = request.arguments()["secret"].as_str().unwrap_or_default();
        let mut result = tool_text(secret);
        if request.session().is_none() {
            result["resultType"] = json!("complete");
        }
        let gate = request.arguments()["gate"].as_str().unwrap_or_default();
        let whole = Reply::new().wait_for(gate);
        match request.arguments()["stream"] == json!(true) {
            true => whole.then(event_stream().rpc_event(json!({ "result": result }))),
            false => whole.then(json_rpc_result(result)),
        }
    };
    server.script().on(post("tools/call")).reply_with(secret);
    server
}

async fn agent(daemon: &testkit::Daemon, name: &str, era: Era) -> Agent {
    match era {
        Era::Legacy => {
            let agent = daemon.legacy_agent(name, "fake").await.unwrap();
            agent.initialize().await.unwrap();
            agent
        }
        Era::Modern => daemon.modern_agent(name, "fake").await.unwrap(),
    }
}

/// Four agents with the same ids, five calls of each at a time, one of them with id 1 for everything;
/// answers come in reverse order.
#[tokio::test]
async fn gw_01_every_answer_reaches_its_own_call() {
    for (agents, servers) in PAIRINGS {
        let server = echoing(servers).await;
        let daemon = daemon_for(&server, &AGENTS).await;
        let mut all = Vec::new();
        for name in AGENTS {
            all.push((name, agent(&daemon, name, agents).await));
        }
        for round in 0..ROUNDS {
            ask_all(&server, &all, round).await;
        }
        let what = format!("{agents:?} on {servers:?}");
        let calls = server.log().calls("echo");
        assert_eq!(calls.len(), AGENTS.len() * PARALLEL * ROUNDS, "{what}");
        // Not only in flight: no id is ever used twice, whichever agent's call it carries.
        let ids: BTreeSet<_> = calls
            .iter()
            .filter_map(|it| it.rpc_id()?.as_i64())
            .collect();
        assert_eq!(ids.len(), calls.len(), "{what}");
    }
}

async fn ask_all(server: &Server, agents: &[(&str, Agent)], round: usize) {
    let mut pending = Vec::new();
    for (name, agent) in agents {
        for n in 0..PARALLEL {
            let id = match *name {
                "always_1" => json!(1),
                _ if n % 2 == 0 => json!(n),
                _ => json!(n.to_string()),
            };
            let secret = format!("{name} {round} {n}");
            let gate = format!("{round} {n}");
            let arguments = json!({ "secret": secret, "gate": gate, "stream": n % 2 == 1 });
            let params = json!({ "name": "echo", "arguments": arguments });
            let call = agent.start_with_id(id.clone(), "tools/call", params);
            pending.push((id, secret, call.await.unwrap()));
        }
    }
    for n in (0..PARALLEL).rev() {
        let gate = format!("{round} {n}");
        server.gates().arrived(&gate, agents.len()).await;
        server.open(&gate);
    }
    for (id, secret, call) in pending {
        let answer = call.finish().await.unwrap();
        assert_eq!(
            (answer.text(), &answer.message["id"]),
            (secret.as_str(), &id)
        );
    }
}

/// Byte for byte, whatever form it has.
#[tokio::test]
async fn gw_01_ids_come_back_as_they_were_written() {
    const IDS: [&str; 9] = [
        "1",
        "\"1\"",
        "1.0",
        "-0",
        "1e3",
        "9007199254740993",
        "123456789012345678901234567890",
        r#""\u00e9\/\"""#,
        r#""""#,
    ];
    for (era, server) in PAIRINGS {
        let rig = Rig::new(era, server.behaviour()).await;
        for id in IDS {
            let meta = match era {
                Era::Legacy => "",
                Era::Modern => MODERN_META,
            };
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{}}{meta}}}}}"#
            );
            let like: Value = json!({ "method": "tools/call", "params": { "name": "echo" } });
            let headers = rig.agent.headers(Some(&like));
            let headers: Vec<_> = headers
                .iter()
                .map(|(a, b)| (a.as_str(), b.as_str()))
                .collect();
            let mut answer = rig.agent.raw_post(&headers, body.as_bytes()).await.unwrap();
            let text = answer.bytes().await.unwrap();
            let text = std::str::from_utf8(&text).unwrap();
            assert!(
                text.contains(&format!("\"id\":{id},")),
                "{era:?} {id}: {text}"
            );
            assert!(text.contains("\"result\""), "{era:?} {id}: {text}");
        }
        let asked = rig.server.log().calls("echo");
        assert!(
            asked
                .iter()
                .all(|it| it.rpc_id().is_some_and(Value::is_i64))
        );
    }
}

const MODERN_META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A server that gets its answers crossed: what carries another call's id is no answer to this one.
#[tokio::test]
async fn gw_01_an_answer_with_another_calls_id_is_not_taken() {
    for era in BOTH {
        let rig = Rig::new(era, era.behaviour()).await;
        let crossed = |request: &testkit::Request| {
            let id = request.rpc_id().and_then(Value::as_i64).unwrap_or_default();
            testkit::reply::json_body(
                200,
                &json!({ "jsonrpc": "2.0", "id": id - 1, "result": tool_text("another's") }),
            )
        };
        rig.server
            .script()
            .on(testkit::script::call("add_row"))
            .reply_with(crossed);
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        assert!(
            !answer.message.to_string().contains("another's"),
            "{answer:?}"
        );
        assert_eq!(answer.operation()["state"], "not_observed", "{answer:?}");
        assert_eq!(rig.calls("add_row"), 1);
    }
}
