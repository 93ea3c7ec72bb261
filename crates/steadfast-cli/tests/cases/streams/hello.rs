//! ST-09: the first event on a stream is not the answer.

use serde_json::{Value, json};
use testkit::reply::tool_text;
use testkit::script::{call, post};
use testkit::{Behaviour, Reply, RequestLog, Server, sse};

use super::log_message;
use crate::common::{LIMIT, agent, agents_of_both_eras, call_with_logs, daemon};

/// What a server may say first: a notification, a comment, a question, a heartbeat.
fn preamble(ping_id: &str) -> String {
    let ping = json!({ "jsonrpc": "2.0", "id": ping_id, "method": "ping" });
    let message = |message: &Value| sse::event(None, Some("message"), &message.to_string());
    format!(
        "{}: a comment\n\n{}event: ping\ndata: {{}}\n\n",
        message(&log_message("first")),
        message(&ping),
    )
}

/// The keeper's answers to the server's own requests.
fn pongs(log: &RequestLog, id: &str) -> Vec<std::sync::Arc<testkit::Request>> {
    log.matching(|request| request.rpc_id() == Some(&json!(id)) && request.rpc_method().is_none())
}

#[tokio::test]
async fn st_09_a_handshake_completes_behind_what_the_server_says_first() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let reply = Reply::new().run_after(preamble("before hello"));
    server.script().on(post("initialize")).reply(reply);
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    assert_eq!(
        agent.call("add_row", json!({})).await.unwrap().text(),
        "done"
    );
    let answered = |log: &RequestLog| pongs(log, "before hello").len() == 1;
    server.log().wait_for(answered, LIMIT).await.unwrap();
    let pong = &pongs(server.log(), "before hello")[0];
    assert_eq!(pong.session(), Some("S1"), "{pong:?}");
    assert_eq!(pong.pointer("/result"), Some(&json!({})), "{pong:?}");
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
}

#[tokio::test]
async fn st_09_what_is_said_while_a_session_is_opened_again_reaches_the_agents() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let mut stream = agent.open_get(None).await.unwrap();
    assert_eq!(stream.response.status, 200);
    let reply = Reply::new().run_after(preamble("again"));
    server.script().on(post("initialize")).reply(reply);
    server.forget_sessions();
    assert_eq!(
        agent.call("add_row", json!({})).await.unwrap().text(),
        "done"
    );
    let mut said = Value::Null;
    while said["method"] != "notifications/message" {
        said = stream.message().await.unwrap().unwrap();
    }
    assert_eq!(said["params"]["data"], "first", "{said}");
    let answered = |log: &RequestLog| pongs(log, "again").len() == 1;
    server.log().wait_for(answered, LIMIT).await.unwrap();
    assert_eq!(pongs(server.log(), "again")[0].session(), Some("S2"));
}

#[tokio::test]
async fn st_09_the_answer_to_a_call_may_come_behind_other_messages() {
    let foreign = json!({ "jsonrpc": "2.0", "id": "nobody's", "result": tool_text("not yours") });
    let foreign = sse::event(None, None, &foreign.to_string());
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let legacy_server = behaviour.modern_revisions.is_empty();
        let server = Server::start(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        for (era, agent) in agents_of_both_eras(&daemon).await {
            // 2026-07-28 has no requests from server to client on a stream.
            let first = if legacy_server {
                preamble(era)
            } else {
                sse::event(None, None, &log_message("first").to_string())
            };
            let reply = Reply::new().run_after(format!("{first}{foreign}"));
            server
                .script()
                .first_on(call("add_row").times(1))
                .reply(reply);
            let answer = call_with_logs(&agent, "add_row", json!({ "by": era })).await;
            assert_eq!(answer.text(), "done", "{era}: {answer:?}");
            let said = answer.notifications();
            let first = |message: &Value| message["params"]["data"] == "first";
            assert!(
                said.iter().any(first),
                "{era} from {legacy_server}: {answer:?}"
            );
            if legacy_server {
                let answered = |log: &RequestLog| pongs(log, era).len() == 1;
                server.log().wait_for(answered, LIMIT).await.unwrap();
            }
        }
        assert_eq!(server.log().count("tools/call"), 2);
        assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 2);
    }
}
