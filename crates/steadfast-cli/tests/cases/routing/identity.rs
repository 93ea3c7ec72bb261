//! GW-06: who asks is decided by each request's own credential. (That a grant of one agent is never used
//! for another is played where there are grants.)

use serde_json::json;
use testkit::daemon::Builder;
use testkit::{Behaviour, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{builder, connected};

fn shared_key(server: &Server) -> Builder {
    builder(server).set("servers.fake.headers", r#"{ "X-Api-Key" = "shared" }"#)
}

#[tokio::test]
async fn gw_06_agents_with_one_api_key_have_sessions_of_their_own() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = connected(shared_key(&server), &["a", "b"]).await;
    let mut levels = Vec::new();
    for (name, level) in [("a", "debug"), ("b", "error")] {
        let agent = daemon.legacy_agent(name, "fake").await.unwrap();
        agent.initialize().await.unwrap();
        let params = json!({ "level": level });
        agent.request("logging/setLevel", params).await.unwrap();
        let asked = server.log().posts("logging/setLevel");
        let asked = asked.last().unwrap();
        assert_eq!(asked.header("x-api-key"), Some("shared"));
        levels.push((asked.session().unwrap().to_owned(), level));
    }
    assert_ne!(levels[0].0, levels[1].0);
    assert_eq!(server.sessions_created(), 2);
    for (session, level) in levels {
        assert_eq!(server.log_level(&session).as_deref(), Some(level));
    }
}

#[tokio::test]
async fn gw_06_a_session_is_nobody_elses() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = connected(shared_key(&server), &["a", "b"]).await;
    let a = daemon.legacy_agent("a", "fake").await.unwrap();
    a.initialize().await.unwrap();
    let b = daemon.legacy_agent("b", "fake").await.unwrap();
    b.initialize().await.unwrap();
    b.set_session(a.session().as_deref());
    let answer = b.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(b.delete().await.unwrap(), 404);
    let refused = b.open_get(None).await.unwrap();
    assert_eq!(refused.response.status, 404);
    assert!(server.log().calls("add_row").is_empty());
    let answer = a.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
}

/// Two requests on one connection, with two keys.
#[tokio::test]
async fn gw_06_identity_is_checked_for_each_request_of_a_kept_connection() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = connected(shared_key(&server), &["a", "b"]).await;
    let mut connection = TcpStream::connect(daemon.address()).await.unwrap();
    let mut sent = Vec::new();
    for (name, end) in [("a", "keep-alive"), ("b", "keep-alive"), ("a", "close")] {
        let key = daemon.agent_key(name).await.unwrap();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"me":"{name}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"x","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        );
        let head = format!(
            "POST /mcp/fake HTTP/1.1\r\nHost: {}\r\nConnection: {end}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n\
             Content-Length: {}\r\n\r\n",
            daemon.address(),
            body.len()
        );
        sent.extend_from_slice(head.as_bytes());
        sent.extend_from_slice(body.as_bytes());
    }
    connection.write_all(&sent).await.unwrap();
    let mut answers = String::new();
    connection.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
    let calls = server.log().calls("echo");
    let [first, second, third] = &calls[..] else {
        panic!("three calls: {}", server.log());
    };
    assert_eq!(second.arguments()["me"], "b");
    assert_ne!(first.session(), second.session());
    assert_eq!(first.session(), third.session());
}
