//! SEC-03: a reverse proxy in front of the daemon brings its own Host.

use serde_json::json;
use testkit::{Behaviour, Daemon, Server, client};

use super::{MIRRORED, reached, said, send, write_call};
use crate::common::daemon;

/// A write through a proxy that passes this Host on, with the agent's key.
async fn through(daemon: &Daemon, host: &str, origin: Option<&str>) -> testkit::client::Response {
    let authorization = format!("Bearer {}", daemon.agent_key("dev").await.unwrap());
    let mut headers = vec![("Host", host), ("Content-Type", "application/json")];
    headers.push(("Authorization", authorization.as_str()));
    headers.extend(MIRRORED);
    headers.extend(origin.map(|origin| ("Origin", origin)));
    send(daemon, "POST", "/mcp/fake", &headers, &write_call()).await
}

#[tokio::test]
async fn sec_03_a_refused_host_is_named_with_the_setting() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut refused = through(&daemon, "mcp.corp.test", None).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let body = refused.json().await.unwrap();
    assert!(said(&body).contains("mcp.corp.test"), "{body}");
    assert!(said(&body).contains("gateway.allowed_hosts"), "{body}");
    let code = body.to_string();
    assert!(code.contains("SF0"), "{body}");

    let mut refused = through(
        &daemon,
        &daemon.address().to_string(),
        Some("https://mcp.corp.test"),
    )
    .await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let body = refused.json().await.unwrap();
    assert!(said(&body).contains("https://mcp.corp.test"), "{body}");
    assert!(said(&body).contains("gateway.allowed_origins"), "{body}");
    assert_eq!(reached(&server), 0, "{}", server.log());
}

/// What was seen is shown in a way that a terminal, a log and a page can bear.
#[tokio::test]
async fn sec_03_what_was_seen_is_sanitised() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    let long = "a".repeat(2_000);
    for host in [
        "mcp.corp.test\u{9b}31m",
        "evil\u{1b}]0;owned\u{7}.test",
        "<script>alert(1)</script>",
        long.as_str(),
        "\u{202e}tset.live",
    ] {
        let headers = [("Host", host), ("Content-Type", "application/json")];
        let sent = client::send(daemon.address(), "POST", "/mcp/fake", &headers, b"{}")
            .await
            .unwrap();
        // What is no header value at all may also end the connection.
        let Ok(mut refused) = sent.response().await else {
            continue;
        };
        assert!(matches!(refused.status, 400 | 403), "{host:?}: {refused:?}");
        let body = refused.json().await.unwrap();
        let said = said(&body);
        let moves = |c: char| {
            c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!said.chars().any(moves), "{host:?}: {said:?}");
        assert!(said.len() < 400, "{host:?}: {} bytes", said.len());
        let is_data = refused
            .header("content-type")
            .is_none_or(|it| it.contains("json"));
        assert!(
            is_data,
            "{host:?}: no browser may take it for a page: {refused:?}"
        );
    }
    let lines = daemon.stderr();
    assert!(!lines.contains('\u{1b}') && !lines.contains('\u{202e}') && !lines.contains(&long));
}

#[tokio::test]
async fn sec_03_a_listed_host_is_served() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server)
        .set(
            "gateway.allowed_hosts",
            "[\"MCP.corp.test\", \"other.test:8443\"]",
        )
        .set("gateway.allowed_origins", "[\"https://pages.test\"]");
    let daemon = daemon.start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    for host in [
        "mcp.corp.test",
        "mcp.corp.test:443",
        "Mcp.Corp.Test",
        "other.test:8443",
    ] {
        for origin in [None, Some("https://pages.test")] {
            let response = through(&daemon, host, origin).await;
            assert_eq!(response.status, 200, "{host} {origin:?}: {response:?}");
        }
    }
    let served = reached(&server);
    assert_eq!(served, 8, "{}", server.log());
    for host in [
        "other.test",
        "other.test:8444",
        "x.mcp.corp.test",
        "mcp.corp.test.evil.test",
        "corp.test",
    ] {
        assert_eq!(through(&daemon, host, None).await.status, 403, "{host}");
    }
    for origin in [
        "http://pages.test",
        "https://pages.test:8443",
        "https://mcp.corp.test",
    ] {
        let response = through(&daemon, "mcp.corp.test", Some(origin)).await;
        assert_eq!(response.status, 403, "{origin}");
    }
    assert_eq!(reached(&server), served, "{}", server.log());
}

/// The address that the operator gave the daemon needs no further setting.
#[tokio::test]
async fn sec_03_the_public_url_is_served() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server)
        .set_text("gateway.public_url", "https://mcp.corp.test")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    for origin in [None, Some("https://mcp.corp.test")] {
        let response = through(&daemon, "mcp.corp.test", origin).await;
        assert_eq!(response.status, 200, "{origin:?}: {response:?}");
    }
    let response = through(&daemon, "mcp.corp.test", Some("http://mcp.corp.test")).await;
    assert_eq!(response.status, 403, "{response:?}");
}

/// Every host is served only where that was written down, and only to those with a credential.
#[tokio::test]
async fn sec_03_a_wildcard_needs_authentication() {
    let server = Server::start(Behaviour::modern()).await;
    let keyed = daemon(&server)
        .set("gateway.allowed_hosts", "[\"*\"]")
        .start()
        .await
        .unwrap();
    keyed.wait_state("dev", "fake", "connected").await.unwrap();
    assert_eq!(through(&keyed, "whatever.test", None).await.status, 200);
    let mut headers = vec![
        ("Host", "whatever.test"),
        ("Content-Type", "application/json"),
    ];
    headers.extend(MIRRORED);
    let without = send(&keyed, "POST", "/mcp/fake", &headers, &write_call()).await;
    assert_eq!(without.status, 401, "{without:?}");
    let page = through(&keyed, "whatever.test", Some("https://evil.test")).await;
    assert_eq!(
        page.status, 403,
        "a wildcard of hosts is none of origins: {page:?}"
    );
    assert_eq!(reached(&server), 1, "{}", server.log());

    // With an agent that everyone is, the host is all that stands between a page and the tools.
    let open = daemon(&server)
        .set("gateway.allowed_hosts", "[\"*\"]")
        .set("gateway.anonymous_agent", &json!("dev").to_string());
    match open.start().await {
        Err(refused) => assert!(refused.to_string().contains("allowed_hosts"), "{refused}"),
        Ok(open) => {
            let response = send(&open, "POST", "/mcp/fake", &headers, &write_call()).await;
            assert_eq!(response.status, 403, "{response:?}");
        }
    }
    assert_eq!(reached(&server), 1, "{}", server.log());
}
