//! Calls that want more than is granted: what a person is asked for, and how often.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::issuer::policy::Scope;
use testkit::reply::status;
use testkit::script::{get, http, post};
use testkit::{Agent, Browser, Issuer, PATIENCE, Protection, RequestLog, Server};

use super::{House, renewals};
use crate::common::{daemon, never};
use crate::rig::{BOTH, Era, agent_of};

/// Every sign-in gets `init`; `add_row` wants `write`, too.
fn write(protection: &mut Protection) {
    protection.scopes = vec!["init".to_owned()];
    let scopes = vec!["write".to_owned()];
    protection.tool_scopes.insert("add_row".to_owned(), scopes);
}

/// Signed in with what the server's 401 asks for.
async fn signed_in(
    era: Era,
    protect: impl FnOnce(&mut Protection),
    settings: impl FnOnce(Builder) -> Builder,
) -> House {
    let issuer = Issuer::start().await;
    let mut protection = Protection::by(&issuer);
    protect(&mut protection);
    let server = Server::start(era.behaviour().protected(protection)).await;
    let daemon = settings(daemon(&server)).start().await.unwrap();
    let house = House {
        issuer,
        server,
        daemon,
    };
    let offer = house.offer(&json!({})).await;
    open(offer["url"].as_str().unwrap()).await;
    house.connected().await;
    house
}

async fn open(link: &str) {
    let page = Browser::new().open(link).await.unwrap();
    assert_eq!(page.status, 200, "{page:?}");
}

impl House {
    /// The scopes of every authorization request.
    fn asked(&self) -> Vec<String> {
        let seen = self.issuer.authorizations();
        let scopes = seen.iter().map(|it| it.get("scope").unwrap_or("none"));
        scopes.map(str::to_owned).collect()
    }

    /// Waits until a person is asked for more; the link.
    async fn asks(&self) -> String {
        let asked = |connection: &Value| {
            connection["fault"]["kind"] == "scope_insufficient"
                && connection["sign_in_url"].is_string()
        };
        let shown = self.daemon.wait_connection("dev", "fake", PATIENCE, asked);
        let shown = shown.await.unwrap();
        shown["sign_in_url"].as_str().unwrap().to_owned()
    }

    /// Waits until nothing is wrong.
    async fn is_fine(&self) {
        let fine = |connection: &Value| {
            connection["state"] == "connected" && connection["fault"].is_null()
        };
        let shown = self.daemon.wait_connection("dev", "fake", PATIENCE, fine);
        shown.await.unwrap();
    }

    async fn shown(&self) -> Value {
        self.daemon.connection("dev", "fake").await.unwrap()
    }

