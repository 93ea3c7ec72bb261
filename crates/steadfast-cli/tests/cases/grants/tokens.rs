//! The access token on live connections: the newest on every request, and what follows when it is refused.

use std::time::Duration;

use serde_json::json;
use testkit::issuer::Kind;
use testkit::reply::{json_rpc_result, status, tool_text};
use testkit::script::{any, call, get};
use testkit::{Behaviour, PATIENCE, RequestLog, Server};

use super::House;
use crate::common::never;
use crate::rig::{Era, agent_of};

/// The newest access token that was issued.
fn newest(house: &House) -> String {
    let tokens = house.issuer.tokens();
    let newest = tokens.iter().rfind(|token| token.kind == Kind::Access);
    newest.unwrap().value.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn au_01_every_request_carries_the_newest_token_and_the_session_stays() {
    let mut house = House::signed_in(|daemon| daemon).await;
    let opened = |count: usize| move |log: &RequestLog| log.http("GET").len() >= count;
    house
        .server
        .log()
        .wait_for(opened(1), PATIENCE)
        .await
        .unwrap();
    for _ in 0..3 {
        house.renewals(house.seen() + 1).await;
        house.works().await;
    }
    // From here on nothing is renewed any more: the newest token is known.
    house.issuer.change(|policy| policy.tokens.lifetime = None);
    house.import(&house.grant()).await;
    let newest = newest(&house);
    let streams = house.server.log().http("GET").len();
    house.server.reset_connections().await;
    house
        .server
        .log()
        .wait_for(opened(streams + 1), PATIENCE)
        .await
        .unwrap();
    house.works().await;
    house.daemon.terminate().await.unwrap();
    let log = house.server.log();
    for method in ["POST", "GET", "DELETE"] {
        let last = log
            .http(method)
            .pop()
            .unwrap_or_else(|| panic!("no {method}: {log}"));
        assert_eq!(last.bearer(), Some(newest.as_str()), "{method}");
    }
    assert_eq!(house.server.sessions_created(), 1);
    assert_eq!(log.posts("initialize").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn au_02_a_server_that_refuses_every_token_is_not_renewed_for_in_a_loop() {
    let house = House::signed_in(|daemon| daemon).await;
    house.issuer.change(|policy| policy.tokens.lifetime = None);
    house.import(&house.grant()).await;
    let agent = std::sync::Arc::new(agent_of(Era::Legacy, &house.daemon).await);
    let from = house.seen();
    let bearer = "Bearer error=\"invalid_token\"";
    let post = any().when(|request| request.method == "POST");
    let refuse = status(401).header("www-authenticate", bearer);
    house.server.script().first_on(post).reply(refuse);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let agent = std::sync::Arc::clone(&agent);
        calls.spawn(async move { agent.call("add_row", json!({})).await.unwrap() });
    }
    for answer in calls.join_all().await {
        assert!(
            answer.is_error() || answer.error_code().is_some(),
            "{answer:?}"
        );
        assert_eq!(answer.status, 200, "never a 401 to the agent: {answer:?}");
    }
    let waiting = house.daemon.wait_state("dev", "fake", "awaiting_sign_in");
    let connection = waiting.await.unwrap();
    assert_eq!(
        connection["fault"]["kind"], "fresh_token_refused",
        "{connection}"
    );
    let rounds = house.seen() - from;
    assert!((1..=2).contains(&rounds), "{rounds} renewals");
    assert!(house.server.log().calls("add_row").len() <= 20);
    assert_eq!(house.server.ledger().rows_of("add_row").unwrap().len(), 0);
    never(&house.server, Duration::from_millis(500), |_| {
        house.seen() - from > rounds
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn au_03_a_result_that_blames_the_token_is_delivered_and_the_next_call_has_a_new_one() {
    for era in [Era::Legacy, Era::Modern] {
        let house = House::signed_in(|daemon| daemon).await;
        house
            .issuer
            .change(|policy| policy.tokens.lifetime = Some(Duration::from_secs(7_200)));
        let grant = house.due_grant(Duration::from_secs(3_600));
        house.import(&grant).await;
        let agent = agent_of(era, &house.daemon).await;
        let stale = grant["access_token"].as_str().unwrap().to_owned();
        let mut result = tool_text("Authentication failed: 401");
        result["isError"] = true.into();
        let with_it = call("add_row").when(move |it| it.bearer() == Some(stale.as_str()));
        house
            .server
            .script()
            .first_on(with_it)
            .reply(json_rpc_result(result));
        let from = house.seen();
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        assert_eq!(answer.text(), "Authentication failed: 401");
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert!(!answer.is_error(), "{answer:?}");
        assert_eq!(house.seen(), from + 1, "renewed once");
        assert_eq!(
            house.server.log().calls("add_row").len(),
            2,
            "nothing is sent again"
        );

        // A token that was just renewed is not suspected: a tool that always fails so does not renew for ever.
        let mut result = tool_text("Authentication failed: 401");
        result["isError"] = true.into();
        let always = house.server.script().first_on(call("add_row"));
        always.reply(json_rpc_result(result));
        for _ in 0..5 {
            let answer = agent.call("add_row", json!({})).await.unwrap();
            assert!(answer.is_error(), "{answer:?}");
        }
        house.grant_state("valid").await;
        assert_eq!(house.seen(), from + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn au_04_a_stream_that_alone_is_refused_leads_to_one_renewal_at_most() {
    let house = House::new(|daemon| daemon.set("retry.stream_recheck", "\"100ms\"")).await;
    house.issuer.change(|policy| policy.tokens.lifetime = None);
    let refuse = status(401).header("www-authenticate", "Bearer error=\"invalid_token\"");
    let streams = get().path("/mcp");
    house.server.script().first_on(streams).reply(refuse);
    house.import(&house.grant()).await;
    house.connected().await;
    let asked = |log: &RequestLog| {
        log.http("GET")
            .iter()
            .filter(|it| it.path_only() == "/mcp")
            .count()
            >= 4
    };
    house.server.log().wait_for(asked, PATIENCE).await.unwrap();
    house.works().await;
    assert!(house.seen() <= 1, "{}", house.seen());
    let streams = house.server.log().http("GET");
    assert!(
        streams
            .iter()
            .filter(|it| it.path_only() == "/mcp")
            .all(|it| it.bearer().is_some())
    );
    let connection = house.daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["state"], "connected", "{connection}");
    assert_eq!(connection["grant"]["state"], "valid", "{connection}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_without_a_refresh_token_says_when_it_ends_and_asks_for_nothing() {
    let house = House::new(|daemon| daemon).await;
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(Duration::from_secs(8)));
    let mut grant = house.grant();
    grant["refresh_token"] = json!(null);
    house.import(&grant).await;
    let connection = house.grant_state("unrenewable").await;
    assert_eq!(connection["grant"]["renewable"], false, "{connection}");
    let time = |value: &serde_json::Value| {
        value
            .as_str()
            .and_then(|it| it.parse::<jiff::Timestamp>().ok())
    };
    let (told, meant) = (
        time(&connection["grant"]["expires_at"]),
        time(&grant["expires_at"]),
    );
    let apart = told.unwrap().duration_since(meant.unwrap()).abs();
    assert!(apart.as_millis() < 2, "{connection}");
    house.connected().await;
    house.works().await;
    let waiting = house.daemon.wait_state("dev", "fake", "awaiting_sign_in");
    let connection = waiting.await.unwrap();
    assert_eq!(
        connection["fault"]["kind"], "sign_in_required",
        "{connection}"
    );
    assert_eq!(house.issuer.counts().token_requests, 0);

    // It waits, and does not go round in circles with a token that has ended.
    let agent = agent_of(Era::Legacy, &house.daemon).await;
    for _ in 0..20 {
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
    }
    let history = house.daemon.history("dev", "fake").await.unwrap();
    let waits = history.iter().filter(|it| it["to"] == "awaiting_sign_in");
    // Before the import, if it was fast, and at the end.
    assert!(waits.count() <= 2, "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_tries_a_refused_grant_once_and_connects_where_that_helps() {
    let house = House::signed_in(|daemon| daemon).await;
    let refusal = testkit::reply::json_body(400, &json!({"error": "invalid_grant"}));
    let rule = house
        .issuer
        .script()
        .first_on(any().form("grant_type", "refresh_token"));
    let rule = rule.reply(refusal);
    let waiting = house.daemon.wait_state("dev", "fake", "awaiting_sign_in");
    waiting.await.unwrap();
    let from = house.seen();
    let path = "/api/v1/connections/dev/fake/reload";
    let (status, connection) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!(
        (status, connection["state"].as_str()),
        (200, Some("awaiting_sign_in"))
    );
    assert_eq!(house.seen(), from + 1, "once");
    rule.remove();
    let (status, connection) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!(
        (status, connection["state"].as_str()),
        (200, Some("connected")),
        "{connection}"
    );
    house.works().await;
    assert_eq!(house.issuer.counts().reuses, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ex_03_renewals_stop_with_a_server_that_is_disabled_and_go_on_with_it() {
    let mut house = House::signed_in(|daemon| daemon).await;
    house.renewals(1).await;
    house
        .daemon
        .reconfigure("servers.fake.enabled", "false")
        .unwrap();
    house
        .daemon
        .wait_state("dev", "fake", "disabled")
        .await
        .unwrap();
    // One may have been under way.
    let from = house.seen() + 1;
    let further = |log: &RequestLog| super::renewals(log) > from;
    let seen = house
        .issuer
        .log()
        .wait_for(further, super::LIFETIME * 2)
        .await;
    assert!(seen.is_err(), "{}", house.issuer.log());
    house
        .daemon
        .reconfigure("servers.fake.enabled", "true")
        .unwrap();
    house.connected().await;
    house.works().await;
    assert_eq!(house.issuer.counts().reuses, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grants_of_a_disabled_server_do_not_hold_up_others_at_the_same_issuer() {
    let house = House::signed_in(|daemon| {
        // More agents than the supervisor looks at for one issuer.
        (0..40).fold(daemon, |daemon, number| {
            daemon.agent(&format!("agent-{number}"))
        })
    })
    .await;
    let off = Server::start(Behaviour::legacy("2025-11-25").protected_by(&house.issuer)).await;
    let mut house = house;
    let url = format!("\"{}\"", off.url());
    house.daemon.reconfigure("servers.off.url", &url).unwrap();
    for number in 0..40 {
        let agent = format!("agent-{number}");
        let known = house
            .daemon
            .wait_connection(&agent, "off", PATIENCE, |it| it["state"].is_string());
        known.await.unwrap();
        let path = format!("/api/v1/connections/{agent}/off/grant");
        let (status, body) = house
            .daemon
            .admin("PUT", &path, Some(&house.grant()))
            .await
            .unwrap();
        assert_eq!(status, 200, "{body}");
    }
    house
        .daemon
        .reconfigure("servers.off.enabled", "false")
        .unwrap();
    house
        .daemon
        .wait_state("agent-39", "off", "disabled")
        .await
        .unwrap();
    let ours = || {
        let of_us =
            |token: &testkit::issuer::Token| token.family == 1 && token.kind == Kind::Access;
        house.issuer.tokens().into_iter().filter(of_us).count()
    };
    // Their tokens have all come to their end when ours has been renewed so often.
    let goal = ours() + 4;
    let seen = house
        .issuer
        .log()
        .wait_for(|_| ours() >= goal, PATIENCE)
        .await;
    assert!(seen.is_ok(), "{} of {goal}", ours());
}
