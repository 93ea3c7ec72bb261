//! The admin API, and who is let in at all.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::House;
use serde_json::{Value, json};
use steadfast::config;
use steadfast_store::Source;
use testkit::{Behaviour, client};

const ADMIN: (&str, &str) = ("authorization", "Bearer admin");

async fn api(house: &House, method: &str, path: &str, body: Value) -> (u16, Value) {
    let path = format!("/api/v1{path}");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let sent = client::send(house.address(), method, &path, &[ADMIN], body.as_bytes()).await;
    let mut answer = sent.unwrap().response().await.unwrap();
    let body = answer.json().await.unwrap();
    (answer.status, body)
}

async fn get(house: &House, path: &str) -> (u16, Value) {
    api(house, "GET", path, Value::Null).await
}

#[tokio::test]
async fn the_api_is_for_the_admin() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    for headers in [&[][..], &[("authorization", "Bearer wrong")]] {
        let sent = client::send(house.address(), "GET", "/api/v1/connections", headers, b"").await;
        let mut answer = sent.unwrap().response().await.unwrap();
        assert_eq!(answer.status, 401);
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(answer.json().await.unwrap()["code"], "SF0006");
    }
    // The console asks who it is first.
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/", 303)] {
        let sent = client::send(house.address(), "GET", path, &[], b"").await;
        assert_eq!(
            sent.unwrap().response().await.unwrap().status,
            status,
            "{path}"
        );
    }
    assert_eq!(get(&house, "/nothing").await.0, 404);
    assert_eq!(
        api(&house, "POST", "/connections", Value::Null).await.0,
        405
    );
}

#[tokio::test]
async fn a_daemon_whose_store_refuses_lives_and_is_not_ready() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    house.records.close().await;
    let ask = async |path| {
        let sent = client::send(house.address(), "GET", path, &[], b"").await;
        sent.unwrap().response().await.unwrap()
    };
    assert_eq!(ask("/healthz").await.status, 200);
    let mut refused = ask("/readyz").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json().await.unwrap()["code"], "SF0051");
    let mut numbers = ask("/metrics").await;
    let text = String::from_utf8(numbers.bytes().await.unwrap().to_vec()).unwrap();
    assert!(text.contains("\nsteadfast_store_up 0\n"), "{text}");
}

#[tokio::test]
async fn connections_are_shown_and_reloaded() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let (status, one) = get(&house, "/connections/support/booking").await;
    assert_eq!((status, &one["state"]), (200, &json!("connected")));
    let (_, all) = get(&house, "/connections").await;
    assert_eq!(all["connections"].as_array().map(Vec::len), Some(2));
    let (_, some) = get(
        &house,
        "/connections?agent=support&server=booking&state=connected",
    )
    .await;
    assert_eq!(some["connections"].as_array().map(Vec::len), Some(1));
    let (_, none) = get(&house, "/connections?state=misconfigured").await;
    assert_eq!(none, json!({"connections": []}));
    assert_eq!(get(&house, "/connections?nothing=1").await.0, 400);
    let (status, unknown) = get(&house, "/connections/support/nothing").await;
    assert_eq!((status, &unknown["code"]), (404, &json!("SF0007")));

    let opened = house.server.sessions_created();
    let (status, reloaded) = api(
        &house,
        "POST",
        "/connections/support/booking/reload",
        Value::Null,
    )
    .await;
    assert_eq!((status, &reloaded["state"]), (200, &json!("connected")));
    let (status, reloaded) = api(&house, "POST", "/agents/support/reload", Value::Null).await;
    assert_eq!(
        (status, reloaded["connections"].as_array().map(Vec::len)),
        (200, Some(1))
    );
    assert!(house.server.sessions_created() >= opened);
    let (_, history) = get(&house, "/connections/support/booking/history").await;
    let transitions = history["transitions"].as_array().unwrap();
    assert!(
        transitions.iter().any(|it| it["to"] == "connected"),
        "{history}"
    );
}

