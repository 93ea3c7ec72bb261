//! SEC-01 for clients that ask for themselves, and for identity providers: no secret, key or assertion is shown.

use serde_json::json;
use testkit::daemon::Builder;
use testkit::issuer::Client;
use testkit::reply::{content, json_body};
use testkit::script::any;
use testkit::{Issuer, Reply, Request};

use super::canaries::{Canaries, assert_clean};
use super::grants::in_no_file;
use crate::grants::House;
use crate::operating::until;

const SECRET: &str = "kS9vB4xNq7ZrT2mWc8LdG5jH";
const ASSERTION: &str = "kA6tM1zQw8XnP3vRb7KcY4fL";
const VOUCHED: &str = "kV2dR7hJx5TgN9sLq3ZbW6mC";

/// Whatever proves who asks, in every way in which it is sent, and the beginning of it.
fn repeated(request: &Request) -> String {
    let form = request.form();
    let named = [
        "client_secret",
        "client_assertion",
        "subject_token",
        "assertion",
    ];
    let mut proofs: Vec<String> = named
        .iter()
        .filter_map(|name| form.get(name).map(str::to_owned))
        .collect();
    let header = request.header("authorization");
    proofs.extend(
        header
            .and_then(|it| it.strip_prefix("Basic "))
            .map(str::to_owned),
    );
    let parts = proofs
        .iter()
        .map(|proof| format!("{proof} begins {}", proof.get(..20).unwrap_or(proof)));
    parts.collect::<Vec<_>>().join(", ")
}

fn refusals() -> [fn(&Request) -> Reply; 4] {
    [
        |request| content(503, "text/plain", repeated(request)),
        |request| {
            let said = repeated(request);
            json_body(
                400,
                &json!({ "error": "temporarily_unavailable", "error_description": said }),
            )
        },
        |request| json_body(400, &json!({ "error": repeated(request) })),
        |request| {
            let said = repeated(request);
            json_body(
                401,
                &json!({ "error": "invalid_client", "error_description": said }),
            )
        },
    ]
}

/// A client whose configuration says how it proves itself.
fn robot(daemon: Builder) -> Builder {
    daemon
        .env("STEADFAST_LOG", "trace")
        .set_text("servers.fake.oauth.client_id", "robot")
}

/// Everything that can be seen of a connection.
async fn shown(house: &House) -> Vec<String> {
    let mut shown = Vec::new();
    for path in [
        "/api/v1/connections/dev/fake",
        "/api/v1/connections/dev/fake/history?limit=1000",
        "/api/v1/notices",
        "/api/v1/servers",
        "/api/v1/vault",
    ] {
        shown.push(house.daemon.get(path).await.unwrap().1.to_string());
    }
    for command in [
        &["doctor", "dev", "fake"][..],
        &["doctor", "dev", "fake", "--json"],
        &["server", "show", "fake"],
        &["status"],
    ] {
        let ran = house.daemon.command(command).await.unwrap();
        shown.push(String::from_utf8_lossy(&ran.stdout).into_owned());
        shown.push(String::from_utf8_lossy(&ran.stderr).into_owned());
    }
    shown
}

