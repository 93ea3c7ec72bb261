//! Servers that come, go and change.

use std::time::Duration;

use serde_json::json;
use testkit::client::EventStream;
use testkit::{Action, Behaviour, Tool};

use super::{Fleet, OURS, connected, next};
use crate::common::LIMIT;
use crate::rig::{BOTH, Era, log_message};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// What is announced for longer than changes are collected.
async fn announced(stream: &mut EventStream) -> Vec<String> {
    let mut methods = Vec::new();
    let quiet = Duration::from_millis(400);
    while let Ok(message) = tokio::time::timeout(quiet, stream.message()).await {
        let message = message.unwrap().expect("the stream is open");
        methods.push(message["method"].as_str().unwrap().to_owned());
    }
    methods
}

/// CA-01: fifty announcements are one, and the next list is right; only that server's part changes.
#[tokio::test]
async fn ca_01_many_changes_are_announced_once() {
    let tool = |name: &str| Tool::new(name, Action::AddRow);
    for server in BOTH {
        let behaviour = || {
            let mut behaviour = server.behaviour();
            behaviour.tools = vec![tool("foo_bar"), tool("y")];
            behaviour.ttl_ms = 600_000;
            behaviour
        };
        let fleet = Fleet::new(Era::Legacy, [behaviour(), behaviour()]).await;
        fleet.list("tools/list").await;
        let mut stream = fleet.agent.open_get(None).await.unwrap();
        announced(&mut stream).await;
        fleet.servers[0].set_tools(vec![tool("foo_bar"), tool("bar")]);
        for _ in 0..50 {
            fleet.servers[0].tools_changed();
        }
        next(&mut stream, TOOLS_CHANGED).await;
        let names = fleet.names("tools/list", "name").await;
        let expected = ["u1__foo_bar", "u1__bar", "u2__foo_bar", "u2__y"];
        assert_eq!(names[2..], expected, "{server:?}");
        let asked = fleet.servers[1].log().count("tools/list");
        assert_eq!(asked, 1, "{server:?}: only that server's part changes");
        let more = announced(&mut stream).await;
        assert!(more.is_empty(), "{server:?}: {more:?}");
    }
}

