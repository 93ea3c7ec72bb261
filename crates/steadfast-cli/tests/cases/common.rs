//! What the cases share: a daemon in front of one scripted server, with delays scaled down.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::{Agent, Answer, Daemon, RequestLog, Server};
use tokio::io::AsyncWriteExt as _;

/// Long enough for anything that should happen; a test that reaches it has failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A daemon with one agent `dev` and one server `fake`; the testkit scales the delays down.
pub(crate) fn daemon(server: &Server) -> Builder {
    daemon_at(&server.url())
}

/// The same, for a server behind some other address.
pub(crate) fn daemon_at(url: &str) -> Builder {
    Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .server("fake", url)
        .agent("dev")
}

/// A legacy agent that has initialized, on a daemon whose connection is up.
pub(crate) async fn agent(daemon: &Daemon) -> Agent {
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = daemon.legacy_agent("dev", "fake").await.unwrap();
    agent.initialize().await.unwrap();
    agent
}

/// An agent of each era, ready to call, on a daemon whose connection is up.
pub(crate) async fn agents_of_both_eras(daemon: &Daemon) -> [(&'static str, Agent); 2] {
    let legacy = agent(daemon).await;
    let modern = daemon.modern_agent("dev", "fake").await.unwrap();
    [("legacy", legacy), ("modern", modern)]
}

/// Calls a tool and asks for log messages, which a modern agent gets of no request that does not (2026-07-28
/// server/utilities/logging, "Per-request log level").
pub(crate) async fn call_with_logs(agent: &Agent, tool: &str, arguments: Value) -> Answer {
    let meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    let answer = agent.call_with_meta(tool, arguments, meta).await;
    answer.unwrap()
}

/// Watches for a while that something does not happen: what must not be repeated is seen by nothing else.
pub(crate) async fn never(
    server: &Server,
    within: Duration,
    condition: impl Fn(&RequestLog) -> bool,
) {
    let seen = server.log().wait_for(condition, within).await;
    assert!(seen.is_err(), "this must not happen:\n{}", server.log());
}

/// Runs a command with this on its standard input.
pub(crate) async fn run_with_input(daemon: &Daemon, arguments: &[&str], input: &str) -> Output {
    let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_steadfast"))
        .args(arguments)
        .arg("--data")
        .arg(daemon.data())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that wants no input may have ended.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    tokio::time::timeout(testkit::PATIENCE, child.wait_with_output())
        .await
        .unwrap()
        .unwrap()
}
