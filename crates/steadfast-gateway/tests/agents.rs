//! Agents of both eras through the gateway, to a scripted server of each.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::time::Duration;

use common::{House, LIMIT, start};
use serde_json::{Value, json};
use testkit::{Behaviour, Server};

#[tokio::test]
async fn a_legacy_agent_calls_a_legacy_server() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.legacy();
    let hello = agent.initialize().await.unwrap();
    assert_eq!(hello.status, 200);
    assert_eq!(hello.result()["protocolVersion"], "2025-11-25");
    assert!(agent.session().is_some());
    let echoed = agent
        .call("echo", json!({"n": 1.5, "t": "ü"}))
        .await
        .unwrap();
    assert_eq!(echoed.header("content-type"), Some("application/json"));
    assert_eq!(echoed.text(), r#"{"n":1.5,"t":"ü"}"#);
    let listed = agent.request("tools/list", json!({})).await.unwrap();
    assert_eq!(listed.result()["tools"].as_array().map(Vec::len), Some(6));
    let pong = agent.request("ping", json!({})).await.unwrap();
    assert_eq!(pong.message["result"], json!({}));
    assert_eq!(agent.delete().await.unwrap(), 204);
    let after = agent.request("tools/list", json!({})).await.unwrap();
    assert_eq!(
        (
            after.status,
            after.message["error"]["data"]["code"].as_str()
        ),
        (404, Some("SF0067"))
    );
}

#[tokio::test]
async fn a_modern_agent_calls_a_modern_server() {
    let house = House::with(Behaviour::modern()).await;
    let agent = house.modern();
    let discovered = agent.request("server/discover", json!({})).await.unwrap();
    assert_eq!(
        discovered.result()["supportedVersions"],
        json!(["2026-07-28"])
    );
    let echoed = agent.call("echo", json!({"n": 1})).await.unwrap();
    assert_eq!((echoed.status, echoed.text()), (200, r#"{"n":1}"#));
    let unknown = agent.request("no/such", json!({})).await.unwrap();
    assert_eq!((unknown.status, unknown.error_code()), (404, Some(-32601)));
}

#[tokio::test]
async fn a_modern_agent_calls_a_legacy_server() {
    let house = House::with(Behaviour::legacy("2025-06-18")).await;
    let agent = house.modern();
    let discovered = agent.request("server/discover", json!({})).await.unwrap();
    assert_eq!(
        discovered.result()["supportedVersions"],
        json!(["2026-07-28"])
    );
    assert_eq!(discovered.result()["resultType"], "complete");
    let echoed = agent.call("echo", json!({"n": 1})).await.unwrap();
    assert_eq!(
        (echoed.text(), echoed.result()["resultType"].as_str()),
        (r#"{"n":1}"#, Some("complete"))
    );
    for removed in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "no/such",
    ] {
        let answer = agent.request(removed, json!({})).await.unwrap();
        assert_eq!(
            (answer.status, answer.error_code()),
            (404, Some(-32601)),
            "{removed}"
        );
    }
}

#[tokio::test]
async fn a_legacy_agent_calls_a_modern_server() {
    let house = House::with(Behaviour::modern()).await;
    let agent = house.legacy().with_revision("2025-06-18");
    let hello = agent.initialize().await.unwrap();
    assert_eq!(hello.result()["protocolVersion"], "2025-06-18");
    let echoed = agent.call("echo", json!({"n": 1})).await.unwrap();
    assert_eq!(
        (echoed.text(), &echoed.result()["resultType"]),
        (r#"{"n":1}"#, &Value::Null)
    );
    let set = agent
        .request("logging/setLevel", json!({"level": "info"}))
        .await
        .unwrap();
    assert_eq!(set.message["result"], json!({}));
}

#[tokio::test]
async fn progress_streams_with_ids_after_a_priming_event() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let house = House::with(behaviour).await;
        let agent = house.legacy();
        agent.initialize().await.unwrap();
        let answer = agent
            .call_with_meta(
                "progress",
                json!({"steps": 3}),
                json!({"progressToken": "tok"}),
            )
            .await
            .unwrap();
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        let progress = answer.notifications();
        assert_eq!(progress.len(), 3);
        assert!(
            progress
                .iter()
                .all(|it| it["params"]["progressToken"] == "tok")
        );
        assert!(answer.message["result"].is_object());
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(text.starts_with("id: "), "{text}");
        let first = text.split("\n\n").next().unwrap();
        assert!(
            first.lines().any(|line| line.trim_end() == "data:"),
            "{first}"
        );
        let blocks = text.split("\n\n").filter(|block| !block.is_empty());
        assert!(blocks.clone().all(|block| block.contains("id: ")), "{text}");
        assert_eq!(blocks.count(), 5);
    }
}

#[tokio::test]
async fn progress_asked_for_streams_even_where_the_server_answers_whole() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let (legacy, modern) = (house.legacy(), house.modern());
    legacy.initialize().await.unwrap();
    for agent in [legacy, modern] {
        let answer = agent
            .call_with_meta("echo", json!({}), json!({"progressToken": 1}))
            .await
            .unwrap();
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.text(), "{}");
    }
}

