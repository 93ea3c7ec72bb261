//! The configuration file: a change is noticed, and an error changes nothing.

use serde_json::{Value, json};
use testkit::{Behaviour, Daemon, PATIENCE, RequestLog, Server};

use super::{entered, history, until};
use crate::common::{LIMIT, agent, daemon};

async fn config(daemon: &Daemon) -> Value {
    let (status, config) = daemon.get("/api/v1/config").await.unwrap();
    assert_eq!(status, 200, "{config}");
    config
}

async fn is_gone(daemon: &Daemon, server: &str) {
    let gone = |connection: &Value| connection["status"] == 404;
    daemon
        .wait_connection("dev", server, PATIENCE, gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let further = Server::start(Behaviour::modern()).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let before = config(&daemon).await;
    assert_eq!(before["source"], daemon.config().display().to_string());
    assert!(
        before["applied_at"].is_string() && before["error"].is_null(),
        "{before}"
    );
    let untouched = std::fs::read_to_string(daemon.config()).unwrap();

    // A further server is opened without being asked for, and the first one is left alone.
    daemon
        .reconfigure("servers.further.url", &json!(further.url()).to_string())
        .unwrap();
    daemon
        .wait_state("dev", "further", "connected")
        .await
        .unwrap();
    let answer = daemon
        .modern_agent("dev", "further")
        .await
        .unwrap()
        .call("add_row", json!({}))
        .await
        .unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    assert_ne!(config(&daemon).await["applied_at"], before["applied_at"]);
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());

    // A header that goes on the wire reopens its connection, and only that one.
    let discovered = further.log().count("server/discover");
    daemon
        .reconfigure("servers.fake.headers.X-Tenant", "\"blue\"")
        .unwrap();
    let with_header = |log: &RequestLog| {
        log.posts("initialize")
            .iter()
            .any(|request| request.header("x-tenant") == Some("blue"))
    };
    server.log().wait_for(with_header, LIMIT).await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    assert_eq!(
        server.log().calls("add_row")[0].header("x-tenant"),
        Some("blue")
    );
    until("the session before is deleted", async || {
        server.live_sessions() == 1
    })
    .await;
    assert_eq!(
        further.log().count("server/discover"),
        discovered,
        "{}",
        further.log()
    );

    // Switched off: the session ends, and calls say so.
    daemon.reconfigure("servers.fake.enabled", "false").unwrap();
    daemon.wait_state("dev", "fake", "disabled").await.unwrap();
    until("the session is deleted", async || {
        server.live_sessions() == 0
    })
    .await;
    let answer = agent.call("add_row", json!({})).await.unwrap();
    let connection = &answer.result()["_meta"]["dev.steadfast/connection"];
    assert_eq!(connection["state"], "disabled", "{answer:?}");
    assert!(connection["next"].is_null(), "{answer:?}");

    // Taken out of the file.
    std::fs::write(daemon.config(), untouched).unwrap();
    is_gone(&daemon, "further").await;
    let state = daemon.wait_state("dev", "fake", "connected").await.unwrap();
    assert_eq!(state["server"], "fake");
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 1);
}

/// A call under way does not suffer from a change that reopens its connection.
#[tokio::test]
async fn a_changed_file_takes_no_answer_away() {
    for behaviour in [
        Behaviour::legacy("2025-11-25"),
        Behaviour::legacy("2025-11-25").streaming(),
        Behaviour::modern(),
    ] {
        let server = Server::start(behaviour).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        let agent = agent(&daemon).await;
        let slow = agent
            .start("tools/call", json!({ "name": "slow", "arguments": {} }))
            .await
            .unwrap();
        server.gates().arrived("slow", 1).await;
        daemon
            .reconfigure("servers.fake.headers.X-Tenant", "\"blue\"")
            .unwrap();
        let reopened = |log: &RequestLog| {
            !log.matching(|request| request.header("x-tenant") == Some("blue"))
                .is_empty()
        };
        server.log().wait_for(reopened, LIMIT).await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        server.open("slow");
        let answer = slow.finish().await.unwrap();
        assert_eq!(answer.text(), "slow is done", "{answer:?}");
        assert_eq!(server.ledger().rows_of("slow").unwrap().len(), 1);
        until("one session is left", async || server.live_sessions() <= 1).await;
    }
}

#[tokio::test]
async fn a_file_with_an_error_changes_nothing_and_is_shown() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let good = std::fs::read_to_string(daemon.config()).unwrap();
    let applied = config(&daemon).await;
    let other = "http://127.0.0.1:1/mcp";
    for (what, broken, said) in [
        (
            "syntax",
            good.replace("[servers.fake]", "[servers.fake"),
            "steadfast.toml:",
        ),
        (
            "unknown key",
            good.replace("[servers.fake]", "[servers.fake]\nulr = \"x\""),
            "did you mean `url`",
        ),
        (
            "value",
            good.replace(&server.url(), other)
                .replace("first = \"50ms\"", "first = \"soon\""),
            "retry.first",
        ),
        (
            "duration",
            good.replace("first = \"50ms\"", "first = \"9s\""),
            "retry.max",
        ),
        (
            "no server",
            good.replace("servers = \"*\"", "servers = [\"faek\"]"),
            "did you mean `fake`",
        ),
        (
            "scheme",
            good.replace("http://", "ftp://"),
            "use http or https",
        ),
    ] {
        assert_ne!(broken, good, "{what}");
        std::fs::write(daemon.config(), &broken).unwrap();
        until(what, async || {
            config(&daemon).await["error"]
                .as_str()
                .is_some_and(|error| error.contains(said))
        })
        .await;
        assert_eq!(
            config(&daemon).await["applied_at"],
            applied["applied_at"],
            "{what}"
        );
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert!(!answer.is_error(), "{what}: {answer:?}");
        assert_eq!(
            daemon.connection("dev", "fake").await.unwrap()["state"],
            "connected",
            "{what}"
        );

        std::fs::write(daemon.config(), &good).unwrap();
        until("the error is gone", async || {
            config(&daemon).await["error"].is_null()
        })
        .await;
    }
    std::fs::remove_file(daemon.config()).unwrap();
    until("a missing file", async || {
        config(&daemon).await["error"].is_string()
    })
    .await;
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
    assert_eq!(
        entered(&history(&daemon).await),
        ["connecting", "connected"]
    );
}

/// What is wrong at the start is said at once, and nothing is left behind.
#[tokio::test]
async fn a_daemon_does_not_start_with_a_file_that_has_an_error() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let failed = daemon(&server)
        .set("retry.frist", "\"1s\"")
        .start()
        .await
        .unwrap_err()
        .to_string();
    assert!(failed.contains("SF"), "{failed}");
    assert!(failed.contains("did you mean `first`"), "{failed}");
    assert!(server.log().requests().is_empty());
}
