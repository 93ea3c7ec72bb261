//! `${vault:NAME}`: what the server gets, and when; and what is said where a name is missing.

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::{Behaviour, Daemon, Server};

use crate::common::{daemon, run_with_input as run};
use crate::rig::{Era, agent_of};

const REFERENCES: &str = "Key ${vault:BOOKING_KEY}:${vault:SECOND}";

async fn set(daemon: &Daemon, name: &str, value: &str) -> u16 {
    let path = format!("/api/v1/vault/{name}");
    let body = json!({ "value": value });
    daemon.admin("PUT", &path, Some(&body)).await.unwrap().0
}

/// A daemon whose server wants a header of two secrets, none of which is there.
async fn without_secrets(
    behaviour: Behaviour,
    more: impl FnOnce(Builder) -> Builder,
) -> (Server, Daemon) {
    let server = Server::start(behaviour).await;
    let builder = daemon(&server).set_text("servers.fake.headers.X-Api-Key", REFERENCES);
    let daemon = more(builder).start().await.unwrap();
    (server, daemon)
}

/// The header of each request that the server has seen.
fn keys(server: &Server) -> Vec<Option<String>> {
    let requests = server.log().requests();
    let key = |request: &testkit::Request| request.header("x-api-key").map(str::to_owned);
    requests.iter().map(|request| key(request)).collect()
}