#[tokio::test]
async fn an_agent_that_lost_its_stream_resumes_it() {
    let house = House::with(Behaviour::legacy("2025-11-25").streaming()).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let mut call = agent
        .start(
            "tools/call",
            json!({"name": "slow", "arguments": {"gate": "g"}, "_meta": {"progressToken": 1}}),
        )
        .await
        .unwrap();
    let id = call.id.clone();
    let first = call.stream().await.unwrap().next().await.unwrap().unwrap();
    let cursor = first.event().unwrap().id.clone().unwrap();
    house
        .server
        .log()
        .wait_for(|log| log.count("tools/call") == 1, LIMIT)
        .await
        .unwrap();
    drop(call);
    house.server.open("g");
    let mut resumed = agent.open_get(Some(&cursor)).await.unwrap();
    let answer = resumed.message().await.unwrap().unwrap();
    assert_eq!(answer["id"], id);
    assert!(answer["result"].is_object());
    assert!(
        resumed.message().await.unwrap().is_none(),
        "the stream ends with the response"
    );
    assert_eq!(house.server.log().count("notifications/cancelled"), 0);

    let unknown = agent.open_get(Some("00.1")).await;
    assert!(unknown.is_err() || unknown.unwrap().response.status == 400);
}

#[tokio::test]
async fn what_the_server_announces_reaches_every_session_once() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let agent = house.legacy();
        agent.initialize().await.unwrap();
        let stream = agent.open_get(None).await.unwrap();
        streams.push((agent, stream));
    }
    house.server.notify(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b"}}));
    house.server.notify(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "c:d"}}));
    for (_, stream) in &mut streams {
        for uri in ["a:b", "c:d"] {
            let message = stream.message().await.unwrap().unwrap();
            assert_eq!(message["params"]["uri"], uri);
        }
    }
}

#[tokio::test]
async fn a_question_of_the_server_is_asked_and_answered() {
    let house = House::with(Behaviour::legacy("2025-11-25").streaming()).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let mut call = agent
        .start("tools/call", json!({"name": "ask", "arguments": {}}))
        .await
        .unwrap();
    let question = call.message().await.unwrap().unwrap();
    assert!(question["method"].is_string());
    let answered = agent
        .respond(
            &question["id"],
            json!({"action": "accept", "content": {"a": 1}}),
        )
        .await;
    assert_eq!(answered.unwrap(), 202);
    let answer = call.finish().await.unwrap();
    assert!(!answer.is_error(), "{}", answer.message);

    let mute = house.legacy().with_capabilities(json!({}));
    mute.initialize().await.unwrap();
    let answer = mute.call("ask", json!({})).await.unwrap();
    assert_eq!(answer.notifications().len(), 0);
    assert!(
        answer.message["id"].is_number(),
        "it does not hang: {}",
        answer.message
    );
}

#[tokio::test]
async fn a_cancelled_call_has_no_response() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let call = agent
        .start(
            "tools/call",
            json!({"name": "slow", "arguments": {"gate": "never"}}),
        )
        .await
        .unwrap();
    house
        .server
        .log()
        .wait_for(|log| log.count("tools/call") == 1, LIMIT)
        .await
        .unwrap();
    assert_eq!(agent.cancel(&call.id).await.unwrap(), 202);
    let answer = call.finish().await.unwrap();
    assert_eq!(answer.message, Value::Null);
    house
        .server
        .log()
        .wait_for(|log| log.count("notifications/cancelled") == 1, LIMIT)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_is_down_keeps_its_tools_listed() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let (legacy, modern) = (house.legacy(), house.modern());
    legacy.initialize().await.unwrap();
    house.server.stop().await;
    house.link().reload(Duration::from_secs(2)).await;
    for agent in [&legacy, &modern] {
        let listed = agent.request("tools/list", json!({})).await.unwrap();
        assert_eq!(listed.result()["tools"].as_array().map(Vec::len), Some(6));
        let called = agent.call("echo", json!({})).await.unwrap();
        assert!(called.is_error());
        let connection = &called.result()["_meta"]["dev.steadfast/connection"];
        assert_eq!(
            (&connection["server"], &connection["state"]),
            (&json!("booking"), &json!("retrying"))
        );
        assert!(called.text().contains("booking"));
        assert_eq!(
            agent.call("nothing", json!({})).await.unwrap().error_code(),
            Some(-32602)
        );
        let other = agent.request("prompts/list", json!({})).await.unwrap();
        assert_eq!(
            other.message["error"]["data"]["connection"]["server"],
            "booking"
        );
    }
    let discovered = modern.request("server/discover", json!({})).await.unwrap();
    assert!(discovered.result()["capabilities"].is_object());
    let hello = house.legacy().initialize().await.unwrap();
    assert_eq!(hello.status, 200);
}

