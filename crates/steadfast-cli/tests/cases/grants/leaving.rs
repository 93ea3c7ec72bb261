//! Connections that leave the configuration, or lead elsewhere: nothing of their grants is left behind.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::issuer::{Client, Kind};
use testkit::reply::{Reply, status};
use testkit::script::any;
use testkit::{Behaviour, Browser, Daemon, PATIENCE, RequestLog, Server};

use super::House;

/// Long enough that no test comes near it.
const HOUR: Duration = Duration::from_secs(3_600);

impl House {
    /// How often the issuer was asked to revoke a token.
    fn revocations(&self) -> usize {
        revocations(self.issuer.log())
    }

    /// Waits until it was.
    async fn revoked(&self) {
        let seen = |log: &RequestLog| revocations(log) > 0 && self.issuer.live(Kind::Refresh) == 0;
        self.issuer.log().wait_for(seen, PATIENCE).await.unwrap();
    }

    /// Tokens that are good for an hour, and a connection that is up with them.
    async fn holding(&self) -> Value {
        self.issuer
            .change(|policy| policy.tokens.lifetime = Some(HOUR));
        let grant = self.grant();
        self.import(&grant).await;
        self.connected().await;
        grant
    }

    /// The connection comes back, and knows of no grant: none of its requests since carries a token.
    async fn comes_back_empty(&self) {
        let from = self.server.log().requests().len();
        self.waits().await;
        let connection = self.daemon.connection("dev", "fake").await.unwrap();
        assert_eq!(connection["grant"]["state"], "none", "{connection}");
        let requests = self.server.log().requests().split_off(from);
        let with_token: Vec<_> = requests.iter().filter(|it| it.bearer().is_some()).collect();
        assert!(with_token.is_empty(), "{with_token:?}");
    }
}

fn revocations(log: &RequestLog) -> usize {
    log.matching(|request| request.path_only() == "/revoke")
        .len()
}

