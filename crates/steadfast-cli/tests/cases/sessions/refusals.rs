//! SE-02 and SE-03: the session is refused in other words than the protocol's, and refusals that only
//! look like it.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::{content, json_rpc_error, json_rpc_result, status};
use testkit::script::{call, post};
use testkit::{Agent, Answer, Behaviour, Daemon, Reply, RequestLog, Server};

use super::{assert_done, rows};
use crate::common::{LIMIT, agent, agents_of_both_eras, daemon, never};

async fn connected(server: &Server) -> (Daemon, [(&'static str, Agent); 2]) {
    let daemon = daemon(server)
        .set("retry.session_rebuilds", "100")
        .start()
        .await
        .unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    (daemon, agents)
}

/// Each refusal, once for an agent of each era: a new session, and one success.
async fn assert_recovers(server: &Server, agents: &[(&str, Agent)], refusals: &[Reply]) {
    for (era, agent) in agents {
        for refusal in refusals {
            let (openings, calls) = (
                server.log().count("initialize"),
                server.log().count("tools/call"),
            );
            let before = rows(server);
            server
                .script()
                .on(post("tools/call").session("any").times(1))
                .reply(refusal.clone());
            let answer = agent.call("add_row", json!({})).await.unwrap();
            assert_done(&answer);
            let counts = (
                server.log().count("initialize"),
                server.log().count("tools/call"),
            );
            assert_eq!(
                counts,
                (openings + 1, calls + 2),
                "{era}, {refusal:?}\n{}",
                server.log()
            );
            assert_eq!(rows(server), before + 1);
        }
    }
}

#[tokio::test]
async fn se_02_a_session_refused_with_400_is_opened_anew() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let (daemon, agents) = connected(&server).await;
    let refusals = [
        json_rpc_error(400, -32000, "Bad Request: No valid session ID provided"),
        json_rpc_error(400, -32000, "Invalid or missing session ID"),
        json_rpc_error(400, -32001, "Session not found"),
        json_rpc_error(400, -32600, "Bad Request: Unknown Mcp-Session-Id header"),
        json_rpc_error(400, -32603, "No active session"),
        content(400, "text/plain", "Invalid session ID"),
        content(400, "application/json", r#"{"error":"Session expired"}"#),
    ];
    assert_recovers(&server, &agents, &refusals).await;
    // Which rule recognised it is in the log, and in the history of the connection.
    let logged = |_: &Value| daemon.stderr().contains("session-400-text");
    daemon
        .wait_connection("dev", "fake", LIMIT, logged)
        .await
        .unwrap();
    let history = daemon.history("dev", "fake").await.unwrap();
    let lost = |entry: &Value| {
        entry["fault"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("session-400-text"))
    };
    assert!(history.iter().any(lost), "{history:?}");
}

#[tokio::test]
async fn se_02_a_call_is_sent_at_most_twice_whatever_the_refusal() {
    let refusals = [
        json_rpc_error(400, -32000, "Bad Request: No valid session ID provided"),
        content(401, "text/plain", "Unauthorized: Session not found"),
    ];
    for refusal in refusals {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let (_daemon, agents) = connected(&server).await;
        for (era, agent) in &agents {
            let calls = server.log().count("tools/call");
            let rule = server
                .script()
                .on(post("tools/call"))
                .reply(refusal.clone());
            let answer = agent.call("add_row", json!({})).await.unwrap();
            assert!(answer.is_error(), "{era}: {answer:?}");
            assert_eq!(answer.operation()["executed"], "no", "{era}: {answer:?}");
            let again = |log: &RequestLog| log.count("tools/call") > calls + 2;
            never(&server, Duration::from_millis(200), again).await;
            rule.remove();
        }
        assert_eq!(rows(&server), 0);
    }
}

/// What the agent gets, where the refusal has nothing to do with the session.
async fn assert_untouched(server: &Server, agent: &Agent, reply: Reply) -> Answer {
    let calls = server.log().count("tools/call");
    server.script().on(post("tools/call").times(1)).reply(reply);
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(
        server.log().count("tools/call"),
        calls + 1,
        "sent again: {answer:?}"
    );
    assert_done(&agent.call("echo_done", json!({})).await.unwrap());
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
    answer
}

#[tokio::test]
async fn se_02_errors_of_the_call_itself_leave_the_session_alone() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let done = json_rpc_result(testkit::reply::tool_text("done"));
    server.script().on(call("echo_done")).reply(done);
    let (_daemon, agents) = connected(&server).await;
    for (_, agent) in &agents {
        let errors = [
            (400, -32602, "Invalid params: room is missing"),
            (
                400,
                -32602,
                "Invalid params: session not found in the calendar",
            ),
            (400, -32000, "Bad Request: this date is in the past"),
            (404, -32601, "Method not found"),
            (200, -32000, "Session not found"),
            (500, -32603, "Session not found"),
        ];
        for (code, error, text) in errors {
            let answer = assert_untouched(&server, agent, json_rpc_error(code, error, text)).await;
            assert_eq!(answer.error_code(), Some(error), "{answer:?}");
            assert_eq!(answer.message["error"]["message"], text);
        }
        let result = json!({ "content": [{ "type": "text", "text": "Session not found" }], "isError": true });
        let answer = assert_untouched(&server, agent, json_rpc_result(result)).await;
        assert_eq!(answer.text(), "Session not found");
        assert!(answer.is_error());
    }
    assert_eq!(rows(&server), 0);
}

#[tokio::test]
async fn se_03_a_session_refused_with_401_needs_no_sign_in() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let (daemon, agents) = connected(&server).await;
    let refusals = [
        content(401, "text/plain", "Unauthorized: Session not found"),
        json_rpc_error(401, -32001, "Unauthorized: Session not found"),
        json_rpc_error(401, -32000, "Unauthorized: No valid session ID provided"),
    ];
    assert_recovers(&server, &agents, &refusals).await;
    let history = daemon.history("dev", "fake").await.unwrap();
    let asked = |entry: &Value| entry["to"] == "awaiting_sign_in";
    assert!(!history.iter().any(asked), "{history:?}");
}

#[tokio::test]
async fn se_03_a_401_on_the_new_opening_is_a_matter_of_sign_in() {
    let challenge = || status(401).header("www-authenticate", r#"Bearer realm="fake""#);
    let unauthorized = || content(401, "text/plain", "Unauthorized: Session not found");
    // Refused for its session first; or challenged at once, which needs no new session to be understood.
    for (first, openings) in [(unauthorized(), 2), (challenge(), 1)] {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let daemon = daemon(&server).start().await.unwrap();
        let agent = agent(&daemon).await;
        server.script().on(post("tools/call").times(1)).reply(first);
        server.script().on(post("initialize")).reply(challenge());
        let answer = agent.call("add_row", json!({})).await.unwrap();
        // The agent's own credential is fine: it must not see a 401.
        assert_eq!(answer.status, 200);
        assert!(answer.is_error(), "{answer:?}");
        let connection = daemon
            .wait_state("dev", "fake", "awaiting_sign_in")
            .await
            .unwrap();
        assert_eq!(
            connection["fault"]["kind"], "sign_in_required",
            "{connection}"
        );
        assert_eq!(connection["next"], Value::Null, "{connection}");
        let more =
            |log: &RequestLog| log.count("initialize") > openings || log.count("tools/call") > 1;
        never(&server, Duration::from_millis(300), more).await;
        assert_eq!(rows(&server), 0);
    }
}
