//! WR-02: an answer that carries the request's id is the answer, whatever it says.

use serde_json::{Value, json};
use testkit::reply::{Reply, event_stream};
use testkit::script::call;
use testkit::{Behaviour, Server};

use super::{WRITE, assert_nothing_follows, calls, key, ran, rows, server};
use crate::common::{agents_of_both_eras, daemon};

/// Errors of tools that look like something else. The rule table lists none of them.
fn answers() -> Vec<(&'static str, u16, Value)> {
    let error = |code: i64, message: &str| json!({ "error": { "code": code, "message": message } });
    let tool_error = json!({
        "result": {
            "content": [{ "type": "text", "text": "Connection to the session store was lost" }],
            "isError": true,
        },
    });
    vec![
        (
            "invalid-params",
            200,
            error(-32602, "Invalid params: date is missing"),
        ),
        ("is-error", 200, tool_error),
        (
            "database",
            200,
            error(-32000, "Connection refused by database"),
        ),
        (
            "session-word",
            200,
            error(
                -32000,
                "Session not found: the checkout session has expired",
            ),
        ),
        ("timeout-word", 200, error(-32001, "Request timed out")),
        (
            "internal",
            500,
            error(-32603, "Internal error: connection reset by peer"),
        ),
        (
            "unavailable",
            503,
            error(-32000, "Service unavailable: connection pool is empty"),
        ),
        (
            "bad-request",
            400,
            error(-32602, "Invalid params: no valid session for this cart"),
        ),
    ]
}

fn as_json(status: u16, message: Value) -> Reply {
    ran(status)
        .header("content-type", "application/json")
        .rpc(message)
}

fn as_event(message: Value) -> Reply {
    event_stream().row().rpc_event(message)
}

async fn delivers_errors_as_they_are(behaviour: Behaviour) {
    let server = server(behaviour).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    let history = daemon.history("dev", "fake").await.unwrap();
    let opened = openings(&server);
    for (era, agent) in &agents {
        for (name, status, message) in answers() {
            for (form, reply) in [
                ("json", as_json(status, message.clone())),
                ("event", as_event(message.clone())),
            ] {
                let this = format!("{era}-{form}-{name}");
                let only = this.clone();
                let matcher = call(WRITE).when(move |request| request.arguments()["key"] == *only);
                server.script().on(matcher).reply(reply);
                let answer = agent.call(WRITE, key(&this)).await.unwrap();
                assert_eq!(
                    answer.message["error"], message["error"],
                    "{this}: {answer:?}"
                );
                let result = answer.result();
                assert_eq!(
                    result["isError"], message["result"]["isError"],
                    "{this}: {answer:?}"
                );
                assert_eq!(
                    result["content"], message["result"]["content"],
                    "{this}: {answer:?}"
                );
                assert!(
                    result["_meta"]["dev.steadfast/operation"].is_null(),
                    "{this}: {answer:?}"
                );
                assert_eq!(calls(&server, WRITE, &this), 1, "{this}");
                assert_eq!(rows(&server, WRITE, &this), 1, "{this}");
            }
        }
    }
    assert_nothing_follows(&server).await;
    assert_eq!(opened, openings(&server), "{}", server.log());
    assert_eq!(history, daemon.history("dev", "fake").await.unwrap());
}

/// How often the connection was opened, as the server sees it.
fn openings(server: &Server) -> (usize, usize, usize) {
    let log = server.log();
    (
        log.count("initialize"),
        log.count("server/discover"),
        log.count("tools/list"),
    )
}

#[tokio::test]
async fn wr_02_errors_of_a_legacy_server_are_delivered_and_change_nothing() {
    delivers_errors_as_they_are(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn wr_02_errors_of_a_modern_server_are_delivered_and_change_nothing() {
    delivers_errors_as_they_are(Behaviour::modern()).await;
}
