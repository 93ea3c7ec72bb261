//! GW-03 and GW-04: progress reaches the call that asked for it, and nobody else.

use serde_json::{Value, json};
use testkit::reply::{Reply, event_stream, json_rpc_result, tool_text};
use testkit::script::call;
use testkit::{Agent, Behaviour, Request, Server, sse};

use super::{daemon_for, listening, next_is};
use crate::rig::{Era, PAIRINGS, Rig, agent_of, log_message, seen};

const TOKEN: &str = "/params/_meta/progressToken";

fn progress(token: &Value, value: f64, message: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": token, "progress": value, "message": message },
    })
}

fn result() -> Value {
    let mut result = tool_text("done");
    result["resultType"] = json!("complete");
    json!({ "result": result })
}

fn params(secret: &str, token: &Value) -> Value {
    json!({ "name": "work", "arguments": { "secret": secret }, "_meta": { "progressToken": token } })
}

/// Three conversations of two agents with the tokens 1 and "1", their progress interleaved.
#[tokio::test]
async fn gw_03_each_gets_its_own_progress_under_its_own_token() {
    for (agents, servers) in PAIRINGS {
        let what = format!("{agents:?} on {servers:?}");
        let server = Server::start(servers.behaviour()).await;
        let telling = |request: &Request| {
            let token = request.pointer(TOKEN).cloned().unwrap_or_default();
            let secret = request.arguments()["secret"].as_str().unwrap_or_default();
            let step = |value| progress(&token, value, secret);
            event_stream()
                .rpc_event(step(1.0))
                .wait_for("second")
                .rpc_event(step(2.0))
                .wait_for("last")
                .rpc_event(result())
        };
        server.script().on(call("work")).reply_with(telling);
        let daemon = daemon_for(&server, &["a", "b"]).await;
        let mut pending = Vec::new();
        for (name, token) in [("a", json!(1)), ("a", json!("1")), ("b", json!(1))] {
            let agent = match agents {
                Era::Legacy => daemon.legacy_agent(name, "fake").await.unwrap(),
                Era::Modern => daemon.modern_agent(name, "fake").await.unwrap(),
            };
            if agents == Era::Legacy {
                agent.initialize().await.unwrap();
            }
            let secret = format!("{name} {token}");
            let call = agent.start("tools/call", params(&secret, &token)).await;
            pending.push((secret, token, call.unwrap()));
        }
        server.gates().arrived("second", 3).await;
        server.open("second");
        server.gates().arrived("last", 3).await;
        server.open("last");
        for (secret, token, call) in pending {
            let answer = call.finish().await.unwrap();
            let told = answer.notifications();
            assert_eq!(told.len(), 2, "{what}: {answer:?}");
            for told in told {
                assert_eq!(told["params"]["progressToken"], token, "{what}");
                assert_eq!(told["params"]["message"], secret.as_str(), "{what}");
            }
        }
        let calls = server.log().calls("work");
        let mut tokens: Vec<_> = calls.iter().filter_map(|it| it.pointer(TOKEN)).collect();
        tokens.sort_by_key(|token| token.to_string());
        tokens.dedup();
        assert_eq!(tokens.len(), 3, "{what}: {tokens:?}");
    }
}

/// Many servers send progress on the stream of the session: it belongs to the call all the same.
#[tokio::test]
async fn gw_03_progress_on_the_servers_own_stream_reaches_its_call() {
    for era in [Era::Legacy, Era::Modern] {
        let rig = Rig::new(era, Behaviour::legacy("2025-11-25")).await;
        listening(&rig.server, 1).await;
        let whole = Reply::new()
            .wait_for("go")
            .then(json_rpc_result(tool_text("done")));
        rig.server.script().on(call("work")).reply(whole);
        let other = agent_of(Era::Legacy, &rig.daemon).await;
        let mut others = other.open_get(None).await.unwrap();
        let mut pending = rig
            .agent
            .start("tools/call", params("x", &json!("mine")))
            .await
            .unwrap();
        seen(&rig.server, |log| log.calls("work").len() == 1).await;
        let token = rig.server.log().calls("work")[0]
            .pointer(TOKEN)
            .unwrap()
            .clone();
        rig.server.notify(&progress(&token, 1.0, "one"));
        if era == Era::Legacy {
            let first = pending.message().await.unwrap().unwrap();
            assert_eq!(first, progress(&json!("mine"), 1.0, "one"));
        }
        rig.server.notify(&progress(&token, 2.0, "two"));
        // It is in order with what follows on the same stream.
        rig.server.notify(&log_message("marker"));
        next_is(&mut others, "marker").await;
        rig.server.open("go");
        let answer = pending.finish().await.unwrap();
        assert_eq!(answer.text(), "done", "{era:?}: {answer:?}");
        let told = answer.notifications();
        let last = told.last().unwrap();
        assert_eq!(*last, progress(&json!("mine"), 2.0, "two"), "{era:?}");
    }
}

/// Invented tokens, tokens of what is over, values that go backwards: on both kinds of streams.
#[tokio::test]
async fn gw_04_progress_that_nobody_asked_for_harms_nobody() {
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    listening(&rig.server, 1).await;
    let mut stream = rig.agent.open_get(None).await.unwrap();
    let odd = |request: &Request| {
        let token = request.pointer(TOKEN).cloned().unwrap_or_default();
        let step = |value| sse::event(None, None, &progress(&token, value, "own").to_string());
        let invented = |value| {
            let message = progress(&json!("tool-call-4"), value, "invented");
            sse::event(None, None, &message.to_string())
        };
        let before = [step(5.0), invented(1.0), step(3.0), step(5.5), step(1.0)].concat();
        let after = [step(100.0), invented(100.0)].concat();
        event_stream().body(before).rpc_event(result()).body(after)
    };
    rig.server.script().on(call("work")).reply_with(odd);
    for round in 0..3 {
        let answer = called(&rig.agent, &json!(round)).await;
        let told = answer.notifications();
        let values: Vec<_> = told
            .iter()
            .map(|it| it["params"]["progress"].clone())
            .collect();
        assert_eq!(values, [json!(5.0), json!(5.5)], "{answer:?}");
    }
    let used = rig.server.log().calls("work")[0]
        .pointer(TOKEN)
        .unwrap()
        .clone();
    for token in [json!("tool-call-4"), json!(1), used] {
        rig.server.notify(&progress(&token, 100.0, "stray"));
    }
    rig.server.notify(&log_message("marker"));
    next_is(&mut stream, "marker").await;
    rig.works().await;
    let connection = rig.connection().await;
    assert_eq!(connection["state"], "connected", "{connection}");
    assert_eq!(connection["fault"], Value::Null, "{connection}");
    assert_eq!(rig.server.log().count("initialize"), 1);
    assert_eq!(rig.server.log().http("GET").len(), 1, "the stream stays");
    let notes = rig.daemon.stderr().matches("progress of no call").count();
    assert_eq!(notes, 1, "one note, not one for each");
}

async fn called(agent: &Agent, token: &Value) -> testkit::Answer {
    let call = agent.start("tools/call", params("x", token)).await.unwrap();
    let answer = call.finish().await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    answer
}
