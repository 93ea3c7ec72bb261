//! What does not count against a grant, and what does.

use serde_json::json;
use testkit::reply::{Reply, status};
use testkit::script::any;

use super::{House, renewals};
use crate::common::never;
use crate::rig::{Era, agent_of};

#[tokio::test(flavor = "multi_thread")]
async fn te_01_and_te_03_faults_and_block_pages_erase_nothing() {
    let house = House::signed_in(|daemon| daemon).await;
    let page = |code: u16, label: &str, body: &str| {
        status(code)
            .header("content-type", label)
            .body(body.to_owned())
    };
    let replies: Vec<Reply> = vec![
        page(500, "text/html", "<html>oops"),
        status(503).header("retry-after", "1"),
        page(403, "text/html", "<html><title>Blocked</title>"),
        page(401, "text/html", "<html>"),
        page(400, "application/json", r#"{"message":"blocked"}"#),
        page(200, "application/json", r#"{"access_token":"#),
        page(429, "application/json", r#"{"error":"invalid_grant"}"#),
    ];
    let count = replies.len();
    let script = house.issuer.script();
    for reply in replies {
        let refresh = any().form("grant_type", "refresh_token").times(1);
        script.on(refresh).reply(reply);
    }
    house.renewals(count + 1).await;
    let connection = house.grant_state("valid").await;
    assert_eq!(connection["fault"], json!(null), "{connection}");
    assert_eq!(house.issuer.counts().reuses, 0);
    let (_, notices) = house.daemon.get("/api/v1/notices").await.unwrap();
    let open = notices["notices"].as_array().unwrap().iter();
    let open = open.filter(|notice| notice["cleared_at"].is_null());
    assert_eq!(open.count(), 0, "nobody is bothered: {notices}");
}

#[tokio::test(flavor = "multi_thread")]
async fn te_04_a_refused_grant_is_told_once_and_asked_for_no_more() {
    let mut house = House::signed_in(|daemon| daemon).await;
    house.issuer.revoke_all();
    let waiting = house
        .daemon
        .wait_state("dev", "fake", "awaiting_sign_in")
        .await;
    let connection = waiting.unwrap();
    assert_eq!(connection["grant"]["state"], "refused", "{connection}");
    assert_eq!(connection["fault"]["kind"], "grant_refused", "{connection}");
    assert_eq!(connection["fault"]["person_needed"], true, "{connection}");
    let seen = renewals(house.issuer.log());
    assert!(seen <= 3, "{seen} renewals");

    house.daemon.restart().await.unwrap();
    let agent = agent_of(Era::Legacy, &house.daemon).await;
    for _ in 0..20 {
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
    }
    let still = renewals(house.issuer.log());
    assert_eq!(still, seen, "consent is not retried");
    let (_, notices) = house.daemon.get("/api/v1/notices").await.unwrap();
    let open: Vec<_> = notices["notices"].as_array().unwrap().iter().collect();
    assert_eq!(open.len(), 1, "{notices}");
    assert_eq!(open[0]["reload_helps"], false, "{notices}");
    assert!(open[0]["cleared_at"].is_null(), "{notices}");

    house.import(&house.grant()).await;
    house.connected().await;
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(!answer.is_error(), "{answer:?}");
    house.notice_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ex_01_a_token_that_ended_while_nobody_was_there_is_never_sent() {
    let house = House::new(|daemon| daemon).await;
    let mut grant = house.grant();
    grant["expires_at"] = json!("2020-01-01T00:00:00Z");
    grant.as_object_mut().unwrap().remove("expires_in");
    house.import(&grant).await;
    house.connected().await;
    let first = house.server.log().requests();
    let bearers: Vec<_> = first
        .iter()
        .filter_map(|request| request.bearer())
        .collect();
    assert!(
        !bearers.contains(&grant["access_token"].as_str().unwrap()),
        "{bearers:?}"
    );
    never(
        &house.server,
        std::time::Duration::from_millis(300),
        |log| {
            let sent =
                |request: &testkit::Request| request.bearer() == grant["access_token"].as_str();
            !log.matching(sent).is_empty()
        },
    )
    .await;
}
