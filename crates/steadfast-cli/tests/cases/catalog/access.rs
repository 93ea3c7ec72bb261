//! `tools_allow` and `tools_deny`: what agents do not see they cannot call either.

use serde_json::json;
use testkit::reply::event_stream;
use testkit::script::post;
use testkit::{Behaviour, Server, Tool};

use super::{CHANGED, listed, told};
use crate::common::{LIMIT, daemon};
use crate::rig::{BOTH, Era, PAIRINGS, Rig};

const DENY: &str = r#"["add_*", "b*g"]"#;

#[tokio::test]
async fn denied_tools_are_neither_listed_nor_callable() {
    for (agent, server) in PAIRINGS {
        let behaviour = Behaviour {
            page_size: Some(2),
            ..server.behaviour()
        };
        let rig = Rig::with(agent, Server::start(behaviour).await, |daemon| {
            daemon.set("servers.fake.tools_deny", DENY)
        })
        .await;
        assert_eq!(
            listed(&rig.agent).await,
            ["echo", "slow", "progress", "ask"],
            "{agent:?} {server:?}"
        );
        assert_eq!(rig.connection().await["tools"], 4);
        let denied = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(denied.error_code(), Some(-32602), "{denied:?}");
        assert_eq!(denied.message["error"]["message"], "Unknown tool: add_row");
        assert_eq!(rig.calls("add_row"), 0);
        rig.works().await;
    }
}

#[tokio::test]
async fn what_is_allowed_passes_and_denying_wins() {
    for era in BOTH {
        let rig = Rig::with(era, Server::start(era.behaviour()).await, |daemon| {
            daemon
                .set("servers.fake.tools_allow", r#"["e*", "add_row"]"#)
                .set("servers.fake.tools_deny", r#"["add_row"]"#)
        })
        .await;
        assert_eq!(listed(&rig.agent).await, ["echo"]);
        for tool in ["add_row", "slow", "unheard_of"] {
            let denied = rig.agent.call(tool, json!({})).await.unwrap();
            assert_eq!(denied.error_code(), Some(-32602), "{denied:?}");
            assert_eq!(rig.calls(tool), 0);
        }
        rig.works().await;
    }
}

#[tokio::test]
async fn a_list_on_a_stream_is_filtered_and_the_rest_keeps_its_bytes() {
    for era in BOTH {
        let rig = Rig::with(era, Server::start(era.behaviour()).await, |daemon| {
            daemon.set("servers.fake.tools_deny", DENY)
        })
        .await;
        let tool = |name: &str| {
            let mut tool = json!({"name": name, "x": 1.50, "inputSchema": {"type": "object"}});
            tool["_meta"] = json!({"n": 12_345_678_901_234_567_890_u64});
            tool
        };
        let tools = json!([tool("add_row"), tool("echo"), tool("big")]);
        let result = json!({
            "tools": tools, "resultType": "complete", "ttlMs": 7, "cacheScope": "private",
        });
        rig.server
            .script()
            .on(post("tools/list"))
            .reply(event_stream().rpc_event(json!({"result": result})));
        let answer = rig.agent.request("tools/list", json!({})).await.unwrap();
        assert_eq!(
            answer.result()["tools"],
            json!([tool("echo")]),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn changed_patterns_are_told_and_count_without_a_new_connection() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server)
        .set("servers.fake.tools_deny", DENY)
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = daemon.legacy_agent("dev", "fake").await.unwrap();
    agent.initialize().await.unwrap();
    let mut stream = agent.open_get(None).await.unwrap();
    daemon
        .reconfigure("servers.fake.tools_deny", r#"["echo"]"#)
        .unwrap();
    told(&mut stream, CHANGED).await;
    let names = listed(&agent).await;
    assert!(names.contains(&"add_row".to_owned()), "{names:?}");
    assert!(!names.contains(&"echo".to_owned()), "{names:?}");
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    let denied = agent.call("echo", json!({})).await.unwrap();
    assert_eq!(denied.error_code(), Some(-32602), "{denied:?}");
    daemon
        .wait_connection("dev", "fake", LIMIT, |connection| connection["tools"] == 5)
        .await
        .unwrap();
    let log = server.log();
    assert_eq!(log.calls("echo").len(), 0, "{log}");
    assert_eq!(log.count("initialize"), 1, "{log}");
    assert_eq!(log.count("tools/list"), 2, "the opening's and the agent's");
}

#[tokio::test]
async fn the_command_line_calls_no_denied_tool_either() {
    let server = Server::start(Behaviour::modern().with_tools(Tool::defaults())).await;
    let rig = Rig::with(Era::Modern, server, |daemon| {
        daemon.set("servers.fake.tools_deny", DENY)
    })
    .await;
    let key = rig.daemon.agent_key("dev").await.unwrap();
    for arguments in [
        &["call", "dev", "fake", "add_row"][..],
        &["call", "dev", "fake", "add_row", "--key", &key],
    ] {
        let output = rig.daemon.command(arguments).await.unwrap();
        assert!(!output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Unknown tool: add_row"), "{said}");
        assert_eq!(rig.calls("add_row"), 0);
    }
}
