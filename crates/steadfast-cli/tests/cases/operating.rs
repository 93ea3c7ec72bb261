//! Operating many connections: start, stop, crash, configuration, and servers that do none of what they should.

mod configuration;
mod flapping;
mod fleet;
mod health;
mod history;
mod restarts;
mod sessions;
mod soak;
mod stops;
mod wake;

use std::time::Duration;

use serde_json::Value;
use testkit::{Agent, Daemon, PATIENCE};

/// Waits until something holds that nothing announces; looks again on a short beat.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let seen = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, seen).await;
    assert!(in_time.is_ok(), "not seen: {what}");
}

/// A reload by the admin API: the connection object that it answers with.
async fn reload(daemon: &Daemon, agent: &str, server: &str) -> Value {
    let path = format!("/api/v1/connections/{agent}/{server}/reload");
    let (status, connection) = daemon.post(&path, &Value::Null).await.unwrap();
    assert_eq!(status, 200, "{connection}");
    connection
}

/// The transitions of the connection, oldest first.
async fn history(daemon: &Daemon) -> Vec<Value> {
    let mut history = daemon.history("dev", "fake").await.unwrap();
    history.reverse();
    history
}

/// The states that a connection has entered, in order.
fn entered(history: &[Value]) -> Vec<&str> {
    history
        .iter()
        .filter_map(|transition| transition["to"].as_str())
        .collect()
}

/// A modern and an initialized legacy agent, whatever the connection's state.
async fn agents(daemon: &Daemon, server: &str) -> [(&'static str, Agent); 2] {
    let legacy = daemon.legacy_agent("dev", server).await.unwrap();
    legacy.initialize().await.unwrap();
    let modern = daemon.modern_agent("dev", server).await.unwrap();
    [("legacy", legacy), ("modern", modern)]
}
