//! Metadata documents: kept by the rules of HTTP, and never believed over what the grant itself says.

use serde_json::{Value, json};
use testkit::reply::{content, status};
use testkit::script::{any, get};
use testkit::{Browser, Issuer, PATIENCE, Protection, RequestLog, Server};

use super::House;
use crate::common::daemon;
use crate::rig::{Era, agent_of};

/// Signed in at an issuer and a server whose metadata have this `Cache-Control`.
async fn signed_in(cache_control: &str) -> House {
    let issuer = Issuer::start().await;
    issuer.change(|policy| {
        policy.paths.token = "/oauth2/v1/token".to_owned();
        policy.metadata.header("cache-control", cache_control);
        policy.metadata.header("etag", "\"v1\"");
    });
    let mut protection = Protection::by(&issuer);
    protection.metadata.header("cache-control", cache_control);
    let server = Server::start(Era::Legacy.behaviour().protected(protection)).await;
    let daemon = daemon(&server)
        .set("renewal.retry_first", "\"100ms\"")
        .set("renewal.retry_max", "\"400ms\"")
        .set("renewal.check_every", "\"200ms\"")
        .start()
        .await
        .unwrap();
    let house = House {
        issuer,
        server,
        daemon,
    };
    house.signs_in_again().await;
    house
}

fn documents(log: &RequestLog) -> usize {
    log.matching(|request| request.path.contains("/.well-known/"))
        .len()
}

impl House {
    async fn signs_in_again(&self) {
        let offer = self.offer(&json!({})).await;
        let link = offer["url"].as_str().unwrap();
        let page = Browser::new().open(link).await.unwrap();
        assert_eq!(page.status, 200, "{page:?}");
        self.connected().await;
    }

    /// How many documents were asked for, of the issuer and of the server.
    fn asked_for(&self) -> (usize, usize) {
        (documents(self.issuer.log()), documents(self.server.log()))
    }

    /// Waits until the renewal is put off for this kind of fault.
    async fn is_delayed_for(&self, kind: &str) {
        let delayed = |connection: &Value| {
            connection["grant"]["state"] == "delayed" && connection["fault"]["kind"] == kind
        };
        let shown = self
            .daemon
            .wait_connection("dev", "fake", PATIENCE, delayed);
        shown.await.unwrap();
    }

