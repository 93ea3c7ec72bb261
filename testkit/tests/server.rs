//! The fake server speaks each revision as it should.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::json;
use testkit::script::call;
use testkit::{Action, Agent, Behaviour, End, Ending, GetStream, PATIENCE, Reply, Server, Tool};

async fn legacy() -> (Server, Agent) {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let agent = Agent::legacy(server.address(), "/mcp", None);
    agent.initialize().await.unwrap();
    (server, agent)
}

#[tokio::test]
async fn legacy_session_from_initialize_to_delete() {
    let (server, agent) = legacy().await;
    assert_eq!(agent.session().as_deref(), Some("S1"));
    assert!(server.initialized("S1"));
    assert_eq!(
        agent.request("ping", json!({})).await.unwrap().result(),
        &json!({})
    );
    let tools = agent.request("tools/list", json!({})).await.unwrap();
    assert_eq!(tools.result()["tools"][0]["name"], "echo");
    assert_eq!(
        agent
            .call("echo", json!({ "b": 1, "a": 2.0 }))
            .await
            .unwrap()
            .text(),
        r#"{"b":1,"a":2.0}"#
    );
    assert_eq!(
        agent
            .request("no/such", json!({}))
            .await
            .unwrap()
            .error_code(),
        Some(-32601)
    );
    agent
        .request("logging/setLevel", json!({ "level": "debug" }))
        .await
        .unwrap();
    assert_eq!(server.log_level("S1").as_deref(), Some("debug"));
    agent
        .request("resources/subscribe", json!({ "uri": "test://note" }))
        .await
        .unwrap();
    assert_eq!(server.subscriptions("S1"), ["test://note"]);

    let mut stream = agent.open_get(None).await.unwrap();
    assert_eq!(server.open_streams(), 1);
    server.tools_changed();
    assert_eq!(
        stream.message().await.unwrap().unwrap()["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(agent.delete().await.unwrap(), 200);
    assert_eq!(stream.message().await.unwrap(), None);
    assert_eq!(server.live_sessions(), 0);
    let lost = agent.call("echo", json!({})).await.unwrap();
    assert_eq!((lost.status, lost.error_code()), (404, Some(-32001)));
    agent.set_session(None);
    let missing = agent.call("echo", json!({})).await.unwrap();
    assert_eq!((missing.status, missing.error_code()), (400, Some(-32000)));
}

#[tokio::test]
async fn modern_requests_stand_alone_and_headers_must_match() {
    let server = Server::start(Behaviour::modern()).await;
    let agent = Agent::modern(server.address(), "/mcp", None);
    let discovered = agent.request("server/discover", json!({})).await.unwrap();
    assert_eq!(
        discovered.result()["supportedVersions"],
        json!(["2026-07-28"])
    );
    assert_eq!(
        agent
            .call("echo", json!({ "x": 1 }))
            .await
            .unwrap()
            .result()["resultType"],
        "complete"
    );
    let unknown = agent.request("no/such", json!({})).await.unwrap();
    assert_eq!((unknown.status, unknown.error_code()), (404, Some(-32601)));
    assert_eq!(agent.open_get(None).await.unwrap().response.status, 405);

    let message = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": "echo", "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} } } });
    let headers = agent.headers(Some(&message));
    let with_name = |name: &'static str| -> Vec<(&str, &str)> {
        headers
            .iter()
            .map(|(k, v)| (k.as_str(), if k == "Mcp-Name" { name } else { v.as_str() }))
            .collect()
    };
    let body = message.to_string();
    let mut wrong = agent
        .raw_post(&with_name("other"), body.as_bytes())
        .await
        .unwrap();
    assert_eq!(
        (
            wrong.status,
            wrong.json().await.unwrap()["error"]["code"].as_i64()
        ),
        (400, Some(-32020))
    );
    let encoded = agent
        .raw_post(&with_name("=?base64?ZWNobw==?="), body.as_bytes())
        .await
        .unwrap();
    assert_eq!(encoded.status, 200);

    let legacy = Agent::legacy(server.address(), "/mcp", None)
        .initialize()
        .await
        .unwrap();
    assert_eq!((legacy.status, legacy.error_code()), (400, Some(-32022)));
    assert_eq!(
        legacy.message["error"]["data"]["supported"],
        json!(["2026-07-28"])
    );
}

