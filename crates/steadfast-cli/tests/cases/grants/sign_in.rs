//! From the link to the connection, and back.

use serde_json::{Value, json};
use testkit::issuer::policy::{Consent, Iss, RefreshTokens};
use testkit::{Browser, PATIENCE, RequestLog};

use super::House;
use crate::rig::{Era, agent_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_connects_and_clears_the_notice() {
    let house = House::new(|daemon| daemon).await;
    house.waits().await;
    let offer = house.offer(&json!({})).await;
    let shown = house.daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(shown["sign_in_url"], offer["url"], "{shown}");

    let page = Browser::new().open(url(&offer)).await.unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("signed in to fake"), "{page:?}");
    assert!(!page.body.contains("<script"), "{page:?}");
    let connection = house.daemon.wait_state("dev", "fake", "connected").await;
    let connection = connection.unwrap();
    assert_eq!(connection["sign_in_url"], Value::Null, "{connection}");
    assert_eq!(connection["grant"]["issuer"], house.issuer.identifier());
    assert_eq!(connection["grant"]["renewable"], true, "{connection}");
    house.notice_cleared().await;

    let asked = &house.issuer.authorizations()[0];
    assert_eq!(asked.get("code_challenge_method"), Some("S256"));
    assert_eq!(asked.get("resource"), Some(house.server.url().as_str()));
    let redeemed = house
        .issuer
        .log()
        .matching(|request| request.form().get("grant_type") == Some("authorization_code"));
    assert_eq!(redeemed.len(), 1);
    let form = redeemed[0].form();
    assert_eq!(form.get("resource"), asked.get("resource"));
    assert_eq!(form.get("redirect_uri"), asked.get("redirect_uri"));
    assert!(form.get("code_verifier").is_some_and(|it| it.len() >= 43));
    let registered = house.registrations();
    assert_eq!(registered.len(), 1);
    assert_eq!(registered[0]["application_type"], "native");

    let agent = agent_of(Era::Legacy, &house.daemon).await;
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(!answer.is_error(), "{answer:?}");
    // What was signed in is kept alive like any other.
    house.renewals(2).await;
    assert_eq!(house.issuer.counts().reuses, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_get_one_link_one_registration_and_one_token() {
    let house = House::new(|daemon| daemon).await;
    house.waits().await;
    let nothing = json!({});
    let (one, two, three) = tokio::join!(
        house.offer(&nothing),
        house.offer(&nothing),
        house.offer(&nothing)
    );
    assert_eq!(one, two);
    assert_eq!(two, three);
    assert_eq!(house.registrations().len(), 1);

    let stop = format!("http://{}/oauth/callback", house.daemon.address());
    let browser = Browser::new().stop_at(&stop);
    let back = browser.open(url(&one)).await.unwrap().url;
    let (one, two) = (Browser::new(), Browser::new());
    let (first, second) = tokio::join!(one.open(&back), two.open(&back));
    let mut statuses = [first.unwrap().status, second.unwrap().status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 410], "one gets through");

    let fresh = house.offer(&nothing).await;
    let again = house.offer(&json!({"restart": true})).await;
    assert_ne!(fresh["url"], again["url"]);
    let page = Browser::new().open(url(&fresh)).await.unwrap();
    assert_eq!(page.status, 410, "a link that was replaced: {page:?}");
    assert_eq!(house.registrations().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_issuer_gives_away_no_code() {
    for (iss, error) in [(Some("https://evil.test"), ""), (None, "access_denied")] {
        let house = House::new(|daemon| daemon).await;
        let offer = house.offer(&json!({})).await;
        house.issuer.change(|policy| {
            policy.authorization.iss = iss.map_or(Iss::Omitted, |iss| Iss::Is(iss.to_owned()));
            if !error.is_empty() {
                policy.authorization.consent = Consent::Denies(error.to_owned());
            }
        });
        let page = Browser::new().open(url(&offer)).await.unwrap();
        assert_eq!(page.status, 400, "{page:?}");
        // An error that comes without the promised `iss` is not believed, nor shown.
        assert!(!page.body.contains("access_denied"), "{page:?}");
        let is_token = |log: &RequestLog| {
            !log.matching(|request| request.path_only() == "/token")
                .is_empty()
        };
        assert!(!is_token(house.issuer.log()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_and_an_unknown_state_are_told_on_a_page() {
    let house = House::new(|daemon| daemon).await;
    let denies = Consent::Denies("access_denied".to_owned());
    house
        .issuer
        .change(|policy| policy.authorization.consent = denies);
    let offer = house.offer(&json!({})).await;
    let page = Browser::new().open(url(&offer)).await.unwrap();
    assert_eq!(page.status, 400, "{page:?}");
    assert!(page.body.contains("access_denied"), "{page:?}");
    let strange = format!(
        "http://{}/oauth/callback?code=1&state=%3Cscript%3E",
        house.daemon.address()
    );
    let page = Browser::new().open(&strange).await.unwrap();
    assert_eq!(page.status, 410, "{page:?}");
    assert!(!page.body.contains("<script"), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_03_a_grant_without_a_refresh_token_says_when_it_ends() {
    let house = House::new(|daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.tokens.refresh = RefreshTokens::WithOfflineAccess;
        policy.authorization.scopes_supported = vec!["add".into(), "offline_access".into()];
    });
    let offer = house.offer(&json!({})).await;
    let page = Browser::new().open(url(&offer)).await.unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    assert!(!page.body.contains("cannot be renewed"), "{page:?}");
    house.grant_state("valid").await;

    let house = House::new(|daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.tokens.refresh = RefreshTokens::Never;
        policy.tokens.lifetime = Some(std::time::Duration::from_secs(600));
    });
    let offer = house.offer(&json!({})).await;
    let page = Browser::new().open(url(&offer)).await.unwrap();
    assert!(
        page.body.contains("cannot be renewed and ends at"),
        "{page:?}"
    );
    let connection = house.grant_state("unrenewable").await;
    assert_eq!(connection["grant"]["renewable"], false, "{connection}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_revokes_after_a_renewal_and_forgets() {
    let house = House::signed_in(|daemon| daemon).await;
    house.renewals(1).await;
    let path = "/api/v1/connections/dev/fake/sign-out";
    let (status, answer) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!(
        (status, &answer["revoked"]),
        (200, &json!("yes")),
        "{answer}"
    );
    let connection = house
        .daemon
        .wait_state("dev", "fake", "awaiting_sign_in")
        .await;
    assert_eq!(connection.unwrap()["grant"]["state"], "none");
    let live = house.issuer.live(testkit::issuer::Kind::Refresh);
    assert_eq!(live, 0, "the newest one was revoked");
    assert_eq!(house.issuer.counts().reuses, 0);
    let (status, answer) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!((status, &answer["revoked"]), (200, &json!("not_supported")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_the_link_and_waits_for_the_person() {
    let house = House::new(|daemon| daemon).await;
    house.waits().await;
    let arguments = ["sign-in", "dev", "fake", "--json"];
    let browse = async {
        let offered = |connection: &Value| connection["sign_in_url"].is_string();
        let shown = house
            .daemon
            .wait_connection("dev", "fake", PATIENCE, offered)
            .await
            .unwrap();
        let link = shown["sign_in_url"].as_str().unwrap().to_owned();
        Browser::new().open(&link).await.unwrap()
    };
    let (output, page) = tokio::join!(house.daemon.command(&arguments), browse);
    let output = output.unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = house
        .daemon
        .command(&["grant", "show", "dev", "fake"])
        .await;
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains(house.issuer.identifier()), "{shown}");
    let out = house.daemon.command(&["sign-out", "dev", "fake"]).await;
    assert_eq!(out.unwrap().status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_nobody_uses_ends_and_the_command_says_that_a_person_must_act() {
    let house = House::new(|daemon| daemon.set("sign_in.attempt_lifetime", "\"1s\"")).await;
    let command = house.daemon.command(&["sign-in", "dev", "fake"]).await;
    assert_eq!(command.unwrap().status.code(), Some(3));
    let (_, connection) = house
        .daemon
        .get("/api/v1/connections/dev/fake")
        .await
        .unwrap();
    assert_eq!(connection["sign_in_url"], Value::Null, "{connection}");
}

fn url(offer: &Value) -> &str {
    offer["url"].as_str().unwrap()
}
