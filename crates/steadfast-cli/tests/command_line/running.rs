//! Commands that ask a running daemon.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{Behaviour, Daemon, Reply, Server};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{BINARY, Ended, steadfast};

async fn world() -> (Server, Daemon) {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = Daemon::builder(BINARY)
        .agent("dev")
        .server("fake", &server.url())
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    (server, daemon)
}

async fn run(daemon: &Daemon, arguments: &[&str]) -> Ended {
    daemon.command(arguments).await.unwrap().into()
}

#[tokio::test]
async fn status_is_a_table_and_json() {
    let (_server, daemon) = world().await;
    let status = run(&daemon, &["status"]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    let lines: Vec<&str> = status.out.lines().collect();
    assert!(
        lines[0].starts_with("AGENT  SERVER  STATE      FOR"),
        "{status:?}"
    );
    assert!(
        lines[1].starts_with("dev    fake    connected"),
        "{status:?}"
    );
    let json = run(&daemon, &["status", "dev", "--json"]).await.json();
    assert_eq!(json["connections"][0]["state"], "connected");
    assert_eq!(json["connections"][0]["agent"], "dev");
    let unknown = run(&daemon, &["status", "nobody"]).await;
    assert!(
        unknown
            .err
            .starts_with("error[SF0007]: there is no agent `nobody`"),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn what_only_a_person_can_mend_is_exit_code_3() {
    let (_server, daemon) = world().await;
    let added = run(
        &daemon,
        &[
            "server",
            "add",
            "vaulted",
            "http://127.0.0.1:1/",
            "--header",
            "K: ${vault:K}",
        ],
    )
    .await;
    assert_eq!(added.code, Some(0), "{added:?}");
    daemon
        .wait_state("dev", "vaulted", "misconfigured")
        .await
        .unwrap();
    let status = run(&daemon, &["status"]).await;
    assert_eq!(status.code, Some(3), "{status:?}");
    assert!(status.out.contains("\n  hint: "), "{status:?}");
}

#[tokio::test]
async fn a_watched_status_prints_each_change() {
    let (server, daemon) = world().await;
    let mut command = tokio::process::Command::from(steadfast());
    command
        .args(["status", "--watch", "--json", "--data"])
        .arg(daemon.data());
    let mut watching = command
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        let line = lines.next_line().await.unwrap().expect("a change");
        serde_json::from_str(&line).unwrap()
    };
    assert_eq!(next().await["state"], "connected");
    server.stop().await;
    server.forget_sessions();
    run(&daemon, &["reload", "dev", "fake"]).await;
    while next().await["state"] != "retrying" {}
    server.restart().await;
    while next().await["state"] != "connected" {}
}

#[tokio::test]
async fn reload_connects_now() {
    let (server, daemon) = world().await;
    let before = server.sessions_created();
    let reloaded = run(&daemon, &["reload", "dev", "--json"]).await;
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    assert_eq!(reloaded.json()["connections"][0]["state"], "connected");
    assert!(server.sessions_created() > before);

    server.stop().await;
    let reloaded = run(&daemon, &["reload", "dev", "fake"]).await;
    assert_eq!(reloaded.code, Some(1), "{reloaded:?}");
    assert!(reloaded.out.contains("retrying"), "{reloaded:?}");
    assert_eq!(run(&daemon, &["reload", "dev", "none"]).await.code, Some(1));
}

#[tokio::test]
async fn a_tool_is_called_with_the_agents_key() {
    let (server, daemon) = world().await;
    let key = daemon.agent_key("dev").await.unwrap();
    let called = run(&daemon, &["call", "dev", "fake", "add_row", "--key", &key]).await;
    assert_eq!(
        (called.code, called.out.as_str()),
        (Some(0), "done\n"),
        "{called:?}"
    );
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 1);
    let called = run(
        &daemon,
        &[
            "call",
            "dev",
            "fake",
            "echo",
            "{\"a\":1}",
            "--key",
            &key,
            "--json",
        ],
    )
    .await;
    assert!(
        called.json()["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("\"a\":1"),
        "{called:?}"
    );

    let refused = run(
        &daemon,
        &["call", "dev", "fake", "no_such_tool", "--key", &key],
    )
    .await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let unknown = run(
        &daemon,
        &["call", "dev", "fake", "add_row", "--key", "sfk_nonsense"],
    )
    .await;
    assert!(unknown.err.starts_with("error[SF0063]: "), "{unknown:?}");
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 1);
}

#[tokio::test]
async fn a_tool_is_called_in_the_agents_name() {
    let (server, daemon) = world().await;
    let called = run(
        &daemon,
        &["call", "dev", "fake", "add_row", "{\"a\": 1.50}"],
    )
    .await;
    assert_eq!(
        (called.code, called.out.as_str()),
        (Some(0), "done\n"),
        "{called:?}"
    );
    let sent = server.log().calls("add_row").remove(0);
    let sent = std::str::from_utf8(&sent.body).unwrap();
    assert!(sent.contains("{\"a\": 1.50}"), "as it was written: {sent}");
    let unknown = run(&daemon, &["call", "dev", "none", "add_row"]).await;
    assert!(unknown.err.starts_with("error[SF0007]: "), "{unknown:?}");

    server
        .script()
        .on(testkit::script::call("add_row"))
        .reply(Reply::new().row().rst());
    let lost = run(&daemon, &["call", "dev", "fake", "add_row"]).await;
    assert_eq!(
        lost.code,
        Some(3),
        "whether it happened is for a person to find out: {lost:?}"
    );
    assert_eq!(server.log().count("tools/call"), 2, "it is not sent again");
}

#[tokio::test]
async fn what_the_file_defines_is_read_only() {
    let (_server, daemon) = world().await;
    for arguments in [
        &["agent", "remove", "dev"][..],
        &["server", "remove", "fake"],
        &["server", "disable", "fake"],
    ] {
        let refused = run(&daemon, arguments).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.starts_with("error[SF0008]: "), "{refused:?}");
    }
    // A key is no configuration; the first `agent add` makes it.
    let key = run(&daemon, &["agent", "add", "dev", "--json"])
        .await
        .json();
    assert!(key["key"].as_str().unwrap().starts_with("sfk_"));
    assert_eq!(run(&daemon, &["agent", "add", "dev"]).await.code, Some(1));
}

#[tokio::test]
async fn the_daemon_is_reached_by_its_address() {
    let (_server, daemon) = world().await;
    let url = format!("http://{}", daemon.address());
    let token = daemon.admin_token().unwrap();
    let status = |token: &str| {
        let mut command = steadfast();
        Ended::from(
            command
                .args(["status", "--json", "--url", &url])
                .env("STEADFAST_TOKEN", token)
                .output()
                .unwrap(),
        )
    };
    assert_eq!(
        status(&token).json()["connections"][0]["agent"],
        json!("dev")
    );
    let refused = status("nonsense");
    assert!(
        refused.err.starts_with("error[SF0006]: the daemon at "),
        "{refused:?}"
    );
    assert!(!refused.err.contains("nonsense"));
}