    /// Nobody but the issuer's token endpoint has seen what was issued for renewals, or a secret of the client.
    fn is_kept_from(&self, log: &RequestLog) {
        let tokens = self.issuer.tokens();
        let refresh = tokens
            .iter()
            .filter(|token| token.kind == testkit::issuer::Kind::Refresh);
        let values: Vec<&str> = refresh.map(|token| token.value.as_str()).collect();
        assert!(!values.is_empty());
        for request in log.requests() {
            let body = String::from_utf8_lossy(&request.body);
            let told = |value: &&str| body.contains(value) || request.path.contains(value);
            assert!(!values.iter().any(told), "{request:?}");
            assert!(!body.contains("grant_type"), "{request:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_documents_are_not_asked_for_again() {
    let mut house = signed_in("max-age=600").await;
    assert_eq!(house.asked_for(), (1, 1));
    house.signs_in_again().await;
    house.daemon.restart().await.unwrap();
    house.connected().await;
    house.signs_in_again().await;
    assert_eq!(house.asked_for(), (1, 1));
    // What led nowhere is not believed any longer.
    house.issuer.move_token_endpoint("/elsewhere", 404);
    let offer = house.offer(&json!({})).await;
    let link = offer["url"].as_str().unwrap();
    let page = Browser::new().open(link).await.unwrap();
    assert_eq!(page.status, 502, "{page:?}");
    house.signs_in_again().await;
    assert_eq!(house.asked_for(), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_documents_are_asked_for_with_their_tag() {
    let house = signed_in("max-age=1").await;
    let unchanged = get()
        .path("/.well-known/oauth-authorization-server")
        .header("if-none-match", "\"v1\"");
    let rule = house.issuer.script().first_on(unchanged);
    let rule = rule.reply(status(304).header("cache-control", "max-age=600"));
    let asked = async {
        while rule.seen() == 0 {
            house.offer(&json!({"restart": true})).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    let times = house.asked_for().0;
    assert_eq!(times, 2, "it was fresh for a second");
    // The one that is kept is good for longer now.
    for _ in 0..2 {
        house.offer(&json!({"restart": true})).await;
    }
    house.signs_in_again().await;
    assert_eq!(house.asked_for().0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_without_a_lifetime_are_asked_for_each_time() {
    for cache_control in ["no-store", "no-cache", "private"] {
        let house = signed_in(cache_control).await;
        house.signs_in_again().await;
        assert_eq!(house.asked_for(), (2, 2), "{cache_control}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_token_endpoint_is_looked_for_past_what_is_kept() {
    let house = signed_in("max-age=600").await;
    house.issuer.move_token_endpoint("/elsewhere", 404);
    house.issuer.revoke_access_tokens();
    house.works().await;
    assert_eq!(house.asked_for().0, 2);
    // What was found is what the next sign-in goes by.
    house.signs_in_again().await;
    assert_eq!(house.asked_for().0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ds_01_after_a_restart_it_renews_at_the_endpoint_on_record() {
    let mut house = signed_in("no-store").await;
    house.works().await;
    house.daemon.kill9().await.unwrap();
    house.issuer.revoke_access_tokens();
    // Nothing can be discovered any more, and the server has something at the address that could be guessed.
    for script in [house.issuer.script(), house.server.script()] {
        let well_known = any().when(|request| request.path.contains("/.well-known/"));
        script.first_on(well_known).reply(status(503));
    }
    let guess = any().path("/token");
    let guessed = house.server.script().first_on(guess).reply(status(404));
    house.daemon.restart().await.unwrap();
    house.connected().await;
    house.works().await;
    let is_renewal =
        |request: &testkit::Request| request.form().get("grant_type") == Some("refresh_token");
    let renewed = house.issuer.log().matching(is_renewal);
    assert_eq!(renewed.len(), 1);
    assert_eq!(renewed[0].path_only(), "/oauth2/v1/token");
    assert_eq!(guessed.seen(), 0);
    house.is_kept_from(house.server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn ds_02_a_server_that_blocks_discovery_harvests_nothing() {
    let evil = Issuer::start().await;
    for code in [500, 404] {
        let house = signed_in("no-store").await;
        // The token endpoint moves, so that the issuer must be asked; it says nothing either.
        house.issuer.move_token_endpoint("/elsewhere", 404);
        for script in [house.issuer.script(), house.server.script()] {
            let well_known = any().when(|request| request.path.contains("/.well-known/"));
            script.first_on(well_known).reply(status(code));
        }
        let own = json!({"access_token": "AT", "token_type": "Bearer"}).to_string();
        let trap = content(200, "application/json", own);
        let trap = house
            .server
            .script()
            .first_on(any().path("/token"))
            .reply(trap);
        house.issuer.revoke_access_tokens();
        let agent = agent_of(Era::Legacy, &house.daemon).await;
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        house.is_delayed_for("token_endpoint_moved").await;
        // Now the server names somebody else.
        house.server.script().clear();
        house
            .server
            .change_protection(|protection| protection.trust(&[&evil]));
        house.is_delayed_for("issuer_changed").await;
        assert_eq!(trap.seen(), 0);
        house.is_kept_from(house.server.log());
        house.is_kept_from(evil.log());
        // The grant is kept, and goes on where the issuer can be asked again.
        house
            .server
            .change_protection(|protection| protection.trust(&[&house.issuer]));
        house.issuer.script().clear();
        house.grant_state("valid").await;
        house.connected().await;
    }
}