#[tokio::test]
async fn a_server_that_comes_later_is_announced() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server.stop().await;
    let house = House::of(server, common::settings()).await;
    let agent = house.legacy();
    let hello = agent.initialize().await.unwrap();
    assert_eq!(hello.result()["capabilities"]["tools"]["listChanged"], true);
    let mut stream = agent.open_get(None).await.unwrap();
    house.server.resume();
    house.link().reload(LIMIT).await;
    let told = stream.message().await.unwrap().unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(agent.call("echo", json!({})).await.unwrap().text(), "{}");
}

#[tokio::test]
async fn a_restarted_gateway_knows_its_sessions() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let session = agent.session().unwrap();
    house.gateway.shutdown().await;
    house.keeper.shutdown().await;
    let (keeper, gateway) = start(&house.records, common::settings()).await;
    let link = keeper.link(&"support".into(), &"booking".into()).unwrap();
    assert!(link.connected(LIMIT).await);
    let again = testkit::Agent::legacy(gateway.local_addr(), "/mcp/booking", Some(&house.key));
    again.set_session(Some(&session));
    assert_eq!(again.call("echo", json!({})).await.unwrap().text(), "{}");
}

#[tokio::test]
async fn a_session_is_its_agents_only() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let key = house.gateway.directory().make_key("other").await.unwrap();
    let thief = testkit::Agent::legacy(house.address(), "/mcp/booking", Some(key.reveal()));
    thief.set_session(agent.session().as_deref());
    assert_eq!(thief.call("echo", json!({})).await.unwrap().status, 404);
    assert_eq!(thief.delete().await.unwrap(), 404);
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_batch_is_for_2025_03_26_only() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"b","method":"tools/list"},{"jsonrpc":"2.0","method":"x"}]"#;
    for (revision, status) in [("2025-03-26", 200), ("2025-06-18", 400)] {
        let agent = house.legacy().with_revision(revision);
        agent.initialize().await.unwrap();
        let session = agent.session().unwrap();
        let authorization = format!("Bearer {}", house.key);
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("mcp-session-id", session.as_str()),
        ];
        let mut answer = agent.raw_post(&headers, batch).await.unwrap();
        assert_eq!(answer.status, status, "{revision}");
        let body = answer.json().await.unwrap();
        if status == 200 {
            assert_eq!(body.as_array().map(Vec::len), Some(2));
            assert_eq!(body[1]["id"], "b");
        }
    }
}

#[tokio::test]
async fn headers_that_disagree_go_nowhere() {
    let house = House::with(Behaviour::modern()).await;
    let agent = house.modern();
    let body = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "add_row", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}},
    });
    let before = house.server.log().count("tools/call");
    for (name, value) in [
        ("mcp-name", "echo"),
        ("mcp-method", "tools/list"),
        ("mcp-protocol-version", "2025-11-25"),
    ] {
        let mut headers = agent.headers(Some(&body));
        for header in &mut headers {
            if header.0.eq_ignore_ascii_case(name) {
                header.1 = value.to_owned();
            }
        }
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut answer = agent
            .raw_post(&headers, body.to_string().as_bytes())
            .await
            .unwrap();
        assert_eq!(answer.status, 400, "{name}");
        let message = answer.json().await.unwrap();
        assert_eq!(
            (&message["error"]["code"], &message["id"]),
            (&json!(-32020), &json!(7)),
            "{name}"
        );
    }
    assert_eq!(house.server.log().count("tools/call"), before);
    assert!(house.server.ledger().rows_of("add_row").unwrap().is_empty());
}

