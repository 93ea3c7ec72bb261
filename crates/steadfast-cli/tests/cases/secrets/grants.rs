//! SEC-01 for grants: nothing that signs in, renews or revokes is shown, whatever an authorization server repeats.

use serde_json::{Value, json};
use testkit::issuer::policy::Consent;
use testkit::reply::{content, json_body, status};
use testkit::script::any;
use testkit::{Behaviour, Browser, Reply, Request, Server};

use super::canaries::{Canaries, assert_clean};
use crate::grants::House;

const HOOK: &str = "wR7mQ3xZk9TfV5pLc2NyG8bH";
const KEY: &str = "a83f5d07c1e94b62d0f7381c5ea6294b7d13f0c82e5b9764a1c0d8e3f2b59674";
/// Nobody issued these.
const STRANGE: [&str; 2] = ["cT4kW8zLq6RvX1nJs9DfM3yB", "uE5hN2bVw7GpK9tSx4QcZ6jA"];

/// What is sent to a token endpoint and must not come back.
const SENT: [&str; 4] = ["refresh_token", "code", "code_verifier", "client_secret"];

/// Everything that a request holds, whole and only its beginning.
fn told(request: &Request) -> String {
    let form = request.form();
    let sent = SENT.iter().filter_map(|name| form.get(name));
    let parts = sent.map(|value| format!("{value} starts {}", value.get(..20).unwrap_or(value)));
    parts.collect::<Vec<_>>().join(", ")
}

/// The first secret of a request, cut off.
fn beginning(request: &Request) -> String {
    let form = request.form();
    let sent = SENT.iter().find_map(|name| form.get(name));
    sent.map(|value| value.chars().take(24).collect())
        .unwrap_or_default()
}

/// How a token endpoint fails that repeats what it was told.
fn failures() -> Vec<fn(&Request) -> Reply> {
    vec![
        |request| content(503, "text/plain", told(request)),
        |request| {
            content(
                200,
                "text/html",
                format!("<title>{}</title>", told(request)),
            )
        },
        |request| json_body(429, &json!({ "message": told(request) })),
        |request| json_body(400, &json!({ "error": beginning(request) })),
        |request| {
            let error = "temporarily_unavailable";
            json_body(
                400,
                &json!({ "error": error, "error_description": told(request) }),
            )
        },
        |request| status(302).header("location", &format!("/?{}", beginning(request))),
        |_| Reply::new().rst(),
    ]
}

