//! The fake server speaks each revision as it should, and breaks things exactly where a script says.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::time::Duration;

use serde_json::json;
use testkit::reply::{event_stream, json_rpc_error, json_rpc_result, status, tool_text};
use testkit::script::{call, delete, get, post};
use testkit::{
    Action, Agent, Behaviour, End, Ending, Event, GetStream, Reply, RequestLog, Server, Step, Tool,
};

const SOON: Duration = Duration::from_secs(10);

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
            SOON,
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
        .wait_for(|log| log.cancelled(index), SOON)
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
        .wait_for(|log| log.ending(index).is_some(), SOON)
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
        .wait_for(|log| log.cancelled(0), SOON)
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

#[tokio::test]
async fn rules_answer_in_order_and_in_turn() {
    let (server, agent) = legacy().await;
    let busy = server
        .script()
        .on(post("ping"))
        .replies([status(503), json_rpc_error(200, -5, "no")]);
    let ping = || agent.request("ping", json!({}));
    assert_eq!(ping().await.unwrap().status, 503);
    assert_eq!(ping().await.unwrap().error_code(), Some(-5));
    assert_eq!(ping().await.unwrap().result(), &json!({}));
    assert_eq!(busy.seen(), 3);
    busy.remove();
    let second = server
        .script()
        .on(post("ping").session("S1").nth(2))
        .reply(status(418));
    assert_eq!(
        (
            ping().await.unwrap().status,
            ping().await.unwrap().status,
            ping().await.unwrap().status
        ),
        (200, 418, 200)
    );
    second.remove();
    server.script().on(delete()).reply(status(405));
    server
        .script()
        .first_on(delete().session("any"))
        .reply(status(404));
    assert_eq!(agent.delete().await.unwrap(), 404);
}

#[tokio::test]
async fn every_way_to_break_off_looks_on_the_wire_as_it_is_named() {
    let (server, agent) = legacy().await;
    let stream = || {
        event_stream()
            .row()
            .rpc_event(json!({ "method": "notifications/message", "params": {} }))
    };
    let kind = async |reply: Reply| {
        let rule = server.script().on(call("add_row")).reply(reply);
        let mut pending = agent
            .start("tools/call", json!({ "name": "add_row" }))
            .await
            .unwrap();
        let mut messages = 0;
        let kind = loop {
            match pending.message().await {
                Ok(Some(_)) => messages += 1,
                Ok(None) => break None,
                Err(error) => break Some(error.kind()),
            }
        };
        rule.remove();
        (messages, kind)
    };
    assert_eq!(kind(stream()).await, (1, None));
    assert_eq!(
        kind(stream().rst()).await,
        (1, Some(io::ErrorKind::ConnectionReset))
    );
    assert_eq!(
        kind(stream().fin()).await,
        (1, Some(io::ErrorKind::UnexpectedEof))
    );
    assert_eq!(
        kind(stream().mid_chunk()).await,
        (1, Some(io::ErrorKind::UnexpectedEof))
    );
    assert_eq!(
        kind(Reply::new().row().rst()).await,
        (0, Some(io::ErrorKind::ConnectionReset))
    );
    assert_eq!(
        kind(event_stream().row().rst()).await,
        (0, Some(io::ErrorKind::ConnectionReset))
    );
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 6);
    let cut = server.log().calls("add_row")[1].index;
    assert_eq!(server.log().ending(cut).unwrap().1, Ending::Cut);
}

#[tokio::test]
async fn a_cut_falls_on_the_byte() {
    let (server, agent) = legacy().await;
    let whole = agent.call("echo", json!({})).await.unwrap().body.len() as u64;
    for after in [0, 1, whole - 1] {
        let rule = server
            .script()
            .on(call("echo"))
            .reply(Reply::new().cut_after(after, End::Fin).run());
        let message = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "echo", "arguments": {} } });
        let headers = agent.headers(Some(&message));
        let headers: Vec<_> = headers
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        let mut response = agent
            .raw_post(&headers, message.to_string().as_bytes())
            .await
            .unwrap();
        let mut got = 0;
        let end = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => got += chunk.len() as u64,
                Ok(None) => break None,
                Err(error) => break Some(error.kind()),
            }
        };
        assert_eq!((got, end), (after, Some(io::ErrorKind::UnexpectedEof)));
        rule.remove();
    }
}

