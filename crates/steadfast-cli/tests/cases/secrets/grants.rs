//! SEC-01 for grants: nothing that signs in, renews or revokes is shown, whatever an authorization server repeats.

use serde_json::{Value, json};
use testkit::issuer::policy::Consent;
use testkit::reply::{content, json_body, status};
use testkit::script::{any, call};
use testkit::{Behaviour, Browser, MailServer, Reply, Request, Server};

use super::canaries::{Canaries, assert_clean};
use crate::common::run_with_input;
use crate::grants::House;
use crate::rig::{Era, agent_of};

const HOOK: &str = "wR7mQ3xZk9TfV5pLc2NyG8bH";
const KEY: &str = "a83f5d07c1e94b62d0f7381c5ea6294b7d13f0c82e5b9764a1c0d8e3f2b59674";
/// For the mail server.
const PASSWORD: &str = "pG8xV3nKq6ZtR9wLb4MsC7yD";
/// Tokens and a secret from elsewhere.
const IMPORTED: [&str; 3] = [
    "iB5nX8cVq2ZmK7tRw4LpS9gH",
    "iJ3hT6yUr9PdF2kMz8WbQ5sA",
    "iD7gL4vEx1NcY6oTj3RaV8pK",
];
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
    canaries.add("password of the mail server", PASSWORD);
    for imported in IMPORTED {
        canaries.add("imported", imported);
    }
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
    // Neither takes the first message, and both say why in our own words.
    let unwilling = content(500, "text/plain", format!("not for ?key={HOOK}"));
    hook.script().on(any().times(1)).reply(unwilling);
    hook.script().on(any()).reply(status(204));
    let webhook = format!("{}?key={HOOK}", hook.url());
    let mail = MailServer::start().await;
    mail.refuse(&format!("451 4.3.0 Not for {PASSWORD}"));
    let mut house = House::new(|daemon| {
        daemon
            .env("STEADFAST_LOG", "trace")
            .env("STEADFAST_KEY", KEY)
            .set_text("notify.webhook", &webhook)
            .set_text("notify.email.to", "ops@example.com")
            .set_text("notify.email.smtp", "${vault:SMTP_URL}")
    })
    .await;
    let smtp = format!("smtp://ops:{PASSWORD}@{}", mail.address());
    house.secret("SMTP_URL", &smtp).await;
    house.issuer.change(|policy| {
        policy.tokens.unguessable = true;
        policy.answers.echoes = true;
        policy.registration.assigns_auth = Some("client_secret_post".to_owned());
    });
    let mut shown = sign_in(&house).await;
    shown.extend(ask_for_more(&house).await);
    shown.extend(renew(&house).await);
    shown.extend(import(&house).await);
    for mail in mail.mails() {
        shown.push(format!("{:?} {}", mail.header("Subject"), mail.body()));
    }
    assert!(!mail.mails().is_empty(), "a message was sent in the end");

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
        shown.extend(examined(house).await);
    }
    shown.extend(told_by_the_server(house).await);
    house.issuer.revoke_all();
    house.waits().await;
    shown.extend(examined(house).await);
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
        &["operations", "list", "--json"],
        &["operations", "export"],
    ] {
        shown.push(ran(house, command).await);
    }
    shown
}

/// What a command writes, wherever it writes it.
async fn ran(house: &House, command: &[&str]) -> String {
    let output = house.daemon.command(command).await.unwrap();
    let (out, err) = (output.stdout, output.stderr);
    String::from_utf8_lossy(&[out, err].concat()).into_owned()
}

async fn examined(house: &House) -> Vec<String> {
    let plain = ran(house, &["doctor", "dev", "fake"]).await;
    assert!(plain.contains("issuer"), "{plain}");
    vec![
        plain,
        ran(house, &["doctor", "dev", "fake", "--json"]).await,
    ]
}

/// What a server that was shown a token repeats of it.
fn repeated(request: &Request) -> String {
    let token = request.bearer().unwrap_or_default();
    let cut = token.get(..token.len().min(24)).unwrap_or_default();
    format!(
        "not with {token}, {cut} or {}",
        cut.get(6..).unwrap_or_default()
    )
}

/// An examination whose every answer repeats the token.
async fn told_by_the_server(house: &House) -> Vec<String> {
    let answers: [fn(&Request) -> Reply; 3] = [
        |request| content(403, "text/plain", repeated(request)),
        |request| {
            content(
                500,
                "text/html",
                format!("<title>{}</title>", repeated(request)),
            )
        },
        |request| {
            let error = json!({ "code": -32000, "message": repeated(request) });
            json_body(
                400,
                &json!({ "jsonrpc": "2.0", "id": null, "error": error }),
            )
        },
    ];
    let mut shown = Vec::new();
    for answer in answers {
        let shown_a_token = any().when(|request| request.bearer().is_some());
        let rule = house.server.script().first_on(shown_a_token);
        let rule = rule.reply_with(answer);
        shown.extend(examined(house).await);
        rule.remove();
    }
    shown
}

/// A call that wants more than is granted, refused in words that repeat the token.
async fn ask_for_more(house: &House) -> Vec<String> {
    let refusal = |request: &Request| {
        let challenge = format!(
            "Bearer error=\"insufficient_scope\", scope=\"more\", error_description=\"{}\"",
            repeated(request)
        );
        content(403, "text/plain", repeated(request)).header("www-authenticate", &challenge)
    };
    let rule = house.server.script().first_on(call("add_row").times(1));
    rule.reply_with(refusal);
    let agent = agent_of(Era::Legacy, &house.daemon).await;
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(answer.is_error(), "{answer:?}");
    let connection = house.daemon.connection("dev", "fake").await.unwrap();
    let (_, notices) = house.daemon.get("/api/v1/notices").await.unwrap();
    vec![
        answer.message.to_string(),
        connection.to_string(),
        notices.to_string(),
    ]
}

/// Tokens from elsewhere: in files that cannot be read, and in one that can.
async fn import(house: &House) -> Vec<String> {
    let [access, refresh, secret] = IMPORTED;
    let good = json!({
        "access_token": access, "refresh_token": refresh, "client_secret": secret,
        "client_id": "imported", "expires_in": 3_600,
        "issuer": house.issuer.identifier(), "token_endpoint": house.issuer.token_endpoint(),
        "resource": house.server.url(),
    });
    let with = |member: &str, value: Value| {
        let mut changed = good.clone();
        changed[member] = value;
        changed.to_string()
    };
    let files = [
        good.to_string().replace('}', ""),
        with("expires_in", json!(access)),
        with("expires_at", json!(refresh)),
        with("token_endpoint", json!(secret)),
        with("access_token", json!([access])),
        with("client_secret", json!({ "it is": secret })),
        good.to_string(),
    ];
    let mut shown = Vec::new();
    for file in files {
        let ran = run_with_input(&house.daemon, &["grant", "import", "dev", "fake"], &file).await;
        shown.push(String::from_utf8_lossy(&ran.stdout).into_owned());
        shown.push(String::from_utf8_lossy(&ran.stderr).into_owned());
    }
    // The server knows none of them: the connection ends where it was.
    house.waits().await;
    shown.extend(examined(house).await);
    shown.push(ran(house, &["grant", "show", "dev", "fake", "--json"]).await);
    shown
}

/// The store holds what it needs sealed, in its log as well.
pub(super) fn in_no_file(house: &House, canaries: &Canaries) {
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
