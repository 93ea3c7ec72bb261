//! Which authorization server stands behind a server, and what is not believed about it.

use serde_json::{Value, json};
use testkit::issuer::policy::Well;
use testkit::reply::status;
use testkit::script::get;
use testkit::{Behaviour, Browser, Issuer, Protection, Server};

use super::House;
use crate::common::daemon;

const PATH: &str = "/api/v1/connections/dev/fake/sign-in";

/// A house whose issuer and server are made by the test.
async fn house(issuer: Issuer, protection: Protection) -> House {
    let behaviour = Behaviour::legacy("2025-11-25").protected(protection);
    let server = Server::start(behaviour).await;
    let daemon = daemon(&server).start().await.unwrap();
    House {
        issuer,
        server,
        daemon,
    }
}

impl House {
    async fn signs_in(&self) {
        let offer = self.offer(&json!({})).await;
        let link = offer["url"].as_str().unwrap();
        let page = Browser::new().open(link).await.unwrap();
        assert_eq!(page.status, 200, "{page:?}");
        let connected = self.daemon.wait_state("dev", "fake", "connected").await;
        connected.unwrap();
    }

    async fn is_refused(&self) -> Value {
        let (status, problem) = self.daemon.post(PATH, &json!({})).await.unwrap();
        assert_eq!(status, 502, "{problem}");
        assert_eq!(self.registrations().len(), 0, "nobody was registered");
        problem
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ds_03_misses_with_any_status_lead_to_the_next_place() {
    let issuer = Issuer::builder().path("/t1").start().await;
    issuer.change(|policy| policy.served_at = vec![Well::OpenIdAppended]);
    let script = issuer.script();
    let oauth = "/.well-known/oauth-authorization-server/t1";
    script.on(get().path(oauth)).reply(status(400));
    let openid = "/.well-known/openid-configuration/t1";
    script.on(get().path(openid)).reply(status(403));
    let mut protection = Protection::by(&issuer);
    protection.names_metadata = false;
    let house = house(issuer, protection).await;
    let inserted = "/.well-known/oauth-protected-resource/mcp";
    let page = status(401).header("content-type", "text/html");
    let page = page.body("<html>sign in".to_owned());
    let rule = house.server.script().on(get().path(inserted)).reply(page);
    house.signs_in().await;
    assert_eq!(rule.seen(), 1);
    let asked: Vec<_> = house
        .issuer
        .log()
        .matching(|request| request.path.contains("well-known"))
        .iter()
        .map(|request| request.path.clone())
        .collect();
    assert_eq!(
        asked,
        [oauth, openid, "/t1/.well-known/openid-configuration"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ds_04_only_the_slash_of_an_empty_path_is_tolerated() {
    for path in ["", "/"] {
        let issuer = Issuer::builder().path(path).start().await;
        let identifier = issuer.identifier().to_owned();
        let other = match identifier.strip_suffix('/') {
            Some(bare) => bare.to_owned(),
            None => format!("{identifier}/"),
        };
        let mut protection = Protection::by(&issuer);
        protection
            .metadata
            .set("authorization_servers", json!([other]));
        let house = house(issuer, protection).await;
        house.signs_in().await;
        let (_, grant) = house
            .daemon
            .get("/api/v1/connections/dev/fake/grant")
            .await
            .unwrap();
        let canonical = identifier.trim_end_matches('/');
        assert_eq!(grant["issuer"], canonical, "one spelling: {grant}");
    }
    for named in ["https://other.test", "{}/t1/"] {
        let issuer = Issuer::builder().path("/t1").start().await;
        let named = named.replace("{}/t1", issuer.identifier());
        issuer.change(|policy| {
            policy.metadata.set("issuer", named.clone());
        });
        let protection = Protection::by(&issuer);
        let house = house(issuer, protection).await;
        let problem = house.is_refused().await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&named), "{problem}");
        assert!(detail.contains(house.issuer.identifier()), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ds_05_the_resource_is_sent_as_the_server_writes_it() {
    let issuer = Issuer::start().await;
    let protection = Protection::by(&issuer);
    let house = house(issuer, protection).await;
    let origin = house.server.url().replace("/mcp", "");
    house.server.change_protection(|protection| {
        protection.resource = Some(origin.clone());
    });
    house.signs_in().await;
    let asked = &house.issuer.authorizations()[0];
    assert_eq!(asked.get("resource"), Some(origin.as_str()));

    let issuer = Issuer::start().await;
    let mut protection = Protection::by(&issuer);
    protection.resource = Some("https://evil.test/mcp".to_owned());
    let house = self::house(issuer, protection).await;
    let problem = house.is_refused().await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("https://evil.test/mcp"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ds_06_unusual_challenges_lead_to_the_metadata() {
    let forms: [&[&str]; 3] = [
        &[r#"Bearer realm="a, b", resource_metadata = "{}/custom/prm""#],
        &[r#"bearer error=invalid_token,resource_metadata="{}/custom/prm""#],
        &[
            r#"Basic realm="x""#,
            r#"Bearer resource_metadata="{}/custom/prm""#,
        ],
    ];
    for lines in forms {
        let issuer = Issuer::start().await;
        let mut protection = Protection::by(&issuer);
        protection.metadata_at = Some(vec!["/custom/prm".to_owned()]);
        let house = house(issuer, protection).await;
        let origin = house.server.url().replace("/mcp", "");
        let lines = lines.iter().map(|line| line.replace("{}", &origin));
        let lines: Vec<String> = lines.collect();
        house.server.change_protection(|protection| {
            protection.unauthorized = Some(lines.clone());
        });
        house.signs_in().await;
    }
    let issuer = Issuer::start().await;
    let mut protection = Protection::by(&issuer);
    protection.unauthorized = Some(vec!["Bearer".to_owned()]);
    house(issuer, protection).await.signs_in().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_without_pkce_is_refused() {
    for methods in [vec![], vec!["plain".to_owned()]] {
        let issuer = Issuer::start().await;
        issuer.change(|policy| policy.authorization.pkce_methods = methods);
        let protection = Protection::by(&issuer);
        let house = house(issuer, protection).await;
        let problem = house.is_refused().await;
        assert!(
            problem["detail"].as_str().unwrap().contains("PKCE"),
            "{problem}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ds_07_another_issuer_sees_nothing_of_the_first() {
    let first = Issuer::builder().prefix("one-").start().await;
    let second = Issuer::builder().prefix("two-").start().await;
    let protection = Protection::by(&first);
    let house = house(first, protection).await;
    house.signs_in().await;
    house
        .server
        .change_protection(|protection| protection.trust(&[&second]));
    house.signs_in().await;
    let seen = second.log().requests();
    assert!(!seen.is_empty());
    for request in seen {
        let body = String::from_utf8_lossy(&request.body);
        assert!(!body.contains("one-"), "{body}");
        assert!(!request.path.contains("one-"), "{}", request.path);
    }
    house
        .server
        .change_protection(|protection| protection.trust(&[&house.issuer]));
    house.signs_in().await;
    assert_eq!(
        house.registrations().len(),
        1,
        "the first one is used again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_authorization_servers_one_without_metadata_is_passed_over_and_no_outage() {
    let mute = Issuer::start().await;
    mute.change(|policy| policy.served_at = Vec::new());
    let outage = mute.script().on(get()).reply(status(503));
    let issuer = Issuer::start().await;
    let mut protection = Protection::by(&issuer);
    protection.trust(&[&mute, &issuer]);
    let house = house(issuer, protection).await;
    let problem = house.is_refused().await;
    assert!(
        problem["detail"].as_str().unwrap().contains("503"),
        "{problem}"
    );
    outage.remove();
    house.signs_in().await;
    // A server of 2025-03-26 may want to know with whom it speaks.
    let asked = mute.log().requests();
    assert!(!asked.is_empty());
    for request in asked {
        assert_eq!(request.method, "GET");
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
    }
}
