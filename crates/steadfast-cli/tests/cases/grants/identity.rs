//! Tokens for a person whom an organisation's identity provider vouches for (enterprise-managed authorization).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::issuer::Client;
use testkit::reply::content;
use testkit::script::http;
use testkit::{Issuer, Request, RequestLog};

use super::House;
use crate::rig::fault;

/// What the person's sign-in at the identity provider has left.
const ASSERTION: &str = "id-token-of-a-person";

/// What the identity provider makes of it for the server's authorization server.
const VOUCHED: &str = "assertion-for-the-server";

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

fn token_requests(log: &RequestLog) -> Vec<Arc<Request>> {
    log.matching(|request| request.path_only() == "/token")
}

/// An identity provider, and a house whose server relies on it in the end. It issues a token of this type.
async fn vouched_house(issued_token_type: &str) -> (Issuer, House) {
    let provider = Issuer::start().await;
    let exchange = |assertion| http("POST").path("/token").form("subject_token", assertion);
    let json = |status, body: Value| content(status, "application/json", body.to_string());
    let vouched = json!({
        "access_token": VOUCHED,
        "issued_token_type": issued_token_type,
        "token_type": "N_A",
    });
    let script = provider.script();
    script.on(exchange(ASSERTION)).reply(json(200, vouched));
    let refused = json!({"error": "invalid_grant"});
    script.on(exchange("expired")).reply(json(400, refused));

    let at_provider = |key: &str| format!("servers.fake.oauth.identity.{key}");
    let house = House::at(Issuer::start().await, |daemon| {
        daemon
            .set_text("servers.fake.oauth.grant", "identity_assertion")
            .set_text("servers.fake.oauth.client_id", "robot")
            .set_text("servers.fake.oauth.client_secret", "${vault:SECRET}")
            .set_text(&at_provider("issuer"), provider.identifier())
            .set_text(&at_provider("client_id"), "sso")
            .set_text(&at_provider("assertion"), "${vault:ASSERTION}")
    })
    .await;
    let lifetime = Some(Duration::from_secs(3_600));
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = lifetime);
    let client = Client::confidential("robot", "secret-of-robot");
    let issued = house
        .issuer
        .issue(client, &["add"], Some(&house.server.url()));
    let token = json!({
        "access_token": issued.import()["access_token"],
        "token_type": "Bearer",
        "expires_in": 3_600,
    });
    let redeem = http("POST").path("/token").form("assertion", VOUCHED);
    house.issuer.script().on(redeem).reply(json(200, token));
    house.secret("SECRET", "secret-of-robot").await;
    (provider, house)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_provider_vouches_for_a_person_who_signs_in_nowhere_else() {
    let (provider, house) = vouched_house(ID_JAG).await;
    house.secret("ASSERTION", ASSERTION).await;
    house.connected().await;
    house.works().await;

    let asked = token_requests(provider.log());
    assert_eq!(asked.len(), 1);
    let form = asked[0].form();
    let url = house.server.url();
    for (field, expected) in [
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ),
        ("requested_token_type", ID_JAG),
        (
            "subject_token_type",
            "urn:ietf:params:oauth:token-type:id_token",
        ),
        ("audience", house.issuer.identifier()),
        ("resource", url.as_str()),
        ("client_id", "sso"),
    ] {
        assert_eq!(form.get(field), Some(expected), "{field}");
    }
    assert_eq!(form.get("client_secret"), None);
    assert_eq!(asked[0].header("authorization"), None);

    let redeemed = token_requests(house.issuer.log());
    assert_eq!(redeemed.len(), 1);
    let form = redeemed[0].form();
    let bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    assert_eq!(form.get("grant_type"), Some(bearer));
    assert_eq!(form.get("resource"), Some(url.as_str()));
    let proof = redeemed[0].header("authorization").unwrap_or_default();
    assert!(proof.starts_with("Basic "), "{proof}");
    // Each has seen what is meant for it, and nothing else.
    let body = String::from_utf8_lossy(&redeemed[0].body).into_owned();
    assert!(!body.contains(ASSERTION), "{body}");
    assert!(house.issuer.authorizations().is_empty());
    assert!(provider.authorizations().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_is_vouched_for_no_more_is_told_once_and_a_new_assertion_is_tried_at_once() {
    let (provider, house) = vouched_house(ID_JAG).await;
    house.secret("ASSERTION", "expired").await;
    house.grant_state("refused").await;
    // The connection hears of it a moment later.
    let fault = fault(&house.daemon, "client_refused").await;
    assert_eq!(fault["code"], "SF0040", "{fault}");
    assert_eq!(fault["person_needed"], true, "{fault}");
    let message = fault["message"].as_str().unwrap();
    assert!(message.starts_with("the identity provider: "), "{message}");
    assert_eq!(token_requests(provider.log()).len(), 1);
    assert!(token_requests(house.issuer.log()).is_empty());
    house.secret("ASSERTION", ASSERTION).await;
    house.connected().await;
    house.works().await;
    house.notice_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_identity_assertion_goes_to_nobody() {
    let access_token = "urn:ietf:params:oauth:token-type:access_token";
    let (provider, house) = vouched_house(access_token).await;
    house.secret("ASSERTION", ASSERTION).await;
    let asked = |log: &RequestLog| !token_requests(log).is_empty();
    provider
        .log()
        .wait_for(asked, testkit::PATIENCE)
        .await
        .unwrap();
    let told = house
        .daemon
        .wait_connection("dev", "fake", testkit::PATIENCE, |connection| {
            connection["grant"]["last_renewal"]["outcome"] == "client_refused"
        })
        .await;
    let told = told.unwrap().to_string();
    assert!(!told.contains(VOUCHED), "{told}");
    assert!(token_requests(house.issuer.log()).is_empty());
}
