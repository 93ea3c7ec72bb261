//! Many who need one grant: calls, daemons on one store, and whoever replaces the tokens behind our back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use testkit::client;
use testkit::issuer::Kind;
use testkit::issuer::policy::Reuse;
use testkit::reply::{Reply, json_body};
use testkit::script::any;
use testkit::{Agent, Daemon, PATIENCE, RequestLog};

use super::{House, renewals};
use crate::common::{daemon, never};
use crate::rig::{Era, agent_of};

/// Long enough that no test comes near it.
const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread")]
async fn rt_02_twenty_calls_on_an_expired_token_lead_to_one_renewal() {
    let house = House::signed_in(|daemon| daemon.set("renewal.lease", "\"10s\"")).await;
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(HOUR));
    let agent = Arc::new(agent_of(Era::Legacy, &house.daemon).await);
    let held = any().form("grant_type", "refresh_token");
    let rule = house.issuer.script().first_on(held);
    rule.reply(Reply::new().wait_for("token").run());
    let before = house.issuer.counts().refreshes;
    house.import(&house.due_grant(Duration::ZERO)).await;
    house.issuer.gates().arrived("token", 1).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let agent = Arc::clone(&agent);
        calls.spawn(async move { agent.call("add_row", json!({})).await.unwrap() });
    }
    house.issuer.gates().open("token");
    for answer in calls.join_all().await {
        assert!(!answer.is_error(), "{answer:?}");
    }
    assert_eq!(house.issuer.counts().refreshes - before, 1);
    let tokens = house.issuer.tokens();
    let newest = tokens.iter().rfind(|token| token.kind == Kind::Access);
    let newest = newest.unwrap().value.as_str();
    let sent = house.server.log().calls("add_row");
    assert_eq!(sent.len(), 20);
    assert!(sent.iter().all(|call| call.bearer() == Some(newest)));
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_02_and_rt_04_what_a_renewal_of_older_tokens_ends_with_does_not_touch_newer_ones() {
    let refusal = json_body(400, &json!({"error": "invalid_grant"}));
    for late in [refusal, Reply::new().run()] {
        let house = House::signed_in(|daemon| daemon.set("renewal.lease", "\"10s\"")).await;
        house
            .issuer
            .change(|policy| policy.tokens.lifetime = Some(HOUR));
        let held = any().form("grant_type", "refresh_token").times(1);
        let rule = house.issuer.script().first_on(held);
        rule.reply(Reply::new().wait_for("token").then(late));
        house.import(&house.due_grant(HOUR / 6)).await;
        house.issuer.gates().arrived("token", 1).await;
        let newer = house.grant();
        house.import(&newer).await;
        house.issuer.gates().open("token");
        house.works().await;
        let last = house.server.log().calls("add_row").pop().unwrap();
        assert_eq!(last.bearer(), newer["access_token"].as_str());
        // What is renewed next is what came in last.
        house.issuer.revoke_access_tokens();
        house.works().await;
        let presented = house.issuer.presented();
        assert_eq!(
            presented.last().map(String::as_str),
            newer["refresh_token"].as_str()
        );
        house.grant_state("valid").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_04_tokens_that_came_in_at_another_daemon_are_used_without_a_renewal() {
    let house = House::new(|daemon| daemon.set("renewal.check_every", "\"1h\"")).await;
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(HOUR));
    house.import(&house.grant()).await;
    house.connected().await;
    house.works().await;
    let other = daemon(&house.server).data(house.daemon.data());
    let other = other.start().await.unwrap();
    house.issuer.revoke_all();
    let newer = house.grant();
    let path = "/api/v1/connections/dev/fake/grant";
    let (status, body) = other.admin("PUT", path, Some(&newer)).await.unwrap();
    assert_eq!(status, 200, "{body}");
    house.works().await;
    let last = house.server.log().calls("add_row").pop().unwrap();
    assert_eq!(last.bearer(), newer["access_token"].as_str());
    assert_eq!(house.issuer.presented(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_04_a_sign_in_at_another_daemon_helps_a_connection_that_waits_for_one() {
    let house = House::signed_in(|daemon| daemon).await;
    house.works().await;
    house.issuer.revoke_all();
    let waiting = house.daemon.wait_state("dev", "fake", "awaiting_sign_in");
    waiting.await.unwrap();
    let other = daemon(&house.server).data(house.daemon.data());
    let other = other.start().await.unwrap();
    let path = "/api/v1/connections/dev/fake/grant";
    let newer = house.grant();
    let (status, body) = other.admin("PUT", path, Some(&newer)).await.unwrap();
    assert_eq!(status, 200, "{body}");
    house.connected().await;
    house.works().await;
}

/// Calls all the time until it is told to stop; how many succeeded, and which did not.
async fn calls(agent: Agent, stop: Arc<AtomicBool>) -> (usize, Vec<String>) {
    let (mut good, mut bad) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        match agent.call("add_row", json!({})).await {
            Ok(answer) if !answer.is_error() && answer.error_code().is_none() => good += 1,
            Ok(answer) => bad.push(format!("{:?}", answer.message)),
            Err(error) => bad.push(error.to_string()),
        }
    }
    (good, bad)
}

/// Which daemon has begun a renewal that it has not finished.
async fn holder(daemons: &[Daemon]) -> usize {
    let is_at_it = |daemon: &&Daemon| {
        let log = daemon.stderr();
        log.matches("its turn").count() > log.matches("renewed").count()
    };
    let found = async {
        loop {
            if let Some(at) = daemons.iter().position(|daemon| is_at_it(&daemon)) {
                return at;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_03_three_daemons_on_one_store_never_present_a_spent_token() {
    let house = House::signed_in(|daemon| daemon).await;
    let key = house.daemon.agent_key("dev").await.unwrap();
    let House {
        issuer,
        server,
        daemon: first,
    } = house;
    let mut daemons = vec![first];
    for _ in 0..2 {
        let another = daemon(&server)
            .data(daemons[0].data())
            .set("renewal.retry_first", "\"100ms\"")
            .set("renewal.retry_max", "\"400ms\"")
            .set("renewal.lease", "\"2s\"")
            .set("renewal.check_every", "\"200ms\"");
        let another = another.start().await.unwrap();
        another
            .wait_state("dev", "fake", "connected")
            .await
            .unwrap();
        daemons.push(another);
    }
    let begin = |daemons: &[Daemon]| {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = tokio::task::JoinSet::new();
        for daemon in daemons {
            let agent = Agent::legacy(daemon.address(), "/mcp/fake", Some(&key));
            let stop = Arc::clone(&stop);
            callers.spawn(async move {
                agent.initialize().await.unwrap();
                calls(agent, stop).await
            });
        }
        (stop, callers)
    };
    let renewed = |count: u64| {
        let issuer = &issuer;
        async move {
            let seen = |_: &RequestLog| issuer.counts().refreshes >= count;
            issuer.log().wait_for(seen, PATIENCE).await.unwrap();
        }
    };
    let (stop, callers) = begin(&daemons);
    renewed(issuer.counts().refreshes + 5).await;
    stop.store(true, Ordering::Relaxed);
    for (good, bad) in callers.join_all().await {
        assert!(good > 0 && bad.is_empty(), "{good} good, bad: {bad:?}");
    }
    // One is killed while it holds the lease; nothing of its request was acted on.
    let held = any().form("grant_type", "refresh_token").times(1);
    issuer
        .script()
        .first_on(held)
        .reply(Reply::new().wait_for("held").fin());
    issuer.gates().arrived("held", 1).await;
    let at = holder(&daemons).await;
    daemons[at].kill9().await.unwrap();
    issuer.gates().open("held");
    // Kept: the directory that all share may be its.
    let _killed = daemons.remove(at);
    renewed(issuer.counts().refreshes + 1).await;
    for daemon in &daemons {
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
    }
    let (stop, callers) = begin(&daemons);
    renewed(issuer.counts().refreshes + 5).await;
    stop.store(true, Ordering::Relaxed);
    for (good, bad) in callers.join_all().await {
        assert!(good > 0 && bad.is_empty(), "{good} good, bad: {bad:?}");
    }
    let presented = issuer.presented();
    let once: Vec<_> = (1..=presented.len()).map(|n| format!("RT{n}")).collect();
    assert_eq!(presented, once);
    assert_eq!(issuer.counts().reuses, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_06_a_token_that_another_layer_spent_ends_nothing_while_the_access_token_is_good() {
    let house = House::signed_in(|daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.tokens.lifetime = Some(Duration::from_secs(8));
        policy.tokens.reuse = Reuse::Refused;
    });
    let grant = house.due_grant(Duration::from_secs(8));
    let refresh = grant["refresh_token"].as_str().unwrap();
    let form = format!("grant_type=refresh_token&client_id=imported&refresh_token={refresh}");
    let label = [("Content-Type", "application/x-www-form-urlencoded")];
    let spent = client::send(
        house.issuer.address(),
        "POST",
        "/token",
        &label,
        form.as_bytes(),
    );
    assert_eq!(spent.await.unwrap().response().await.unwrap().status, 200);
    house.import(&grant).await;
    let connection = house.grant_state("refused").await;
    assert_eq!(connection["state"], "connected", "{connection}");
    house.works().await;
    let last = house.server.log().calls("add_row").pop().unwrap();
    assert_eq!(last.bearer(), grant["access_token"].as_str());
    // At its end it is tried once more, and then a person is asked.
    let waiting = house.daemon.wait_state("dev", "fake", "awaiting_sign_in");
    waiting.await.unwrap();
    let presented = house.issuer.presented();
    let ours = presented.iter().filter(|token| *token == refresh).count();
    assert_eq!(
        ours, 3,
        "theirs, ours, and the one at expiry: {presented:?}"
    );
    never(&house.server, Duration::from_millis(300), |_| {
        house.issuer.presented().len() > presented.len()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rt_07_no_request_leaves_without_a_token_while_it_is_renewed_all_the_time() {
    let house = House::signed_in(|daemon| daemon).await;
    let from = house.server.log().requests().len();
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(Duration::from_secs(1)));
    let agent = Arc::new(agent_of(Era::Legacy, &house.daemon).await);
    let goal = house.seen() + 12;
    let mut beat = tokio::time::interval(Duration::from_millis(20));
    let mut calls = tokio::task::JoinSet::new();
    while renewals(house.issuer.log()) < goal {
        beat.tick().await;
        let agent = Arc::clone(&agent);
        calls.spawn(async move { agent.call("add_row", json!({})).await.unwrap() });
    }
    for answer in calls.join_all().await {
        assert!(!answer.is_error(), "{answer:?}");
    }
    let requests = house.server.log().requests();
    let without: Vec<_> = requests[from..]
        .iter()
        .filter(|it| it.bearer().is_none())
        .collect();
    assert!(without.is_empty(), "{without:?}");
    assert_eq!(house.issuer.counts().reuses, 0);
}
