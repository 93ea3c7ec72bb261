//! Addresses that nobody is connected to, with a daemon and without.

use std::process::Output;

use serde_json::Value;
use testkit::{Behaviour, Issuer, Server};

use super::{Exit, assert_verdict, same_everywhere};
use crate::common::daemon;

/// The command, where no daemon runs.
async fn alone(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.arg("doctor").args(arguments);
    command.arg("--data").arg(folder.path().join("data"));
    let output = command.output().await.unwrap();
    assert!(!folder.path().join("data").exists(), "nothing is kept");
    output
}

fn read(output: &Output, exit: Exit) -> Value {
    assert_eq!(output.status.code(), Some(exit as i32), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_examined_without_a_daemon() {
    let server = Server::start(Behaviour::modern()).await;
    let output = alone(&[&server.url()]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    insta::assert_snapshot!("open_address", same_everywhere(&text));

    let url = server.url();
    server.stop().await;
    let examination = read(&alone(&[&url, "--json"]).await, Exit::Fault);
    assert_verdict(&examination, "SF0022", "network", "operator");
    assert!(examination["agent"].is_null(), "{examination:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_address_tells_what_a_sign_in_would_meet() {
    let issuer = Issuer::start().await;
    let behaviour = Behaviour::legacy("2025-11-25").protected_by(&issuer);
    let server = Server::start(behaviour).await;
    let url = format!("{}?key=canaryswordfish", server.url());
    let output = alone(&[&url, "--json"]).await;
    let examination = read(&output, Exit::Person);
    assert_verdict(&examination, "SF0031", "sign_in_required", "person");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("canaryswordfish"), "{text}");
    issuer.change(|policy| policy.authorization.pkce_methods = Vec::new());
    let examination = read(&alone(&[&server.url(), "--json"]).await, Exit::Fault);
    assert_verdict(&examination, "SF0028", "protocol_mismatch", "provider");
    assert_eq!(issuer.presented().len(), 0);
    let registered = issuer.log().matching(|it| it.path_only() == "/register");
    assert!(registered.is_empty(), "{}", issuer.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_examines_where_one_runs() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    let other = Server::start(Behaviour::modern()).await;
    let asked = daemon.command(&["doctor", &other.url(), "--json"]).await;
    let examination = read(&asked.unwrap(), Exit::Fine);
    assert!(examination["fault"].is_null(), "{examination:#}");
    assert!(!other.log().requests().is_empty());

    for (path, body, status) in [
        ("/api/v1/doctor", r#"{"url":"file:///etc/passwd"}"#, 400),
        ("/api/v1/doctor", r#"{"address":"x"}"#, 400),
        ("/api/v1/connections/dev/nobody/doctor", "{}", 404),
    ] {
        let body = serde_json::from_str(body).unwrap();
        let (answered, problem) = daemon.post(path, &body).await.unwrap();
        assert_eq!(answered, status, "{path}: {problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_address_is_wrong_usage() {
    for arguments in [&["nonsense"][..], &["ftp://a.test/"], &[]] {
        let output = alone(arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    let output = alone(&["dev", "fake"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error[SF0005]"), "{said}");
}
