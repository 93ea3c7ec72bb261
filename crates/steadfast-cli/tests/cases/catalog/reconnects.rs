//! CA-02: old tools after a reconnect.

use serde_json::json;
use testkit::reply::json_rpc_error;
use testkit::script::{call, post};
use testkit::{Action, Behaviour, RequestLog, Server, Tool};

use crate::common::LIMIT;
use crate::rig::{BOTH, Era, PAIRINGS, Rig};

/// The default tools without `add_row`, and with a new one.
fn others() -> Vec<Tool> {
    let mut tools: Vec<_> = Tool::defaults()
        .into_iter()
        .filter(|tool| tool.name != "add_row")
        .collect();
    tools.push(Tool::new("fresh", Action::Echo));
    tools
}

/// Asserts that between the last opening and the first call after it the tools were asked for.
#[track_caller]
fn assert_listed_before(log: &RequestLog, tool: &str) {
    let calls = log.calls(tool);
    let first = calls.first().expect("it was called").index;
    let opened = log.matching(|request| {
        matches!(request.rpc_method(), Some("initialize" | "server/discover"))
            && request.index < first
    });
    let opened = opened.last().expect("it was opened").index;
    let listed = log.matching(|request| {
        request.rpc_method() == Some("tools/list") && (opened..first).contains(&request.index)
    });
    assert!(!listed.is_empty(), "{log}");
}

#[tokio::test]
async fn ca_02_a_restart_brings_the_new_tools_and_takes_the_old_ones() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        rig.server.stop().await;
        // A known tool of a server that is down is not an unknown tool.
        let down = rig.agent.call("echo", json!({})).await.unwrap();
        assert!(down.is_error(), "{down:?}");
        assert_eq!(down.error_code(), None, "{down:?}");
        rig.daemon
            .wait_connection("dev", "fake", LIMIT, |connection| {
                connection["state"] != "connected"
            })
            .await
            .unwrap();
        let down = rig.agent.call("add_row", json!({})).await.unwrap();
        let connection = &down.result()["_meta"]["dev.steadfast/connection"];
        assert_eq!(connection["server"], "fake", "{down:?}");
        assert_eq!(connection["tools"], 6, "{down:?}");
        rig.server.set_tools(others());
        rig.server.resume();
        rig.daemon
            .wait_state("dev", "fake", "connected")
            .await
            .unwrap();
        let gone = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(gone.error_code(), Some(-32602), "{gone:?}");
        let message = gone.message["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("add_row") && message.contains("fake"),
            "{message}"
        );
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (0, 0));
        let fresh = rig.agent.call("fresh", json!({"a": 1})).await.unwrap();
        assert_eq!(fresh.text(), r#"{"a":1}"#, "{fresh:?}");
        assert_listed_before(rig.server.log(), "fresh");
    }
}

#[tokio::test]
async fn ca_02_a_restart_while_nobody_calls_is_noticed_as_well() {
    for agent in BOTH {
        let rig = Rig::new(agent, Behaviour::legacy("2025-11-25")).await;
        let before = rig.server.log().count("initialize");
        rig.server.set_tools(others());
        rig.server.restart().await;
        rig.server
            .log()
            .wait_for(|log| log.count("initialize") > before, LIMIT)
            .await
            .unwrap();
        rig.daemon
            .wait_state("dev", "fake", "connected")
            .await
            .unwrap();
        let fresh = rig.agent.call("fresh", json!({})).await.unwrap();
        assert_eq!(fresh.text(), "{}", "{fresh:?}");
        assert_listed_before(rig.server.log(), "fresh");
        let gone = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(gone.error_code(), Some(-32602), "{gone:?}");
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (0, 0));
    }
}

#[tokio::test]
async fn ca_02_a_call_that_meets_the_restart_is_not_repeated_where_its_tool_is_gone() {
    for agent in BOTH {
        let rig = Rig::new(agent, Behaviour::legacy("2025-11-25")).await;
        rig.server.set_tools(others());
        let refused = json_rpc_error(404, -32001, "Session not found");
        rig.server
            .script()
            .on(call("add_row").session("S1"))
            .reply(refused);
        let gone = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(gone.error_code(), Some(-32602), "{gone:?}");
        // The lost session refused the first; the new one was never asked.
        let log = rig.server.log();
        assert_eq!((rig.rows("add_row"), log.calls("add_row").len()), (0, 1));
        assert_eq!(log.count("initialize"), 2, "{log}");
        rig.works().await;
    }
}

#[tokio::test]
async fn ca_02_a_sharp_shrink_nobody_announced_is_not_believed_at_once() {
    for server in BOTH {
        let rig = Rig::new(Era::Modern, server.behaviour()).await;
        shrink(&rig).await;
        // The list of before stays in force, and its tools are the server's to refuse.
        assert_eq!(rig.connection().await["tools"], 6);
        let gone = rig.agent.call("big", json!({})).await.unwrap();
        assert_eq!(gone.error_code(), Some(-32602), "{gone:?}");
        assert_eq!(rig.calls("big"), 1);
    }
}

#[tokio::test]
async fn ca_02_after_the_hold_the_short_list_is_asked_for_again_and_believed() {
    for server in BOTH {
        let behaviour = Server::start(server.behaviour()).await;
        let rig = Rig::with(Era::Modern, behaviour, |daemon| {
            daemon.set_text("catalog.shrink_hold", "1ms")
        })
        .await;
        shrink(&rig).await;
        let before = rig.server.log().count("tools/list");
        let gone = rig.agent.call("big", json!({})).await.unwrap();
        assert_eq!(gone.error_code(), Some(-32602), "{gone:?}");
        assert_eq!(rig.calls("big"), 0);
        let log = rig.server.log();
        assert_eq!(log.count("tools/list"), before + 1, "{log}");
        assert_eq!(rig.connection().await["tools"], 1);
        rig.works().await;
    }
}

/// The server has one tool of six left when the connection opens again.
async fn shrink(rig: &Rig) {
    rig.server.set_tools(vec![Tool::new("echo", Action::Echo)]);
    let (status, _) = rig
        .daemon
        .post("/api/v1/connections/dev/fake/reload", &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 200);
    rig.daemon
        .wait_state("dev", "fake", "connected")
        .await
        .unwrap();
}

#[tokio::test]
async fn ca_02_pages_that_break_off_replace_nothing() {
    for era in BOTH {
        let behaviour = Behaviour {
            page_size: Some(2),
            ..era.behaviour()
        };
        let rig = Rig::new(era, behaviour).await;
        assert_eq!(rig.connection().await["tools"], 6);
        let later_page =
            || post("tools/list").when(|request| request.pointer("/params/cursor").is_some());
        rig.server
            .script()
            .on(later_page())
            .reply(json_rpc_error(200, -32603, "Internal error"));
        let (status, _) = rig
            .daemon
            .post("/api/v1/connections/dev/fake/reload", &json!({}))
            .await
            .unwrap();
        assert_eq!(status, 200);
        rig.works().await;
        assert_eq!(rig.connection().await["tools"], 6);
        let answer = rig.agent.call("big", json!({"bytes": 3})).await.unwrap();
        assert!(!answer.is_error(), "{answer:?}");
        assert_eq!(rig.calls("big"), 1);
    }
}
