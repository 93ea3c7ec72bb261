//! OP-05 and OP-07: what is no proof that a connection is dead.

use std::time::Duration;

use serde_json::json;
use testkit::reply::{event_stream, json_rpc_error};
use testkit::script::{call, post};
use testkit::{Behaviour, Event, Reply, Request, RequestLog, Server, Speaks};

use super::{agents, entered, history, until};
use crate::common::{LIMIT, agents_of_both_eras, daemon, never};

/// A legacy server without ping lives, and is not asked that way again: not later, not after a reload, and
/// not by a daemon that was started again.
async fn is_not_pinged_again(status: u16) {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let unknown = json_rpc_error(status, -32601, "Method not found");
    server.script().on(post("ping")).reply(unknown);
    let builder = daemon(&server).set("retry.health_every", "\"100ms\"");
    let mut daemon = builder.start().await.unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    let asked =
        |log: &RequestLog, times: usize| log.count("ping") == 1 && log.count("tools/list") >= times;
    server
        .log()
        .wait_for(|log| asked(log, 2), LIMIT)
        .await
        .unwrap();
    for (era, agent) in &agents {
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{status} {era}: {answer:?}");
    }
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
    assert_eq!(
        entered(&history(&daemon).await),
        ["connecting", "connected"]
    );

    let listed = server.log().count("tools/list");
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    server
        .log()
        .wait_for(|log| asked(log, listed + 2), LIMIT)
        .await
        .unwrap();
    assert_eq!(server.log().count("ping"), 1, "{}", server.log());
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
}

#[tokio::test]
async fn op_05_a_server_without_ping_is_alive_and_not_pinged_again() {
    tokio::join!(
        is_not_pinged_again(200),
        is_not_pinged_again(404),
        is_not_pinged_again(400)
    );
}

/// 2026-07-28 has no ping: a health check asks what every server must know.
#[tokio::test]
async fn op_05_a_modern_server_is_never_pinged() {
    let server = Server::start(Behaviour::modern()).await;
    server
        .script()
        .on(post("ping"))
        .reply(json_rpc_error(404, -32601, "Method not found"));
    let builder = daemon(&server).set("retry.health_every", "\"100ms\"");
    let daemon = builder.start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    server
        .log()
        .wait_for(|log| log.count("server/discover") >= 3, LIMIT)
        .await
        .unwrap();
    assert_eq!(server.log().count("ping"), 0, "{}", server.log());
    assert_eq!(
        entered(&history(&daemon).await),
        ["connecting", "connected"]
    );
}

/// Any JSON-RPC answer is life: a server that keeps answering is not asked besides.
#[tokio::test]
async fn op_05_an_answering_server_needs_no_health_check() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let builder = daemon(&server).set("retry.health_every", "\"800ms\"");
    let daemon = builder.start().await.unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    let (_, agent) = &agents[0];
    let calls_for_a_second = async {
        loop {
            agent.call("echo", json!({})).await.unwrap();
        }
    };
    let a_second = tokio::time::timeout(Duration::from_secs(1), calls_for_a_second).await;
    assert!(a_second.is_err());
    assert_eq!(server.log().count("ping"), 0, "{}", server.log());
    server
        .log()
        .wait_for(|log| log.count("ping") > 0, LIMIT)
        .await
        .unwrap();
}