/// Refused in every way at this issuer, and then taken.
async fn play(
    mut house: House,
    refusing: Option<&Issuer>,
    secrets: &[(&str, &str)],
    mut canaries: Canaries,
) {
    let path = "/api/v1/connections/dev/fake/reload";
    let mut seen = Vec::new();
    for (number, refusal) in refusals().into_iter().enumerate() {
        let refusing = refusing.unwrap_or(&house.issuer);
        let asked = any().when(|request| request.path_only() == "/token");
        let rule = refusing.script().first_on(asked).reply_with(refusal);
        if number == 0 {
            // Without its secrets it asked nobody.
            for (name, value) in secrets {
                house.secret(name, value).await;
            }
        } else {
            let (_, connection) = house.daemon.post(path, &json!({})).await.unwrap();
            assert_ne!(connection["state"], "connected", "{connection}");
            seen.push(connection.to_string());
        }
        until("it was asked", async || rule.seen() > 0).await;
        seen.extend(shown(&house).await);
        rule.remove();
    }
    house.daemon.post(path, &json!({})).await.unwrap();
    house.connected().await;
    seen.extend(shown(&house).await);
    for request in house.issuer.log().requests() {
        if let Some(assertion) = request.form().get("client_assertion") {
            // What it claims is no secret; what it is signed with proves who asks.
            canaries.add("signature", assertion.rsplit('.').next().unwrap());
        }
    }
    house.daemon.terminate().await.unwrap();
    in_no_file(&house, &canaries);
    for text in &seen {
        assert_clean("shown", text, &canaries);
    }
    let log = house.daemon.stderr();
    assert!(log.contains("TRACE"), "the most verbose level was on");
    assert_clean("log", &log, &canaries);
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_01_no_secret_of_a_client_that_asks_for_itself_is_shown() {
    for method in [
        "client_secret_basic",
        "client_secret_post",
        "private_key_jwt",
    ] {
        let (with_key, pem) = Client::with_new_key("robot");
        let is_key = method == "private_key_jwt";
        let issuer = Issuer::start().await;
        issuer.add_client(if is_key {
            with_key
        } else {
            Client::confidential("robot", SECRET)
        });
        issuer.change(|policy| policy.registration.auth_methods = vec![method.to_owned()]);
        let identifier = issuer.identifier().to_owned();
        let house = House::at(issuer, |daemon| {
            let proof = if is_key {
                "private_key"
            } else {
                "client_secret"
            };
            robot(daemon)
                .set_text("servers.fake.oauth.grant", "client_credentials")
                .set_text("servers.fake.oauth.issuer", &identifier)
                .set_text(&format!("servers.fake.oauth.{proof}"), "${vault:PROOF}")
        })
        .await;
        let mut canaries = Canaries::default();
        canaries.add("secret", SECRET);
        let base64 = pem.lines().find(|line| !line.starts_with('-')).unwrap();
        canaries.add("key", base64);
        let pair = base64::engine::general_purpose::STANDARD;
        let pair = base64::Engine::encode(&pair, format!("robot:{SECRET}"));
        // Behind the name, which is no secret.
        canaries.add("Basic credentials", &pair[8..]);
        let proof = if is_key { &*pem } else { SECRET };
        play(house, None, &[("PROOF", proof)], canaries).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_01_no_assertion_of_an_identity_provider_is_shown() {
    let provider = Issuer::start().await;
    let vouched = json!({
        "access_token": VOUCHED,
        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "token_type": "N_A",
    });
    let exchange = any().form("subject_token", ASSERTION);
    provider
        .script()
        .on(exchange)
        .reply(json_body(200, &vouched));
    let at_provider = |key: &str| format!("servers.fake.oauth.identity.{key}");
    let house = House::at(Issuer::start().await, |daemon| {
        robot(daemon)
            .set_text("servers.fake.oauth.grant", "identity_assertion")
            .set_text("servers.fake.oauth.client_secret", "${vault:SECRET}")
            .set_text(&at_provider("issuer"), provider.identifier())
            .set_text(&at_provider("client_id"), "sso")
            .set_text(&at_provider("assertion"), "${vault:ASSERTION}")
    })
    .await;
    let client = Client::confidential("robot", SECRET);
    let issued = house
        .issuer
        .issue(client, &["add"], Some(&house.server.url()));
    let token = json!({
        "access_token": issued.access_token, "token_type": "Bearer", "expires_in": 3_600,
    });
    let redeem = any().form("assertion", VOUCHED);
    house
        .issuer
        .script()
        .on(redeem)
        .reply(json_body(200, &token));
    let mut canaries = Canaries::default();
    canaries.add("secret", SECRET);
    canaries.add("identity assertion", ASSERTION);
    canaries.add("assertion for the issuer", VOUCHED);
    let secrets = [("SECRET", SECRET), ("ASSERTION", ASSERTION)];
    play(house, Some(&provider), &secrets, canaries).await;
}
