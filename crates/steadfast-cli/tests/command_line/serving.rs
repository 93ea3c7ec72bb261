//! `serve`: starting, being told of a changed file, stopping.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Agent, Behaviour, Daemon, Server};

use crate::{BINARY, Ended, steadfast};

async fn daemon() -> Daemon {
    Daemon::builder(BINARY).start().await.unwrap()
}

/// Waits until the status of the configuration file is as wished.
async fn config(daemon: &Daemon, wished: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let (_, status) = daemon.get("/api/v1/config").await.unwrap();
            if wished(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking)
        .await
        .expect("the file is noticed")
}

#[tokio::test]
async fn the_first_start_makes_the_token_and_prints_it_once() {
    let mut daemon = daemon().await;
    let token = daemon.admin_token().unwrap();
    assert_eq!(daemon.stdout().matches(&token).count(), 1);
    assert!(!daemon.stderr().contains(&token));
    for name in ["admin.token", "daemon.json", "steadfast.db"] {
        let mode = std::fs::metadata(daemon.data().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    daemon.restart().await.unwrap();
    assert_eq!(daemon.admin_token().unwrap(), token);
    assert_eq!(daemon.stdout().matches(&token).count(), 1, "not again");
}

#[tokio::test]
async fn the_environment_sets_the_token_of_the_first_start() {
    let daemon = Daemon::builder(BINARY)
        .env("STEADFAST_TOKEN", "token-of-the-test")
        .start()
        .await
        .unwrap();
    assert_eq!(daemon.admin_token().unwrap(), "token-of-the-test");
    assert!(!daemon.stdout().contains("token-of-the-test"));
    assert_eq!(daemon.get("/api/v1/agents").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_busy_port_is_an_error_that_names_it() {
    let daemon = daemon().await;
    let address = daemon.address().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut command = steadfast();
    command
        .args(["serve", "--listen", &address, "--data"])
        .arg(folder.path());
    let ended = Ended::from(command.output().unwrap());
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.starts_with(&format!(
            "error[SF0004]: {address} is in use by another program\nhint: "
        )),
        "{ended:?}"
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[tokio::test]
async fn it_stops_when_it_is_asked_and_tells_no_lies_afterwards() {
    let mut daemon = daemon().await;
    let (status, took) = daemon.terminate().await.unwrap();
    assert!(
        status.success() && took < Duration::from_secs(3),
        "{status} after {took:?}"
    );
    let asked = daemon.command(&["status"]).await.unwrap();
    assert_eq!(asked.status.code(), Some(1));
    assert!(
        Ended::from(asked)
            .err
            .starts_with("error[SF0005]: no daemon runs on ")
    );
}

#[tokio::test]
async fn a_killed_daemon_is_not_asked() {
    let mut daemon = daemon().await;
    daemon.kill9().await.unwrap();
    // Its entry is still there, and its key is made in the store.
    assert!(daemon.data().join("daemon.json").exists());
    let key = daemon.add_agent("later").await.unwrap();
    daemon.restart().await.unwrap();
    let agent = Agent::modern(daemon.address(), "/mcp/none", Some(&key));
    let answer = agent.request("tools/list", json!({})).await.unwrap();
    assert_ne!(answer.status, 401, "the key is known: {answer:?}");
}

#[tokio::test]
async fn a_changed_file_is_noticed_and_an_error_changes_nothing() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let builder = Daemon::builder(BINARY)
        .agent("dev")
        .server("one", &server.url());
    let mut daemon = builder.start().await.unwrap();
    let first = config(&daemon, |status| status["error"].is_null()).await;
    assert_eq!(first["source"], daemon.config().to_str().unwrap());
    daemon.wait_state("dev", "one", "connected").await.unwrap();

    daemon
        .reconfigure("servers.two.url", &json!(server.url()).to_string())
        .unwrap();
    config(&daemon, |status| {
        status["applied_at"] != first["applied_at"]
    })
    .await;
    daemon.wait_state("dev", "two", "connected").await.unwrap();

    let good = std::fs::read_to_string(daemon.config()).unwrap();
    std::fs::write(
        daemon.config(),
        "[servers.two]\nurl = \"https://a.test/\"\nenabeld = false\n",
    )
    .unwrap();
    let refused = config(&daemon, |status| !status["error"].is_null()).await;
    let error = refused["error"].as_str().unwrap();
    assert!(
        error.ends_with(":3:1: unknown key `servers.two.enabeld`; did you mean `enabled`?"),
        "{error}"
    );
    assert_eq!(
        daemon.connection("dev", "one").await.unwrap()["state"],
        "connected"
    );

    // Back to what is applied already: no error any more, and nothing to apply.
    std::fs::write(daemon.config(), &good).unwrap();
    config(&daemon, |status| status["error"].is_null()).await;

    let without_one = good.replace(
        &format!("[servers.one]\nurl = {}\n", json!(server.url())),
        "",
    );
    assert_ne!(without_one, good);
    std::fs::write(daemon.config(), without_one).unwrap();
    let applied = |status: &Value| status["applied_at"] != refused["applied_at"];
    config(&daemon, applied).await;
    assert_eq!(
        daemon.get("/api/v1/connections/dev/one").await.unwrap().0,
        404
    );
}

#[tokio::test]
async fn what_left_the_file_while_it_was_down_is_gone_and_keys_stay() {
    let mut daemon = Daemon::builder(BINARY)
        .agent("dev")
        .agent("old")
        .start()
        .await
        .unwrap();
    let key = daemon.agent_key("dev").await.unwrap();
    daemon.add_agent("by-command").await.unwrap();
    daemon.terminate().await.unwrap();
    let text = std::fs::read_to_string(daemon.config()).unwrap();
    std::fs::write(
        daemon.config(),
        text.replace("[agents.old]\nservers = \"*\"\n", ""),
    )
    .unwrap();
    daemon.restart().await.unwrap();
    let (_, listed) = daemon.get("/api/v1/agents").await.unwrap();
    let names: Vec<&Value> = listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| &agent["name"])
        .collect();
    assert_eq!(names, ["by-command", "dev"]);
    let agent = Agent::modern(daemon.address(), "/mcp/none", Some(&key));
    assert_ne!(
        agent.request("tools/list", json!({})).await.unwrap().status,
        401
    );
}

#[tokio::test]
async fn two_daemons_share_a_data_directory() {
    let first = daemon().await;
    let mut command = tokio::process::Command::from(steadfast());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(first.data());
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true);
    let mut second = command.spawn().unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(second.stdout.take().unwrap()));
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
    assert!(first.data().join("daemon-2.json").exists());
    assert_eq!(
        first.command(&["status"]).await.unwrap().status.code(),
        Some(0)
    );
    second.kill().await.unwrap();
    assert_eq!(
        first.command(&["status"]).await.unwrap().status.code(),
        Some(0),
        "the first one is found again"
    );
}

#[tokio::test]
async fn no_level_of_logging_prints_a_secret() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = Daemon::builder(BINARY)
        .agent("dev")
        .server("fake", &server.url())
        .set(
            "servers.fake.headers",
            "{ X-Key = \"canary-of-the-header\" }",
        )
        .env("STEADFAST_LOG", "trace")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let key = daemon.agent_key("dev").await.unwrap();
    let agent = Agent::modern(daemon.address(), "/mcp/fake", Some(&key));
    assert_eq!(
        agent.call("add_row", json!({})).await.unwrap().text(),
        "done"
    );
    let token = daemon.admin_token().unwrap();
    daemon.terminate().await.unwrap();
    let log = daemon.stderr();
    assert!(
        log.contains("DEBUG"),
        "it is as talkative as it can be: {log}"
    );
    for secret in [&key, &token, "canary-of-the-header"] {
        assert!(!log.contains(&secret[..12]), "{secret} in {log}");
    }
}
