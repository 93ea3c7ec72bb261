//! What a renewal brings, and what it leaves out.

use std::sync::Arc;

use serde_json::json;
use testkit::PATIENCE;
use testkit::issuer::policy::Rotation;

use super::{House, renewals};
use crate::rig::{Era, agent_of};

#[tokio::test(flavor = "multi_thread")]
async fn rt_01_an_answer_without_a_refresh_token_keeps_the_old_one() {
    let mut house = House::signed_in(|daemon| daemon).await;
    house
        .issuer
        .change(|policy| policy.tokens.rotation = Rotation::Omits);
    house.renewed().await;
    house.daemon.kill9().await.unwrap();
    house
        .issuer
        .change(|policy| policy.tokens.rotation = Rotation::Rotates);
    house.daemon.restart().await.unwrap();
    let rotated = |_: &testkit::RequestLog| house.issuer.token("RT2").is_some();
    house
        .issuer
        .log()
        .wait_for(rotated, PATIENCE)
        .await
        .unwrap();
    house
        .issuer
        .change(|policy| policy.tokens.rotation = Rotation::Omits);
    // What the fifth one finds is the work of the fourth.
    house.renewals(5).await;
    assert_eq!(house.issuer.presented()[..4], ["RT1", "RT1", "RT2", "RT2"]);
    assert_eq!(house.issuer.counts().reuses, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ex_03_an_idle_grant_is_renewed_on_the_clock_while_its_server_is_down() {
    let house = House::signed_in(|daemon| daemon).await;
    house.server.stop().await;
    house.renewals(4).await;
    assert_eq!(house.issuer.counts().reuses, 0);
    house.server.resume();
    house.connected().await;
    let agent = agent_of(Era::Legacy, &house.daemon).await;
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(!answer.is_error(), "{answer:?}");
    assert_eq!(house.server.ledger().rows_of("add_row").unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_02_and_au_02_many_refusals_lead_to_one_renewal_and_each_call_runs_once() {
    let house = House::signed_in(|daemon| daemon.set("renewal.window", "\"1ms\"")).await;
    house.issuer.change(|policy| policy.tokens.lifetime = None);
    let agent = Arc::new(agent_of(Era::Legacy, &house.daemon).await);
    let before = renewals(house.issuer.log());
    house.issuer.revoke_access_tokens();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let agent = Arc::clone(&agent);
        calls.spawn(async move { agent.call("add_row", json!({})).await.unwrap() });
    }
    for answer in calls.join_all().await {
        assert!(!answer.is_error(), "{answer:?}");
    }
    assert_eq!(renewals(house.issuer.log()) - before, 1);
    assert_eq!(house.server.ledger().rows_of("add_row").unwrap().len(), 10);
    assert!(house.server.log().calls("add_row").len() <= 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_token_endpoint_is_found_again_and_the_grant_is_kept() {
    for status in [404, 405, 410] {
        let house = House::signed_in(|daemon| daemon).await;
        house.issuer.move_token_endpoint("/elsewhere/token", status);
        let moved = |log: &testkit::RequestLog| {
            let there = log.matching(|request| request.path_only() == "/elsewhere/token");
            there.len() >= 2
        };
        house.issuer.log().wait_for(moved, PATIENCE).await.unwrap();
        house.grant_state("valid").await;
        assert_eq!(house.issuer.counts().reuses, 0, "{status}");
    }
}
