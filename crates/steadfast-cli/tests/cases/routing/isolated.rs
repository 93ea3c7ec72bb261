//! `isolate_sessions`: one session at the server for each conversation of an agent.

use serde_json::{Value, json};
use testkit::reply::{json_rpc_result, tool_text};
use testkit::script::call;
use testkit::{Agent, Behaviour, Daemon, Reply, RequestLog, Server};

use super::{builder, connected, next_is};
use crate::rig::{log_message, seen};

async fn daemon(server: &Server, isolate: bool) -> Daemon {
    let isolate = isolate.to_string();
    let builder = builder(server).set("servers.fake.isolate_sessions", &isolate);
    connected(builder, &["dev"]).await
}

async fn agent(daemon: &Daemon, capabilities: Value) -> Agent {
    let agent = daemon.legacy_agent("dev", "fake").await.unwrap();
    let agent = agent.with_capabilities(capabilities);
    agent.initialize().await.unwrap();
    agent
}

async fn set_level(agent: &Agent, level: &str) {
    let answer = agent
        .request("logging/setLevel", json!({ "level": level }))
        .await;
    assert_eq!(answer.unwrap().result(), &json!({}));
}

/// The server's sessions that the calls of a method came in.
fn sessions(server: &Server, method: &str) -> Vec<String> {
    let posts = server.log().posts(method);
    posts
        .iter()
        .filter_map(|it| it.session().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn conversations_share_a_session_or_have_one_each() {
    for isolate in [false, true] {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let daemon = daemon(&server, isolate).await;
        let one = agent(&daemon, json!({ "elicitation": {} })).await;
        let two = agent(&daemon, json!({ "roots": {} })).await;
        set_level(&one, "debug").await;
        set_level(&two, "error").await;
        set_level(&one, "info").await;
        let used = sessions(&server, "logging/setLevel");
        assert_eq!(used[0], used[2], "{used:?}");
        assert_eq!(used[0] != used[1], isolate, "{used:?}");
        let expected = if isolate { "error" } else { "info" };
        assert_eq!(server.log_level(&used[1]).as_deref(), Some(expected));
        assert_eq!(server.sessions_created(), if isolate { 3 } else { 1 });
        let opened = server.log().posts("initialize");
        let offered: Vec<_> = opened
            .iter()
            .skip(1)
            .map(|it| it.pointer("/params/capabilities").cloned().unwrap())
            .collect();
        if isolate {
            for capabilities in [json!({ "elicitation": {} }), json!({ "roots": {} })] {
                assert!(offered.contains(&capabilities), "{offered:?}");
            }
        }
        // One row all the same.
        let (_, listed) = daemon.get("/api/v1/connections").await.unwrap();
        assert_eq!(
            listed["connections"].as_array().map(Vec::len),
            Some(1),
            "{listed}"
        );
    }
}

#[tokio::test]
async fn what_a_server_says_in_a_session_is_for_its_conversation() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let whole = Reply::new()
        .wait_for("go")
        .then(json_rpc_result(tool_text("done")));
    server.script().on(call("work")).reply(whole);
    let daemon = daemon(&server, true).await;
    let (one, two) = (
        agent(&daemon, json!({ "roots": {} })).await,
        agent(&daemon, json!({ "roots": {} })).await,
    );
    for agent in [&one, &two] {
        // Its own session is open: what it announces at the opening comes before the stream.
        set_level(agent, "info").await;
    }
    let (mut first, mut second) = (
        one.open_get(None).await.unwrap(),
        two.open_get(None).await.unwrap(),
    );
    let work = json!({ "name": "work", "arguments": {} });
    let calls = [
        one.start("tools/call", work.clone()).await.unwrap(),
        two.start("tools/call", work).await.unwrap(),
    ];
    seen(&server, |log| {
        log.calls("work").len() == 2 && log.http("GET").len() == 3
    })
    .await;
    super::listening(&server, 3).await;
    // Each of the sessions asks, and each conversation answers in its own; the shared one has nobody.
    server.notify(&json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" }));
    for (agent, stream, root) in [
        (&one, &mut first, "file:///one"),
        (&two, &mut second, "file:///two"),
    ] {
        let question = stream.message().await.unwrap().unwrap();
        assert_eq!(question["method"], "roots/list", "{question}");
        let roots = json!({ "roots": [{ "uri": root }] });
        agent.respond(&question["id"], roots).await.unwrap();
    }
    let answers = |log: &RequestLog| log.matching(|it| it.rpc_id() == Some(&json!("q")));
    seen(&server, |log| answers(log).len() == 3).await;
    let own = sessions(&server, "logging/setLevel");
    for answer in answers(server.log()) {
        let root = answer
            .pointer("/result/roots/0/uri")
            .and_then(Value::as_str);
        let expected = match answer.session() {
            session if session == Some(&*own[0]) => Some("file:///one"),
            session if session == Some(&*own[1]) => Some("file:///two"),
            _ => None,
        };
        assert_eq!(root, expected, "{answer:?}");
    }
    // A notification comes once: from its own session, and not from the shared one as well.
    server.notify(&log_message("once"));
    server.notify(&log_message("marker"));
    for stream in [&mut first, &mut second] {
        next_is(stream, "once").await;
        next_is(stream, "marker").await;
    }
    server.open("go");
    for call in calls {
        assert_eq!(call.finish().await.unwrap().text(), "done");
    }
}

#[tokio::test]
async fn a_session_of_its_own_ends_with_the_conversation() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server, true).await;
    let (one, two) = (
        agent(&daemon, json!({})).await,
        agent(&daemon, json!({})).await,
    );
    set_level(&one, "debug").await;
    set_level(&two, "error").await;
    let used = sessions(&server, "logging/setLevel");
    assert_eq!(one.delete().await.unwrap(), 204);
    let deleted = |log: &RequestLog, session: &str| {
        let deletes = log.http("DELETE");
        deletes.iter().any(|it| it.session() == Some(session))
    };
    seen(&server, |log| deleted(log, &used[0])).await;
    assert!(!deleted(server.log(), &used[1]));

    // A restart ends them all, and the conversation goes on in a new one.
    daemon.terminate().await.unwrap();
    assert!(deleted(server.log(), &used[1]), "{}", server.log());
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let two = resumed(&daemon, &two).await;
    set_level(&two, "info").await;
    let used = sessions(&server, "logging/setLevel");
    assert_ne!(used[1], used[2]);
    assert_eq!(server.log_level(&used[2]).as_deref(), Some("info"));

    // So does a connection that leaves the configuration.
    daemon.reconfigure("agents.dev.servers", "[]").unwrap();
    seen(&server, |log| deleted(log, &used[2])).await;
}

/// The same conversation at the address that the daemon has now.
async fn resumed(daemon: &Daemon, before: &Agent) -> Agent {
    let key = daemon.agent_key("dev").await.unwrap();
    let agent = Agent::legacy(daemon.address(), "/mcp/fake", Some(&key));
    agent.set_session(before.session().as_deref());
    agent
}

/// Where there are no sessions there is nothing to tell apart.
#[tokio::test]
async fn a_modern_server_has_one_connection_all_the_same() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server, true).await;
    for _ in 0..3 {
        let agent = agent(&daemon, json!({})).await;
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert_eq!(answer.text(), "{}", "{answer:?}");
    }
    assert_eq!(server.log().count("server/discover"), 1, "{}", server.log());
}