#[tokio::test]
async fn a_modern_agent_listens_on_a_legacy_server() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.modern();
    let mut listening = agent
        .start(
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}}),
        )
        .await
        .unwrap();
    let id = listening.id.clone();
    let acknowledged = listening.message().await.unwrap().unwrap();
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(
        acknowledged["params"]["notifications"]["toolsListChanged"],
        true
    );
    house.server.tools_changed();
    let changed = listening.message().await.unwrap().unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(
        changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        id
    );
}

#[tokio::test]
async fn silence_is_filled_with_comments() {
    let mut settings = common::settings();
    settings.keep_alive = Duration::from_millis(50);
    let house = House::set(Behaviour::legacy("2025-11-25"), settings).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let mut stream = agent.open_get(None).await.unwrap();
    let mut comments = 0;
    while comments < 3 {
        let seen = stream.next().await.unwrap().unwrap();
        comments += usize::from(seen.event().is_none());
    }
}

#[tokio::test]
async fn a_shutdown_is_bounded() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let _listening = agent.open_get(None).await.unwrap();
    let _stuck = agent
        .start(
            "tools/call",
            json!({"name": "slow", "arguments": {"gate": "never"}}),
        )
        .await
        .unwrap();
    house
        .server
        .log()
        .wait_for(|log| log.count("tools/call") == 1, LIMIT)
        .await
        .unwrap();
    let _silent = tokio::net::TcpStream::connect(house.address())
        .await
        .unwrap();
    let began = std::time::Instant::now();
    house.gateway.shutdown().await;
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn streams_end_with_the_key_and_with_the_connection() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let mut stream = agent.open_get(None).await.unwrap();
    let key = house.gateway.directory().make_key("support").await.unwrap();
    while stream.next().await.unwrap().is_some() {}
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 401);

    let renewed = testkit::Agent::legacy(house.address(), "/mcp/booking", Some(key.reveal()));
    renewed.set_session(agent.session().as_deref());
    assert_eq!(renewed.call("echo", json!({})).await.unwrap().text(), "{}");
    let mut stream = renewed.open_get(None).await.unwrap();
    let directory = house.gateway.directory();
    directory
        .remove_server("booking", steadfast_store::Source::Admin)
        .await
        .unwrap();
    while stream.next().await.unwrap().is_some() {}
    assert_eq!(renewed.call("echo", json!({})).await.unwrap().status, 404);
}

#[tokio::test]
async fn a_question_outside_of_calls_has_an_id_of_ours_until_it_is_taken_back() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let agent = house.legacy();
    agent.initialize().await.unwrap();
    let mut stream = agent.open_get(None).await.unwrap();
    let ask = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"});

    house.server.notify(&ask("q1"));
    let question = stream.message().await.unwrap().unwrap();
    assert_eq!(question["method"], "roots/list");
    assert_ne!(question["id"], "q1");
    assert_eq!(
        agent
            .respond(&question["id"], json!({"roots": []}))
            .await
            .unwrap(),
        202
    );
    let answered = |log: &testkit::RequestLog| {
        let found =
            log.matching(|it| it.rpc_id() == Some(&json!("q1")) && it.pointer("/result").is_some());
        found.len() == 1
    };
    house.server.log().wait_for(answered, LIMIT).await.unwrap();

    house.server.notify(&ask("q2"));
    let question = stream.message().await.unwrap().unwrap();
    house.server.notify(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q2", "reason": "late"}}));
    let taken_back = stream.message().await.unwrap().unwrap();
    assert_eq!(
        taken_back["params"],
        json!({"requestId": question["id"], "reason": "late"})
    );

    // The server tells its other agent the same; what is looked at is this agent's connection.
    let log = house.server.log();
    let answers = |id: &'static str| log.matching(move |it| it.rpc_id() == Some(&json!(id)));
    let asked = answers("q1");
    let ours = asked.iter().find(|it| it.pointer("/result").is_some());
    let ours = ours.and_then(|it| it.session()).unwrap();

    // With a second conversation nobody knows whose question it is.
    let other = house.legacy();
    other.initialize().await.unwrap();
    let _other_stream = other.open_get(None).await.unwrap();
    house.server.notify(&ask("q3"));
    let is_refused = |it: &testkit::Request| {
        it.session() == Some(ours)
            && it.rpc_id() == Some(&json!("q3"))
            && it.pointer("/error/code") == Some(&json!(-32601))
    };
    let refused = |log: &testkit::RequestLog| !log.matching(is_refused).is_empty();
    log.wait_for(refused, LIMIT).await.unwrap();
    let late = answers("q2").iter().any(|it| it.session() == Some(ours));
    assert!(!late, "what was taken back is not answered");
}
