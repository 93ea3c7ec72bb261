//! GW-05: a server's question reaches the conversation that caused it, or nobody.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::{event_stream, json_rpc_result, tool_text};
use testkit::script::call;
use testkit::{Agent, Behaviour, Daemon, Reply, Server};

use super::{builder, connected, daemon_for, listening, next_is};
use crate::rig::{log_message, seen};

fn legacy() -> Behaviour {
    Behaviour::legacy("2025-11-25").streaming()
}

async fn agent(daemon: &Daemon, name: &str) -> Agent {
    let agent = daemon.legacy_agent(name, "fake").await.unwrap();
    agent.initialize().await.unwrap();
    agent
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "arguments": {} })
}

fn elicitation(id: &str, more: Value) -> Value {
    let mut params = json!({ "message": "Which room?", "requestedSchema": { "type": "object" } });
    if let (Value::Object(params), Value::Object(more)) = (&mut params, more) {
        params.extend(more);
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
}

/// What the server was answered to its question.
async fn answer_to(server: &Server, id: &str) -> Value {
    let theirs = json!(id);
    let is_it = |it: &testkit::Request| it.rpc_method().is_none() && it.rpc_id() == Some(&theirs);
    seen(server, |log| !log.matching(is_it).is_empty()).await;
    let found = server.log().matching(is_it);
    assert_eq!(found.len(), 1, "{}", server.log());
    found[0].json.clone().unwrap_or_default()
}

#[tokio::test]
async fn gw_05_the_caller_is_asked_and_its_answer_comes_back() {
    let server = Server::start(legacy()).await;
    let daemon = daemon_for(&server, &["a", "b"]).await;
    let a = agent(&daemon, "a").await;
    let mut others = Vec::new();
    for name in ["a", "b"] {
        let other = agent(&daemon, name).await;
        others.push(other.open_get(None).await.unwrap());
    }
    listening(&server, 2).await;
    let mut pending = a.start("tools/call", tool("ask")).await.unwrap();
    let question = pending.message().await.unwrap().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let content = json!({ "action": "accept", "content": { "room": "blue" } });
    a.respond(&question["id"], content.clone()).await.unwrap();
    let answer = pending.finish().await.unwrap();
    assert!(answer.text().contains("blue"), "{answer:?}");
    let answered = answer_to(&server, "ask-1").await;
    assert_eq!(answered["result"], content);
    let response = |it: &testkit::Request| it.rpc_id() == Some(&json!("ask-1"));
    let (asked, answered) = (server.log().calls("ask"), server.log().matching(response));
    assert_eq!(asked[0].session(), answered[0].session());
    server.notify(&log_message("marker"));
    for other in &mut others {
        next_is(other, "marker").await;
    }
}

#[tokio::test]
async fn gw_05_an_agent_is_asked_only_what_it_declared() {
    let server = Server::start(legacy()).await;
    let asks = |request: &testkit::Request| {
        let arguments = request.arguments();
        let mut question = arguments["question"].clone();
        question["jsonrpc"] = json!("2.0");
        let asked = event_stream().rpc_event(question);
        asked
            .wait_for("answered")
            .rpc_event(json!({ "result": tool_text("done") }))
    };
    server.script().on(call("asks")).reply_with(asks);
    let daemon = daemon_for(&server, &["a"]).await;
    let tools = json!({ "id": "tools", "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1, "tools": [] } });
    let sampling = json!({ "id": "sampling", "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    let roots = json!({ "id": "roots", "method": "roots/list" });
    let form = json!({ "elicitation": {}, "sampling": {} });
    for (capabilities, question, code) in [
        (json!({}), elicitation("none", json!({})), -32601),
        (json!({}), sampling, -32601),
        (json!({}), roots, -32601),
        (
            form.clone(),
            elicitation("url", json!({ "mode": "url" })),
            -32602,
        ),
        (
            json!({ "elicitation": { "url": {} } }),
            elicitation("form", json!({})),
            -32602,
        ),
        (form, tools, -32602),
    ] {
        let agent = daemon.legacy_agent("a", "fake").await.unwrap();
        let agent = agent.with_capabilities(capabilities);
        agent.initialize().await.unwrap();
        let id = question["id"].as_str().unwrap().to_owned();
        let params = json!({ "name": "asks", "arguments": { "question": question } });
        let pending = agent.start("tools/call", params).await.unwrap();
        let refused = answer_to(&server, &id).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
        server.gates().let_one_pass("answered");
        let answer = pending.finish().await.unwrap();
        assert_eq!((answer.text(), answer.notifications().len()), ("done", 0));
    }
}

/// The agent goes while it is asked: the server is told so within the limit, and nobody else is asked.
#[tokio::test]
async fn gw_05_a_question_to_an_agent_that_left_is_cancelled_within_the_limit() {
    let server = Server::start(legacy()).await;
    let builder = builder(&server).set_text("retry.input_wait", "500ms");
    let daemon = connected(builder, &["a", "b"]).await;
    let a = agent(&daemon, "a").await;
    let mut others = Vec::new();
    for name in ["a", "b"] {
        let other = agent(&daemon, name).await;
        others.push(other.open_get(None).await.unwrap());
    }
    listening(&server, 2).await;
    let mut pending = a.start("tools/call", tool("ask")).await.unwrap();
    let question = pending.message().await.unwrap().unwrap();
    let asked = server.log().now();
    drop(pending);
    let cancelled = answer_to(&server, "ask-1").await;
    assert_eq!(
        cancelled["result"],
        json!({ "action": "cancel" }),
        "{cancelled}"
    );
    let after = server.log().now() - asked;
    assert!(after < Duration::from_secs(3), "{after:?}");
    // Too late now.
    a.respond(&question["id"], json!({ "action": "accept" }))
        .await
        .unwrap();
    server.notify(&log_message("marker"));
    for other in &mut others {
        next_is(other, "marker").await;
    }
    answer_to(&server, "ask-1").await;
}

/// Nobody answers in time: the server is told, and the agent under the id that it knows, on the stream on which
/// it was asked.
#[tokio::test]
async fn gw_05_an_agent_is_told_of_a_question_that_is_not_waited_for() {
    let server = Server::start(legacy()).await;
    let builder = builder(&server).set_text("retry.input_wait", "300ms");
    let daemon = connected(builder, &["a"]).await;
    let a = agent(&daemon, "a").await;
    let mut stream = a.open_get(None).await.unwrap();
    listening(&server, 1).await;
    let told = |message: Value, question: &Value| {
        assert_eq!(message["method"], "notifications/cancelled", "{message}");
        assert_eq!(message["params"]["requestId"], question["id"], "{message}");
    };

    server.notify(&elicitation("alone", json!({})));
    let question = stream.message().await.unwrap().unwrap();
    told(stream.message().await.unwrap().unwrap(), &question);
    answer_to(&server, "alone").await;

    let mut pending = a.start("tools/call", tool("ask")).await.unwrap();
    let question = pending.message().await.unwrap().unwrap();
    told(pending.message().await.unwrap().unwrap(), &question);
    assert_eq!(
        answer_to(&server, "ask-1").await["result"],
        json!({ "action": "cancel" })
    );
}

/// A server that asks on its own stream does not say whose question it is.
#[tokio::test]
async fn gw_05_a_question_on_the_servers_own_stream_reaches_the_only_caller() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let whole = Reply::new()
        .wait_for("go")
        .then(json_rpc_result(tool_text("done")));
    server.script().on(call("work")).reply(whole);
    let daemon = daemon_for(&server, &["a"]).await;
    listening(&server, 1).await;
    // One that listens, and one that does not.
    let (listens, calls) = (agent(&daemon, "a").await, agent(&daemon, "a").await);
    let mut stream = listens.open_get(None).await.unwrap();

    // None in flight and two conversations: nobody.
    server.notify(&elicitation("nobody", json!({})));
    let refused = answer_to(&server, "nobody").await;
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    assert!(daemon.stderr().contains("isolate_sessions would tell"));

    // The caller does not listen: it is asked on the stream of its call.
    let mut pending = calls.start("tools/call", tool("work")).await.unwrap();
    seen(&server, |log| log.calls("work").len() == 1).await;
    server.notify(&elicitation("q1", json!({})));
    let question = pending.message().await.unwrap().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let accept = json!({ "action": "accept", "content": {} });
    calls
        .respond(&question["id"], accept.clone())
        .await
        .unwrap();
    assert_eq!(answer_to(&server, "q1").await["result"], accept);

    // Calls of two conversations are in flight: nobody.
    let other = listens.start("tools/call", tool("work")).await.unwrap();
    seen(&server, |log| log.calls("work").len() == 2).await;
    server.notify(&elicitation("both", json!({})));
    let refused = answer_to(&server, "both").await;
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    server.open("go");
    for call in [pending, other] {
        assert_eq!(call.finish().await.unwrap().text(), "done");
    }

    // The caller listens: it is asked there, as the server chose.
    server.gates().close("go");
    let pending = listens.start("tools/call", tool("work")).await.unwrap();
    seen(&server, |log| log.calls("work").len() == 3).await;
    server.notify(&elicitation("q2", json!({})));
    let question = stream.message().await.unwrap().unwrap();
    listens
        .respond(&question["id"], accept.clone())
        .await
        .unwrap();
    assert_eq!(answer_to(&server, "q2").await["result"], accept);
    server.open("go");
    assert_eq!(pending.finish().await.unwrap().text(), "done");
}
