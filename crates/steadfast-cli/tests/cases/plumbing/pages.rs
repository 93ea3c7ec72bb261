//! HT-04: a sign-in page or a captive portal where an answer of the server should be.

use serde_json::json;
use testkit::reply::{content, status};
use testkit::script::{any, call, http};
use testkit::{Behaviour, Daemon, Reply, Server};

use crate::common::{LIMIT, daemon};
use crate::rig::{BOTH, PAIRINGS, Rig, assert_unknown, fault, seen};

const PAGE: &str = "<!doctype html><html><head><title>Sign in to Wi-Fi</title></head></html>";

fn page() -> Reply {
    content(200, "text/html; charset=utf-8", PAGE)
}

/// Answers what `matcher` takes with the page, at once or by way of a redirect.
fn portal(server: &Server, matcher: testkit::script::Matcher, redirects: bool) {
    let script = server.script();
    if redirects {
        script
            .first_on(matcher)
            .reply(status(302).header("location", "/signin"));
        script.first_on(any().path("/signin")).reply(page());
    } else {
        script.first_on(matcher).reply(page());
    }
}

async fn assert_nobody_signs_in(daemon: &Daemon) {
    let connection = daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["sign_in_url"], json!(null), "{connection}");
    assert_eq!(connection["grant"]["state"], "none", "{connection}");
    assert_ne!(connection["state"], "awaiting_sign_in", "{connection}");
}

#[tokio::test]
async fn ht_04_a_page_instead_of_a_writes_answer_is_an_unknown_outcome() {
    for era in BOTH {
        for redirects in [false, true] {
            let rig = Rig::new(era, era.behaviour()).await;
            portal(&rig.server, call("add_row"), redirects);
            let answer = rig.agent.call("add_row", json!({})).await.unwrap();
            if redirects {
                assert_unknown(&answer, "add_row", "redirected");
            } else {
                assert_unknown(&answer, "add_row", "not an MCP answer");
                assert_unknown(&answer, "add_row", "Sign in to Wi-Fi");
            }
            assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (0, 1));
            // The connection is kept, and nothing else is disturbed.
            rig.works().await;
            assert!(rig.server.log().count("initialize") <= 1);
            assert_nobody_signs_in(&rig.daemon).await;
        }
    }
}

#[tokio::test]
async fn ht_04_a_read_is_asked_again() {
    for era in BOTH {
        for redirects in [false, true] {
            let server = Server::start(era.behaviour()).await;
            let rig = Rig::with(era, server, |daemon| daemon.read_tool("fake", "echo")).await;
            portal(&rig.server, call("echo").times(1), redirects);
            let answer = rig
                .agent
                .call("echo", json!({"text": "hello"}))
                .await
                .unwrap();
            assert!(answer.text().contains("hello"), "{answer:?}");
            let observation = &answer.result()["_meta"]["dev.steadfast/observation"];
            assert_eq!(observation["reissued"], 1, "{answer:?}");
            let asked = rig
                .server
                .log()
                .matching(|request| request.tool() == Some("echo") && request.path == "/mcp");
            assert_eq!(asked.len(), 2, "{}", rig.server.log());
            assert_ne!(asked[0].rpc_id(), asked[1].rpc_id());
            assert_nobody_signs_in(&rig.daemon).await;
        }
    }
}

#[tokio::test]
async fn ht_04_a_portal_before_everything_is_waited_out() {
    for era in BOTH {
        for redirects in [false, true] {
            let server = Server::start(era.behaviour()).await;
            let rig = Rig::with(era, server, |daemon| daemon.read_tool("fake", "echo")).await;
            let sessions = rig.server.sessions_created();
            portal(&rig.server, http("POST").path("/mcp"), redirects);
            let answer = rig.agent.call("add_row", json!({})).await.unwrap();
            assert!(answer.is_error(), "{answer:?}");
            let found = fault(&rig.daemon, "not_an_mcp_answer").await;
            let message = found["message"].as_str().unwrap();
            assert!(message.contains("Sign in to Wi-Fi"), "{message}");
            assert_eq!(found["person_needed"], false, "{found}");
            assert_nobody_signs_in(&rig.daemon).await;
            // It is tried again by itself, and once the portal is gone everything works as before.
            let tried = rig.server.log().requests().len();
            seen(&rig.server, |log| log.requests().len() > tried + 1).await;
            rig.server.script().clear();
            rig.daemon
                .wait_state("dev", "fake", "connected")
                .await
                .unwrap();
            rig.works().await;
            assert_eq!(rig.rows("add_row"), 0);
            // In the session of before: it was never refused.
            assert_eq!(rig.server.sessions_created(), sessions);
        }
    }
}

#[tokio::test]
async fn ht_04_a_portal_at_first_contact_is_waited_out() {
    for redirects in [false, true] {
        for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
            let server = Server::start(behaviour).await;
            portal(&server, http("POST").path("/mcp"), redirects);
            let daemon = daemon(&server).start().await.unwrap();
            let found = fault(&daemon, "not_an_mcp_answer").await;
            let message = found["message"].as_str().unwrap();
            assert!(message.contains("Sign in to Wi-Fi"), "{message}");
            let log = server.log();
            // A page says nothing about the era.
            assert_eq!(log.count("initialize"), 0, "{log}");
            assert_eq!(log.http("GET").len(), 0, "{log}");
            let waiting = daemon.wait_connection("dev", "fake", LIMIT, |connection| {
                connection["next"]["kind"] == "reconnect"
            });
            waiting.await.unwrap();
            server.script().clear();
            daemon.wait_state("dev", "fake", "connected").await.unwrap();
            assert_nobody_signs_in(&daemon).await;
        }
    }
}

#[tokio::test]
async fn ht_04_the_address_of_a_page_is_never_learned() {
    for (agent, server) in PAIRINGS {
        for code in [302, 307, 308] {
            let rig = Rig::new(agent, server.behaviour()).await;
            let signin = status(code).header("location", "/signin");
            let script = rig.server.script();
            script
                .on(call("add_row").path("/mcp").times(1))
                .reply(signin);
            script.on(any().path("/signin")).reply(page());
            let answer = rig.agent.call("add_row", json!({})).await.unwrap();
            assert_unknown(&answer, "add_row", "");
            rig.works().await;
            let other = json!({ "another": "row" });
            let answer = rig.agent.call("add_row", other).await.unwrap();
            assert_eq!(answer.text(), "done", "{code}: {answer:?}");
            let last = rig.server.log().calls("add_row").pop().unwrap();
            assert_eq!(last.path, "/mcp", "{code}");
        }
    }
}
