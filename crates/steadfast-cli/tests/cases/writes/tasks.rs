//! A server makes a task of a write, and its answer is lost: the task is followed (SEP-2663, and 2025-11-25
//! basic/utilities/tasks), and nothing is sent again. WR-07.

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::reply::{event_stream, json_rpc_error, json_rpc_result, tool_text};
use testkit::script::{call, post};
use testkit::{Behaviour, Reply};

use super::ledger::{id_of, kinds, operations, wait_for};
use super::{READ, WRITE, assert_nothing_follows, key, server};
use crate::common::daemon;
use crate::rig::{BOTH, Era, agent_of, seen};

/// The server names its task on the stream, and breaks off.
fn started(era: Era) -> Reply {
    let message = match era {
        Era::Modern => json!({
            "method": "notifications/tasks",
            "params": {"taskId": "t-1", "status": "working", "ttlMs": null, "createdAt": "2026-11-30T10:00:00Z"},
        }),
        Era::Legacy => json!({
            "method": "notifications/message",
            "params": {
                "level": "info", "data": "queued",
                "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}},
            },
        }),
    };
    event_stream().row().rpc_event(message).rst()
}

fn working() -> Reply {
    json_rpc_result(json!({
        "resultType": "complete", "taskId": "t-1", "status": "working", "pollIntervalMs": 1, "pollInterval": 1,
    }))
}

fn completed(era: Era) -> Reply {
    let mut task = json!({ "resultType": "complete", "taskId": "t-1", "status": "completed" });
    if era == Era::Modern {
        task["result"] = tool_text("done by the task");
    }
    json_rpc_result(task)
}

fn quickly(daemon: Builder) -> Builder {
    daemon
        .set("repeat.lookup_first", "\"20ms\"")
        .set("repeat.lookup_tries", "2")
}

/// It is followed for as long as it takes, and the call that waits is answered.
#[tokio::test]
async fn wr_07_a_task_is_followed_and_the_call_completes() {
    for era in BOTH {
        let server = server(era.behaviour()).await;
        let daemon = quickly(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        server.script().on(call(WRITE).times(1)).reply(started(era));
        let mut replies = vec![working(); 4];
        replies.push(completed(era));
        server.script().on(post("tasks/get")).replies(replies);
        let fetched = json_rpc_result(tool_text("done by the task"));
        server.script().on(post("tasks/result")).reply(fetched);

        let answer = agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(answer.text(), "done by the task", "{era:?}: {answer:?}");
        let asked = server.log().posts("tasks/get");
        assert_eq!(asked.len(), 5, "{era:?}: {}", server.log());
        assert_eq!(asked[0].pointer("/params/taskId"), Some(&json!("t-1")));
        if era == Era::Modern {
            assert_eq!(asked[0].header("mcp-name"), Some("t-1"), "{asked:?}");
        }
        let id = operations(&daemon).await[0]["id"].clone();
        let observed = wait_for(&daemon, id.as_str().unwrap(), "observed").await;
        assert_eq!(kinds(&observed)[..3], ["leaving", "task_started", "lost"]);
        assert_eq!(server.log().calls(WRITE).len(), 1);
        assert_eq!(server.ledger().rows_of(WRITE).unwrap().len(), 1);
    }
}

/// Its agent went away meanwhile: the identical call is given the task's result.
#[tokio::test]
async fn the_result_of_a_task_waits_for_the_agent_that_went_away() {
    let server = server(Behaviour::modern()).await;
    let daemon = quickly(daemon(&server)).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &daemon).await;
    let once = call(WRITE).times(1);
    server.script().on(once).reply(started(Era::Modern));
    let later = Reply::new().wait_for("end").then(completed(Era::Modern));
    server.script().on(post("tasks/get")).reply(later);
    let params = json!({"name": WRITE, "arguments": key("k")});
    let pending = agent.start("tools/call", params).await.unwrap();
    seen(&server, |log| log.count("tasks/get") == 1).await;
    let id = operations(&daemon).await[0]["id"].clone();
    let id = id.as_str().unwrap();
    drop(pending);
    let repeat = agent.call(WRITE, key("k")).await.unwrap();
    assert_eq!(repeat.operation()["duplicate_of"], *id, "{repeat:?}");
    server.open("end");
    wait_for(&daemon, id, "observed").await;
    let told = agent.call(WRITE, key("k")).await.unwrap();
    assert_eq!(told.text(), "done by the task", "{told:?}");
    assert_eq!(server.log().calls(WRITE).len(), 1);
}

/// A task that was cancelled may have done its work before, and one that is gone says nothing at all.
#[tokio::test]
async fn a_task_that_says_nothing_of_the_outcome_is_no_proof() {
    let cancelled = json!({ "resultType": "complete", "taskId": "t-1", "status": "cancelled" });
    let waits = json!({ "resultType": "complete", "taskId": "t-1", "status": "input_required" });
    for reply in [
        json_rpc_result(cancelled),
        json_rpc_result(waits),
        json_rpc_error(200, -32602, "no such task"),
    ] {
        let server = server(Behaviour::modern()).await;
        let daemon = quickly(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(Era::Modern, &daemon).await;
        let once = call(WRITE).times(1);
        server.script().on(once).reply(started(Era::Modern));
        server.script().on(post("tasks/get")).reply(reply);
        let answer = agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
        let held = wait_for(&daemon, &id_of(&answer), "held").await;
        assert_eq!(server.log().count("tasks/get"), 2, "{held}");
        assert_nothing_follows(&server).await;
        assert_eq!(server.log().calls(WRITE).len(), 1);
    }
}

/// A task that is gone leaves the provider's own records to be asked.
#[tokio::test]
async fn where_the_task_is_gone_the_lookup_contract_counts() {
    let lookup = format!(
        "{{ tool = \"{READ}\", arguments = {{ reference = \"$.arguments.key\" }}, \
         accepted = \"$.structuredContent\", must_equal = {{ \"$.reference\" = \"$.arguments.key\" }} }}"
    );
    let server = server(Behaviour::modern()).await;
    let daemon = quickly(daemon(&server))
        .read_tool("fake", READ)
        .set(&format!("servers.fake.tools.{WRITE}.lookup"), &lookup);
    let daemon = daemon.start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &daemon).await;
    let once = call(WRITE).times(1);
    server.script().on(once).reply(started(Era::Modern));
    let gone = json_rpc_error(200, -32602, "no such task");
    server.script().on(post("tasks/get")).reply(gone);
    let mut found: Value = tool_text("found");
    found["structuredContent"] = json!({ "reference": "k" });
    server.script().on(call(READ)).reply(json_rpc_result(found));
    agent.call(WRITE, key("k")).await.unwrap();
    let id = operations(&daemon).await[0]["id"].clone();
    wait_for(&daemon, id.as_str().unwrap(), "confirmed").await;
    assert_eq!(server.log().count("tasks/get"), 1, "{}", server.log());
    assert_eq!(server.log().calls(WRITE).len(), 1);
}
