//! How the token endpoint answers, and how clients prove who they are.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use testkit::issuer::Client;
use testkit::issuer::policy::{Errors, ExpiresIn, FormEncoded, Scope};
use testkit::reply::content;
use testkit::script::any;
use testkit::{End, Issuer, PATIENCE, Reply};

use crate::app::{authorize, post_form, public_client, refresh, token};

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

async fn granted() -> Issuer {
    let issuer = Issuer::start().await;
    issuer.issue(Client::public("app"), &["read"], None);
    issuer
}

#[tokio::test]
async fn members_of_an_answer_are_true_absent_or_anything() {
    let issuer = granted().await;
    issuer.change(|policy| {
        policy.tokens.lifetime = Some(Duration::from_millis(1500));
        policy.tokens.unguessable = true;
        policy.answers.token_type = "bEARER".to_owned();
        policy.answers.extra.insert("more".to_owned(), json!([1]));
    });
    let (_, tokens) = refresh(&issuer, "app", "RT1").await;
    assert_eq!(
        (
            &tokens["expires_in"],
            &tokens["token_type"],
            &tokens["more"]
        ),
        (&json!(1), &json!("bEARER"), &json!([1]))
    );
    let next = tokens["refresh_token"].as_str().unwrap();
    assert_eq!((next.len(), &next[..4]), (36, "RT2-"));
    issuer.change(|policy| {
        policy.answers.expires_in = ExpiresIn::Is(json!("3600"));
        policy.answers.scope = Scope::Omitted;
    });
    let (_, tokens) = refresh(&issuer, "app", next).await;
    assert_eq!(tokens["expires_in"], "3600");
    assert_eq!(tokens.get("scope"), None);
}

#[tokio::test]
async fn errors_take_every_form_that_is_seen_in_the_field() {
    let issuer = granted().await;
    let names = [("invalid_grant", "bad_refresh_token")];
    issuer.change(|policy| {
        let answers = &mut policy.answers;
        answers.errors = Errors::NotOk;
        answers.echoes = true;
        answers.error_names = names.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    });
    let (status, error) = refresh(&issuer, "app", "canary").await;
    assert_eq!((status, &error["ok"]), (200, &json!(false)));
    assert_eq!(error["error"], "bad_refresh_token");
    assert!(
        error["error_description"]
            .as_str()
            .unwrap()
            .ends_with(": canary")
    );
    issuer.change(|policy| policy.answers.errors = Errors::WithStatus200);
    assert_eq!(refresh(&issuer, "app", "x").await.0, 200);
    issuer.change(|policy| policy.answers.errors = Errors::Standard);
    assert_eq!(refresh(&issuer, "stranger", "x").await.0, 401);
    issuer.change(|policy| policy.answers.invalid_client_status = 400);
    assert_eq!(refresh(&issuer, "stranger", "x").await.0, 400);
    let (_, unknown) = token(&issuer, &[("client_id", "app"), ("grant_type", "magic")]).await;
    assert_eq!(unknown["error"], "unsupported_grant_type");
}

#[tokio::test]
async fn a_form_answers_whoever_does_not_ask_for_json() {
    let issuer = granted().await;
    issuer.change(|policy| {
        policy.answers.form_encoded = FormEncoded::UnlessJsonAccepted;
        policy.answers.form_content_type = "text/plain".to_owned();
    });
    let (_, tokens) = refresh(&issuer, "app", "RT1").await;
    assert_eq!(tokens["access_token"], "AT2");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "app"),
        ("refresh_token", "RT2"),
    ];
    let mut response = post_form(&issuer, "/token", &[], &fields).await;
    assert_eq!(response.header("content-type"), Some("text/plain"));
    assert_eq!(
        response.bytes().await.unwrap(),
        "access_token=AT3&token_type=Bearer&expires_in=3600&refresh_token=RT3&scope=read"
    );
}

#[tokio::test]
async fn the_endpoint_moves_throttles_and_takes_its_time() {
    let issuer = granted().await;
    issuer.move_token_endpoint("/oauth2/v2/token", 410);
    let left = post_form(&issuer, "/token", &[], &[]).await;
    assert_eq!((left.status, issuer.presented().len()), (410, 0));
    issuer.change(|policy| policy.answers.delay = Duration::from_millis(50));
    let began = Instant::now();
    assert_eq!(refresh(&issuer, "app", "RT1").await.0, 200);
    assert!(began.elapsed() >= Duration::from_millis(50));
    issuer.change(|policy| policy.answers.rate_limit = Some(0));
    assert_eq!(refresh(&issuer, "app", "RT2").await.0, 429);
    let counts = issuer.counts();
    assert_eq!((counts.token_requests, counts.throttled), (2, 1));
    assert_eq!(issuer.presented(), ["RT1"], "what is throttled is not read");
    assert_eq!(issuer.peak_token_requests(), 1);
}

