//! Metadata, registration and the authorization endpoint.

use std::time::Duration;

use serde_json::json;
use testkit::issuer::policy::{Consent, Iss, RefreshTokens, Well};
use testkit::issuer::{Client, Kind};
use testkit::{Browser, Issuer, Tls};

use crate::app::{
    CALLBACK, authorize, browser, get, link, public_client, redeem, register, sign_in,
};

#[tokio::test]
async fn metadata_stands_where_it_is_served_and_says_what_is_true_or_bent() {
    let issuer = Issuer::builder().path("/t1").start().await;
    let oauth = "/.well-known/oauth-authorization-server/t1";
    let (status, document) = get(issuer.address(), oauth).await;
    assert_eq!(
        (status, document["issuer"].as_str()),
        (200, Some(issuer.identifier()))
    );
    assert_eq!(document["token_endpoint"], issuer.token_endpoint());
    assert!(issuer.token_endpoint().ends_with("/t1/token"));
    assert_eq!(
        document["code_challenge_methods_supported"],
        json!(["S256"])
    );
    assert_eq!(document.get("scopes_supported"), None);

    issuer.change(|policy| {
        policy.served_at = vec![Well::OpenIdAppended, Well::At("/elsewhere".to_owned())];
        policy.registration.open = false;
        policy.authorization.pkce_methods.clear();
        policy.metadata.set("issuer", "https://other.test");
        policy.metadata.remove("authorization_endpoint");
        policy.metadata.header("cache-control", "max-age=60");
    });
    assert_eq!(get(issuer.address(), oauth).await.0, 404);
    assert_eq!(get(issuer.address(), "/elsewhere").await.0, 200);
    let appended = issuer.url("/.well-known/openid-configuration");
    let page = browser().open(&appended).await.unwrap();
    let document: serde_json::Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(document["issuer"], "https://other.test");
    for absent in [
        "authorization_endpoint",
        "registration_endpoint",
        "code_challenge_methods_supported",
    ] {
        assert_eq!(document.get(absent), None, "{absent}");
    }
    assert!(
        page.headers
            .contains(&("cache-control".to_owned(), "max-age=60".to_owned()))
    );
    assert_eq!(register(&issuer, json!({})).await.0, 404);
}

#[tokio::test]
async fn registered_clients_get_secrets_and_ends_and_are_forgotten() {
    let issuer = Issuer::start().await;
    let metadata = json!({ "redirect_uris": [CALLBACK] });
    let (status, first) = register(&issuer, metadata.clone()).await;
    assert_eq!(status, 201);
    assert_eq!(
        (&first["client_id"], &first["client_secret"]),
        (&json!("C1"), &json!("secret1"))
    );
    assert_eq!(first["client_secret_expires_at"], 0);
    issuer.change(|policy| policy.registration.lifetime = Some(Duration::ZERO));
    let (_, second) = register(&issuer, metadata).await;
    let (issued, ends) = (
        &second["client_id_issued_at"],
        &second["client_secret_expires_at"],
    );
    assert_eq!(issued, ends);
    assert_eq!(authorize(&issuer, "C1", &[]).await.status, 0);
    assert_eq!(authorize(&issuer, "C2", &[]).await.status, 400);
    issuer.forget_client("C1");
    issuer.change(|policy| policy.authorization.unknown_client_status = 422);
    assert_eq!(authorize(&issuer, "C1", &[]).await.status, 422);
    assert_eq!(issuer.counts().registrations, 2);
}

