//! Clients that are more than a name: those that ask for tokens for themselves, and those that prove who they are.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::issuer::Client;
use testkit::{Browser, Issuer, PATIENCE, Request, RequestLog};

use super::House;
use crate::common::daemon;
use crate::rig::{Era, agent_of};

/// A secret that has to be encoded for either way to send it (RFC 6749 section 2.3.1).
const SECRET: &str = "s3:cr et%/+ä";

/// Long enough that no test comes near it.
const HOUR: Duration = Duration::from_secs(3_600);

/// What a client that asks for itself is configured with.
fn robot(daemon: Builder) -> Builder {
    daemon
        .set_text("servers.fake.oauth.grant", "client_credentials")
        .set_text("servers.fake.oauth.client_id", "robot")
}

/// The same, with a secret of the vault.
fn robot_with_secret(daemon: Builder) -> Builder {
    robot(daemon).set_text("servers.fake.oauth.client_secret", "${vault:ROBOT}")
}

/// An authorization server that knows one client, and takes only these ways to prove itself.
async fn issuer_of(client: Client, methods: &[&str]) -> Issuer {
    let issuer = Issuer::start().await;
    issuer.add_client(client);
    issuer.change(|policy| {
        policy.registration.auth_methods = methods.iter().map(|it| (*it).to_owned()).collect();
    });
    issuer
}

/// A client with a secret that asks for itself, and is connected.
async fn robot_house(lifetime: Duration) -> House {
    let client = Client::confidential("robot", SECRET);
    let issuer = issuer_of(client, &["client_secret_basic"]).await;
    let house = House::at(issuer, robot_with_secret).await;
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(lifetime));
    house.secret("ROBOT", SECRET).await;
    house.connected().await;
    house
}

fn token_requests(log: &RequestLog) -> Vec<Arc<Request>> {
    log.matching(|request| request.path_only() == "/token")
}

/// How the client of a request has proven itself.
fn proof_of(request: &Request) -> &'static str {
    let form = request.form();
    let has = |name: &str| form.get(name).is_some();
    let is_basic = request
        .header("authorization")
        .is_some_and(|value| value.starts_with("Basic "));
    match (is_basic, has("client_secret"), has("client_assertion")) {
        (true, false, false) => "client_secret_basic",
        (false, true, false) => "client_secret_post",
        (false, false, true) => "private_key_jwt",
        (false, false, false) => "none",
        _ => "several at once",
    }
}