/// Waits until there is no such connection.
async fn gone(daemon: &Daemon, agent: &str) {
    let path = format!("/api/v1/connections/{agent}/fake");
    let gone = async {
        while daemon.get(&path).await.unwrap().0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}

async fn notices_of(daemon: &Daemon, agent: &str) -> Vec<Value> {
    let (_, notices) = daemon.get("/api/v1/notices").await.unwrap();
    let all = notices["notices"].as_array().unwrap().iter();
    all.filter(|notice| notice["agent"] == *agent)
        .cloned()
        .collect()
}

/// The server is configured at another address, where this one answers.
async fn moves(house: &mut House) -> Server {
    let other = Server::start(Behaviour::legacy("2025-11-25").protected_by(&house.issuer)).await;
    let elsewhere = format!("\"{}\"", other.url());
    house
        .daemon
        .reconfigure("servers.fake.url", &elsewhere)
        .unwrap();
    other
}

/// The grant is given back, and the server at the new address never saw a token.
async fn got_nothing(house: &House, other: &Server) {
    house.waits().await;
    house.revoked().await;
    let sent = other.log().requests();
    assert!(!sent.is_empty());
    assert!(sent.iter().all(|it| it.bearer().is_none()), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_revoked_after_the_renewal_under_way_when_its_connection_leaves() {
    let mut house = House::new(|daemon| daemon.set("renewal.lease", "\"10s\"")).await;
    house.holding().await;
    let held = any().form("grant_type", "refresh_token").times(1);
    let rule = house.issuer.script().first_on(held);
    rule.reply(Reply::new().wait_for("token").run());
    house.import(&house.due_grant(HOUR / 6)).await;
    house.issuer.gates().arrived("token", 1).await;

    house
        .daemon
        .reconfigure("agents.dev.servers", "[]")
        .unwrap();
    gone(&house.daemon, "dev").await;
    assert_eq!(house.revocations(), 0, "the renewal has not ended");
    house.issuer.gates().open("token");
    let seen = |log: &RequestLog| revocations(log) > 0;
    house.issuer.log().wait_for(seen, PATIENCE).await.unwrap();
    let asked = house
        .issuer
        .log()
        .matching(|request| request.path_only() == "/revoke");
    let tokens = house.issuer.tokens();
    let newest = tokens.iter().rfind(|token| token.kind == Kind::Refresh);
    let newest = newest.unwrap().value.as_str();
    assert_eq!(asked[0].form().get("token"), Some(newest));
    assert_eq!(house.issuer.counts().reuses, 0);

    house
        .daemon
        .reconfigure("agents.dev.servers", "[\"fake\"]")
        .unwrap();
    house.comes_back_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_left_while_no_daemon_ran_is_given_back_at_the_next_start() {
    for (before, after) in [
        ("servers = \"*\"", "servers = []"),
        ("[servers.fake]", "[servers.other]"),
    ] {
        let mut house = House::new(|daemon| daemon).await;
        house.holding().await;
        // A notice is open as well.
        let refused = any().form("grant_type", "refresh_token");
        let invalid = json!({"error": "invalid_grant"});
        let reply = testkit::reply::json_body(400, &invalid);
        let rule = house.issuer.script().first_on(refused).reply(reply);
        house.import(&house.due_grant(HOUR / 6)).await;
        house.grant_state("refused").await;
        rule.remove();
        house.daemon.terminate().await.unwrap();
        let text = std::fs::read_to_string(house.daemon.config()).unwrap();
        assert!(text.contains(before), "{text}");
        std::fs::write(house.daemon.config(), text.replace(before, after)).unwrap();
        house.daemon.restart().await.unwrap();
        let asked = |log: &RequestLog| revocations(log) > 0;
        house.issuer.log().wait_for(asked, PATIENCE).await.unwrap();
        gone(&house.daemon, "dev").await;
        let mine = notices_of(&house.daemon, "dev").await;
        let stale = mine.iter().filter(|notice| notice["server"] == "fake");
        assert_eq!(stale.count(), 0, "{mine:?}");
        let text = std::fs::read_to_string(house.daemon.config()).unwrap();
        std::fs::write(house.daemon.config(), text.replace(after, before)).unwrap();
        house.comes_back_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_forgotten_also_where_the_issuer_cannot_be_told() {
    let mut house = House::new(|daemon| daemon).await;
    house.holding().await;
    house.issuer.change(|policy| {
        policy.paths.gone.insert("/revoke".to_owned(), 503);
    });
    house
        .daemon
        .reconfigure("agents.dev.servers", "[]")
        .unwrap();
    let seen = |log: &RequestLog| revocations(log) > 0;
    house.issuer.log().wait_for(seen, PATIENCE).await.unwrap();
    house
        .daemon
        .reconfigure("agents.dev.servers", "\"*\"")
        .unwrap();
    house.comes_back_empty().await;
    let log = house.daemon.stderr();
    assert!(
        log.contains("did not revoke the grant: it answered 503"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_and_a_server_that_are_removed_take_grants_links_and_notices_along() {
    for by_command in [true, false] {
        let house = House::new(|daemon| daemon).await;
        house
            .issuer
            .change(|policy| policy.tokens.lifetime = Some(HOUR));
        let daemon = &house.daemon;
        daemon.add_agent("extra").await.unwrap();
        let waiting = daemon.wait_state("extra", "fake", "awaiting_sign_in").await;
        waiting.unwrap();
        let path = "/api/v1/connections/extra/fake/sign-in";
        let (_, offer) = daemon.post(path, &json!({})).await.unwrap();
        let grant = house.issuer.issue(
            Client::public("imported"),
            &["add"],
            Some(&house.server.url()),
        );
        let path = "/api/v1/connections/extra/fake/grant";
        let put = daemon.admin("PUT", path, Some(&grant.import())).await;
        assert_eq!(put.unwrap().0, 200);
        daemon
            .wait_state("extra", "fake", "connected")
            .await
            .unwrap();

        if by_command {
            let removed = daemon.command(&["agent", "remove", "extra"]).await.unwrap();
            assert!(removed.status.success(), "{removed:?}");
        } else {
            let removed = daemon.admin("DELETE", "/api/v1/agents/extra", None).await;
            assert_eq!(removed.unwrap().0, 204);
        }
        gone(daemon, "extra").await;
        house.revoked().await;
        assert_eq!(notices_of(daemon, "extra").await, Vec::<Value>::new());
        let link = offer["url"].as_str().unwrap();
        let page = Browser::new().open(link).await.unwrap();
        assert_eq!(page.status, 410, "{page:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_moves_gets_nothing_of_the_grant_unless_it_is_under_its_resource() {
    let mut house = House::new(|daemon| daemon).await;
    let grant = house.holding().await;
    let under = format!("\"{}?under=1\"", house.server.url());
    let from = house.server.log().requests().len();
    house
        .daemon
        .reconfigure("servers.fake.url", &under)
        .unwrap();
    let moved = |log: &RequestLog| {
        let requests = log.requests().split_off(from);
        let token = grant["access_token"].as_str();
        let mut moved = requests.iter().filter(|it| it.path.ends_with("?under=1"));
        moved.any(|it| it.bearer() == token)
    };
    house.server.log().wait_for(moved, PATIENCE).await.unwrap();
    house.connected().await;
    assert_eq!(house.revocations(), 0);

    let other = moves(&mut house).await;
    got_nothing(&house, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_moved_while_no_daemon_ran_gets_nothing_of_the_grant_either() {
    let mut house = House::new(|daemon| daemon).await;
    house.holding().await;
    house.daemon.terminate().await.unwrap();
    let other = moves(&mut house).await;
    house.daemon.restart().await.unwrap();
    got_nothing(&house, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_switched_off_keeps_its_grant() {
    let mut house = House::new(|daemon| daemon).await;
    house.holding().await;
    house
        .daemon
        .reconfigure("servers.fake.enabled", "false")
        .unwrap();
    let off = house.daemon.wait_state("dev", "fake", "disabled").await;
    off.unwrap();
    house
        .daemon
        .reconfigure("servers.fake.enabled", "true")
        .unwrap();
    house.connected().await;
    house.works().await;
    assert_eq!(house.revocations(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_says_whether_the_issuer_was_told() {
    let house = House::new(|daemon| daemon).await;
    house.holding().await;
    let refuses = any().path("/revoke");
    house.issuer.script().first_on(refuses).reply(status(503));
    let path = "/api/v1/connections/dev/fake/sign-out";
    let (code, answer) = house.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!((code, &answer["revoked"]), (200, &json!("no")), "{answer}");
    let said = answer["message"].as_str().unwrap();
    assert!(said.contains("it answered 503"), "{answer}");
    house.waits().await;
    let connection = house.daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["grant"]["state"], "none", "{connection}");
}