#[tokio::test]
async fn drips_repeats_gates_and_raw_bytes() {
    let (server, agent) = legacy().await;
    let script = server.script();
    script.on(call("drip")).reply(
        Reply::new()
            .drip(1, Duration::from_millis(1))
            .rpc(json!({ "result": tool_text("ü😀") })),
    );
    assert_eq!(agent.call("drip", json!({})).await.unwrap().text(), "ü😀");
    let beat = event_stream().repeat(": ka\n\n", Duration::from_millis(1), Some(3));
    script
        .on(call("beat"))
        .reply(beat.rpc_event(json!({ "result": tool_text("ok") })));
    assert_eq!(agent.call("beat", json!({})).await.unwrap().events.len(), 4);
    script
        .on(call("gated"))
        .reply(json_rpc_result(tool_text("late")).step(Step::WaitFor("never".into())));
    script
        .on(call("raw"))
        .reply(Reply::new().step(Step::Raw("HTTP/1.1 200 OK\r\n\r\nuntil close".into())));
    assert_eq!(
        &agent.call("raw", json!({})).await.unwrap().body[..],
        b"until close"
    );
    let waiting = agent
        .start("tools/call", json!({ "name": "gated" }))
        .await
        .unwrap();
    server.gates().arrived("never", 1).await;
    server.open("never");
    assert_eq!(waiting.finish().await.unwrap().text(), "late");
}

#[tokio::test]
async fn bytes_may_go_ahead_of_any_answer() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server
        .script()
        .on(post("initialize"))
        .reply(Reply::new().run_after(": hello\n\nid: 1\ndata:\n\n"));
    server
        .script()
        .on(get())
        .reply(Reply::new().run_after("id: 7\n\n"));
    let agent = Agent::legacy(server.address(), "/mcp", None);
    let answer = agent.initialize().await.unwrap();
    assert_eq!(answer.events.len(), 3);
    assert_eq!(answer.result()["protocolVersion"], "2025-11-25");
    assert_eq!(agent.session().as_deref(), Some("S1"));
    let mut stream = agent.open_get(None).await.unwrap();
    assert_eq!(
        stream
            .next()
            .await
            .unwrap()
            .unwrap()
            .event()
            .unwrap()
            .id
            .as_deref(),
        Some("7")
    );
}

#[tokio::test]
async fn an_idle_connection_is_closed_where_the_script_says() {
    let (server, _) = legacy().await;
    let idle = Reply::new()
        .step(Step::CloseIdleAfter(Duration::from_millis(20)))
        .run();
    server.script().on(post("ping")).reply(idle);
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let accept = "application/json, text/event-stream";
    let headers = [
        ("Connection", "keep-alive"),
        ("Accept", accept),
        ("Mcp-Session-Id", "S1"),
    ];
    let sent = testkit::client::send(server.address(), "POST", "/mcp", &headers, ping)
        .await
        .unwrap();
    let mut response = sent.response().await.unwrap();
    assert_eq!(response.json().await.unwrap()["result"], json!({}));
    let connection = server.log().posts("ping")[0].connection;
    let closed = |log: &RequestLog| {
        log.events()
            .iter()
            .any(|(_, event)| *event == Event::Closed { connection })
    };
    server.log().wait_for(closed, SOON).await.unwrap();
}

#[tokio::test]
async fn exit_calls_the_hook_and_takes_every_connection_along() {
    let (server, agent) = legacy().await;
    let mut stream = agent.open_get(None).await.unwrap();
    server
        .script()
        .on(call("exit"))
        .reply(Reply::new().row().step(Step::Exit));
    assert!(agent.call("exit", json!({})).await.is_err());
    assert!(stream.next().await.is_err());
    assert_eq!(server.ledger().rows_of("exit").unwrap().len(), 1);
    server.restart().await;
    let (hooked, seen) = std::sync::mpsc::channel();
    server.on_exit(move || hooked.send(()).unwrap());
    agent.set_session(None);
    agent.initialize().await.unwrap();
    assert!(agent.call("exit", json!({})).await.is_err());
    assert_eq!(seen.try_recv(), Ok(()));
}

#[tokio::test]
async fn a_black_hole_says_nothing_until_the_peer_leaves() {
    let (server, agent) = legacy().await;
    server.script().on(get()).reply(Reply::new().black_hole());
    let opening = agent.open_get(None);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), opening)
            .await
            .is_err()
    );
    let index = server.log().http("GET")[0].index;
    server
        .log()
        .wait_for(
            |log| log.ending(index).is_some_and(|(_, how)| how == Ending::Cut),
            SOON,
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn stop_refuses_and_restart_forgets() {
    let (server, agent) = legacy().await;
    let mut stream = agent.open_get(None).await.unwrap();
    server.stop().await;
    assert_eq!(
        stream.next().await.unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
    assert_eq!(
        agent.call("echo", json!({})).await.unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
    server.resume();
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    server.restart().await;
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 404);
    assert_eq!(server.open_connections(), 0);
}