#[tokio::test]
async fn scripts_break_it_before_or_after_it_has_decided() {
    let issuer = granted().await;
    let blocked = content(403, "text/html", "<h1>Blocked</h1>");
    let decided = Reply::new().cut_after(0, End::Rst).run();
    let rule = any().path("/token").form("grant_type", "refresh_token");
    issuer.script().on(rule).replies([blocked, decided]);
    assert_eq!(refresh(&issuer, "app", "RT1").await.0, 403);
    assert_eq!(issuer.counts().refreshes, 0);
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "app"),
        ("refresh_token", "RT1"),
    ];
    let mut lost = post_form(&issuer, "/token", &[], &fields).await;
    assert!(lost.bytes().await.is_err());
    assert_eq!(
        issuer.counts().refreshes,
        1,
        "the answer is lost, not the deed"
    );
    let ended = |log: &testkit::RequestLog| log.ending(1).is_some();
    issuer.log().wait_for(ended, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn the_code_is_for_one_client_one_redirect_and_one_verifier() {
    let issuer = Issuer::start().await;
    let client = public_client(&issuer).await;
    issuer.add_client(Client::public("other"));
    let resource = ("resource", "https://rs.test/mcp");
    let page = authorize(&issuer, &client, &[resource]).await;
    let code = page.query("code").unwrap();
    let good = [
        ("grant_type", "authorization_code"),
        ("client_id", &client),
        ("code", &code),
        ("redirect_uri", crate::app::CALLBACK),
        ("code_verifier", crate::app::VERIFIER),
        resource,
    ];
    let wrong = [
        ("client_id", "other", "invalid_grant"),
        ("redirect_uri", "http://127.0.0.1:1/", "invalid_grant"),
        ("code_verifier", "another", "invalid_grant"),
        ("resource", "https://evil.test/", "invalid_target"),
    ];
    for (name, value, error) in wrong {
        let fields = good.map(|(key, kept)| (key, if key == name { value } else { kept }));
        assert_eq!(token(&issuer, &fields).await.1["error"], error, "{name}");
    }
    let (status, tokens) = token(&issuer, &good).await;
    assert_eq!(status, 200);
    let value = tokens["access_token"].as_str().unwrap();
    let issued = issuer.token(value).unwrap();
    assert_eq!(issued.resource.as_deref(), Some("https://rs.test/mcp"));
}

#[tokio::test]
async fn secrets_are_taken_as_the_server_wants_them() {
    let issuer = Issuer::start().await;
    issuer.add_client(Client::confidential("svc", "s%cret"));
    let grant = ("grant_type", "client_credentials");
    let basic = format!("Basic {}", STANDARD.encode("svc:s%25cret"));
    let header = [("authorization", basic.as_str())];
    let posted = [grant, ("client_id", "svc"), ("client_secret", "s%cret")];
    let mut response = post_form(&issuer, "/token", &header, &[grant]).await;
    assert_eq!(response.json().await.unwrap()["access_token"], "AT1");
    assert_eq!(token(&issuer, &posted).await.1.get("refresh_token"), None);
    issuer.change(|policy| {
        policy.registration.accepts_auth = Some(vec!["client_secret_post".to_owned()]);
    });
    let response = post_form(&issuer, "/token", &header, &[grant]).await;
    assert_eq!(response.status, 401);
    assert!(response.header("www-authenticate").is_some());
    assert_eq!(token(&issuer, &posted).await.0, 200);
    let unproven = [grant, ("client_id", "svc")];
    assert_eq!(token(&issuer, &unproven).await.1["error"], "invalid_client");
}

#[tokio::test]
async fn an_assertion_is_good_once_for_this_server_and_with_the_right_key() {
    let issuer = Issuer::start().await;
    let signer = Signer::new();
    issuer.add_client(Client::with_key("svc", signer.key()));
    let ask = async |jwt: &str| {
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", ASSERTION),
            ("client_assertion", jwt),
        ];
        token(&issuer, &fields).await.0
    };
    let jwt = signer.sign("svc", issuer.identifier(), 60);
    assert_eq!((ask(&jwt).await, ask(&jwt).await), (200, 401));
    assert_eq!(
        ask(&signer.sign("svc", &issuer.token_endpoint(), 60)).await,
        200
    );
    assert_eq!(
        ask(&signer.sign("svc", "https://other.test", 60)).await,
        401
    );
    assert_eq!(ask(&signer.sign("svc", issuer.identifier(), -1)).await, 401);
    let stranger = Signer::new().sign("svc", issuer.identifier(), 60);
    assert_eq!(ask(&stranger).await, 401);
}

struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    fn key(&self) -> Value {
        let point = self.0.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
    }

    fn sign(&self, client: &str, audience: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let claims = json!({ "iss": client, "sub": client, "aud": audience, "jti": format!("{now:?}"),
            "exp": now.as_secs() as i64 + seconds });
        let [header, claims] = [json!({ "alg": "ES256" }), claims]
            .map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let signature = self
            .0
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
