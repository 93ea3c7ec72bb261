//! The fake server breaks things exactly where its script says.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::time::Duration;

use serde_json::json;
use testkit::reply::{event_stream, json_rpc_error, json_rpc_result, status, tool_text};
use testkit::script::{call, delete, get, post};
use testkit::{Agent, Behaviour, End, Ending, Event, PATIENCE, Reply, RequestLog, Server, Step};

async fn legacy() -> (Server, Agent) {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let agent = Agent::legacy(server.address(), "/mcp", None);
    agent.initialize().await.unwrap();
    (server, agent)
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
    server.log().wait_for(closed, PATIENCE).await.unwrap();
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
    let log = server.log();
    tokio::select! {
        answer = agent.open_get(None) => panic!("answered: {answer:?}"),
        seen = log.wait_for(|log| log.http("GET").len() == 1, PATIENCE) => seen.unwrap(),
    }
    let index = log.http("GET")[0].index;
    let gone = |log: &RequestLog| {
        log.ending(index)
            .is_some_and(|(_, how)| how == Ending::PeerGone)
    };
    log.wait_for(gone, PATIENCE).await.unwrap();
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