#[tokio::test]
async fn a_server_that_joins_or_leaves_is_announced() {
    let mut fleet = Fleet::new(Era::Legacy, BOTH.map(Era::behaviour)).await;
    let mut stream = fleet.agent.open_get(None).await.unwrap();
    let only = r#"["u1"]"#;
    fleet
        .daemon
        .reconfigure("agents.dev.servers", only)
        .unwrap();
    next(&mut stream, TOOLS_CHANGED).await;
    let count = async |fleet: &Fleet| fleet.names("tools/list", "name").await.len();
    assert_eq!(count(&fleet).await, 8);
    // Given to the agent.
    fleet
        .daemon
        .reconfigure("agents.dev.servers", r#"["u1", "u2"]"#)
        .unwrap();
    next(&mut stream, TOOLS_CHANGED).await;
    assert_eq!(count(&fleet).await, 14);
    // Switched off, and on again.
    fleet
        .daemon
        .reconfigure("servers.u2.enabled", "false")
        .unwrap();
    next(&mut stream, TOOLS_CHANGED).await;
    assert_eq!(count(&fleet).await, 8);
    let answer = fleet.agent.call("u2__echo", json!({})).await.unwrap();
    assert_eq!(
        super::connection(&answer)["state"],
        "disabled",
        "{answer:?}"
    );
    fleet
        .daemon
        .reconfigure("servers.u2.enabled", "true")
        .unwrap();
    next(&mut stream, TOOLS_CHANGED).await;
    connected(&fleet.daemon, "u2").await;
    assert_eq!(count(&fleet).await, 14);
    // Taken away from the agent.
    fleet
        .daemon
        .reconfigure("agents.dev.servers", only)
        .unwrap();
    next(&mut stream, TOOLS_CHANGED).await;
    assert_eq!(count(&fleet).await, 8);
    let answer = fleet.agent.call("u2__echo", json!({})).await.unwrap();
    assert_eq!(answer.error_code(), Some(-32602), "{answer:?}");
    // All names are others.
    fleet
        .daemon
        .reconfigure("agents.dev.prefix", "false")
        .unwrap();
    next(&mut stream, TOOLS_CHANGED).await;
    let names = fleet.names("tools/list", "name").await;
    assert_eq!(names[..2], OURS);
    assert_eq!(names[2], "echo");
}

/// CA-02: after a reconnect the list is that of the new session, before the next call.
#[tokio::test]
async fn ca_02_another_list_after_a_reconnect_is_announced_and_the_same_is_not() {
    let tool = |name: &str| Tool::new(name, Action::AddRow);
    for server in BOTH {
        let behaviour = || {
            server
                .behaviour()
                .with_tools(vec![tool("old"), tool("both")])
        };
        let fleet = Fleet::new(Era::Legacy, [behaviour(), behaviour()]).await;
        for list in [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ] {
            fleet.list(list).await;
        }
        let mut stream = fleet.agent.open_get(None).await.unwrap();
        announced(&mut stream).await;
        // The same server with the same lists.
        restarted(&fleet).await;
        let told = announced(&mut stream).await;
        assert!(told.is_empty(), "{server:?}: {told:?}");
        fleet.servers[1].set_tools(vec![tool("both"), tool("new")]);
        restarted(&fleet).await;
        next(&mut stream, TOOLS_CHANGED).await;
        let names = fleet.names("tools/list", "name").await;
        assert_eq!(names[2..], ["u1__old", "u1__both", "u2__both", "u2__new"]);
        let answer = fleet.agent.call("u2__new", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        let answer = fleet.agent.call("u2__old", json!({})).await.unwrap();
        assert_eq!(answer.error_code(), Some(-32602), "{answer:?}");
        assert_eq!(
            fleet.servers[1].log().calls("old").len(),
            0,
            "not forwarded"
        );
        let told = announced(&mut stream).await;
        assert!(told.is_empty(), "{server:?}: {told:?}");
    }
}

/// The second server comes back as a new one, and is connected again.
async fn restarted(fleet: &Fleet) {
    let opened = |log: &testkit::RequestLog| log.count("tools/list");
    let before = opened(fleet.servers[1].log());
    fleet.servers[1].restart().await;
    let _ = fleet
        .daemon
        .post("/api/v1/connections/dev/u2/reload", &json!({}))
        .await;
    let log = fleet.servers[1].log();
    log.wait_for(|log| opened(log) > before, LIMIT)
        .await
        .unwrap();
    connected(&fleet.daemon, "u2").await;
}

/// What all servers say comes once each, whichever server says it.
#[tokio::test]
async fn messages_of_all_servers_come_through_once() {
    let fleet = Fleet::new(Era::Legacy, [Era::Legacy, Era::Legacy].map(Era::behaviour)).await;
    let one = fleet.daemon.legacy_agent("dev", "u1").await.unwrap();
    one.initialize().await.unwrap();
    let mut alone = one.open_get(None).await.unwrap();
    let mut stream = fleet.agent.open_get(None).await.unwrap();
    for (place, text) in [(0, "from u1"), (1, "from u2")] {
        fleet.servers[place].notify(&log_message(text));
        let message = next(&mut stream, "notifications/message").await;
        assert_eq!(message["params"]["data"], text);
    }
    // Who has one server hears that one.
    fleet.servers[1].notify(&log_message("not for one"));
    fleet.servers[0].notify(&log_message("last"));
    for expected in ["from u1", "last"] {
        let message = next(&mut alone, "notifications/message").await;
        assert_eq!(message["params"]["data"], expected);
    }
    for _ in 0..2 {
        next(&mut stream, "notifications/message").await;
    }
    let more = tokio::time::timeout(Duration::from_millis(150), stream.message()).await;
    assert!(more.is_err(), "{more:?}");
}

/// A conversation with a session of its own at a server hears that server there, and not a second time.
#[tokio::test]
async fn a_conversation_of_its_own_hears_everything_once() {
    let eras = [Era::Legacy, Era::Legacy].map(Era::behaviour);
    let fleet = Fleet::with(Era::Legacy, eras, |builder| {
        builder.set("servers.u2.isolate_sessions", "true")
    })
    .await;
    let mut stream = fleet.agent.open_get(None).await.unwrap();
    let answer = fleet.agent.call("u2__echo", json!({})).await.unwrap();
    assert_eq!(answer.text(), "{}", "{answer:?}");
    let server = &fleet.servers[1];
    let listens = |log: &testkit::RequestLog| log.http("GET").len() >= 2;
    server.log().wait_for(listens, LIMIT).await.unwrap();
    announced(&mut stream).await;
    server.set_tools(vec![Tool::new("new", Action::AddRow)]);
    server.tools_changed();
    server.notify(&log_message("hello"));
    let mut told = announced(&mut stream).await;
    told.sort();
    assert_eq!(told, ["notifications/message", TOOLS_CHANGED]);
    let names = fleet.names("tools/list", "name").await;
    assert_eq!(names.last().unwrap(), "u2__new");
}

/// `roots/list_changed` of an agent goes to all servers with a session.
#[tokio::test]
async fn what_the_agent_announces_goes_to_all_servers() {
    let behaviours = [
        Behaviour::legacy("2025-11-25"),
        Behaviour::legacy("2025-06-18"),
    ];
    let fleet = Fleet::new(Era::Legacy, behaviours).await;
    let method = "notifications/roots/list_changed";
    assert_eq!(fleet.agent.notify(method, json!({})).await.unwrap(), 202);
    for server in &fleet.servers {
        server
            .log()
            .wait_for(|log| log.count(method) == 1, LIMIT)
            .await
            .unwrap();
    }
}

/// The same for an agent without a session, on its subscription.
#[tokio::test]
async fn a_modern_agent_hears_all_servers_on_one_stream() {
    for server in BOTH {
        let mut behaviours = [server.behaviour(), server.behaviour()];
        for (place, behaviour) in behaviours.iter_mut().enumerate() {
            let uris = [format!("own://{place}"), "same://x".to_owned()];
            let resources = uris.map(|uri| json!({"uri": uri, "name": uri}));
            behaviour.resources = resources.to_vec();
        }
        let fleet = Fleet::new(Era::Modern, behaviours).await;
        for list in ["tools/list", "resources/list"] {
            fleet.list(list).await;
        }
        let uris = ["own://0", "steadfast://u2/same://x", "none://x"];
        let params = json!({"notifications": {
            "toolsListChanged": true, "resourceSubscriptions": uris,
        }});
        let call = fleet.agent.start("subscriptions/listen", params).await;
        let mut call = call.unwrap();
        let stream = call.stream().await.unwrap();
        let first = stream.message().await.unwrap().unwrap();
        assert_eq!(
            first["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": uris[..2]}),
            "{server:?}: {first}"
        );
        let updated = |uri: &str| {
            json!({
                "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri},
            })
        };
        fleet.servers[0].notify(&updated("same://x"));
        fleet.servers[1].notify(&updated("same://x"));
        fleet.servers[0].notify(&updated("own://0"));
        let mut known = Vec::new();
        for _ in 0..2 {
            let message = next(stream, "notifications/resources/updated").await;
            known.push(message["params"]["uri"].as_str().unwrap().to_owned());
        }
        known.sort();
        assert_eq!(known, uris[..2], "{server:?}");
        fleet.servers[0].set_tools(vec![Tool::new("new", Action::AddRow)]);
        fleet.servers[1].set_tools(vec![Tool::new("new", Action::AddRow)]);
        for server in &fleet.servers {
            server.tools_changed();
        }
        let message = next(stream, TOOLS_CHANGED).await;
        let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(
            *id,
            first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
        );
        let names = fleet.names("tools/list", "name").await;
        assert_eq!(names[2..], ["u1__new", "u2__new"], "{server:?}");
        let more = announced(stream).await;
        assert!(more.is_empty(), "{server:?}: {more:?}");
    }
}
