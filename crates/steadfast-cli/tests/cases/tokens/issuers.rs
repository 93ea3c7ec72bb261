//! Issuers: new keys, outages, questions about tokens, and that no token is ever in a log.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use testkit::issuer::signing::SigningKey;

use super::House;
use crate::common::LIMIT;
use crate::rig::{BOTH, Era};

#[tokio::test]
async fn a_token_is_its_agents_in_both_eras_and_stays_here() {
    let house = House::with("", |builder| builder.env("STEADFAST_LOG", "trace")).await;
    let token = house.token("/mcp");
    for era in BOTH {
        for path in ["/mcp/fake", "/mcp"] {
            let agent = house.opened(era, path, &token).await;
            let tool = if path == "/mcp" { "fake__echo" } else { "echo" };
            let answer = agent.call(tool, json!({"text": "hello"})).await.unwrap();
            assert_eq!(answer.status, 200, "{era:?} {path}: {answer:?}");
            assert!(answer.text().contains("hello"), "{answer:?}");
        }
    }
    // A token for us is nobody else's (2026-07-28 basic/authorization, "Access Token Privilege Restriction").
    for request in house.server.log().requests() {
        assert_eq!(request.header("authorization"), None);
    }
    let refused = house.agent(Era::Modern, "/mcp", Some(&format!("{token}x")));
    let answer = refused.request("tools/list", json!({})).await.unwrap();
    assert_eq!(answer.status, 401);
    let log = house.daemon.stderr();
    for part in token.split('.').skip(1) {
        assert!(!log.contains(&part[..16]), "a token is in the log");
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_names_it() {
    let house = House::with("jwks_recheck = \"1ms\"\n", |builder| builder).await;
    house
        .opened(Era::Legacy, "/mcp/fake", &house.token("/mcp"))
        .await;
    let next = SigningKey::new("k2");
    house
        .issuer
        .change(|policy| policy.keys = vec![next.public()]);
    let token = next.sign(&json!({}), &house.claims("/mcp"));
    let agent = house.opened(Era::Legacy, "/mcp/fake", &token).await;
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    // The old one is gone, and its tokens with it.
    let agent = house.agent(Era::Modern, "/mcp/fake", Some(&house.token("/mcp")));
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 401);
}

#[tokio::test]
async fn made_up_keys_do_not_make_us_ask_again_and_again() {
    let house = House::new().await;
    let good = house.token("/mcp");
    house.opened(Era::Legacy, "/mcp/fake", &good).await;
    assert_eq!(house.key_requests(), 1);
    let stranger = SigningKey::new("x");
    for number in 0..20 {
        let header = json!({"kid": format!("made-up-{number}")});
        let token = stranger.sign(&header, &house.claims("/mcp"));
        let agent = house.agent(Era::Modern, "/mcp/fake", Some(&token));
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert_eq!(answer.status, 401);
    }
    assert_eq!(house.key_requests(), 1);
}

#[tokio::test]
async fn an_issuer_that_is_down_takes_nobodys_access() {
    let house = House::with("jwks_recheck = \"1ms\"\n", |builder| builder).await;
    let token = house.token("/mcp");
    let agent = house.opened(Era::Legacy, "/mcp/fake", &token).await;
    house.issuer.stop().await;
    for _ in 0..5 {
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // A key that is not known cannot be judged by it, and is no reason to take the token for good.
    let stranger = SigningKey::new("k2").sign(&json!({}), &house.claims("/mcp"));
    let agent = house.agent(Era::Modern, "/mcp/fake", Some(&stranger));
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 401);
}

#[tokio::test]
async fn an_agent_keeps_its_token_while_the_issuer_was_never_reached() {
    let house = House::with("jwks_recheck = \"1ms\"\n", |builder| builder).await;
    house.issuer.stop().await;
    let token = house.token("/mcp");
    let agent = house.agent(Era::Modern, "/mcp/fake", Some(&token));
    let answer = agent.call("echo", json!({})).await.unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("www-authenticate"), None);
    house.issuer.resume();
    let answer = agent.call("echo", json!({})).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn an_issuer_is_asked_about_tokens_that_only_it_understands() {
    let settings = "introspection = { client_id = \"gw\", client_secret = \"${vault:ASK}\", cache = \"0s\" }\n\
                    agent_claim = \"username\"\nagents = { jane = \"dev\" }\n";
    let house = House::with(settings, |builder| builder).await;
    let set =
        crate::common::run_with_input(&house.daemon, &["vault", "set", "ASK"], "c4n4ry-secret");
    assert!(set.await.status.success());
    let (issuer, token) = (house.issuer.identifier(), "opaque-token-0123456789");
    let good = json!({
        "active": true, "iss": issuer, "aud": house.resource("/mcp/fake"), "username": "jane",
    });
    let known = BTreeMap::from([(token.to_owned(), good)]);
    house
        .issuer
        .change(|policy| policy.introspection = Some(known));
    let agent = house.opened(Era::Legacy, "/mcp/fake", token).await;
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    let other = house.agent(Era::Modern, "/mcp/fake", Some("another-opaque-token"));
    assert_eq!(other.call("echo", json!({})).await.unwrap().status, 401);

    let asked = house.issuer.log().matching(|it| it.path == "/introspect");
    assert!(!asked.is_empty());
    let basic = format!("Basic {}", STANDARD.encode("gw:c4n4ry-secret"));
    for request in &asked {
        assert_eq!(request.header("authorization"), Some(&*basic));
    }
    assert_eq!(asked[0].form().get("token"), Some(token));

    // Revoked: the issuer says so, and is believed at once.
    house
        .issuer
        .change(|policy| policy.introspection = Some(BTreeMap::new()));
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 401);
    house.issuer.stop().await;
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 503);
    let log = house.daemon.stderr();
    assert!(!log.contains(token) && !log.contains("c4n4ry-secret"));
}

#[tokio::test]
async fn keys_work_beside_tokens_and_never_reach_an_issuer() {
    let settings = "introspection = { client_id = \"gw\", client_secret = \"s\" }\n";
    let house = House::with(settings, |builder| builder).await;
    house
        .issuer
        .change(|policy| policy.introspection = Some(BTreeMap::new()));
    let agent = house.daemon.legacy_agent("dev", "fake").await.unwrap();
    agent.initialize().await.unwrap();
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    let stranger = house.agent(Era::Modern, "/mcp/fake", Some("sfk_unknown"));
    assert_eq!(stranger.call("echo", json!({})).await.unwrap().status, 401);
    // What was asked before is done: this one is answered after it.
    let token = house.agent(Era::Modern, "/mcp/fake", Some("opaque"));
    assert_eq!(token.call("echo", json!({})).await.unwrap().status, 401);
    let asked = house.issuer.log();
    asked
        .wait_for(
            |log| !log.matching(|it| it.path == "/introspect").is_empty(),
            LIMIT,
        )
        .await
        .unwrap();
    let asked = asked.matching(|it| it.path == "/introspect");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].form().get("token"), Some("opaque"));
}
