//! Which client a daemon is to an authorization server, and what becomes of one that is forgotten.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::json_body;
use testkit::script::any;
use testkit::{Browser, PATIENCE, RequestLog};

use super::House;
use crate::operating::until;

/// The client that a link names.
fn client_of(offer: &Value) -> String {
    let link: url::Url = offer["url"].as_str().unwrap().parse().unwrap();
    let mut pairs = link.query_pairs();
    let found = pairs.find(|(name, _)| name == "client_id");
    found.unwrap().1.into_owned()
}

async fn sign_in(house: &House) -> String {
    let offer = house.offer(&json!({})).await;
    let link = offer["url"].as_str().unwrap();
    let page = Browser::new().open(link).await.unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    let connected = house.daemon.wait_state("dev", "fake", "connected").await;
    connected.unwrap();
    client_of(&offer)
}

#[tokio::test(flavor = "multi_thread")]
async fn cr_01_a_forgotten_client_is_registered_anew_once_and_at_once() {
    for status in [401, 400] {
        let house = House::new(|daemon| daemon).await;
        house
            .issuer
            .change(|policy| policy.answers.invalid_client_status = status);
        let first = sign_in(&house).await;
        // A link of before names the client of before.
        let stale = house.offer(&json!({})).await;
        assert_eq!(client_of(&stale), first);
        house.issuer.forget_clients();
        let registered = |log: &RequestLog| {
            let asked = log.matching(|request| request.path_only() == "/register");
            asked.len() >= 2
        };
        let seen = house.issuer.log().wait_for(registered, PATIENCE).await;
        seen.expect("nobody had to ask for a link");
        let connection = house.grant_state("refused").await;
        assert_eq!(connection["fault"]["person_needed"], true, "{connection}");

        let offer = house.offer(&json!({})).await;
        assert_ne!(client_of(&offer), first);
        let again = house.offer(&json!({})).await;
        assert_eq!(offer, again);
        // A reload asks with the old client once more, and registers none.
        let path = "/api/v1/connections/dev/fake/reload";
        house.daemon.post(path, &json!({})).await.unwrap();
        assert_eq!(house.registrations().len(), 2, "no other before a sign-in");
        let refreshed = house
            .issuer
            .log()
            .matching(|request| request.form().get("grant_type") == Some("refresh_token"));
        for request in refreshed {
            let client = request.form().get("client_id").map(str::to_owned);
            assert_eq!(client.as_deref(), Some(&*first), "bound to its client");
        }
        let link = offer["url"].as_str().unwrap();
        let page = Browser::new().open(link).await.unwrap();
        assert_eq!(page.status, 200, "{page:?}");
        house.connected().await;
        house.works().await;
    }
}