#[tokio::test]
async fn modern_parameters_are_compared_with_their_headers() {
    let schema = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    let tool = Tool::new("query", Action::Echo).input_schema(schema);
    let server = Server::start(Behaviour::modern().with_tools(vec![tool])).await;
    let agent = Agent::modern(server.address(), "/mcp", None);
    let without = agent
        .call("query", json!({ "region": "eu" }))
        .await
        .unwrap();
    assert_eq!((without.status, without.error_code()), (400, Some(-32020)));
    assert_eq!(agent.call("query", json!({})).await.unwrap().status, 200);
}

#[tokio::test]
async fn modern_listening_is_acknowledged_and_filtered() {
    let server = Server::start(Behaviour::modern()).await;
    let agent = Agent::modern(server.address(), "/mcp", None);
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = agent.start("subscriptions/listen", filter).await.unwrap();
    let first = listening.message().await.unwrap().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    server.notify(&json!({ "jsonrpc": "2.0", "method": "notifications/prompts/list_changed" }));
    server.tools_changed();
    let next = listening.message().await.unwrap().unwrap();
    assert_eq!(next["method"], "notifications/tools/list_changed");
    assert_eq!(
        next["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        listening.id
    );
    drop(listening);
    server
        .log()
        .wait_for(
            |log| {
                log.ending(0)
                    .is_some_and(|(_, how)| how == Ending::PeerGone)
            },
            PATIENCE,
        )
        .await
        .unwrap();
    assert_eq!(server.open_streams(), 0);
}

#[tokio::test]
async fn both_eras_share_an_endpoint() {
    let server = Server::start(Behaviour::dual()).await;
    let legacy = Agent::legacy(server.address(), "/mcp", None).with_revision("2025-06-18");
    legacy.initialize().await.unwrap();
    assert_eq!(legacy.revision(), "2025-06-18");
    let modern = Agent::modern(server.address(), "/mcp", None);
    for agent in [legacy, modern] {
        assert_eq!(
            agent
                .call("add_row", json!({ "key": "k" }))
                .await
                .unwrap()
                .text(),
            "done"
        );
    }
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 2);
}

#[tokio::test]
async fn a_stateless_server_refuses_any_session_id() {
    let server = Server::start(Behaviour::legacy_stateless()).await;
    let agent = Agent::legacy(server.address(), "/mcp", None);
    agent.initialize().await.unwrap();
    assert_eq!(agent.session(), None);
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    agent.set_session(Some("invented"));
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 400);
    assert_eq!(agent.open_get(None).await.unwrap().response.status, 405);
}

#[tokio::test]
async fn the_old_transport_answers_on_the_stream() {
    let server = Server::start(Behaviour::http_sse()).await;
    let agent = Agent::legacy(server.address(), "/sse", None);
    assert_eq!(agent.initialize().await.unwrap().status, 405);
    let mut stream = agent.open_get(None).await.unwrap();
    let endpoint = stream.next().await.unwrap().unwrap();
    assert_eq!(endpoint.event().unwrap().event.as_deref(), Some("endpoint"));
    let path = endpoint.event().unwrap().data.clone().unwrap();
    let poster = Agent::legacy(server.address(), &path, None);
    for (method, params) in [
        ("initialize", json!({})),
        ("tools/call", json!({ "name": "add_row" })),
    ] {
        let sent = poster.request(method, params).await.unwrap();
        assert_eq!((sent.status, sent.body.len()), (202, 0));
        assert!(
            stream
                .message()
                .await
                .unwrap()
                .unwrap()
                .get("result")
                .is_some()
        );
    }
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 1);

    let params = json!({ "capabilities": { "elicitation": {} } });
    poster.request("initialize", params).await.unwrap();
    stream.message().await.unwrap();
    let ask = json!({ "name": "ask" });
    poster.request("tools/call", ask).await.unwrap();
    let question = stream.message().await.unwrap().unwrap();
    poster
        .respond(&question["id"], json!({ "action": "cancel" }))
        .await
        .unwrap();
    let answer = stream.message().await.unwrap().unwrap();
    assert_eq!(
        answer["result"]["content"][0]["text"],
        r#"{"action":"cancel"}"#
    );
}

