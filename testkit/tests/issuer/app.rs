//! A small OAuth client, so that the issuer is tested from outside.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testkit::client::{self, Response};
use testkit::{Browser, Issuer, Page};
use url::Url;
use url::form_urlencoded::Serializer;

pub(crate) const CALLBACK: &str = "http://127.0.0.1:7001/callback";
pub(crate) const VERIFIER: &str = "a-verifier-that-is-long-enough-for-everybody-1";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("accept", "application/json");

/// The status and JSON body of an answer.
pub(crate) type Answered = (u16, Value);

pub(crate) fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, VERIFIER.as_bytes()))
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answered {
    let sent = client::send(address, "GET", path, &[], b"").await.unwrap();
    let mut response = sent.response().await.unwrap();
    (response.status, response.json().await.unwrap())
}

pub(crate) async fn post_form(
    issuer: &Issuer,
    path: &str,
    headers: &[(&str, &str)],
    fields: &[(&str, &str)],
) -> Response {
    let body = Serializer::new(String::new()).extend_pairs(fields).finish();
    let headers = [&[FORM], headers].concat();
    client::send(issuer.address(), "POST", path, &headers, body.as_bytes())
        .await
        .unwrap()
        .response()
        .await
        .unwrap()
}

/// Posts to the token endpoint that the issuer has now.
pub(crate) async fn token(issuer: &Issuer, fields: &[(&str, &str)]) -> Answered {
    let endpoint = Url::parse(&issuer.token_endpoint()).unwrap();
    let mut response = post_form(issuer, endpoint.path(), &[JSON], fields).await;
    (response.status, response.json().await.unwrap())
}

pub(crate) async fn refresh(issuer: &Issuer, client: &str, value: &str) -> Answered {
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", client),
        ("refresh_token", value),
    ];
    token(issuer, &fields).await
}

pub(crate) async fn register(issuer: &Issuer, metadata: Value) -> Answered {
    let path = Url::parse(&issuer.url("/register")).unwrap();
    let headers = [("content-type", "application/json")];
    let body = metadata.to_string();
    let sent = client::send(
        issuer.address(),
        "POST",
        path.path(),
        &headers,
        body.as_bytes(),
    );
    let mut response = sent.await.unwrap().response().await.unwrap();
    (response.status, response.json().await.unwrap())
}

pub(crate) async fn public_client(issuer: &Issuer) -> String {
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none" });
    let (status, registered) = register(issuer, metadata).await;
    assert_eq!(status, 201);
    registered["client_id"].as_str().unwrap().to_owned()
}

/// An authorization link with everything that it should have; further fields replace or add.
pub(crate) fn link(issuer: &Issuer, client: &str, further: &[(&str, &str)]) -> String {
    let challenge = challenge();
    let usual = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", CALLBACK),
        ("state", "a state"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let replaced = |name: &str| further.iter().any(|(other, _)| *other == name);
    let mut url = Url::parse(&issuer.url("/authorize")).unwrap();
    url.query_pairs_mut()
        .extend_pairs(usual.iter().filter(|(name, _)| !replaced(name)))
        .extend_pairs(further);
    url.into()
}

pub(crate) fn browser() -> Browser {
    Browser::new().stop_at(CALLBACK)
}

pub(crate) async fn authorize(issuer: &Issuer, client: &str, further: &[(&str, &str)]) -> Page {
    let link = link(issuer, client, further);
    browser().open(&link).await.unwrap()
}

pub(crate) async fn redeem(issuer: &Issuer, client: &str, code: &str) -> Answered {
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ];
    token(issuer, &fields).await
}

/// From the link to the tokens.
pub(crate) async fn sign_in(issuer: &Issuer, client: &str, further: &[(&str, &str)]) -> Value {
    let page = authorize(issuer, client, further).await;
    let code = page.query("code").expect("the server approves");
    let (status, tokens) = redeem(issuer, client, &code).await;
    assert_eq!(status, 200, "{tokens}");
    tokens
}
