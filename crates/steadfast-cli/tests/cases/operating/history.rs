//! What a connection has been through is on record, and "now" beats every schedule.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::reply::{content, json_rpc_error, status};
use testkit::script::{any, post};
use testkit::{Behaviour, Server};

use super::{reload, until};
use crate::common::{agent, daemon, daemon_at};

#[tokio::test]
async fn the_history_has_every_transition_with_fault_and_reason() {
    let server = Server::start(Behaviour::modern()).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    server.script().on(any()).reply(status(503));
    reload(&daemon, "dev", "fake").await;
    daemon.wait_state("dev", "fake", "retrying").await.unwrap();
    server.script().clear();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    // Killed, so that what is written behind had to be written.
    let seen = async || super::history(&daemon).await;
    until("it was written", async || {
        seen()
            .await
            .iter()
            .filter(|it| it["to"] == "connected")
            .count()
            == 2
    })
    .await;
    let before = seen().await;
    daemon.kill9().await.unwrap();
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    until("it was written", async || {
        super::history(&daemon).await.len() >= before.len() + 2
    })
    .await;

    let history = super::history(&daemon).await;
    assert_eq!(
        history[..before.len()],
        before,
        "a restart takes nothing away"
    );
    assert_eq!(
        (&history[0]["from"], &history[0]["to"]),
        (&json!("disabled"), &json!("connecting"))
    );
    for pair in history.windows(2) {
        let (earlier, later) = (&pair[0], &pair[1]);
        assert!(
            earlier["time"].as_str() <= later["time"].as_str(),
            "{history:#?}"
        );
        let started_again = later["from"] == "disabled";
        assert!(
            started_again || earlier["to"] == later["from"],
            "{history:#?}"
        );
    }
    for transition in &history {
        assert!(
            transition["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty()),
            "{transition}"
        );
        let faulty = transition["to"] == "retrying";
        if faulty {
            let fault = &transition["fault"];
            assert_eq!(fault["kind"], "server_error", "{transition}");
            assert!(
                fault["code"]
                    .as_str()
                    .is_some_and(|code| code.starts_with("SF")),
                "{transition}"
            );
            assert!(
                fault["message"]
                    .as_str()
                    .is_some_and(|it| it.contains("503")),
                "{transition}"
            );
        }
    }
    let reasons: Vec<_> = history
        .iter()
        .filter_map(|transition| transition["reason"].as_str())
        .collect();
    for wanted in [
        "opened",
        "reload was asked for",
        "attempt failed: server_error",
        "the delay is over",
    ] {
        assert!(reasons.contains(&wanted), "{wanted}: {reasons:?}");
    }
}

/// The schedule says "in half an hour at the earliest".
#[tokio::test]
async fn a_reload_during_a_backoff_connects_at_once() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        server.stop().await;
        let slow = daemon_at(&server.url())
            .set("retry.first", "\"1h\"")
            .set("retry.max", "\"2h\"");
        let daemon = slow.start().await.unwrap();
        let waiting = daemon.wait_state("dev", "fake", "retrying").await.unwrap();
        assert_eq!(waiting["next"]["kind"], "reconnect", "{waiting}");
        server.resume();
        let asked = Instant::now();
        let connection = reload(&daemon, "dev", "fake").await;
        assert_eq!(connection["state"], "connected", "{connection}");
        assert!(
            asked.elapsed() < Duration::from_secs(3),
            "{:?}",
            asked.elapsed()
        );
        // And all of an agent's at once.
        server.stop().await;
        let answer = reload(&daemon, "dev", "fake").await;
        assert_eq!(answer["state"], "retrying", "{answer}");
        server.resume();
        let (status, all) = daemon
            .post("/api/v1/agents/dev/reload", &Value::Null)
            .await
            .unwrap();
        assert_eq!(
            (status, &all["connections"][0]["state"]),
            (200, &json!("connected")),
            "{all}"
        );
    }
}

