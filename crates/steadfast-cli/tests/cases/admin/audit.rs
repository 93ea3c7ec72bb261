//! Who changed what: by whichever way it was changed, and with nothing of a secret.

use serde_json::{Value, json};
use testkit::{Behaviour, Daemon, Server};

use crate::common::daemon;

const SECRET: &str = "canary-in-the-audit";

/// What is on record, oldest first: `via action target`.
async fn audit(daemon: &Daemon) -> Vec<Value> {
    let (status, answer) = daemon.get("/api/v1/audit?limit=1000").await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert!(!answer.to_string().contains(SECRET), "{answer}");
    let mut changes = answer["audit"].as_array().unwrap().clone();
    changes.reverse();
    changes
}

fn lines(changes: &[Value]) -> Vec<String> {
    let line = |change: &Value| {
        let word = |key: &str| change[key].as_str().unwrap().to_owned();
        [word("via"), word("action"), word("target"), word("detail")].join(" ")
    };
    changes.iter().map(line).collect()
}

#[tokio::test]
async fn every_change_is_on_record_and_no_question_is() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let before = audit(&daemon).await.len();
    let put = async |path: &str, body: Value| {
        let answer = daemon.admin("PUT", path, Some(&body)).await.unwrap();
        assert!(answer.0 < 300, "{answer:?}");
    };
    let url = format!("{}?key={SECRET}", server.url());
    put("/api/v1/servers/second", json!({"url": url})).await;
    let headers = json!({"X-Key": SECRET});
    put(
        "/api/v1/servers/second",
        json!({"url": url, "headers": headers, "tools_deny": ["x"]}),
    )
    .await;
    put("/api/v1/vault/KEY", json!({"value": SECRET})).await;
    put("/api/v1/agents/new", json!({"servers": ["second"]})).await;
    daemon
        .post("/api/v1/agents/new/key", &Value::Null)
        .await
        .unwrap();
    daemon
        .post("/api/v1/connections/dev/fake/reload", &Value::Null)
        .await
        .unwrap();
    let call = json!({"tool": "echo", "arguments": {"text": SECRET}});
    daemon
        .post("/api/v1/agents/dev/servers/fake/call", &call)
        .await
        .unwrap();
    daemon
        .admin("DELETE", "/api/v1/agents/new", None)
        .await
        .unwrap();
    // What changes nothing, and what is refused, is no change.
    daemon
        .post("/api/v1/connections/dev/fake/doctor", &Value::Null)
        .await
        .unwrap();
    let body = json!({"url": url});
    let refused = daemon
        .admin("PUT", "/api/v1/servers/fake", Some(&body))
        .await;
    assert_eq!(refused.unwrap().0, 409);
    daemon.get("/api/v1/connections").await.unwrap();

    let changes = audit(&daemon).await.split_off(before);
    assert_eq!(
        lines(&changes),
        [
            "api put_server second new",
            "api put_server second headers, tools_deny",
            "api set_secret KEY ",
            "api put_agent new new",
            "api make_key new ",
            "api reload_connection dev/fake ",
            "api call_tool dev/fake ",
            "api remove_agent new ",
        ]
    );
    assert!(
        changes.iter().all(|change| change["who"] == "admin"),
        "{changes:?}"
    );
    let (_, part) = daemon.get("/api/v1/audit?limit=1").await.unwrap();
    let last = &part["audit"][0];
    assert_eq!(last, changes.last().unwrap());
    let older = format!("/api/v1/audit?limit=1&before={}", last["number"]);
    let (_, part) = daemon.get(&older).await.unwrap();
    assert_eq!(part["audit"][0], changes[changes.len() - 2]);
}

#[tokio::test]
async fn the_command_line_is_told_from_the_api_and_shows_it() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    let made = daemon
        .command(&["agent", "add", "other", "--server", "fake"])
        .await
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let changes = audit(&daemon).await;
    assert!(
        lines(&changes).contains(&"cli put_agent other new".to_owned()),
        "{changes:?}"
    );
    // Without a daemon it is done in the store, and on record all the same.
    daemon.terminate().await.unwrap();
    let made = daemon
        .command(&["agent", "add", "third", "--server", "fake"])
        .await
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    daemon.restart().await.unwrap();
    let changes = audit(&daemon).await;
    assert!(
        lines(&changes).contains(&"offline put_agent third ".to_owned()),
        "{changes:?}"
    );
    let shown = daemon.command(&["audit"]).await.unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains("put_agent") && text.contains("offline"),
        "{text}"
    );
}
