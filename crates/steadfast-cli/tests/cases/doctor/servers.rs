//! What is wrong with a server, or with how it is configured.

use testkit::daemon::Builder;
use testkit::reply::{content, status};
use testkit::script::any;
use testkit::{Behaviour, Reply, Server, Tls};

use super::{Exit, assert_verdict, examined, sessions, step};
use crate::common::{daemon, daemon_at};
use crate::rig::fault;

/// An open server that answers everything in one way.
async fn answering(reply: Reply) -> Server {
    let server = Server::start(Behaviour::modern()).await;
    server.script().on(any()).reply(reply);
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_wrong_with_a_server_that_wants_no_sign_in() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let before = sessions(&server);
    let examination = examined(&daemon, Exit::Fine, "open_server").await;
    assert!(examination["fault"].is_null(), "{examination:#}");
    assert!(examination["act"].is_null(), "{examination:#}");
    let after = sessions(&server);
    assert_eq!(after.0 - before.0, 2, "each of two examinations opened one");
    assert_eq!(after.1 - before.1, 2, "and ended it");
    assert_eq!(server.log().count("tools/call"), 0);
    let session = step(&examination, "session");
    assert!(session.contains("known"), "{session}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer() {
    let server = answering(Reply::new().black_hole()).await;
    let daemon = daemon(&server).set("retry.request_timeout", "\"200ms\"");
    let daemon = daemon.start().await.unwrap();
    let examination = examined(&daemon, Exit::Fault, "timeout").await;
    assert_verdict(&examination, "SF0021", "timeout", "nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there() {
    let server = Server::start(Behaviour::modern()).await;
    server.stop().await;
    let daemon = daemon(&server).start().await.unwrap();
    fault(&daemon, "network").await;
    let examination = examined(&daemon, Exit::Fault, "network").await;
    assert_verdict(&examination, "SF0022", "network", "nobody");
    assert!(step(&examination, "question").is_empty(), "not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for() {
    let tls = Tls::new(&["127.0.0.1"]).unwrap();
    let server = Server::builder(Behaviour::modern()).tls(&tls).start().await;
    let daemon = daemon_at(&server.url()).start().await.unwrap();
    let examination = examined(&daemon, Exit::Fault, "tls").await;
    assert_verdict(&examination, "SF0023", "tls", "operator");
    let what = examination["act"]["what"].as_str().unwrap();
    assert!(what.contains("network.ca_file"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails() {
    let server = answering(status(503)).await;
    let daemon = daemon(&server).start().await.unwrap();
    let examination = examined(&daemon, Exit::Fault, "server_error").await;
    assert_verdict(&examination, "SF0024", "server_error", "nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_too_often() {
    let server = answering(status(429).header("retry-after", "7")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let examination = examined(&daemon, Exit::Fault, "rate_limited").await;
    assert_verdict(&examination, "SF0025", "rate_limited", "nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_place_of_a_server() {
    let page = content(200, "text/html", "<title>Welcome to the hotel</title>");
    let server = answering(page).await;
    let daemon = daemon(&server).start().await.unwrap();
    let examination = examined(&daemon, Exit::Fault, "not_an_mcp_answer").await;
    assert_verdict(&examination, "SF0029", "not_an_mcp_answer", "operator");
    let what = examination["act"]["what"].as_str().unwrap();
    assert!(what.contains("servers.fake.url"), "{what}");
}

/// With a header that the vault fills.
fn with_vault(builder: Builder) -> Builder {
    builder.set_text("servers.fake.headers.X-Api-Key", "${vault:BOOKING_KEY}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_not_in_the_vault() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = with_vault(daemon(&server)).start().await.unwrap();
    let examination = examined(&daemon, Exit::Person, "vault_reference").await;
    assert_verdict(&examination, "SF0009", "vault_reference", "operator");
    let proof = examination["proof"].to_string();
    assert!(proof.contains("BOOKING_KEY"), "{proof}");
    assert_eq!(server.log().requests().len(), 0, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_switched_off() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server).set("servers.fake.enabled", "false");
    let daemon = daemon.start().await.unwrap();
    let examination = examined(&daemon, Exit::Person, "server_disabled").await;
    assert_verdict(&examination, "SF0011", "server_disabled", "operator");
    assert_eq!(server.log().requests().len(), 0, "nothing was sent");
}

/// What a server repeats of a credential is not repeated to whoever reads the examination.
#[tokio::test(flavor = "multi_thread")]
async fn a_configured_credential_that_is_refused_is_not_shown() {
    let secret = "canaryswordfish";
    let refusal = content(401, "text/plain", format!("no such key: {secret}"));
    let echo = content(403, "text/plain", format!("{secret} is not welcome"));
    for (reply, code, kind) in [
        (refusal, "SF0031", "sign_in_required"),
        (echo, "SF0033", "forbidden"),
    ] {
        let server = answering(reply).await;
        let daemon = daemon(&server)
            .set_text(
                "servers.fake.headers.Authorization",
                &format!("Bearer {secret}"),
            )
            .start()
            .await
            .unwrap();
        let arguments = ["doctor", "dev", "fake", "--json"];
        let asked = daemon.command(&arguments).await.unwrap();
        let text = String::from_utf8(asked.stdout).unwrap();
        assert!(!text.contains(secret), "{text}");
        let examination = serde_json::from_str(&text).unwrap();
        assert_verdict(&examination, code, kind, "operator");
        let what = examination["act"]["what"].as_str().unwrap();
        assert!(what.contains("servers.fake.headers"), "{what}");
    }
}
