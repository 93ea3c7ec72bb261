//! Tokens that are not accepted, and what their agents are told.

use serde_json::{Value, json};
use testkit::Answer;
use testkit::issuer::signing::SigningKey;

use super::House;
use crate::rig::BOTH;

fn challenge(answer: &Answer) -> &str {
    answer.header("www-authenticate").unwrap_or_default()
}

#[tokio::test]
async fn tokens_that_are_not_good_for_us_are_refused_and_reach_no_server() {
    let house = House::new().await;
    let bent = |name: &str, value: Value| {
        let mut claims = house.claims("/mcp");
        claims[name] = value;
        house.key.sign(&json!({}), &claims)
    };
    let good = house.token("/mcp");
    let stranger = SigningKey::new("k1");
    let claims = house.claims("/mcp");
    let (head, signature) = good.rsplit_once('.').unwrap();
    let unsigned = house.key.sign(&json!({"alg": "none"}), &claims);
    let unsigned = unsigned.rsplit_once('.').unwrap().0;
    let changed = bent("client_id", json!("boss"));
    let changed = changed.rsplit_once('.').unwrap().0;
    for (what, token) in [
        ("expired", bent("exp", json!(1_700_000_000))),
        (
            "another audience",
            bent("aud", json!("https://other.test/mcp")),
        ),
        ("our origin only", bent("aud", json!(house.resource("")))),
        ("another issuer", bent("iss", json!("https://as.test"))),
        ("no issuer", bent("iss", Value::Null)),
        ("not yet", bent("nbf", json!(4_000_000_000_u64))),
        ("the public key as a secret", house.key.confuse(&claims)),
        ("no signature", format!("{unsigned}.")),
        ("signed by another key", stranger.sign(&json!({}), &claims)),
        ("changed", format!("{changed}.{signature}")),
        (
            "an ID token",
            house.key.sign(&json!({"typ": "JWT"}), &claims),
        ),
        ("cut off", head.to_owned()),
        ("no token at all", "nonsense".to_owned()),
        ("like a key", "sfk_nonsense".to_owned()),
    ] {
        for era in BOTH {
            let agent = house.agent(era, "/mcp/fake", Some(&token));
            let answer = agent.call("echo", json!({})).await.unwrap();
            assert_eq!(answer.status, 401, "{what}: {answer:?}");
            let challenge = challenge(&answer);
            assert!(
                challenge.contains(r#"error="invalid_token""#),
                "{what}: {challenge}"
            );
            assert!(
                challenge.contains("error_description="),
                "{what}: {challenge}"
            );
            let metadata = house.metadata("/mcp/fake");
            let named = format!(r#"resource_metadata="{metadata}""#);
            assert!(challenge.contains(&named), "{what}: {challenge}");
        }
    }
    assert!(house.server.log().calls("echo").is_empty());
}

#[tokio::test]
async fn a_token_that_is_no_agents_is_refused_for_good() {
    let house = House::new().await;
    let mut claims = house.claims("/mcp");
    claims["client_id"] = json!("nobody");
    let token = house.key.sign(&json!({}), &claims);
    for era in BOTH {
        let agent = house.agent(era, "/mcp/fake", Some(&token));
        let answer = agent.call("echo", json!({})).await.unwrap();
        // Another token would not be any better: it is not asked for one.
        assert_eq!(answer.status, 403, "{answer:?}");
        assert_eq!(challenge(&answer), "");
    }
    assert!(house.server.log().calls("echo").is_empty());
}

#[tokio::test]
async fn without_a_credential_the_challenge_leads_to_the_metadata_and_that_to_the_issuer() {
    let house = House::with("scopes = [\"mcp\"]\n", |builder| builder).await;
    for (path, at) in [("/mcp", "/mcp"), ("/mcp/fake", "/mcp/fake")] {
        for era in BOTH {
            let agent = house.agent(era, path, None);
            let answer = agent.request("tools/list", json!({})).await.unwrap();
            assert_eq!(answer.status, 401);
            let expected = format!(
                r#"Bearer scope="mcp", resource_metadata="{}""#,
                house.metadata(at)
            );
            assert_eq!(challenge(&answer), expected);
        }
    }
    for path in [
        "/mcp",
        "/mcp/fake",
        "/mcp/fake/tools/echo",
        "/mcp/fake/tools/a%2Fb",
    ] {
        let place = format!("/.well-known/oauth-protected-resource{path}");
        let (status, document) = house.daemon.get(&place).await.unwrap();
        assert_eq!(status, 200, "{path}");
        assert_eq!(document["resource"], *house.resource(path));
        let servers = json!([house.issuer.identifier()]);
        assert_eq!(document["authorization_servers"], servers);
        assert_eq!(document["scopes_supported"], json!(["mcp"]));
    }
    for path in ["", "/mcp/fake/tools", "/mcp/a/b/c/d", "/api"] {
        let place = format!("/.well-known/oauth-protected-resource{path}");
        assert_eq!(house.daemon.get(&place).await.unwrap().0, 404, "{path}");
    }
}

#[tokio::test]
async fn without_issuers_nothing_is_different_for_agents_with_keys() {
    let server = testkit::Server::start(testkit::Behaviour::legacy("2025-11-25")).await;
    let daemon = crate::common::daemon(&server).start().await.unwrap();
    let place = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(daemon.get(place).await.unwrap().0, 404);
    let agent = testkit::Agent::modern(daemon.address(), "/mcp/fake", None);
    let answer = agent.request("tools/list", json!({})).await.unwrap();
    assert_eq!((answer.status, challenge(&answer)), (401, "Bearer"));
}

#[tokio::test]
async fn a_scope_that_is_lacking_is_asked_for() {
    let house = House::with("scopes = [\"mcp\", \"more\"]\n", |builder| builder).await;
    let mut claims = house.claims("/mcp");
    claims["scope"] = json!("mcp other");
    let token = house.key.sign(&json!({}), &claims);
    for era in BOTH {
        let agent = house.agent(era, "/mcp/fake", Some(&token));
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert_eq!(answer.status, 403);
        let challenge = challenge(&answer);
        assert!(
            challenge.contains(r#"error="insufficient_scope""#),
            "{challenge}"
        );
        assert!(challenge.contains(r#"scope="more""#), "{challenge}");
    }
    claims["scope"] = json!("more mcp");
    let token = house.key.sign(&json!({}), &claims);
    for era in BOTH {
        let agent = house.opened(era, "/mcp/fake", &token).await;
        assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    }
}
