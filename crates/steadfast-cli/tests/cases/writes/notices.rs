//! The notice about writes that wait for a person: one for each server, beside the one of the connection itself.

use serde_json::{Value, json};
use testkit::{Behaviour, Daemon, Server};

use super::ledger::{id_of, wait_for};
use super::{WRITE, key, ran, server};
use crate::common::{LIMIT, daemon};
use crate::rig::{Era, agent_of};
use testkit::script::call;

/// Waits until the notices that are open satisfy a condition.
async fn open(daemon: &Daemon, what: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = std::time::Instant::now();
    loop {
        let (_, listed) = daemon.get("/api/v1/notices").await.unwrap();
        let notices = listed["notices"].as_array().unwrap();
        let open: Vec<Value> = notices
            .iter()
            .filter(|notice| notice["cleared_at"].is_null())
            .cloned()
            .collect();
        if holds(&open) {
            return open;
        }
        assert!(began.elapsed() < LIMIT, "{what}: {listed}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn is_about(notice: &Value, kind: &str, says: &str) -> bool {
    let message = notice["fault"]["message"].as_str().unwrap_or_default();
    notice["fault"]["kind"] == kind && message.contains(says)
}

async fn lose(server: &Server, agent: &testkit::Agent, daemon: &Daemon, this: &str) -> String {
    let lost = ran(200).head().rst();
    server.script().on(call(WRITE).times(1)).reply(lost);
    let id = id_of(&agent.call(WRITE, key(this)).await.unwrap());
    wait_for(daemon, &id, "held").await;
    id
}

async fn settle(daemon: &Daemon, id: &str) {
    let path = format!("/api/v1/operations/{id}/settle");
    let decision = json!({ "outcome": "confirmed" });
    let (status, settled) = daemon.post(&path, &decision).await.unwrap();
    assert_eq!(status, 200, "{settled}");
}

#[tokio::test]
async fn writes_that_wait_for_a_person_have_one_notice_that_clears_itself() {
    let server = server(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &daemon).await;
    let first = lose(&server, &agent, &daemon, "a").await;
    let one =
        |open: &[Value]| matches!(open, [it] if is_about(it, "operations_held", "1 call waits"));
    let opened = open(&daemon, "opened", one).await;
    assert_eq!(
        (&opened[0]["agent"], &opened[0]["server"]),
        (&json!("dev"), &json!("fake"))
    );
    let second = lose(&server, &agent, &daemon, "b").await;
    let two =
        |open: &[Value]| matches!(open, [it] if is_about(it, "operations_held", "2 calls wait"));
    open(&daemon, "two", two).await;
    settle(&daemon, &first).await;
    open(&daemon, "one left", one).await;
    settle(&daemon, &second).await;
    open(&daemon, "cleared", <[Value]>::is_empty).await;
    // The connection was never in question.
    let connection = daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["state"], "connected", "{connection}");
}

/// One row for both: the connection goes first, and neither hides the other.
#[tokio::test]
async fn a_notice_of_the_connection_and_one_of_its_writes_stand_beside_each_other() {
    let server = server(Behaviour::modern()).await;
    let daemon = daemon(&server).set_text("servers.fake.headers.X-Api-Key", "${vault:K}");
    let daemon = daemon.start().await.unwrap();
    let secret = json!({ "value": "secret" });
    let set = ("/api/v1/vault/K", Some(&secret));
    daemon.admin("PUT", set.0, set.1).await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    open(&daemon, "nothing", <[Value]>::is_empty).await;
    let agent = agent_of(Era::Modern, &daemon).await;
    let id = lose(&server, &agent, &daemon, "a").await;
    let held =
        |open: &[Value]| matches!(open, [it] if is_about(it, "operations_held", "1 call waits"));
    open(&daemon, "held", held).await;

    daemon.admin("DELETE", set.0, None).await.unwrap();
    let both = |open: &[Value]| matches!(open, [it] if is_about(it, "vault_reference", "Besides, 1 call waits for a person"));
    open(&daemon, "both", both).await;
    // The connection is mended: what waits is still told.
    daemon.admin("PUT", set.0, set.1).await.unwrap();
    open(&daemon, "held again", held).await;
    settle(&daemon, &id).await;
    open(&daemon, "cleared", <[Value]>::is_empty).await;
}

/// The other order: the write waits no more while the connection still does.
#[tokio::test]
async fn settling_the_writes_leaves_the_notice_of_the_connection() {
    let server = server(Behaviour::modern()).await;
    let daemon = daemon(&server).set_text("servers.fake.headers.X-Api-Key", "${vault:K}");
    let daemon = daemon.start().await.unwrap();
    let secret = json!({ "value": "secret" });
    let path = "/api/v1/vault/K";
    daemon.admin("PUT", path, Some(&secret)).await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &daemon).await;
    let id = lose(&server, &agent, &daemon, "a").await;
    daemon.admin("DELETE", path, None).await.unwrap();
    let both = |open: &[Value]| matches!(open, [it] if is_about(it, "vault_reference", "Besides"));
    open(&daemon, "both", both).await;
    settle(&daemon, &id).await;
    let alone = |open: &[Value]| matches!(open, [it] if is_about(it, "vault_reference", "") && !is_about(it, "vault_reference", "Besides"));
    open(&daemon, "alone", alone).await;
}

/// A daemon beside the one that told of it settles it: the notice is cleared all the same.
#[tokio::test]
async fn a_notice_clears_itself_whichever_daemon_its_write_is_settled_at() {
    let server = server(Behaviour::modern()).await;
    let one = daemon(&server).start().await.unwrap();
    let other = daemon(&server).data(one.data()).start().await.unwrap();
    one.wait_state("dev", "fake", "connected").await.unwrap();
    other.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &one).await;
    let id = lose(&server, &agent, &one, "a").await;
    let held =
        |open: &[Value]| matches!(open, [it] if is_about(it, "operations_held", "1 call waits"));
    open(&one, "held", held).await;
    settle(&other, &id).await;
    open(&one, "cleared", <[Value]>::is_empty).await;
    // And it stays so, whatever becomes of the connection.
    one.post("/api/v1/connections/dev/fake/reload", &json!({}))
        .await
        .unwrap();
    one.wait_state("dev", "fake", "connected").await.unwrap();
    open(&one, "still cleared", <[Value]>::is_empty).await;
}
