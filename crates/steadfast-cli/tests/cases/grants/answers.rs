//! What token endpoints answer: not now, not so, and in forms that no specification has.

use std::time::Duration;

use serde_json::json;
use testkit::PATIENCE;
use testkit::issuer::Client;
use testkit::issuer::policy::{Errors, ExpiresIn, FormEncoded};
use testkit::reply::{Reply, content, json_body, status};
use testkit::script::any;

use super::House;

/// The life that is left in the token while renewals fail.
const LEFT: Duration = Duration::from_secs(60);

/// A house whose next renewal, of a token that is good for a while, gets these answers before a good one.
async fn answering(replies: impl IntoIterator<Item = Reply>) -> House {
    let house = House::signed_in(|daemon| daemon).await;
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(LEFT));
    let refresh = any().form("grant_type", "refresh_token");
    house.issuer.script().first_on(refresh).replies(replies);
    house.import(&house.due_grant(LEFT)).await;
    house
}

#[tokio::test(flavor = "multi_thread")]
async fn te_01_an_issuer_that_cannot_be_reached_takes_nothing_away() {
    let house = House::signed_in(|daemon| daemon).await;
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(LEFT));
    house.issuer.stop().await;
    let grant = house.due_grant(LEFT);
    house.import(&grant).await;
    house.grant_state("delayed").await;
    house.works().await;
    let last = house.server.log().calls("add_row").pop().unwrap();
    assert_eq!(last.bearer(), grant["access_token"].as_str());
    house.issuer.resume();
    house.renewed().await;
    assert_eq!(
        house.issuer.presented().last().map(String::as_str),
        grant["refresh_token"].as_str()
    );
    assert_eq!(house.issuer.counts().reuses, 0);

    // No TLS there.
    let mut grant = house.due_grant(LEFT);
    let endpoint = house.issuer.token_endpoint();
    grant["token_endpoint"] = json!(endpoint.replace("http://", "https://"));
    house.import(&grant).await;
    let connection = house.grant_state("delayed").await;
    assert_eq!(connection["state"], "connected", "{connection}");
    house.works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn te_02_whoever_asks_to_wait_is_given_the_time() {
    let date = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    for (code, header, at_least) in [
        (429, Some("1".to_owned()), 1_000),
        // Whole seconds, and the test has taken some time to come here.
        (429, Some(date), 0),
        (408, None, 50),
        (425, None, 50),
    ] {
        let is_date = at_least == 0;
        let ends = jiff::Timestamp::now();
        let reply = match &header {
            Some(value) => status(code).header("retry-after", value),
            None => status(code),
        };
        let house = answering([reply]).await;
        let before = house.seen();
        house.renewals(2.max(before)).await;
        house.renewed().await;
        let log = house.issuer.log();
        let asked = log.matching(|it| it.form().get("grant_type") == Some("refresh_token"));
        let [.., first, second] = &asked[..] else {
            panic!("{log}");
        };
        let waited = second.at - first.at;
        if is_date {
            let until = header.unwrap();
            let since = jiff::Timestamp::now().duration_since(ends);
            assert!(
                since.as_millis() > 0 && jiff::Timestamp::now() >= parsed(&until),
                "{until}"
            );
        }
        assert!(
            waited >= Duration::from_millis(at_least),
            "{code}: {waited:?}"
        );
        house.works().await;
        let connection = house.grant_state("valid").await;
        assert_eq!(connection["fault"], json!(null), "{connection}");
    }
}

fn parsed(date: &str) -> jiff::Timestamp {
    jiff::fmt::rfc2822::parse(date).unwrap().timestamp()
}