/// The secrets of the whole run.
fn canaries(house: &House) -> Canaries {
    let mut canaries = Canaries::default();
    canaries.add("webhook", HOOK);
    canaries.add("key of the vault", KEY);
    for strange in STRANGE {
        canaries.add("strange callback", strange);
    }
    for token in house.issuer.tokens() {
        // Letters and digits of the random part: the name in front of it is no secret.
        let (_, random) = token.value.split_once('-').unwrap();
        canaries.add("token", random);
    }
    for request in house.issuer.log().requests() {
        let form = request.form();
        for name in SENT {
            if let Some(value) = form.get(name) {
                canaries.add("sent", value.rsplit('-').next().unwrap());
            }
        }
    }
    canaries
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_01_no_secret_of_a_grant_is_shown() {
    let hook = Server::start(Behaviour::modern()).await;
    hook.script().on(any()).reply(status(204));
    let webhook = format!("{}?key={HOOK}", hook.url());
    let mut house = House::new(|daemon| {
        daemon
            .env("STEADFAST_LOG", "trace")
            .env("STEADFAST_KEY", KEY)
            .set_text("notify.webhook", &webhook)
    })
    .await;
    house.issuer.change(|policy| {
        policy.tokens.unguessable = true;
        policy.answers.echoes = true;
        policy.registration.assigns_auth = Some("client_secret_post".to_owned());
    });
    let mut shown = sign_in(&house).await;
    shown.extend(renew(&house).await);

    let canaries = canaries(&house);
    in_no_file(&house, &canaries);
    house.daemon.kill9().await.unwrap();
    house.daemon.restart().await.unwrap();
    house.waits().await;
    let signed_out = house.daemon.command(&["sign-out", "dev", "fake"]).await;
    shown.push(format!("{:?}", signed_out.unwrap()));
    house.daemon.terminate().await.unwrap();
    in_no_file(&house, &canaries);
    for text in &shown {
        assert_clean("shown", text, &canaries);
    }
    for request in hook.log().requests() {
        assert_clean(
            "webhook",
            &String::from_utf8_lossy(&request.body),
            &canaries,
        );
    }
    let log = house.daemon.stderr();
    assert!(log.contains("TRACE"), "the most verbose level was on");
    let mut hidden = canaries;
    for asked in house.issuer.authorizations() {
        // A link to sign in with is shown to people, but it is not for the log.
        hidden.add("state", asked.get("state").unwrap());
    }
    assert_clean("log", &log, &hidden);
}

/// A callback that nobody waits for, a refusal, an exchange that fails, and one that does not.
async fn sign_in(house: &House) -> Vec<String> {
    house.waits().await;
    let mut shown = Vec::new();
    let [code, state] = STRANGE;
    let back = format!("http://{}/oauth/callback", house.daemon.address());
    let strange = format!("{back}?code={code}&state={state}&error_description={code}");
    shown.push(open(&strange).await);

    let offer = async |consent| {
        house
            .issuer
            .change(|policy| policy.authorization.consent = consent);
        house.offer(&json!({})).await
    };
    let link = |offer: &Value| offer["url"].as_str().unwrap().to_owned();
    let denied = offer(Consent::Denies("access_denied".to_owned())).await;
    shown.push(open(&link(&denied)).await);
    let exchange = any().form("grant_type", "authorization_code");
    for failure in failures() {
        let rule = exchange.clone().times(1);
        house.issuer.script().first_on(rule).reply_with(failure);
        let failed = offer(Consent::Approves).await;
        shown.push(open(&link(&failed)).await);
        shown.push(
            house
                .daemon
                .connection("dev", "fake")
                .await
                .unwrap()
                .to_string(),
        );
    }
    let offered = offer(Consent::Approves).await;
    shown.push(open(&link(&offered)).await);
    house.connected().await;
    shown
}

async fn open(link: &str) -> String {
    Browser::new().open(link).await.unwrap().body
}

/// Renewals that fail in every way, and one that ends the grant.
async fn renew(house: &House) -> Vec<String> {
    let mut shown = Vec::new();
    for failure in failures() {
        let rule = any().form("grant_type", "refresh_token").times(1);
        let before = house.seen();
        house.issuer.script().first_on(rule).reply_with(failure);
        house.renewals(before + 2).await;
        shown.push(
            house
                .daemon
                .connection("dev", "fake")
                .await
                .unwrap()
                .to_string(),
        );
    }
    house.issuer.revoke_all();
    house.waits().await;
    for path in [
        "/api/v1/notices",
        "/api/v1/connections",
        "/api/v1/connections/dev/fake/grant",
        "/api/v1/connections/dev/fake/history?limit=1000",
        "/metrics",
    ] {
        shown.push(house.daemon.get(path).await.unwrap().1.to_string());
    }
    for command in [
        &["status"][..],
        &["notices", "--json"],
        &["grant", "show", "dev", "fake", "--json"],
        &["grant", "show", "dev", "fake"],
    ] {
        let output = house.daemon.command(command).await.unwrap();
        shown.push(String::from_utf8_lossy(&output.stdout).into_owned());
        shown.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    shown
}

/// The store holds what it needs sealed, in its log as well.
fn in_no_file(house: &House, canaries: &Canaries) {
    let mut read = 0;
    for file in std::fs::read_dir(house.daemon.data()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let found = canaries.found(&std::fs::read(&path).unwrap());
            assert!(found.is_none(), "{}: {found:?}", path.display());
            read += 1;
        }
    }
    assert!(read > 0);
}
