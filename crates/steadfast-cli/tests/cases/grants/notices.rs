//! How people are told: once when something waits for them, once when it is mended.

use serde_json::{Value, json};
use testkit::reply::status;
use testkit::script::any;
use testkit::{Behaviour, PATIENCE, RequestLog, Server};

use crate::common::daemon;

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_told_once_and_once_more_when_it_is_cleared() {
    let hook = Server::start(Behaviour::modern()).await;
    // The first message is not taken: it is sent again.
    hook.script().on(any().times(1)).reply(status(500));
    hook.script().on(any()).reply(status(204));
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server)
        .set_text("servers.fake.headers.X-Api-Key", "${vault:K}")
        .set_text("notify.webhook", &hook.url())
        .start()
        .await
        .unwrap();
    let told = |count: usize| move |log: &RequestLog| log.requests().len() >= count;
    hook.log().wait_for(told(2), PATIENCE).await.unwrap();

    let listed = daemon.command(&["notices", "--json"]).await.unwrap();
    assert_eq!(listed.status.code(), Some(3), "a person must act");
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["notices"][0]["fault"]["code"], "SF0009", "{listed}");
    let status = daemon.command(&["status"]).await.unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.ends_with("\n1 notice is open: steadfast notices\n"),
        "{status}"
    );

    let body = json!({"value": "x"});
    let put = daemon.admin("PUT", "/api/v1/vault/K", Some(&body)).await;
    assert_eq!(put.unwrap().0, 201);
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    hook.log().wait_for(told(3), PATIENCE).await.unwrap();
    let listed = daemon.command(&["notices"]).await.unwrap();
    assert_eq!(listed.status.code(), Some(0));

    // What comes after a restart would be told after what was told already.
    let mut daemon = daemon;
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    daemon
        .admin("DELETE", "/api/v1/vault/K", None)
        .await
        .unwrap();
    hook.log().wait_for(told(4), PATIENCE).await.unwrap();
    let requests = hook.log().requests();
    let said: Vec<(&str, &str)> = requests
        .iter()
        .map(|request| {
            let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap();
            assert_eq!(request.method, "POST");
            (text("/event"), text("/text"))
        })
        .collect();
    let events: Vec<_> = said.iter().map(|(event, _)| *event).collect();
    assert_eq!(events, ["opened", "opened", "cleared", "opened"]);
    let opened = said[0].1;
    for part in ["`fake`", "`dev`", "the secret K", "Reloading does not help"] {
        assert!(opened.contains(part), "{part}: {opened}");
    }
}
