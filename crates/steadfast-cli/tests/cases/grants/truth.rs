//! The state shown is the truth, also while nobody calls: a grant that has ended, and a machine that slept.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::issuer::policy::RefreshTokens;
use testkit::reply::json_body;
use testkit::script::any;
use testkit::{Daemon, PATIENCE, Signal};

use super::House;

/// A pause longer than this is a sleep; a busy test machine does not stall for so long.
const ASLEEP_AFTER: Duration = Duration::from_secs(3);

/// Waits until the notice says what is wrong with the grant: what the server said comes first, where it was asked.
async fn notice(daemon: &Daemon, kind: &str) -> Value {
    let told = async {
        loop {
            let (_, notices) = daemon.get("/api/v1/notices").await.unwrap();
            let notice = &notices["notices"][0];
            if notice["fault"]["kind"] == *kind && notice["cleared_at"].is_null() {
                return notice.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_grant_is_shown_as_soon_as_its_access_token_has_ended() {
    for probes in ["0", "1"] {
        let house = House::new(|daemon| {
            daemon
                .set("renewal.recheck_at_expiry", "false")
                .set("renewal.probes", probes)
                .set("renewal.probe_every", "\"1h\"")
        })
        .await;
        house
            .issuer
            .change(|policy| policy.tokens.lifetime = Some(Duration::from_secs(6)));
        let refused = any().form("grant_type", "refresh_token");
        let invalid = json_body(400, &json!({"error": "invalid_grant"}));
        house.issuer.script().first_on(refused).reply(invalid);
        house.import(&house.grant()).await;
        house.connected().await;
        let connection = house.grant_state("refused").await;
        assert_eq!(connection["state"], "connected", "{connection}");
        assert_eq!(connection["fault"]["kind"], "grant_refused", "{connection}");
        let from = house.server.log().requests().len();
        house.waits().await;
        let connection = house.daemon.connection("dev", "fake").await.unwrap();
        assert_eq!(connection["fault"]["kind"], "grant_refused", "{connection}");
        assert_eq!(connection["grant"]["state"], "refused", "{connection}");
        notice(&house.daemon, "grant_refused").await;
        assert_eq!(house.seen(), 1, "refused once, and not asked again");
        let asked = house.server.log().requests().split_off(from);
        let asked: Vec<_> = asked.iter().filter_map(|it| it.rpc_method()).collect();
        assert!(asked.is_empty(), "nobody had to call: {asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_03_a_grant_that_cannot_be_renewed_is_shown_as_over_when_it_is() {
    let house = House::new(|daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.tokens.refresh = RefreshTokens::Never;
        policy.tokens.lifetime = Some(Duration::from_secs(3));
    });
    house.import(&house.grant()).await;
    house.connected().await;
    house.waits().await;
    let connection = house.daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["fault"]["kind"], "sign_in_required");
    notice(&house.daemon, "sign_in_required").await;
}

/// Stops the daemon as a lid that is closed does, for longer than its access token is good.
async fn asleep(house: &House, meanwhile: impl AsyncFnOnce(&House)) {
    house.daemon.signal(Signal::STOP).unwrap();
    meanwhile(house).await;
    tokio::time::sleep(ASLEEP_AFTER * 2 + Duration::from_secs(1)).await;
    house.daemon.signal(Signal::CONT).unwrap();
}

async fn sleepy() -> House {
    let asleep_after = format!("\"{}s\"", ASLEEP_AFTER.as_secs());
    let house = House::new(|daemon| daemon.set("retry.asleep_after", &asleep_after)).await;
    // Not due before the daemon is stopped, and over before it goes on.
    house
        .issuer
        .change(|policy| policy.tokens.lifetime = Some(ASLEEP_AFTER * 2));
    house.import(&house.grant()).await;
    house.connected().await;
    house
}

async fn slept_through(daemon: &Daemon) -> Option<String> {
    let history = daemon.history("dev", "fake").await.unwrap();
    let reasons = history.iter().filter_map(|it| it["reason"].as_str());
    let mut asleep = reasons.filter(|reason| reason.starts_with("asleep from "));
    asleep.next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_the_provider_forgot_in_a_sleep_is_blamed_on_the_sleep() {
    let house = sleepy().await;
    asleep(&house, async |house| house.issuer.revoke_all()).await;
    house.waits().await;
    let connection = house.daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["fault"]["kind"], "grant_refused", "{connection}");
    let notice = notice(&house.daemon, "grant_refused").await;
    for said in [&connection["fault"]["message"], &notice["message"]] {
        let said = said.as_str().unwrap();
        assert!(said.contains("asleep from "), "{said}");
        assert!(said.contains(", renewal window missed; "), "{said}");
        assert!(said.contains("invalid_grant"), "{said}");
    }
    let reason = slept_through(&house.daemon).await.unwrap();
    assert!(reason.ends_with(", renewal window missed"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_after_a_sleep_is_renewed_before_anything_is_sent() {
    let house = sleepy().await;
    let old = house.server.log().requests().pop().unwrap();
    let old = old.bearer().unwrap().to_owned();
    asleep(&house, async |house| house.server.restart().await).await;
    let from = house.server.log().requests().len();
    house.renewed().await;
    house.works().await;
    let sent = house.server.log().requests().split_off(from);
    assert!(!sent.is_empty());
    for request in &sent {
        assert_ne!(request.bearer(), Some(&*old), "{request:?}");
        assert!(request.bearer().is_some(), "{request:?}");
    }
    let reason = slept_through(&house.daemon).await.unwrap();
    assert!(reason.ends_with(", renewal window missed"), "{reason}");
    let connection = house.daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["fault"], Value::Null, "{connection}");
    assert_eq!(house.issuer.counts().reuses, 0);
}
