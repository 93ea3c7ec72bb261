//! The daemon helper, tried on a stand-in that is a shell script.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

use testkit::reply::{json_body, status};
use testkit::script::{any, get};
use testkit::{Behaviour, Daemon, Server};

/// Prints the address of a fake server as its own, notes how it was called, and waits to be ended.
fn stand_in(directory: &std::path::Path, server: &Server) -> PathBuf {
    let path = directory.join("stand-in");
    let script = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = agent ]; then echo '{{\"agent\":\"'$3'\",\"key\":\"key of '$3'\"}}'; exit 0; fi\n\
         mkdir -p \"$5\"; echo secret > \"$5/admin.token\"\n\
         echo \"called with $*\" >&2\n\
         echo 'listening on http://{}'\n\
         exec sleep 600\n",
        server.address()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn starts_asks_kills_and_restarts() {
    let server = Server::start(Behaviour::modern()).await;
    let directory = tempfile::tempdir().unwrap();
    let binary = stand_in(directory.path(), &server);
    let builder = Daemon::builder(&binary)
        .server("booking", "http://127.0.0.1:1/mcp")
        .agent("support");
    let builder = builder
        .read_tool("booking", "search")
        .set("retry.first", "\"7ms\"");
    let mut daemon = builder.start().await.unwrap();
    assert_eq!(daemon.address(), server.address());
    assert_eq!(daemon.admin_token().unwrap(), "secret");
    assert_eq!(daemon.agent_key("support").await.unwrap(), "key of support");
    let config = std::fs::read_to_string(daemon.config()).unwrap();
    for line in [
        "[servers.booking]",
        "[servers.booking.tools.search]",
        "effect = \"read\"",
        "first = \"7ms\"",
    ] {
        assert!(
            config.lines().any(|found| found == line),
            "{line} in {config}"
        );
    }

    daemon.reconfigure("retry.first", "\"8ms\"").unwrap();
    let config = std::fs::read_to_string(daemon.config()).unwrap();
    assert!(config.contains("first = \"8ms\"") && !config.contains("7ms"));

    let connection = json_body(200, &serde_json::json!({ "state": "connecting" }));
    let later = json_body(200, &serde_json::json!({ "state": "connected" }));
    server
        .script()
        .on(get().path("/api/v1/changes"))
        .reply(status(404));
    let state = any()
        .path("/api/v1/connections/support/booking")
        .header("authorization", "Bearer secret");
    server.script().on(state.clone().times(2)).reply(connection);
    server.script().on(state).reply(later);
    assert_eq!(
        daemon
            .wait_state("support", "booking", "connected")
            .await
            .unwrap()["state"],
        "connected"
    );
    let limit = Duration::from_millis(50);
    let never = daemon.wait_connection("support", "booking", limit, |found| {
        found["state"] == "disabled"
    });
    assert!(never.await.unwrap_err().to_string().contains("connected"));

    let first = daemon.pid();
    daemon.kill9().await.unwrap();
    daemon.restart().await.unwrap();
    assert_ne!(daemon.pid(), first);
    let listen = format!("--listen {}", server.address());
    assert!(daemon.stderr().contains(&listen), "{}", daemon.stderr());
    let (how, took) = daemon.terminate().await.unwrap();
    assert_eq!(how.signal(), Some(15));
    assert!(took < Duration::from_secs(10));
}

#[tokio::test]
async fn a_daemon_that_does_not_listen_shows_why() {
    let failed = Daemon::builder("/bin/sh").start().await.unwrap_err();
    assert!(failed.to_string().contains("serve"), "{failed}");
}
