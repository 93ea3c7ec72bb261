//! What agents may see and call is changed while they run, by the admin API.

use serde_json::{Value, json};
use testkit::{Behaviour, Daemon, Server};

use crate::common::{LIMIT, agent, daemon};

async fn put(daemon: &Daemon, path: &str, body: &Value) -> (u16, Value) {
    daemon.admin("PUT", path, Some(body)).await.unwrap()
}

/// A tool that is switched off goes away at once, and comes back at once: the agent is told, and opens nothing anew.
#[tokio::test]
async fn a_tool_is_switched_off_and_on_again_while_its_agent_runs() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    agent(&daemon).await;
    let url = server.url();
    let (status, _) = put(&daemon, "/api/v1/servers/second", &json!({"url": url})).await;
    assert_eq!(status, 201);
    let body = json!({"servers": ["second"]});
    assert_eq!(put(&daemon, "/api/v1/agents/new", &body).await.0, 201);
    daemon
        .wait_state("new", "second", "connected")
        .await
        .unwrap();
    let agent = daemon.legacy_agent("new", "second").await.unwrap();
    agent.initialize().await.unwrap();
    let names = async || -> Vec<String> {
        let answer = agent.request("tools/list", json!({})).await.unwrap();
        let tools = answer.result()["tools"].as_array().unwrap().clone();
        tools
            .iter()
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect()
    };
    assert!(names().await.contains(&"add_row".to_owned()));
    let mut stream = agent.open_get(None).await.unwrap();

    for (denied, is_there) in [(json!(["add_*"]), false), (json!([]), true)] {
        let before = server.sessions_created();
        let body = json!({"url": url, "tools_deny": denied, "tools": {"echo": {"effect": "read"}}});
        let (status, shown) = put(&daemon, "/api/v1/servers/second", &body).await;
        assert_eq!(status, 200, "{shown}");
        assert_eq!(shown["tools"]["echo"]["effect"], "read", "{shown}");
        let told = async {
            loop {
                let message = stream.message().await.unwrap().unwrap();
                if message["method"] == "notifications/tools/list_changed" {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, told)
            .await
            .expect("the agent is told");
        assert_eq!(names().await.contains(&"add_row".to_owned()), is_there);
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.message["error"].is_null(), is_there, "{answer:?}");
        assert_eq!(
            server.sessions_created(),
            before,
            "nothing is opened anew for it"
        );
    }
    assert_eq!(server.log().calls("add_row").len(), 1);
}

/// What came from the file is changed in the file: refused with what to do, and nothing of it is changed.
#[tokio::test]
async fn what_the_file_defined_is_read_only() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let (_, before) = daemon.get("/api/v1/servers/fake").await.unwrap();
    let body = json!({"url": server.url(), "enabled": false});
    for (method, path, body) in [
        ("PUT", "/api/v1/servers/fake", Some(&body)),
        ("DELETE", "/api/v1/servers/fake", None),
        ("DELETE", "/api/v1/agents/dev", None),
    ] {
        let (status, problem) = daemon.admin(method, path, body).await.unwrap();
        assert_eq!(
            (status, &problem["code"]),
            (409, &json!("SF0008")),
            "{method} {path}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("configuration file"), "{problem}");
        assert!(
            problem["hint"]
                .as_str()
                .unwrap()
                .contains("where it was defined"),
            "{problem}"
        );
    }
    assert_eq!(daemon.get("/api/v1/servers/fake").await.unwrap().1, before);
}
