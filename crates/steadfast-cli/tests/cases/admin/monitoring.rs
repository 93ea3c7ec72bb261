//! `/healthz`, `/readyz` and `/metrics`.

use serde_json::json;
use testkit::{Behaviour, Daemon, Server, client};

use crate::common::{agent, daemon};

/// What stands at a path for everybody: its status, content type and text.
async fn open(daemon: &Daemon, path: &str) -> (u16, String, String) {
    let sent = client::send(daemon.address(), "GET", path, &[], b"").await;
    let mut response = sent.unwrap().response().await.unwrap();
    let content_type = response
        .header("content-type")
        .unwrap_or_default()
        .to_owned();
    let text = String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap();
    (response.status, content_type, text)
}

/// The value of a line of `/metrics`.
fn value(metrics: &str, line: &str) -> Option<f64> {
    let found = metrics
        .lines()
        .find_map(|it| it.strip_prefix(line)?.strip_prefix(' '));
    found.and_then(|value| value.parse().ok())
}

#[tokio::test]
async fn metrics_count_calls_connections_and_faults() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    agent.call("echo", json!({"a": 1})).await.unwrap();
    let (status, content_type, before) = open(&daemon, "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        content_type.starts_with("text/plain; version=0.0.4"),
        "{content_type}"
    );
    let connected = r#"steadfast_connections{server="fake",state="connected"}"#;
    assert_eq!(value(&before, connected), Some(1.0), "{before}");
    let answered = r#"steadfast_calls_total{server="fake",outcome="answered"}"#;
    let answered_before = value(&before, answered).unwrap();
    assert!(answered_before >= 1.0, "{before}");
    for name in ["steadfast_store_up", "steadfast_notices_open"] {
        assert!(value(&before, name).is_some(), "{name}: {before}");
    }
    assert!(
        before.contains(r#"steadfast_call_duration_seconds_bucket{server="fake",le="0.001"}"#),
        "{before}"
    );

    server.stop().await;
    daemon.wait_state("dev", "fake", "retrying").await.unwrap();
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(answer.is_error(), "{answer:?}");
    let (_, _, after) = open(&daemon, "/metrics").await;
    // It is between two tries, or in one of them.
    let of_state = |state| format!(r#"steadfast_connections{{server="fake",state="{state}"}}"#);
    let down = ["retrying", "connecting"].map(|state| value(&after, &of_state(state)));
    assert!(down.contains(&Some(1.0)), "{after}");
    assert_eq!(value(&after, connected), None, "{after}");
    assert_eq!(value(&after, answered), Some(answered_before), "{after}");
    assert!(
        after.contains(r#"steadfast_connection_faults_total{server="fake",kind=""#),
        "{after}"
    );
    let unavailable = r#"steadfast_calls_total{server="fake",outcome="unavailable"}"#;
    assert!(value(&after, unavailable) >= Some(1.0), "{after}");
    let requests = r#"steadfast_http_requests_total{endpoint="mcp",status="200"}"#;
    assert!(value(&after, requests) >= Some(3.0), "{after}");
    // Whoever may read the numbers may not know who the agents are, nor what they ask for.
    assert!(
        !after.contains("dev") && !after.contains("add_row"),
        "{after}"
    );
}

/// Every number that is shown is explained.
#[tokio::test]
async fn metrics_are_documented() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    agent.call("echo", json!({})).await.unwrap();
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, _, metrics) = open(&daemon, "/metrics").await;
    let mut names = 0;
    for line in metrics.lines().filter_map(|it| it.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not in docs/metrics.md"
        );
        names += 1;
    }
    assert!(names >= 8, "{metrics}");
}

#[tokio::test]
async fn a_daemon_that_serves_is_healthy_and_ready() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (path, text) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let (status, _, said) = open(&daemon, path).await;
        assert_eq!((status, said.as_str()), (200, text), "{path}");
    }
}