async fn asked(house: &House, count: usize) {
    let seen = |log: &RequestLog| token_requests(log).len() >= count;
    house.issuer.log().wait_for(seen, PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_asks_for_itself_with_its_secret_and_nobody_signs_in() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let issuer = issuer_of(Client::confidential("robot", SECRET), &[method]).await;
        let house = House::at(issuer, |daemon| {
            robot_with_secret(daemon).set("servers.fake.oauth.scopes", "[\"add\", \"read\"]")
        })
        .await;
        let waiting = house
            .daemon
            .wait_state("dev", "fake", "misconfigured")
            .await;
        let fault = waiting.unwrap()["fault"].clone();
        assert_eq!(fault["code"], "SF0009", "{fault}");
        let message = "oauth.client_secret needs the secret ROBOT, which is not in the vault";
        assert_eq!(fault["message"], message);
        assert!(token_requests(house.issuer.log()).is_empty());

        house.secret("ROBOT", SECRET).await;
        house.connected().await;
        house.works().await;
        // On the clock, like any other grant.
        asked(&house, 3).await;
        house.works().await;
        for request in token_requests(house.issuer.log()) {
            let form = request.form();
            assert_eq!(proof_of(&request), method);
            assert_eq!(form.get("grant_type"), Some("client_credentials"));
            assert_eq!(form.get("scope"), Some("add read"));
            assert_eq!(form.get("resource"), Some(house.server.url().as_str()));
        }
        let connection = house.daemon.connection("dev", "fake").await.unwrap();
        let grant = &connection["grant"];
        assert_eq!(grant["issuer"], house.issuer.identifier(), "{grant}");
        assert_eq!(grant["renewable"], true, "{grant}");
        assert_eq!(grant["scopes"], json!(["add", "read"]), "{grant}");
        assert!(house.issuer.authorizations().is_empty());
        assert!(house.registrations().is_empty());
        house.notice_cleared().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_asks_for_itself_with_its_key() {
    let (client, key) = Client::with_new_key("robot");
    let issuer = issuer_of(client, &["private_key_jwt"]).await;
    let identifier = issuer.identifier().to_owned();
    let house = House::at(issuer, |daemon| {
        robot(daemon)
            .set_text("servers.fake.oauth.private_key", "${vault:KEY}")
            .set_text("servers.fake.oauth.key_id", "k1")
            .set_text("servers.fake.oauth.issuer", &identifier)
    })
    .await;
    // What is no key is said without being quoted.
    house.secret("KEY", "canary").await;
    let misconfigured = |connection: &Value| {
        let message = connection["fault"]["message"].as_str().unwrap_or_default();
        message.contains("oauth.private_key cannot be used")
    };
    let told = house
        .daemon
        .wait_connection("dev", "fake", PATIENCE, misconfigured)
        .await;
    assert!(!told.unwrap().to_string().contains("canary"));

    house.secret("KEY", &key).await;
    house.connected().await;
    house.works().await;
    // The issuer takes no assertion twice.
    asked(&house, 3).await;
    for request in token_requests(house.issuer.log()) {
        let form = request.form();
        assert_eq!(proof_of(&request), "private_key_jwt");
        assert_eq!(form.get("client_id"), None, "it stands in the assertion");
        let assertion = form.get("client_assertion").unwrap();
        let mut parts = assertion.split('.').map(|part| -> Value {
            let bytes = URL_SAFE_NO_PAD.decode(part).unwrap();
            serde_json::from_slice(&bytes).unwrap_or_default()
        });
        let (header, claims) = (parts.next().unwrap(), parts.next().unwrap());
        assert_eq!(header["alg"], "ES256", "{header}");
        assert_eq!(header["kid"], "k1", "{header}");
        // One audience, and it is the issuer: draft-ietf-oauth-rfc7523bis.
        assert_eq!(claims["aud"], identifier.as_str(), "{claims}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_refusals_of_a_clients_own_token_lead_to_one_new_one() {
    let house = robot_house(HOUR).await;
    let before = token_requests(house.issuer.log()).len();
    assert_eq!(before, 1);
    let agent = Arc::new(agent_of(Era::Legacy, &house.daemon).await);
    house.issuer.revoke_access_tokens();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let agent = Arc::clone(&agent);
        calls.spawn(async move { agent.call("add_row", json!({})).await.unwrap() });
    }
    for answer in calls.join_all().await {
        assert!(!answer.is_error(), "{answer:?}");
    }
    assert_eq!(token_requests(house.issuer.log()).len(), before + 1);
    assert_eq!(house.server.ledger().rows_of("add_row").unwrap().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_refused_is_its_operators_business_and_a_new_secret_is_tried_at_once() {
    let house = robot_house(Duration::from_secs(4)).await;
    // The provider changes the secret: what is held goes on being used.
    house
        .issuer
        .add_client(Client::confidential("robot", "another"));
    let connection = house.grant_state("refused").await;
    assert_eq!(connection["fault"]["code"], "SF0040", "{connection}");
    assert_eq!(connection["fault"]["person_needed"], true, "{connection}");
    let seen = token_requests(house.issuer.log()).len();
    let refused = house.daemon.wait_state("dev", "fake", "misconfigured");
    let reload = async {
        // The token ends; nobody is asked for another one by the clock.
        let over = |log: &RequestLog| token_requests(log).len() > seen;
        let limit = Duration::from_secs(5);
        let log = house.issuer.log();
        assert!(log.wait_for(over, limit).await.is_err(), "{log}");
        let agent = agent_of(Era::Legacy, &house.daemon).await;
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
    };
    let (waiting, ()) = tokio::join!(refused, reload);
    assert_eq!(waiting.unwrap()["fault"]["code"], "SF0040");
    let (_, notices) = house.daemon.get("/api/v1/notices").await.unwrap();
    assert_eq!(
        notices["notices"][0]["cleared_at"],
        Value::Null,
        "{notices}"
    );

    house.secret("ROBOT", "another").await;
    house.connected().await;
    house.works().await;
    house.notice_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_signed_a_machine_out_has_it_back_by_a_reload() {
    let house = robot_house(HOUR).await;
    let path = |what: &str| format!("/api/v1/connections/dev/fake/{what}");
    let (status, answer) = house
        .daemon
        .post(&path("sign-out"), &json!({}))
        .await
        .unwrap();
    assert_eq!(
        (status, &answer["revoked"]),
        (200, &json!("yes")),
        "{answer}"
    );
    house.waits().await;
    let mut house = house;
    house.daemon.restart().await.unwrap();
    house.waits().await;
    assert_eq!(token_requests(house.issuer.log()).len(), 1);
    house
        .daemon
        .post(&path("reload"), &json!({}))
        .await
        .unwrap();
    house.connected().await;
    assert_eq!(token_requests(house.issuer.log()).len(), 2);
    let (status, answer) = house
        .daemon
        .post(&path("sign-in"), &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 502, "{answer}");
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains("asks for tokens by itself"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_survives_its_issuer_and_finds_a_moved_token_endpoint() {
    let house = robot_house(Duration::from_secs(2)).await;
    house.issuer.stop().await;
    house.grant_state("delayed").await;
    house.issuer.resume();
    house.grant_state("valid").await;
    house.issuer.move_token_endpoint("/elsewhere/token", 404);
    let moved = |log: &RequestLog| {
        let there = log.matching(|request| request.path_only() == "/elsewhere/token");
        there.len() >= 2
    };
    house.issuer.log().wait_for(moved, PATIENCE).await.unwrap();
    house.works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_of_one_store_ask_for_one_token() {
    let house = robot_house(HOUR).await;
    let second = daemon(&house.server);
    let second = robot_with_secret(second).data(house.daemon.data());
    let second = second.start().await.unwrap();
    second.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Legacy, &second).await;
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(!answer.is_error(), "{answer:?}");
    assert_eq!(token_requests(house.issuer.log()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_not_shown_to_an_issuer_at_which_it_is_not_registered() {
    let issuer = issuer_of(
        Client::confidential("robot", SECRET),
        &["client_secret_basic"],
    )
    .await;
    let elsewhere = Issuer::start().await;
    let identifier = elsewhere.identifier().to_owned();
    let house = House::at(issuer, |daemon| {
        robot_with_secret(daemon).set_text("servers.fake.oauth.issuer", &identifier)
    })
    .await;
    house.secret("ROBOT", SECRET).await;
    let told = |connection: &Value| {
        let message = connection["fault"]["message"].as_str().unwrap_or_default();
        message.contains("set `oauth.issuer`")
    };
    let connection = house
        .daemon
        .wait_connection("dev", "fake", PATIENCE, told)
        .await
        .unwrap();
    assert!(connection.to_string().contains(&identifier), "{connection}");
    let is_token = |log: &RequestLog| !token_requests(log).is_empty();
    assert!(!is_token(house.issuer.log()) && !is_token(elsewhere.log()));
}

/// Signs in as a person does.
async fn sign_in(house: &House) {
    let offer = house.offer(&json!({})).await;
    let page = Browser::new().open(offer["url"].as_str().unwrap()).await;
    assert_eq!(page.unwrap().status, 200);
    house.connected().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_client_proves_itself_as_the_issuer_takes_it() {
    for method in [
        "client_secret_basic",
        "client_secret_post",
        "private_key_jwt",
    ] {
        let (key_client, key) = Client::with_new_key("app");
        let is_key = method == "private_key_jwt";
        let issuer = Issuer::start().await;
        issuer.change(|policy| policy.registration.auth_methods = vec![method.to_owned()]);
        let house = House::at(issuer, |daemon| {
            let member = if is_key {
                "private_key"
            } else {
                "client_secret"
            };
            daemon
                .set_text("servers.fake.oauth.client_id", "app")
                .set_text(&format!("servers.fake.oauth.{member}"), "${vault:APP}")
        })
        .await;
        let client = if is_key {
            key_client
        } else {
            Client::confidential("app", SECRET)
        };
        let callback = format!("http://{}/oauth/callback", house.daemon.address());
        house.issuer.add_client(client.clone().redirect(&callback));
        let proof = if is_key { &key } else { SECRET };
        house.secret("APP", proof).await;
        sign_in(&house).await;
        house.renewals(2).await;
        let seen = token_requests(house.issuer.log());
        assert!(seen.iter().all(|request| proof_of(request) == method));
        let grants: Vec<_> = seen
            .iter()
            .map(|request| request.form().get("grant_type").map(str::to_owned))
            .collect();
        assert_eq!(grants[0].as_deref(), Some("authorization_code"));
        assert_eq!(house.issuer.counts().reuses, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_secret_counts_from_the_next_renewal_on() {
    let house = House::new(|daemon| {
        daemon
            .set_text("servers.fake.oauth.client_id", "app")
            .set_text("servers.fake.oauth.client_secret", "${vault:APP}")
    })
    .await;
    let callback = format!("http://{}/oauth/callback", house.daemon.address());
    let knows = |secret: &str| {
        let client = Client::confidential("app", secret);
        house.issuer.add_client(client.redirect(&callback));
    };
    knows("old");
    house.secret("APP", "old").await;
    sign_in(&house).await;
    house.renewals(1).await;
    // First at the provider: it refuses the old one, and the grant is kept.
    knows("new");
    let connection = house.grant_state("refused").await;
    assert_eq!(connection["fault"]["code"], "SF0040", "{connection}");
    house.secret("APP", "new").await;
    house.grant_state("valid").await;
    house.works().await;
    assert_eq!(house.issuer.counts().reuses, 0);
    assert_eq!(
        house.issuer.authorizations().len(),
        1,
        "nobody signed in again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_client_proves_itself_as_it_was_registered() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let house = House::new(|daemon| daemon).await;
        house
            .issuer
            .change(|policy| policy.registration.assigns_auth = Some(method.to_owned()));
        sign_in(&house).await;
        house.renewals(2).await;
        let seen = token_requests(house.issuer.log());
        let proofs: Vec<_> = seen.iter().map(|request| proof_of(request)).collect();
        assert!(proofs.iter().all(|proof| *proof == method), "{proofs:?}");
        assert_eq!(house.issuer.counts().reuses, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_client_is_not_taken_to_another_issuer() {
    let house = House::new(|daemon| daemon.set_text("servers.fake.oauth.client_id", "app")).await;
    let callback = format!("http://{}/oauth/callback", house.daemon.address());
    let client = Client::public("app").redirect(&callback);
    house.issuer.add_client(client.clone());
    sign_in(&house).await;
    let other = Issuer::start().await;
    other.add_client(client);
    house
        .server
        .change_protection(|protection| protection.trust(&[&other]));
    let path = "/api/v1/connections/dev/fake/sign-in";
    let (status, answer) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!(status, 502, "{answer}");
    assert!(answer.to_string().contains("oauth.issuer"), "{answer}");
    assert!(other.authorizations().is_empty());
}