/// One tool never answers. Only its call ends; everything else goes on in the same session.
async fn one_call_times_out(behaviour: Behaviour) {
    let is_legacy = behaviour.speaks == Speaks::Legacy;
    let server = Server::start(behaviour).await;
    let builder = daemon(&server)
        .set("retry.request_timeout", "\"600ms\"")
        .set("retry.silence_timeout", "\"600ms\"");
    let daemon = builder.start().await.unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    let forms = [
        ("no-answer", Reply::new().row().black_hole()),
        (
            "no-body",
            Reply::new()
                .row()
                .header("content-type", "application/json")
                .head()
                .black_hole(),
        ),
        ("no-response", event_stream().row().black_hole()),
    ];
    for (form, reply) in forms {
        let only = call("add_row").when(move |request| request.arguments()["form"] == form);
        server.script().on(only).reply(reply);
    }
    for (era, agent) in &agents {
        let mut stuck = Vec::new();
        for form in ["no-answer", "no-body", "no-response"] {
            let this = format!("{era} {form}");
            let arguments = json!({ "form": form, "key": this });
            let params = json!({ "name": "add_row", "arguments": arguments });
            stuck.push((this, agent.start("tools/call", params).await.unwrap()));
        }
        for _ in 0..5 {
            let answer = agent.call("echo", json!({})).await.unwrap();
            assert!(!answer.is_error(), "{era}: {answer:?}");
        }
        for (this, stuck) in stuck {
            let answer = stuck.finish().await;
            let answer = answer.unwrap_or_else(|error| panic!("{this}: {error}"));
            let operation = answer.operation();
            assert_eq!(operation["executed"], "unknown", "{this}: {answer:?}");
            assert_eq!(operation["state"], "not_observed", "{this}: {answer:?}");
            assert!(answer.took < Duration::from_secs(5), "{this}: {answer:?}");
            let calls = server.log().calls("add_row");
            let mut sent = calls.iter().filter(|sent| sent.arguments()["key"] == *this);
            let sent = sent.next().unwrap();
            let told = |log: &RequestLog| was_cancelled(log, sent, is_legacy);
            let told = server.log().wait_for(told, LIMIT).await;
            told.unwrap_or_else(|log| panic!("{this} was not cancelled: {log}"));
        }
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert!(!answer.is_error(), "{era}: {answer:?}");
    }
    assert_eq!(server.log().calls("add_row").len(), 6, "{}", server.log());
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 6);
    assert!(server.log().count("initialize") <= 1, "{}", server.log());
    let sessions = server
        .log()
        .matching(|request| request.session().is_some_and(|session| session != "S1"));
    assert!(sessions.is_empty(), "{}", server.log());
    assert_eq!(
        entered(&history(&daemon).await),
        ["connecting", "connected"]
    );
}

/// The server was told to stop, as its era says it: by a notification with the request's id, or by closing
/// the connection.
fn was_cancelled(log: &RequestLog, sent: &Request, is_legacy: bool) -> bool {
    let connection = sent.connection;
    if is_legacy {
        let told = log.posts("notifications/cancelled");
        let mut ids = told.iter().map(|told| told.pointer("/params/requestId"));
        ids.any(|id| id == sent.rpc_id())
    } else {
        let events = log.events();
        let mut events = events.iter().map(|(_, event)| event);
        events.any(|event| *event == Event::Closed { connection })
    }
}

#[tokio::test]
async fn op_07_one_timeout_ends_one_call_of_a_legacy_server() {
    one_call_times_out(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn op_07_one_timeout_ends_one_call_of_a_modern_server() {
    one_call_times_out(Behaviour::modern()).await;
}

/// Many calls that time out together are one question to the server, and no reconnect.
#[tokio::test]
async fn op_07_many_timeouts_together_do_not_churn() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let builder = daemon(&server).set("retry.request_timeout", "\"400ms\"");
    let daemon = builder.start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agents = agents(&daemon, "fake").await;
    server
        .script()
        .on(call("add_row"))
        .reply(Reply::new().row().black_hole());
    let mut stuck = Vec::new();
    for (_, agent) in agents.iter().cycle().take(20) {
        stuck.push(
            agent
                .start("tools/call", json!({ "name": "add_row", "arguments": {} }))
                .await
                .unwrap(),
        );
    }
    for stuck in stuck {
        let answer = stuck.finish().await.unwrap();
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
    }
    until("all have been cancelled", async || {
        server.log().count("notifications/cancelled") == 20
    })
    .await;
    never(&server, Duration::from_millis(200), |log| {
        log.count("initialize") > 1
    })
    .await;
    assert!(server.log().count("ping") <= 3, "{}", server.log());
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 20);
}