/// A reload beats whatever else keeps a connection from being opened: what the server asked for, and states
/// that only a person can end.
#[tokio::test]
async fn a_reload_beats_every_schedule() {
    let refusal = json_rpc_error(400, -32602, "no");
    for (name, reply, state) in [
        (
            "retry-after",
            status(503).header("retry-after", "3600"),
            "retrying",
        ),
        (
            "rate limit",
            status(429).header("retry-after", "3600"),
            "retrying",
        ),
        (
            "sign-in",
            status(401).header("www-authenticate", "Bearer"),
            "awaiting_sign_in",
        ),
        (
            "redirect",
            status(302).header("location", "http://127.0.0.2:1/mcp"),
            "misconfigured",
        ),
        (
            "not MCP",
            content(200, "text/html", "<title>Sign in</title>"),
            "retrying",
        ),
        ("refusal", refusal, "retrying"),
    ] {
        let server = Server::start(Behaviour::modern()).await;
        server.script().on(any()).reply(reply);
        let slow = daemon(&server)
            .set("retry.first", "\"1h\"")
            .set("retry.max", "\"2h\"");
        let daemon = slow.start().await.unwrap();
        let waiting = daemon.wait_state("dev", "fake", state).await.unwrap();
        assert_eq!(
            waiting["next"].is_null(),
            state != "retrying",
            "{name}: {waiting}"
        );
        server.script().clear();
        let asked = Instant::now();
        let output = daemon
            .command(&["reload", "dev", "fake", "--json"])
            .await
            .unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(
            asked.elapsed() < Duration::from_secs(3),
            "{name}: {:?}",
            asked.elapsed()
        );
        let connection = daemon.connection("dev", "fake").await.unwrap();
        assert_eq!(connection["state"], "connected", "{name}: {connection}");
    }
}

/// A reload of a good connection opens it anew, and takes no answer away.
#[tokio::test]
async fn a_reload_takes_no_answer_away() {
    for behaviour in [
        Behaviour::legacy("2025-11-25"),
        Behaviour::legacy("2025-11-25").streaming(),
        Behaviour::modern(),
    ] {
        let server = Server::start(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        let agent = agent(&daemon).await;
        let slow = agent
            .start("tools/call", json!({ "name": "slow", "arguments": {} }))
            .await
            .unwrap();
        server.gates().arrived("slow", 1).await;
        let opened = server.log().count("initialize") + server.log().count("server/discover");
        let connection = reload(&daemon, "dev", "fake").await;
        assert_eq!(connection["state"], "connected", "{connection}");
        let again = server.log().count("initialize") + server.log().count("server/discover");
        assert!(again > opened, "{}", server.log());
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert!(!answer.is_error(), "{answer:?}");
        server.open("slow");
        let answer = slow.finish().await.unwrap();
        assert_eq!(answer.text(), "slow is done", "{answer:?}");
        assert_eq!(server.ledger().rows_of("slow").unwrap().len(), 1);
        until("the session before is deleted", async || {
            server.live_sessions() <= 1
        })
        .await;
    }
}

/// A reload while an attempt is stuck gives that one up.
#[tokio::test]
async fn a_reload_gives_up_an_attempt_that_is_stuck() {
    let server = Server::start(Behaviour::modern()).await;
    server
        .script()
        .on(post("server/discover").times(1))
        .reply(testkit::Reply::new().black_hole());
    let daemon = daemon(&server)
        .set("retry.request_timeout", "\"1h\"")
        .start()
        .await
        .unwrap();
    let stuck = daemon
        .wait_state("dev", "fake", "connecting")
        .await
        .unwrap();
    assert_eq!(stuck["state"], "connecting");
    until("it is stuck", async || {
        server.log().count("server/discover") == 1
    })
    .await;
    let connection = reload(&daemon, "dev", "fake").await;
    assert_eq!(connection["state"], "connected", "{connection}");
}
