//! A stop around each step of a renewal, polite or by kill -9: what was spent is presented again only under the intent on
//! record.

use std::time::Duration;

use testkit::PATIENCE;
use testkit::reply::{End, Reply};
use testkit::script::any;

use super::House;

/// The next renewal gets this reply.
fn next(house: &House, reply: Reply) {
    let refresh = any().form("grant_type", "refresh_token").times(1);
    house.issuer.script().first_on(refresh).reply(reply);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_intent_is_written_it_renews_as_if_nothing_had_been() {
    let mut house = House::signed_in(|daemon| daemon).await;
    house.daemon.kill9().await.unwrap();
    let before = house.issuer.presented();
    house.daemon.restart().await.unwrap();
    house.renewals(before.len() + 1).await;
    house.connected().await;
    house.works().await;
    assert_eq!(house.issuer.counts().reuses, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_request_was_acted_on_it_presents_the_token_once_more_and_lives() {
    let mut house = House::signed_in(|daemon| daemon).await;
    next(&house, Reply::new().wait_for("asked").fin());
    house.issuer.gates().arrived("asked", 1).await;
    house.daemon.kill9().await.unwrap();
    house.issuer.gates().open("asked");
    let before = house.issuer.presented();
    house.daemon.restart().await.unwrap();
    let from = house.issuer.counts().refreshes;
    let renewed = |_: &testkit::RequestLog| house.issuer.counts().refreshes > from;
    let seen = house.issuer.log().wait_for(renewed, PATIENCE).await;
    seen.unwrap();
    house.connected().await;
    house.works().await;
    let presented = house.issuer.presented();
    let unspent = format!("RT{}", before.len() + 1);
    assert_eq!(presented.get(before.len()), Some(&unspent), "{presented:?}");
    assert_eq!(house.issuer.counts().reuses, 0);
}

/// The issuer rotates, its answer is lost, and the daemon dies.
async fn killed_before_the_answer(grace: Duration) -> (House, String) {
    let mut house = House::signed_in(|daemon| daemon).await;
    house
        .issuer
        .change(|policy| policy.tokens.reuse_grace = grace);
    let from = house.issuer.counts().refreshes;
    next(&house, Reply::new().cut_after(0, End::BlackHole).run());
    let spent = |_: &testkit::RequestLog| house.issuer.counts().refreshes > from;
    house.issuer.log().wait_for(spent, PATIENCE).await.unwrap();
    house.daemon.kill9().await.unwrap();
    let lost = house.issuer.presented().pop().unwrap();
    house.daemon.restart().await.unwrap();
    (house, lost)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_answer_it_presents_the_spent_token_exactly_once() {
    let (house, lost) = killed_before_the_answer(Duration::ZERO).await;
    let waiting = house.daemon.wait_state("dev", "fake", "awaiting_sign_in");
    let connection = waiting.await.unwrap();
    assert_eq!(connection["fault"]["kind"], "grant_refused", "{connection}");
    let presented = house.issuer.presented();
    let times = presented.iter().filter(|it| **it == lost).count();
    assert_eq!(
        (times, house.issuer.counts().reuses),
        (2, 1),
        "{presented:?}"
    );
    let further = |_: &testkit::RequestLog| house.issuer.presented().len() > presented.len();
    let seen = house
        .issuer
        .log()
        .wait_for(further, Duration::from_millis(500))
        .await;
    assert!(seen.is_err(), "consent is not retried");
    // A new sign-in is all that it takes.
    house.import(&house.grant()).await;
    house.connected().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_answer_it_lives_on_where_the_issuer_gives_grace() {
    let (house, lost) = killed_before_the_answer(Duration::from_secs(60)).await;
    let renewed = |_: &testkit::RequestLog| house.issuer.counts().refreshes >= 2;
    let seen = house.issuer.log().wait_for(renewed, PATIENCE).await;
    seen.unwrap();
    house.connected().await;
    house.works().await;
    let presented = house.issuer.presented();
    assert_eq!(
        presented.iter().filter(|it| **it == lost).count(),
        2,
        "{presented:?}"
    );
    assert_eq!(house.issuer.counts().reuses, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_once_the_answer_is_stored_it_presents_what_the_answer_brought() {
    let mut house = House::signed_in(|daemon| daemon).await;
    house.renewed().await;
    house.daemon.kill9().await.unwrap();
    let before = house.issuer.presented();
    house.daemon.restart().await.unwrap();
    house.renewals(before.len() + 1).await;
    house.connected().await;
    house.works().await;
    let presented = house.issuer.presented();
    let once: Vec<_> = (1..=presented.len()).map(|n| format!("RT{n}")).collect();
    assert_eq!(presented, once);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_politely_it_waits_for_the_answer_that_brings_the_next_token() {
    let mut house = House::signed_in(|daemon| daemon).await;
    // The token is spent at once, and the answer comes when the daemon has been told to stop.
    let delay = Duration::from_millis(500);
    house.issuer.change(|policy| policy.answers.delay = delay);
    house.renewals(house.seen() + 1).await;
    house.daemon.terminate().await.unwrap();
    let before = house.issuer.presented();
    house.daemon.restart().await.unwrap();
    house.renewals(before.len() + 1).await;
    house.connected().await;
    house.works().await;
    let presented = house.issuer.presented();
    let once: Vec<_> = (1..=presented.len()).map(|n| format!("RT{n}")).collect();
    assert_eq!(presented, once);
    assert_eq!(house.issuer.counts().reuses, 0);
}