#[tokio::test]
async fn a_code_comes_back_with_state_and_issuer_and_is_good_once() {
    let issuer = Issuer::start().await;
    let client = public_client(&issuer).await;
    let page = authorize(&issuer, &client, &[("scope", "read write")]).await;
    assert_eq!(page.query("state").as_deref(), Some("a state"));
    assert_eq!(page.query("iss").as_deref(), Some(issuer.identifier()));
    assert_eq!(issuer.authorizations()[0].list("scope"), ["read", "write"]);
    let code = page.query("code").unwrap();
    let (_, tokens) = redeem(&issuer, &client, &code).await;
    assert_eq!(
        tokens,
        json!({ "access_token": "AT1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "RT1",
            "scope": "read write" })
    );
    assert_eq!(issuer.live(Kind::Refresh), 1);
    let (status, again) = redeem(&issuer, &client, &code).await;
    assert_eq!((status, &again["error"]), (400, &json!("invalid_grant")));
    assert_eq!(
        issuer.live(Kind::Refresh),
        0,
        "a code used twice was stolen"
    );

    issuer.change(|policy| policy.authorization.iss = Iss::Omitted);
    assert_eq!(authorize(&issuer, &client, &[]).await.query("iss"), None);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_decides_who_is_told() {
    let issuer = Issuer::start().await;
    issuer.add_client(Client::public("app").redirect(CALLBACK));
    issuer.change(|policy| {
        policy.authorization.resources = Some(vec!["https://rs.test/mcp".to_owned()]);
        policy.authorization.scopes_strict = true;
    });
    let wrong = [
        ("redirect_uri", "http://127.0.0.1:7002/callback", None),
        ("code_challenge_method", "plain", Some("invalid_request")),
        ("resource", "https://evil.test", Some("invalid_target")),
        ("scope", "unheard-of", Some("invalid_scope")),
        ("response_type", "token", Some("unsupported_response_type")),
    ];
    for (name, value, error) in wrong {
        let page = authorize(&issuer, "app", &[(name, value)]).await;
        assert_eq!(page.query("error").as_deref(), error, "{name}");
        assert_eq!(page.query("code"), None);
        assert_eq!(page.status, if error.is_some() { 0 } else { 400 });
    }
    issuer.change(|policy| policy.authorization.loopback_port_free = true);
    let elsewhere = "http://127.0.0.1:7002/callback";
    let browser = Browser::new().stop_at(elsewhere);
    let link = link(&issuer, "app", &[("redirect_uri", elsewhere)]);
    assert!(browser.open(&link).await.unwrap().query("code").is_some());
}

#[tokio::test]
async fn a_person_presses_a_button_refuses_or_leaves() {
    let issuer = Issuer::start().await;
    issuer.add_client(Client::public("app").redirect(CALLBACK));
    issuer.change(|policy| policy.authorization.consent = Consent::Form);
    let browser = browser();
    let page = browser.open(&link(&issuer, "app", &[])).await.unwrap();
    let approved = browser.press(&page, "approve").await.unwrap();
    assert_eq!(approved.query("code").as_deref(), Some("code1"));
    let again = browser.press(&page, "approve").await.unwrap();
    assert_eq!(again.status, 400, "a form is good for one answer");
    let page = browser.open(&link(&issuer, "app", &[])).await.unwrap();
    let denied = browser.press(&page, "deny").await.unwrap();
    assert_eq!(denied.query("error").as_deref(), Some("access_denied"));

    let refuses = Consent::Denies("server_error".to_owned());
    issuer.change(|policy| policy.authorization.consent = refuses);
    let denied = authorize(&issuer, "app", &[]).await;
    assert_eq!(denied.query("error").as_deref(), Some("server_error"));
    issuer.change(|policy| policy.authorization.consent = Consent::Abandons);
    assert_eq!(authorize(&issuer, "app", &[]).await.status, 200);
}

#[tokio::test]
async fn a_client_may_be_described_by_the_document_that_its_id_leads_to() {
    let issuer = Issuer::start().await;
    let id = "https://app.test/client.json";
    assert_eq!(authorize(&issuer, id, &[]).await.status, 400);
    let document = json!({ "client_id": id, "redirect_uris": [CALLBACK] });
    issuer.change(|policy| {
        policy.registration.documents = true;
        let known = &mut policy.registration.known_documents;
        known.insert(id.to_owned(), document);
    });
    assert_eq!(sign_in(&issuer, id, &[]).await["access_token"], "AT1");

    let host = Issuer::start().await;
    let fetched = host.url("/client.json");
    let document = json!({ "client_id": fetched, "redirect_uris": [CALLBACK] });
    let reply = testkit::reply::json_body(200, &document);
    let path = testkit::script::get().path("/client.json");
    host.script().on(path).reply(reply);
    assert_eq!(sign_in(&issuer, &fetched, &[]).await["access_token"], "AT2");
}

#[tokio::test]
async fn a_refresh_token_may_want_to_be_asked_for() {
    let issuer = Issuer::start().await;
    let client = public_client(&issuer).await;
    let offline = ("scope", "read offline_access");
    let google = ("access_type", "offline");
    let asked = RefreshTokens::WithParameter(google.0.to_owned(), google.1.to_owned());
    let cases = [
        (RefreshTokens::WithOfflineAccess, ("scope", "read"), false),
        (RefreshTokens::WithOfflineAccess, offline, true),
        (asked.clone(), offline, false),
        (asked, google, true),
        (RefreshTokens::Never, offline, false),
    ];
    for (setting, parameter, has_one) in cases {
        issuer.change(|policy| policy.tokens.refresh = setting.clone());
        let tokens = sign_in(&issuer, &client, &[parameter]).await;
        assert_eq!(
            tokens.get("refresh_token").is_some(),
            has_one,
            "{setting:?}"
        );
    }
}

#[tokio::test]
async fn the_browser_goes_through_tls_and_keeps_cookies() {
    let tls = Tls::new(&["as.test"]).unwrap();
    let issuer = Issuer::builder().host("as.test").tls(&tls).start().await;
    assert!(issuer.identifier().starts_with("https://as.test:"));
    let visit = testkit::script::get().path("/visit");
    let reply = testkit::reply::status(302)
        .header("set-cookie", "who=me; Path=/; HttpOnly")
        .header("location", "/seen");
    issuer.script().on(visit).reply(reply);
    let url = issuer.url("/visit");
    assert!(Browser::new().open(&url).await.is_err(), "nobody vouches");
    let page = Browser::new().trust(&tls).open(&url).await.unwrap();
    assert_eq!((page.status, page.visited.len()), (404, 2));
    let requests = issuer.log().requests();
    assert_eq!(requests.last().unwrap().header("cookie"), Some("who=me"));
}