#[tokio::test]
async fn agents_and_servers_are_put_and_removed() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let server = json!({"url": house.server.url(), "tools": {"echo": {"effect": "read"}}});
    let (status, put) = api(&house, "PUT", "/servers/second", server.clone()).await;
    assert_eq!(
        (status, &put["name"], &put["source"]),
        (201, &json!("second"), &json!("admin"))
    );
    assert_eq!(api(&house, "PUT", "/servers/second", server).await.0, 200);
    let (status, _) = api(&house, "PUT", "/agents/new", json!({"servers": "*"})).await;
    assert_eq!(status, 201);
    let (status, made) = api(&house, "POST", "/agents/new/key", Value::Null).await;
    assert_eq!((status, &made["agent"]), (200, &json!("new")));
    let (_, shown) = get(&house, "/agents/new").await;
    assert_eq!(
        (&shown["has_key"], &shown["servers"]),
        (&json!(true), &json!("*"))
    );
    let key = made["key"].as_str().unwrap();
    assert!(
        !get(&house, "/agents").await.1.to_string().contains(key),
        "a key is shown once"
    );

    let agent = testkit::Agent::legacy(house.address(), "/mcp/second", Some(key));
    let link = house.keeper.link(&"new".into(), &"second".into()).unwrap();
    assert!(link.connected(common::LIMIT).await);
    assert_eq!(agent.initialize().await.unwrap().status, 200);
    assert_eq!(
        api(&house, "DELETE", "/agents/new", Value::Null).await.0,
        204
    );
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 401);
    assert_eq!(
        api(&house, "DELETE", "/agents/new", Value::Null).await.0,
        404
    );
    assert_eq!(
        api(&house, "POST", "/agents/new/key", Value::Null).await.0,
        404
    );
    assert_eq!(
        api(&house, "DELETE", "/servers/second", Value::Null)
            .await
            .0,
        204
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_code() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let url = house.server.url();
    for (path, body, status, code) in [
        ("/servers/a__b", json!({"url": url}), 400, "SF0002"),
        ("/servers/x", json!({"url": "nonsense"}), 400, "SF0002"),
        (
            "/servers/x",
            json!({"url": url, "enabeld": true}),
            400,
            "SF0001",
        ),
        ("/agents/x", json!({"servers": 7}), 400, "SF0002"),
        ("/servers/x", json!({"url": "ftp://a.test"}), 400, "SF0002"),
        (
            "/servers/x",
            json!({"url": url, "headers": {"X-Key": "${vault:}"}}),
            400,
            "SF0009",
        ),
        (
            "/servers/x",
            json!({"url": url, "tools": {"book": {"duplicate_key": {"argument": "none", "retention": "1h"}}}}),
            400,
            "SF0002",
        ),
    ] {
        let (seen, problem) = api(&house, "PUT", path, body).await;
        assert_eq!(
            (seen, problem["code"].as_str()),
            (status, Some(code)),
            "{path}: {problem}"
        );
    }
    let directory = house.gateway.directory();
    let agent = config::Agent::with_servers(["booking"]);
    directory
        .put_agent("filed", agent, Source::File)
        .await
        .unwrap();
    for method in ["PUT", "DELETE"] {
        let (status, problem) = api(&house, method, "/agents/filed", json!({"servers": []})).await;
        assert_eq!((status, problem["code"].as_str()), (409, Some("SF0008")));
    }
    assert_eq!(get(&house, "/agents/filed").await.1["source"], "file");
    assert_eq!(
        get(&house, "/config").await.1,
        json!({"source": null, "applied_at": null, "error": null})
    );
}

#[tokio::test]
async fn changes_are_told_as_they_happen() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let sent = client::send(house.address(), "GET", "/api/v1/changes", &[ADMIN], b"").await;
    let mut events = sent.unwrap().response().await.unwrap().events();
    for _ in 0..2 {
        let now = events.message().await.unwrap().unwrap();
        assert_eq!(now["server"], "booking");
    }
    house.server.stop().await;
    house.link().reload(common::LIMIT).await;
    loop {
        let change = events.message().await.unwrap().unwrap();
        if change["agent"] == "support" && change["state"] == "retrying" {
            break;
        }
    }
}

#[tokio::test]
async fn strangers_are_refused_before_anything_is_read() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let authorization = format!("Bearer {}", house.key);
    let own = house.address().to_string();
    let origin = format!("http://{own}");
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_row"}}"#;
    let before = house.server.log().count("tools/call");
    for (host, origin, content_type, status) in [
        ("evil.test", None, "application/json", 403),
        (
            own.as_str(),
            Some("https://evil.test"),
            "application/json",
            403,
        ),
        (own.as_str(), Some("null"), "application/json", 403),
        (own.as_str(), None, "text/plain", 415),
        (own.as_str(), Some(origin.as_str()), "application/json", 400),
    ] {
        let mut headers = vec![
            ("host", host),
            ("authorization", &authorization),
            ("content-type", content_type),
        ];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let sent = client::send(house.address(), "POST", "/mcp/booking", &headers, call).await;
        let mut answer = sent.unwrap().response().await.unwrap();
        assert_eq!(answer.status, status, "{host} {origin:?} {content_type}");
        if status == 403 {
            let message = answer.json().await.unwrap();
            let text = message["error"]["message"].as_str().unwrap();
            assert!(text.contains("gateway.allowed_"), "{text}");
        }
    }
    assert_eq!(house.server.log().count("tools/call"), before);
    let sent = client::send(
        house.address(),
        "GET",
        "/api/v1/agents",
        &[ADMIN, ("host", "evil.test")],
        b"",
    )
    .await;
    assert_eq!(sent.unwrap().response().await.unwrap().status, 403);
    let sent = client::send(
        house.address(),
        "POST",
        "/mcp/booking",
        &[("content-type", "application/json")],
        call,
    )
    .await;
    let answer = sent.unwrap().response().await.unwrap();
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, Some("Bearer"))
    );
    let nothing = testkit::Agent::legacy(house.address(), "/mcp/nothing", Some(&house.key));
    let answer = nothing.initialize().await.unwrap();
    assert_eq!(
        (answer.status, &answer.message["error"]["data"]["code"]),
        (404, &json!("SF0064"))
    );
}