#[tokio::test(flavor = "multi_thread")]
async fn te_05_errors_with_status_200_mean_what_they_say() {
    let slack = |error: &str| json_body(200, &json!({"ok": false, "error": error}));
    let house = answering([slack("ratelimited")]).await;
    house.renewed().await;
    house.works().await;

    let github = json_body(
        200,
        &json!({"error": "bad_refresh_token", "error_description": "no"}),
    );
    for (reply, code) in [
        (slack("invalid_refresh_token"), "invalid_refresh_token"),
        (github, "bad_refresh_token"),
    ] {
        let house = answering([reply]).await;
        let connection = house.grant_state("refused").await;
        assert_eq!(connection["fault"]["kind"], "grant_refused", "{connection}");
        let message = connection["fault"]["message"].as_str().unwrap();
        assert!(message.contains(code), "{message}");
        house.works().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn te_05_a_secret_is_sent_the_other_way_once_and_so_from_then_on() {
    let house = House::signed_in(|daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.registration.accepts_auth = Some(vec!["client_secret_post".to_owned()]);
        policy.answers.errors = Errors::NotOk;
        let names = &mut policy.answers.error_names;
        names.insert("invalid_client".to_owned(), "bad_client_secret".to_owned());
    });
    let client = Client::confidential("app", "s3cret-of-app");
    let from = house.seen();
    let grant = house
        .issuer
        .issue(client, &["add"], Some(&house.server.url()));
    house.import(&grant.import()).await;
    house.renewals(from + 3).await;
    let log = house.issuer.log();
    let of_app = |request: &testkit::Request| {
        request.form().get("client_id") == Some("app") || request.header("authorization").is_some()
    };
    let seen = log.wait_for(|log| log.matching(of_app).len() >= 3, PATIENCE);
    seen.await.unwrap();
    let asked = log.matching(of_app);
    let is_basic: Vec<_> = asked[..3]
        .iter()
        .map(|it| it.header("authorization").is_some())
        .collect();
    assert_eq!(is_basic, [true, false, false]);
    assert_eq!(house.issuer.counts().reuses, 0);
    house.works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn te_06_a_form_is_read_whatever_it_is_called() {
    let house = House::signed_in(|daemon| daemon).await;
    for (encoded, label) in [
        (
            FormEncoded::UnlessJsonAccepted,
            "application/x-www-form-urlencoded",
        ),
        (FormEncoded::Always, "application/x-www-form-urlencoded"),
        (FormEncoded::Always, "text/plain"),
    ] {
        house.issuer.change(|policy| {
            policy.answers.form_encoded = encoded;
            policy.answers.form_content_type = label.to_owned();
            policy.answers.token_type = "bearer".to_owned();
        });
        let from = house.seen();
        // The second of them presents what the first one brought.
        house.renewals(from + 2).await;
        house.grant_state("valid").await;
        house.works().await;
    }
    assert_eq!(house.issuer.counts().reuses, 0);
    let log = house.issuer.log();
    let asked = log.matching(|it| it.form().get("grant_type") == Some("refresh_token"));
    let accepts =
        |it: &std::sync::Arc<testkit::Request>| it.header("accept") == Some("application/json");
    assert!(asked.iter().all(accepts));

    let form = "error=bad_refresh_token&error_description=no";
    let house = answering([content(200, "application/x-www-form-urlencoded", form)]).await;
    house.grant_state("refused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ex_02_a_token_without_an_end_is_used_until_it_is_refused() {
    let house = House::signed_in(|daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.tokens.lifetime = None;
        policy.answers.expires_in = ExpiresIn::Omitted;
    });
    house.import(&house.due_grant(Duration::ZERO)).await;
    house.renewed().await;
    let from = house.seen();
    for _ in 0..50 {
        house.works().await;
    }
    assert_eq!(house.seen(), from);
    house.issuer.revoke_access_tokens();
    house.works().await;
    assert_eq!(house.seen(), from + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ex_04_a_token_that_lives_shorter_than_the_window_is_used_for_half_of_its_life() {
    let house = House::signed_in(|daemon| daemon.set("renewal.window", "\"1h\"")).await;
    let from = house.seen();
    while house.seen() < from + 4 {
        house.works().await;
    }
    let log = house.issuer.log();
    let asked = log.matching(|it| it.form().get("grant_type") == Some("refresh_token"));
    for pair in asked.windows(2) {
        let used = pair[1].at - pair[0].at;
        assert!(used >= super::LIFETIME / 2, "{used:?}");
    }
}