#[tokio::test]
async fn progress_and_questions_come_on_the_stream_of_the_call() {
    let (server, agent) = legacy().await;
    let meta = json!({ "progressToken": "t" });
    let answer = agent
        .call_with_meta("progress", json!({ "steps": 2 }), meta)
        .await
        .unwrap();
    assert_eq!(answer.notifications().len(), 2);
    assert_eq!(answer.text(), "progress is done");

    let params = json!({ "name": "ask", "arguments": {} });
    let mut asking = agent.start("tools/call", params.clone()).await.unwrap();
    let question = asking.message().await.unwrap().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    agent
        .respond(&question["id"], json!({ "action": "decline" }))
        .await
        .unwrap();
    assert_eq!(
        asking.finish().await.unwrap().text(),
        r#"{"action":"decline"}"#
    );
    drop(server);

    let server = Server::start(Behaviour::modern()).await;
    let agent = Agent::modern(server.address(), "/mcp", None);
    let first = agent.request("tools/call", params).await.unwrap();
    assert_eq!(first.result()["resultType"], "input_required");
    let second = json!({ "name": "ask", "arguments": {}, "inputResponses": { "answer": { "action": "accept" } } });
    assert_eq!(
        agent.request("tools/call", second).await.unwrap().text(),
        r#"{"action":"accept"}"#
    );
    assert_eq!(server.ledger().rows_of("ask").unwrap().len(), 1);
}

#[tokio::test]
async fn a_resumable_stream_goes_on_after_its_cursor_while_the_tool_runs_on() {
    let server = Server::start(Behaviour::legacy("2025-11-25").resumable(Some(300))).await;
    server.script().on(call("slow")).reply(run_until_primed());
    let agent = Agent::legacy(server.address(), "/mcp", None);
    agent.initialize().await.unwrap();
    let mut pending = agent
        .start("tools/call", json!({ "name": "slow" }))
        .await
        .unwrap();
    let priming = pending
        .stream()
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .unwrap();
    let fields = priming.event().unwrap().clone();
    assert_eq!(
        (fields.data.as_deref(), fields.retry.as_deref()),
        (Some(""), Some("300"))
    );
    assert!(pending.finish().await.is_err(), "the script cut the stream");
    server.open("slow");
    let mut resumed = agent.open_get(fields.id.as_deref()).await.unwrap();
    assert_eq!(
        resumed.message().await.unwrap().unwrap()["result"]["content"][0]["text"],
        "slow is done"
    );
    assert_eq!(resumed.next().await.unwrap().map(|seen| seen.block), None);
    assert_eq!(server.ledger().rows_of("slow").unwrap().len(), 1);
}

/// The whole of the priming event `retry: 300\nid: S1s0-0\ndata: \n\n`, then a reset.
fn run_until_primed() -> Reply {
    Reply::new()
        .cut_after("retry: 300\nid: S1s0-0\ndata: \n\n".len() as u64, End::Rst)
        .run()
}

#[tokio::test]
async fn a_legacy_call_ends_by_cancellation_only_a_modern_one_by_a_closed_stream() {
    let (server, agent) = legacy().await;
    let pending = agent
        .start("tools/call", json!({ "name": "slow" }))
        .await
        .unwrap();
    server.gates().arrived("slow", 1).await;
    let index = server.log().calls("slow")[0].index;
    agent.cancel(&pending.id).await.unwrap();
    server
        .log()
        .wait_for(|log| log.cancelled(index), PATIENCE)
        .await
        .unwrap();
    assert!(
        pending.finish().await.is_err(),
        "a cancelled call has no answer"
    );
    let dropped = agent
        .start("tools/call", json!({ "name": "slow" }))
        .await
        .unwrap();
    server.gates().arrived("slow", 2).await;
    drop(dropped);
    let index = server.log().calls("slow")[1].index;
    server
        .log()
        .wait_for(|log| log.ending(index).is_some(), PATIENCE)
        .await
        .unwrap();
    assert!(!server.log().cancelled(index));

    let server = Server::start(Behaviour::modern()).await;
    let agent = Agent::modern(server.address(), "/mcp", None);
    let dropped = agent
        .start("tools/call", json!({ "name": "slow" }))
        .await
        .unwrap();
    server.gates().arrived("slow", 1).await;
    drop(dropped);
    server
        .log()
        .wait_for(|log| log.cancelled(0), PATIENCE)
        .await
        .unwrap();
}

#[tokio::test]
async fn one_get_stream_evicts_the_other_where_the_server_has_only_one() {
    let (server, agent) = legacy().await;
    server.change(|behaviour| behaviour.get_stream = GetStream::One);
    let mut first = agent.open_get(None).await.unwrap();
    let _second = agent.open_get(None).await.unwrap();
    assert!(first.next().await.unwrap().is_none());
    assert_eq!(server.peak_streams(), 2);
}