    /// Calls `add_row`, which is refused for its scope: the connection object of the answer.
    async fn lacks_scope(&self) -> Value {
        let agent = agent_of(Era::Legacy, &self.daemon).await;
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        assert_eq!(answer.operation()["executed"], "no", "{answer:?}");
        answer.result()["_meta"]["dev.steadfast/connection"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_01_operations_do_not_evict_each_other() {
    for era in BOTH {
        let protect = |protection: &mut Protection| {
            write(protection);
            let scopes = vec!["read".to_owned()];
            protection
                .method_scopes
                .insert("tools/list".to_owned(), scopes);
        };
        let house = signed_in(era, protect, |daemon| daemon).await;
        // The list is refused, and the connection serves what the grant is enough for.
        let link = house.asks().await;
        assert_eq!(house.shown().await["state"], "connected");
        open(&link).await;
        house.is_fine().await;
        // Both lists and tools go on without a restart.
        let listed = |connection: &Value| connection["tools"].is_u64();
        let shown = house
            .daemon
            .wait_connection("dev", "fake", PATIENCE, listed);
        shown.await.unwrap();
        let refused = house.lacks_scope().await;
        open(refused["sign_in_url"].as_str().unwrap()).await;
        house.works().await;
        house.is_fine().await;
        house.notice_cleared().await;
        let agent = agent_of(era, &house.daemon).await;
        agent.request("tools/list", json!({})).await.unwrap();
        assert_eq!(house.asked(), ["init", "init read", "init read write"]);
        assert_eq!(renewals(house.issuer.log()), 0, "no renewal can widen it");
        assert_eq!(house.registrations().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_02_a_missing_scope_is_for_a_person_and_never_renewed() {
    for (era, server) in crate::rig::PAIRINGS {
        let mut house = signed_in(server, write, |daemon| daemon).await;
        let agent = agent_of(era, &house.daemon).await;
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.is_error(), "{answer:?}");
        let meta = &answer.result()["_meta"];
        assert_eq!(meta["dev.steadfast/operation"]["executed"], "no", "{meta}");
        let connection = &meta["dev.steadfast/connection"];
        assert_eq!(connection["state"], "connected", "{connection}");
        let fault = &connection["fault"];
        assert_eq!(fault["kind"], "scope_insufficient", "{connection}");
        assert_eq!(fault["person_needed"], true, "{connection}");
        let link = connection["sign_in_url"].as_str().unwrap().to_owned();
        let text = answer.text();
        assert!(text.contains("write") && text.contains(&link), "{text}");
        // What the grant is enough for is served.
        let echo = agent.call("echo", json!({"text": "a"})).await.unwrap();
        assert!(!echo.is_error(), "{echo:?}");
        // It is on record, and asked for once, whoever asks.
        house.daemon.restart().await.unwrap();
        house.connected().await;
        assert_eq!(house.asks().await, link);
        let offer = house.offer(&json!({})).await;
        assert_eq!(offer["url"], link.as_str());
        let (_, notices) = house.daemon.get("/api/v1/notices").await.unwrap();
        let notices = notices["notices"].as_array().unwrap().clone();
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert_eq!(notices[0]["fault"]["kind"], "scope_insufficient");
        assert!(notices[0]["cleared_at"].is_null(), "{notices:?}");
        open(&link).await;
        house.is_fine().await;
        house.notice_cleared().await;
        // Nothing was sent again by itself; the next call passes.
        assert_eq!(house.server.log().calls("add_row").len(), 1);
        house.works().await;
        assert_eq!(house.asked(), ["init", "init write"]);
        assert_eq!(renewals(house.issuer.log()), 0);
        let rows = house.server.ledger().rows_of("add_row").unwrap();
        assert_eq!(rows.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_02_other_requests_get_an_error_with_the_link() {
    // Some servers say it with 401; a renewal would not help there either.
    for (era, code) in [(Era::Legacy, 403), (Era::Modern, 401)] {
        let protect = |protection: &mut Protection| protection.scopes = vec!["init".to_owned()];
        let house = signed_in(era, protect, |daemon| daemon).await;
        let refusal = status(code)
            .header("www-authenticate", r#"Basic realm="x""#)
            .header(
                "www-authenticate",
                r#"Bearer error=insufficient_scope, scope="read""#,
            );
        let wanted = post("prompts/get");
        house.server.script().first_on(wanted).reply(refusal);
        let agent = agent_of(era, &house.daemon).await;
        let params = json!({"name": "a"});
        let answer = agent.request("prompts/get", params).await.unwrap();
        let data = &answer.message["error"]["data"];
        assert_eq!(data["executed"], "no", "{answer:?}");
        assert_eq!(data["code"], "SF0032", "{answer:?}");
        let link = data["connection"]["sign_in_url"].as_str().unwrap();
        open(link).await;
        house.is_fine().await;
        assert_eq!(house.asked(), ["init", "init read"]);
        assert_eq!(renewals(house.issuer.log()), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_04_a_challenge_without_scopes_leads_to_one_step_up_at_most() {
    let protect = |protection: &mut Protection| {
        write(protection);
        protection.names_scope = false;
        let scopes = json!(["init"]);
        protection.metadata.set("scopes_supported", scopes);
    };
    let house = signed_in(Era::Legacy, protect, |daemon| daemon).await;
    let refused = async |house: &House| {
        let connection = house.lacks_scope().await;
        assert!(connection["sign_in_url"].is_null(), "{connection}");
        let message = connection["fault"]["message"].as_str().unwrap();
        assert!(message.contains("the server named none"), "{message}");
        connection
    };
    refused(&house).await;
    // By now the metadata names what the tool wants.
    house.server.change_protection(|protection| {
        let scopes = json!(["init", "write"]);
        protection.metadata.set("scopes_supported", scopes);
    });
    house.issuer.change(|policy| {
        policy.authorization.scopes_granted = Some(vec!["init".to_owned()]);
    });
    let connection = house.lacks_scope().await;
    open(connection["sign_in_url"].as_str().unwrap()).await;
    house.is_fine().await;
    assert_eq!(house.asked(), ["init", "init write"]);
    // It was not granted: nobody is asked a second time.
    let connection = refused(&house).await;
    assert_eq!(connection["grant"]["scopes"], json!(["init"]));
    assert_eq!(house.asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_granted_is_told_and_not_asked_for_again() {
    let house = signed_in(Era::Legacy, write, |daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.authorization.scopes_granted = Some(vec!["init".to_owned()]);
    });
    let connection = house.lacks_scope().await;
    open(connection["sign_in_url"].as_str().unwrap()).await;
    house.is_fine().await;
    for _ in 0..2 {
        let connection = house.lacks_scope().await;
        assert!(connection["sign_in_url"].is_null(), "{connection}");
        let message = connection["fault"]["message"].as_str().unwrap();
        assert!(message.contains("did not grant"), "{message}");
        assert_eq!(connection["grant"]["scopes"], json!(["init"]));
    }
    assert_eq!(house.asked(), ["init", "init write"]);
    // It is asked for again by a person who wants to, and may be granted then.
    house.issuer.change(|policy| {
        policy.authorization.scopes_granted = None;
    });
    let offer = house.offer(&json!({})).await;
    open(offer["url"].as_str().unwrap()).await;
    house.works().await;
    house.is_fine().await;
    assert_eq!(house.asked(), ["init", "init write", "init write"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_01_nobody_is_asked_for_ever() {
    let settings = |daemon: Builder| daemon.set("sign_in.step_ups", "2");
    let house = signed_in(Era::Legacy, write, settings).await;
    for round in 1..=2 {
        let connection = house.lacks_scope().await;
        open(connection["sign_in_url"].as_str().unwrap()).await;
        house.is_fine().await;
        house.server.change_protection(|protection| {
            let scopes = vec![format!("more{round}")];
            protection.tool_scopes.insert("add_row".to_owned(), scopes);
        });
    }
    let connection = house.lacks_scope().await;
    assert!(connection["sign_in_url"].is_null(), "{connection}");
    let message = connection["fault"]["message"].as_str().unwrap();
    assert!(message.starts_with("step-up refused"), "{message}");
    assert_eq!(house.asked(), ["init", "init write", "init write more1"]);
    // A person may still want to; and once the server is content, nothing is wrong any more.
    let offer = house.offer(&json!({})).await;
    assert!(offer["url"].is_string(), "{offer}");
    house.server.change_protection(|protection| {
        protection.tool_scopes.clear();
    });
    house.works().await;
    house.is_fine().await;
    house.notice_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_handshake_waits_for_a_sign_in_with_more() {
    for era in BOTH {
        let issuer = Issuer::start().await;
        let mut protection = Protection::by(&issuer);
        protection.scopes = vec!["init".to_owned()];
        let server = Server::start(era.behaviour().protected(protection)).await;
        let daemon = daemon(&server).start().await.unwrap();
        let house = House {
            issuer,
            server,
            daemon,
        };
        house.waits().await;
        house.import(&house.grant()).await;
        let link = house.asks().await;
        assert_eq!(house.shown().await["state"], "awaiting_sign_in");
        let asked = house.server.log().requests().len();
        never(&house.server, Duration::from_millis(400), |log| {
            log.requests().len() > asked
        })
        .await;
        open(&link).await;
        house.is_fine().await;
        house.notice_cleared().await;
        assert_eq!(house.asked(), ["add init"], "what is held, and more");
        assert_eq!(renewals(house.issuer.log()), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_refused_is_opened_after_the_sign_in() {
    let protect = |protection: &mut Protection| protection.scopes = vec!["init".to_owned()];
    let house = signed_in(Era::Legacy, protect, |daemon| daemon).await;
    let refusal = status(403).header(
        "www-authenticate",
        r#"Bearer error="insufficient_scope", scope="stream""#,
    );
    let rule = house.server.script().first_on(get().path("/mcp"));
    let rule = rule.reply(refusal);
    let path = "/api/v1/connections/dev/fake/reload";
    house.daemon.post(path, &json!({})).await.unwrap();
    let link = house.asks().await;
    rule.remove();
    let gets = |log: &RequestLog| {
        let gets = log.matching(|request| request.method == "GET" && request.path_only() == "/mcp");
        gets.len()
    };
    let before = gets(house.server.log());
    open(&link).await;
    house.is_fine().await;
    let asked_again = |log: &RequestLog| gets(log) > before;
    house
        .server
        .log()
        .wait_for(asked_again, PATIENCE)
        .await
        .unwrap();
    assert_eq!(house.asked(), ["init", "init stream"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_ended_for_want_of_a_scope_asks_nobody() {
    let protect = |protection: &mut Protection| protection.scopes = vec!["init".to_owned()];
    let house = signed_in(Era::Legacy, protect, |daemon| daemon).await;
    let refusal = status(403).header(
        "www-authenticate",
        r#"Bearer error="insufficient_scope", scope="end""#,
    );
    let rule = house.server.script().first_on(http("DELETE"));
    let rule = rule.reply(refusal);
    let path = "/api/v1/connections/dev/fake/reload";
    house.daemon.post(path, &json!({})).await.unwrap();
    let ended = |_: &RequestLog| rule.seen() > 0;
    house.server.log().wait_for(ended, PATIENCE).await.unwrap();
    house.works().await;
    house.is_fine().await;
    assert_eq!(house.asked(), ["init"]);
    assert_eq!(renewals(house.issuer.log()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_scope_is_a_transition_and_no_fault() {
    let house = signed_in(Era::Legacy, write, |daemon| daemon).await;
    let connection = house.lacks_scope().await;
    open(connection["sign_in_url"].as_str().unwrap()).await;
    house.is_fine().await;
    house.works().await;
    house.issuer.change(|policy| {
        policy.answers.scope = Scope::Is("init".to_owned());
    });
    house.issuer.revoke_access_tokens();
    let agent = agent_of(Era::Legacy, &house.daemon).await;
    agent.call("echo", json!({})).await.unwrap();
    let narrowed = |connection: &Value| connection["grant"]["scopes"] == json!(["init"]);
    let shown = house
        .daemon
        .wait_connection("dev", "fake", PATIENCE, narrowed);
    let shown = shown.await.unwrap();
    assert_eq!(shown["state"], "connected", "{shown}");
    assert!(shown["fault"].is_null(), "{shown}");
    let told = async {
        loop {
            let history = house.daemon.history("dev", "fake").await.unwrap();
            let mut found = history.iter();
            if let Some(found) = found.find(|it| it["reason"] == "scope_narrowed") {
                return found.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!(
        (&told["from"], &told["to"]),
        (&json!("connected"), &json!("connected"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_daemon_was_refused_another_asks_for() {
    let house = signed_in(Era::Legacy, write, |daemon| daemon).await;
    let key = house.daemon.agent_key("dev").await.unwrap();
    let settings = daemon(&house.server).data(house.daemon.data());
    let other = settings.start().await.unwrap();
    other.wait_state("dev", "fake", "connected").await.unwrap();
    let connection = house.lacks_scope().await;
    let path = "/api/v1/connections/dev/fake/sign-in";
    let (status, offer) = other.post(path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{offer}");
    assert_eq!(offer["url"], connection["sign_in_url"], "one link for all");
    open(offer["url"].as_str().unwrap()).await;
    // Whoever has the older token learns of the newer one when that is refused.
    house.works().await;
    house.is_fine().await;
    let agent = Agent::legacy(other.address(), "/mcp/fake", Some(&key));
    agent.initialize().await.unwrap();
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(!answer.is_error(), "{answer:?}");
    assert_eq!(house.asked(), ["init", "init write"]);
    assert_eq!(renewals(house.issuer.log()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_that_lack_something_lead_to_one_link() {
    let house = signed_in(Era::Legacy, write, |daemon| daemon).await;
    let agent = std::sync::Arc::new(agent_of(Era::Legacy, &house.daemon).await);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let agent = std::sync::Arc::clone(&agent);
        calls.spawn(async move { agent.call("add_row", json!({})).await.unwrap() });
    }
    let answers = calls.join_all().await;
    let link = |answer: &testkit::Answer| {
        let connection = &answer.result()["_meta"]["dev.steadfast/connection"];
        connection["sign_in_url"].as_str().unwrap().to_owned()
    };
    let first = link(&answers[0]);
    assert!(answers.iter().all(|answer| link(answer) == first));
    open(&first).await;
    house.works().await;
    assert_eq!(house.asked(), ["init", "init write"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sc_03_offline_access_is_done_without_where_it_is_refused() {
    let issuer = Issuer::start().await;
    issuer.change(|policy| {
        policy.authorization.scopes_supported = vec!["init".to_owned()];
        policy.authorization.scopes_strict = true;
        let offered = json!(["init", "offline_access"]);
        policy.metadata.set("scopes_supported", offered);
    });
    let mut protection = Protection::by(&issuer);
    protection.scopes = vec!["init".to_owned()];
    let server = Server::start(Era::Legacy.behaviour().protected(protection)).await;
    let daemon = daemon(&server).start().await.unwrap();
    let mut house = House {
        issuer,
        server,
        daemon,
    };
    // The browser is led on; the person sees one page in the end.
    let offer = house.offer(&json!({})).await;
    open(offer["url"].as_str().unwrap()).await;
    house.connected().await;
    assert_eq!(house.asked(), ["init offline_access", "init"]);
    // Nobody has to find out again, also after a restart.
    let path = "/api/v1/connections/dev/fake/sign-out";
    house.daemon.post(path, &json!({})).await.unwrap();
    house.daemon.restart().await.unwrap();
    let offer = house.offer(&json!({})).await;
    open(offer["url"].as_str().unwrap()).await;
    house.connected().await;
    assert_eq!(house.asked()[2..], ["init"]);
    // Where the other scopes are refused as well, that is told, and nothing goes round.
    house.issuer.change(|policy| {
        policy.authorization.scopes_supported = vec!["other".to_owned()];
    });
    let offer = house.offer(&json!({})).await;
    let page = Browser::new().open(offer["url"].as_str().unwrap()).await;
    let page = page.unwrap();
    assert_eq!(page.status, 400, "{page:?}");
    assert!(page.body.contains("invalid_scope"), "{page:?}");
}