async fn a_secret_counts_from_the_next_request_on(era: Era) {
    let (server, daemon) = without_secrets(era.behaviour(), |daemon| daemon).await;
    let waiting = daemon.wait_state("dev", "fake", "misconfigured").await;
    let fault = waiting.unwrap()["fault"].clone();
    assert_eq!(fault["code"], "SF0009", "{fault}");
    assert_eq!(
        fault["message"],
        "the header X-Api-Key needs the secret BOOKING_KEY, which is not in the vault"
    );
    assert_eq!(fault["person_needed"], true, "{fault}");

    assert_eq!(set(&daemon, "BOOKING_KEY", "first").await, 201);
    let still = daemon.wait_connection("dev", "fake", testkit::PATIENCE, |connection| {
        let message = connection["fault"]["message"].as_str().unwrap_or_default();
        message.contains("the secret SECOND")
    });
    still.await.unwrap();
    // A reload looks again, and finds the same.
    let path = "/api/v1/connections/dev/fake/reload";
    let (_, reloaded) = daemon.post(path, &Value::Null).await.unwrap();
    assert_eq!(reloaded["fault"]["code"], "SF0009", "{reloaded}");
    assert_eq!(keys(&server).len(), 0, "nothing was sent without it");

    set(&daemon, "SECOND", "half").await;
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(era, &daemon).await;
    let opened = keys(&server);
    let whole = Some("Key first:half".to_owned());
    assert!(opened.iter().all(|key| *key == whole), "{opened:?}");

    let handshakes =
        |server: &Server| server.log().count("initialize") + server.log().count("server/discover");
    let before = handshakes(&server);
    assert_eq!(set(&daemon, "BOOKING_KEY", "second").await, 200);
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(!answer.is_error(), "{answer:?}");
    let call = &server.log().calls("add_row")[0];
    assert_eq!(call.header("x-api-key"), Some("Key second:half"));
    assert_eq!(handshakes(&server), before, "the connection stayed");

    let removed = daemon.admin("DELETE", "/api/v1/vault/SECOND", None).await;
    assert_eq!(removed.unwrap().0, 204);
    daemon
        .wait_state("dev", "fake", "misconfigured")
        .await
        .unwrap();
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(answer.is_error(), "{answer:?}");
    assert!(answer.text().contains("SECOND"), "{answer:?}");
    assert_eq!(server.log().calls("add_row").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_counts_from_the_next_request_on_with_a_legacy_server() {
    a_secret_counts_from_the_next_request_on(Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_counts_from_the_next_request_on_with_a_modern_server() {
    a_secret_counts_from_the_next_request_on(Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_there_after_a_restart_and_a_change_of_the_key() {
    let (server, mut daemon) = without_secrets(Behaviour::modern(), |daemon| daemon).await;
    set(&daemon, "BOOKING_KEY", "first").await;
    set(&daemon, "SECOND", "half").await;
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let keys_before = std::fs::read(daemon.data().join("vault.key")).unwrap();
    let rotated = run(&daemon, &["vault", "rotate", "--json"], "").await;
    let rotated: Value = serde_json::from_slice(&rotated.stdout).unwrap();
    assert_eq!(rotated, json!({"resealed": 2, "failed": []}));
    assert_ne!(
        std::fs::read(daemon.data().join("vault.key")).unwrap(),
        keys_before
    );
    let before = keys(&server).len();
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let after = keys(&server).split_off(before);
    let whole = Some("Key first:half".to_owned());
    assert!(
        !after.is_empty() && after.iter().all(|key| *key == whole),
        "{after:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_is_the_credential_takes_the_place_of_a_grant() {
    let (server, daemon) = without_secrets(Behaviour::modern(), |daemon| {
        daemon.set_text(
            "servers.fake.headers.Authorization",
            "Bearer ${vault:SECOND}",
        )
    })
    .await;
    set(&daemon, "BOOKING_KEY", "first").await;
    set(&daemon, "SECOND", "half").await;
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let requests = server.log().requests();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.bearer(), Some("half"), "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_client_secret_is_named() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server)
        .set_text("servers.fake.oauth.client_id", "abc")
        .set_text("servers.fake.oauth.client_secret", "${vault:CLIENT}")
        .start()
        .await
        .unwrap();
    let waiting = daemon.wait_state("dev", "fake", "misconfigured").await;
    let fault = waiting.unwrap()["fault"].clone();
    assert_eq!(
        fault["message"],
        "oauth.client_secret needs the secret CLIENT, which is not in the vault"
    );
    set(&daemon, "CLIENT", "x").await;
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_come_from_standard_input_and_are_listed_by_name() {
    const CANARY: &str = "cL2xN7vRq4TzW9mKb6Js";
    let (server, daemon) = without_secrets(Behaviour::modern(), |daemon| daemon).await;
    let done = run(&daemon, &["vault", "set", "BOOKING_KEY"], "first\n").await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(done.stdout, b"BOOKING_KEY is set\n");
    let done = run(&daemon, &["vault", "set", "SECOND", "--json"], CANARY).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    assert_eq!(keys(&server)[0], Some(format!("Key first:{CANARY}")));

    let listed = run(&daemon, &["vault", "list", "--json"], "").await;
    let text = String::from_utf8(listed.stdout).unwrap();
    let listed: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = listed["secrets"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2, "{text}");
    assert_eq!(names[0]["name"], "BOOKING_KEY", "{text}");
    assert!(names[0]["set_at"].is_string(), "{text}");
    let (_, shown) = daemon.get("/api/v1/servers/fake").await.unwrap();
    assert_eq!(shown["headers"]["X-Api-Key"], REFERENCES);
    for shown in [text, shown.to_string()] {
        assert!(!shown.contains(&CANARY[..8]), "{shown}");
    }

    for (arguments, input, code, error) in [
        (&["vault", "set", "A"][..], "", 2, "error[SF0002]"),
        (&["vault", "set", "A B"], "x", 2, "error[SF0002]"),
        (&["vault", "set", "A", CANARY], "", 2, "error: unexpected"),
        (&["vault", "remove", "A"], "", 1, "error[SF0007]"),
    ] {
        let done = run(&daemon, arguments, input).await;
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.starts_with(error), "{arguments:?}: {said}");
    }
    let done = run(&daemon, &["vault", "remove", "SECOND"], "").await;
    assert_eq!(done.stdout, b"SECOND is removed\n");
    daemon
        .wait_state("dev", "fake", "misconfigured")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_secret_is_not_quoted() {
    let (_server, daemon) = without_secrets(Behaviour::modern(), |daemon| daemon).await;
    for body in [
        json!({"value": "", "canary": 1}),
        json!({"value": ["canary"]}),
        json!({"canary": "canary"}),
        json!("canary"),
        json!({"value": ""}),
    ] {
        let put = daemon.admin("PUT", "/api/v1/vault/A", Some(&body)).await;
        let (status, answer) = put.unwrap();
        assert_eq!(status, 400, "{answer}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    assert_eq!(set(&daemon, "A%20B", "x").await, 400);
    let (_, listed) = daemon.get("/api/v1/vault").await.unwrap();
    assert_eq!(listed, json!({"secrets": []}));
}