/// The issuer says when the secret of a registration ends: it is shown, and no link is made with a client that would not
/// live to see the person come back.
#[tokio::test(flavor = "multi_thread")]
async fn cr_01_a_registration_is_renewed_ahead_of_its_end() {
    let house = House::new(|daemon| daemon.set("sign_in.attempt_lifetime", "\"4s\"")).await;
    house.issuer.change(|policy| {
        policy.registration.lifetime = Some(Duration::from_secs(8));
        policy.registration.assigns_auth = Some("client_secret_basic".to_owned());
    });
    let end = async || -> jiff::Timestamp {
        let connection = house.daemon.connection("dev", "fake").await.unwrap();
        let end = connection["grant"]["client_expires_at"].as_str();
        end.unwrap_or_else(|| panic!("{connection}"))
            .parse()
            .unwrap()
    };
    let first = sign_in(&house).await;
    let first_end = end().await;
    assert!(first_end > jiff::Timestamp::now());
    // As long as it is good for long enough, each link is of this client.
    until("another client", async || {
        let offer = house.offer(&json!({ "restart": true })).await;
        client_of(&offer) != first
    })
    .await;
    assert!(
        jiff::Timestamp::now() < first_end,
        "the first is good still"
    );
    assert_eq!(house.registrations().len(), 2, "{}", house.issuer.log());
    // Until somebody signs in, the grant stays with its own client.
    assert_eq!(end().await, first_end);
    let second = sign_in(&house).await;
    assert_ne!(second, first);
    assert!(end().await > first_end);
    house.works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cr_02_a_client_that_led_nowhere_is_asked_about_before_the_next_link() {
    let house = House::new(|daemon| daemon).await;
    let first = house.offer(&json!({})).await;
    house.issuer.forget_clients();
    let page = Browser::new().open(first["url"].as_str().unwrap()).await;
    assert_eq!(page.unwrap().status, 400, "the page that leads nowhere");
    let second = house.offer(&json!({"restart": true})).await;
    assert_ne!(client_of(&first), client_of(&second));
    assert_eq!(house.registrations().len(), 2);
    // One that is good after all stays.
    let third = house.offer(&json!({"restart": true})).await;
    assert_eq!(client_of(&second), client_of(&third));
    assert_eq!(house.registrations().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cr_03_another_callback_address_leaves_the_grant_alone() {
    let mut house = House::new(|daemon| daemon).await;
    let client = sign_in(&house).await;
    house
        .daemon
        .reconfigure("gateway.public_url", "\"http://127.0.0.1:7001\"")
        .unwrap();
    house.daemon.restart().await.unwrap();
    let before = super::renewals(house.issuer.log());
    house.renewals(before + 2).await;
    let refreshed = house
        .issuer
        .log()
        .matching(|request| request.form().get("grant_type") == Some("refresh_token"));
    let clients: Vec<_> = refreshed
        .iter()
        .map(|request| request.form().get("client_id").map(str::to_owned))
        .collect();
    assert!(
        clients.iter().all(|id| id.as_deref() == Some(&client)),
        "{clients:?}"
    );
    assert_eq!(house.registrations().len(), 1);
    let offer = house.offer(&json!({})).await;
    assert_ne!(client_of(&offer), client);
    assert_eq!(house.registrations().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_metadata_document_that_is_hosted_elsewhere_is_the_client() {
    let hosted = "https://corp.test/steadfast.json";
    let house = House::new(|daemon| daemon.set_text("gateway.client_metadata_url", hosted)).await;
    let takes_documents = |takes| {
        let change = move |policy: &mut testkit::issuer::Policy| {
            policy.registration.documents = takes;
        };
        house.issuer.change(change);
    };
    takes_documents(true);
    let offer = house.offer(&json!({})).await;
    assert_eq!(client_of(&offer), hosted);
    assert_eq!(house.registrations(), Vec::<Value>::new());
    // What has to stand there is what we would show if it were ours.
    let page = format!("http://{}/oauth/client.json", house.daemon.address());
    let page = Browser::new().open(&page).await.unwrap();
    let document: Value = serde_json::from_str(&page.body).unwrap();
    let link: url::Url = offer["url"].as_str().unwrap().parse().unwrap();
    let mut pairs = link.query_pairs();
    let (_, callback) = pairs.find(|(name, _)| name == "redirect_uri").unwrap();
    assert_eq!(document["client_id"], hosted);
    assert_eq!(document["redirect_uris"], json!([callback]));
    assert_eq!(document["application_type"], "native");
    // An issuer that takes none gets a registration.
    takes_documents(false);
    let offer = house.offer(&json!({"restart": true})).await;
    assert_ne!(client_of(&offer), hosted);
    assert_eq!(house.registrations().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_that_a_registration_must_not_name_are_asked_for_in_the_link() {
    let house = House::new(|daemon| daemon).await;
    house.server.change(|behaviour| {
        if let Some(protection) = &mut behaviour.protection {
            protection.scopes = vec!["add".to_owned()];
        }
    });
    let refusal = json_body(400, &json!({"error": "invalid_client_metadata"}));
    let named = any().path("/register").when(|request| {
        let metadata = request.json.as_ref();
        metadata.is_some_and(|metadata| metadata["scope"].is_string())
    });
    house.issuer.script().first_on(named).reply(refusal);
    sign_in(&house).await;
    let registered = house.registrations();
    let named: Vec<_> = registered.iter().map(|it| it["scope"].as_str()).collect();
    assert_eq!(named, [Some("add"), None]);
    let asked = &house.issuer.authorizations()[0];
    assert_eq!(asked.get("scope"), Some("add"));
}
