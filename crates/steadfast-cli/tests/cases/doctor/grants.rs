//! What is wrong with a grant, or with what it hangs on.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::issuer::{Client, Kind, policy::RefreshTokens};
use testkit::{Behaviour, Issuer, PATIENCE, Protection, Server, Signal, Tls};

use super::{Exit, assert_verdict, examined, sessions, step};
use crate::common::daemon_at;
use crate::grants::House;
use crate::rig::fault;

/// A house whose tokens are good for an hour: nothing is renewed by the clock meanwhile.
async fn house() -> House {
    let house = House::new(|daemon| daemon).await;
    house.issuer.change(|policy| {
        policy.tokens.lifetime = Some(Duration::from_secs(3_600));
    });
    house
}

/// The same, signed in.
async fn signed_in() -> House {
    let house = house().await;
    house.import(&house.grant()).await;
    house.connected().await;
    house
}

/// What the authorization server has been asked to do: an examination adds nothing to it.
fn asked_of(issuer: &Issuer) -> (usize, usize, usize) {
    let log = issuer.log();
    let registered = log.matching(|request| request.path_only() == "/register");
    let opened = log.matching(|request| request.path_only() == "/authorize");
    (issuer.presented().len(), registered.len(), opened.len())
}

/// The notices, once they say what the connection says.
async fn notices(house: &House) -> Value {
    let settled = async {
        loop {
            let connection = house.daemon.connection("dev", "fake").await.unwrap();
            let (_, mut notices) = house.daemon.get("/api/v1/notices").await.unwrap();
            // Made anew whenever somebody looks.
            for notice in notices["notices"].as_array_mut().unwrap() {
                notice.as_object_mut().unwrap().remove("link");
            }
            let list = notices["notices"].as_array().unwrap();
            let open = list.iter().find(|notice| notice["cleared_at"].is_null());
            let told = open.map_or(&Value::Null, |notice| &notice["fault"]["code"]);
            let fault = &connection["fault"];
            let wanted = if fault["person_needed"] == true {
                &fault["code"]
            } else {
                &Value::Null
            };
            if told == wanted {
                return notices;
            }
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.unwrap()
}

/// Examines it, and asserts that nothing was presented, registered or left behind.
async fn harmless(house: &House, exit: Exit, name: &str) -> Value {
    let (asked, (opened, ended)) = (asked_of(&house.issuer), sessions(&house.server));
    let before = notices(house).await;
    let examination = examined(&house.daemon, exit, name).await;
    assert_eq!(
        asked_of(&house.issuer),
        asked,
        "{name}: {}",
        house.issuer.log()
    );
    let (opened_since, ended_since) = sessions(&house.server);
    assert_eq!(opened_since - opened, ended_since - ended, "{name}");
    let after = notices(house).await;
    assert_eq!(before, after, "{name}: nobody was told anything");
    assert_eq!(house.server.log().count("tools/call"), 0, "{name}");
    let tokens = house.issuer.tokens();
    let text = examination.to_string();
    for token in tokens.iter().filter(|token| token.value.len() > 2) {
        let quoted = format!("{}\"", token.value);
        assert!(!text.contains(&quoted), "{name}: {text}");
    }
    examination
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_wrong_with_a_good_grant() {
    let house = signed_in().await;
    let examination = harmless(&house, Exit::Fine, "good_grant").await;
    assert!(examination["fault"].is_null(), "{examination:#}");
    for (check, said) in [
        ("challenge", "oauth-protected-resource"),
        ("resource_metadata", "about "),
        ("issuer_metadata", house.issuer.identifier()),
        ("sign_in", "announced"),
        ("registration", "registered at the next sign-in"),
        ("token_endpoint", "unsupported_grant_type"),
        ("grant", "good until"),
        ("token", "taken"),
        ("session", "known"),
        ("connection", "connected"),
    ] {
        let step = step(&examination, check);
        assert!(
            step.contains("\"passed\"") && step.contains(said),
            "{check}: {step}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_signed_in() {
    let house = house().await;
    house.waits().await;
    let examination = harmless(&house, Exit::Person, "sign_in_required").await;
    assert_verdict(&examination, "SF0031", "sign_in_required", "person");
    assert!(examination["sign_in_url"].is_null(), "{examination:#}");
    let what = examination["act"]["what"].as_str().unwrap();
    assert!(what.contains("`steadfast sign-in dev fake`"), "{what}");
    let offer = house.offer(&json!({})).await;
    let arguments = ["doctor", "dev", "fake", "--json"];
    let asked = house.daemon.command(&arguments).await.unwrap();
    let examination: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(examination["sign_in_url"], offer["url"], "the open link");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_refused_the_grant() {
    let house = signed_in().await;
    house.issuer.revoke_all();
    let path = "/api/v1/connections/dev/fake/reload";
    house.daemon.post(path, &json!({})).await.unwrap();
    house.waits().await;
    let examination = harmless(&house, Exit::Person, "grant_refused").await;
    assert_verdict(&examination, "SF0037", "grant_refused", "person");
    let proof = examination["proof"].to_string();
    assert!(proof.contains("invalid_grant"), "{proof}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_that_moved_is_found_by_the_next_renewal() {
    let house = signed_in().await;
    house.issuer.move_token_endpoint("/token2", 404);
    let examination = harmless(&house, Exit::Fine, "token_endpoint_elsewhere").await;
    let endpoint = step(&examination, "token_endpoint");
    assert!(endpoint.contains("/token2"), "{endpoint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_that_is_gone_is_named_before_it_is_missed() {
    let house = signed_in().await;
    house.issuer.change(|policy| {
        policy.paths.gone.insert("/token".to_owned(), 404);
    });
    let examination = harmless(&house, Exit::Fault, "token_endpoint_moved").await;
    assert_verdict(&examination, "SF0034", "token_endpoint_moved", "provider");
    let quote = examination["act"]["quote"].as_str().unwrap();
    assert!(quote.starts_with("RFC 8414 section 2"), "{quote}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_server_that_is_down_is_waited_for() {
    let house = signed_in().await;
    house.issuer.stop().await;
    let examination = harmless(&house, Exit::Fault, "issuer_down").await;
    assert_verdict(&examination, "SF0035", "renewal_delayed", "nobody");
    assert_eq!(examination["next"]["kind"], "renew", "{examination:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_about_another_issuer() {
    let house = house().await;
    house.issuer.change(|policy| {
        policy.metadata.set("issuer", "https://other.test");
    });
    house.waits().await;
    let examination = harmless(&house, Exit::Fault, "issuer_mismatch").await;
    assert_verdict(&examination, "SF0028", "protocol_mismatch", "provider");
    let proof = examination["proof"].to_string();
    assert!(proof.contains("https://other.test"), "{proof}");
    let quote = examination["act"]["quote"].as_str().unwrap();
    assert!(quote.starts_with("RFC 8414 section 3.3"), "{quote}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_without_pkce() {
    let house = house().await;
    house
        .issuer
        .change(|policy| policy.authorization.pkce_methods = Vec::new());
    house.waits().await;
    let examination = harmless(&house, Exit::Fault, "no_pkce").await;
    assert_verdict(&examination, "SF0028", "protocol_mismatch", "provider");
    let quote = examination["act"]["quote"].as_str().unwrap();
    assert!(
        quote.contains("code_challenge_methods_supported"),
        "{quote}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_sign_in_would_miss_is_no_fault_of_a_good_grant() {
    let house = signed_in().await;
    house
        .issuer
        .change(|policy| policy.authorization.pkce_methods = Vec::new());
    let examination = harmless(&house, Exit::Fine, "no_pkce_yet").await;
    let sign_in = step(&examination, "sign_in");
    assert!(
        sign_in.contains("\"noted\"") && sign_in.contains("PKCE"),
        "{sign_in}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_registers_nobody() {
    let house = house().await;
    house
        .issuer
        .change(|policy| policy.registration.open = false);
    house.waits().await;
    let examination = harmless(&house, Exit::Person, "no_client").await;
    assert_verdict(&examination, "SF0002", "config_bad_value", "operator");
    let what = examination["act"]["what"].as_str().unwrap();
    assert!(what.contains("servers.fake.oauth"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_cannot_be_renewed() {
    let house = house().await;
    house
        .issuer
        .change(|policy| policy.tokens.refresh = RefreshTokens::Never);
    house.import(&house.grant()).await;
    house.connected().await;
    let examination = harmless(&house, Exit::Person, "unrenewable").await;
    assert_verdict(&examination, "SF0050", "unrenewable", "person");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_does_not_cover_the_server() {
    let house = house().await;
    house.server.change_protection(|protection| {
        let scopes = vec!["more".to_owned()];
        protection
            .method_scopes
            .insert("initialize".to_owned(), scopes);
    });
    house.import(&house.grant()).await;
    fault(&house.daemon, "scope_insufficient").await;
    // A person is asked for more, by a link that comes by itself.
    let is_asked = |connection: &Value| connection["sign_in_url"].is_string();
    let asked = house
        .daemon
        .wait_connection("dev", "fake", PATIENCE, is_asked);
    asked.await.unwrap();
    let examination = harmless(&house, Exit::Person, "scope_insufficient").await;
    assert_verdict(&examination, "SF0032", "scope_insufficient", "person");
    let proof = examination["proof"].to_string();
    assert!(proof.contains("more"), "{proof}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_tokens_that_the_server_refuses() {
    let house = house().await;
    let client = Client::public("imported");
    let other = house
        .issuer
        .issue(client, &["add"], Some("https://other.test/mcp"));
    house.import(&other.import()).await;
    fault(&house.daemon, "fresh_token_refused").await;
    let examination = harmless(&house, Exit::Person, "fresh_token_refused").await;
    assert_verdict(&examination, "SF0038", "fresh_token_refused", "person");
    let quote = examination["act"]["quote"].as_str().unwrap();
    assert!(quote.contains("audience"), "{quote}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_the_provider_forgot() {
    let house = signed_in().await;
    house.issuer.forget_clients();
    let examination = harmless(&house, Exit::Person, "client_forgotten").await;
    assert_verdict(&examination, "SF0031", "sign_in_required", "person");
    let proof = examination["proof"].to_string();
    assert!(proof.contains("invalid_client"), "{proof}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_server_that_leads_to_a_private_address() {
    let tls = Tls::new(&["rs.test"]).unwrap();
    let certificates = tempfile::tempdir().unwrap();
    let ca = tls.write_ca(certificates.path()).unwrap();
    let issuer = Issuer::start().await;
    let behaviour = Behaviour::modern().protected(Protection::by(&issuer));
    let server = Server::builder(behaviour).host("rs.test").tls(&tls);
    let server = server.start().await;
    let daemon = daemon_at(&server.url())
        .set_text("network.ca_file", &ca.display().to_string())
        .set(
            "network.resolve",
            "{ \"rs.test\" = { address = \"127.0.0.1\", public = true } }",
        )
        .start()
        .await
        .unwrap();
    daemon
        .wait_state("dev", "fake", "awaiting_sign_in")
        .await
        .unwrap();
    let examination = examined(&daemon, Exit::Person, "private_address").await;
    assert_verdict(&examination, "SF0002", "config_bad_value", "operator");
    let what = examination["act"]["what"].as_str().unwrap();
    assert!(
        what.contains("servers.fake.allow_private_network"),
        "{what}"
    );
    assert_eq!(issuer.log().requests().len(), 0, "it was not asked");
}

/// A refresh token that ended while the machine slept: the provider is not to blame.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_slept_through_the_renewal_window() {
    let house = House::new(|daemon| daemon.set("retry.asleep_after", "\"1s\"")).await;
    house.import(&house.grant()).await;
    house.connected().await;
    house.renewed().await;
    house.daemon.signal(Signal::STOP).unwrap();
    // Its access token ends while it sleeps, and then the refresh token that nobody used.
    let ended = async {
        while house.issuer.live(Kind::Access) > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    // The daemon counts from when it got the token, a little later than the issuer.
    tokio::time::sleep(Duration::from_millis(500)).await;
    house.issuer.expire(Kind::Refresh);
    house.daemon.signal(Signal::CONT).unwrap();
    house.waits().await;
    let asleep = async {
        loop {
            let path = "/api/v1/connections/dev/fake/history";
            let (_, history) = house.daemon.get(path).await.unwrap();
            if history.to_string().contains("asleep from") {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asleep).await.unwrap();
    let arguments = ["doctor", "dev", "fake", "--json"];
    let asked = house.daemon.command(&arguments).await.unwrap();
    let examination: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_verdict(&examination, "SF0037", "grant_refused", "person");
    let message = examination["fault"]["message"].as_str().unwrap();
    assert!(message.contains("asleep from "), "{message}");
    assert!(message.contains("renewal window missed"), "{message}");
}
