//! Answers that come after they were given up: on another stream, or when nobody waits any more.

use serde_json::{Value, json};
use testkit::reply::{event_stream, tool_text};
use testkit::script::call;
use testkit::{Behaviour, Reply, Request, Server};

use super::ledger::{id_of, kinds, wait_for};
use super::{READ, WRITE, key, server};
use crate::common::daemon;
use crate::rig::{BOTH, Era, agent_of, seen};

/// The answer to the first write, under the id that the server knows it by.
fn answer(server: &Server) -> Value {
    let id = server.log().calls(WRITE)[0].rpc_id().cloned();
    json!({ "jsonrpc": "2.0", "id": id, "result": tool_text("late") })
}

/// A write whose stream ends without its answer; its operation, which is held.
async fn lost(server: &Server, daemon: &testkit::Daemon, agent: &testkit::Agent) -> String {
    let ends = event_stream().row();
    server.script().on(call(WRITE).times(1)).reply(ends);
    let answer = agent.call(WRITE, key("k")).await.unwrap();
    assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
    let id = id_of(&answer);
    wait_for(daemon, &id, "held").await;
    id
}

async fn settles_it(daemon: &testkit::Daemon, agent: &testkit::Agent, server: &Server, id: &str) {
    let observed = wait_for(daemon, id, "observed").await;
    assert_eq!(observed["executed"], "yes", "{observed}");
    assert_eq!(kinds(&observed), ["leaving", "lost", "answered"]);
    assert_eq!(observed["evidence"][2]["late"], true, "{observed}");
    // Given once to the identical call that asks again; after that it is a new call.
    let told = agent.call(WRITE, key("k")).await.unwrap();
    assert_eq!(told.text(), "late", "{told:?}");
    assert_eq!(server.log().calls(WRITE).len(), 1);
    let next = agent.call(WRITE, key("k")).await.unwrap();
    assert_eq!(next.text(), "done", "{next:?}");
    assert_eq!(server.log().calls(WRITE).len(), 2);
}

#[tokio::test]
async fn an_answer_on_the_servers_own_stream_settles_a_lost_write() {
    let server = server(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Legacy, &daemon).await;
    seen(&server, |log| log.http("GET").len() == 1).await;
    let id = lost(&server, &daemon, &agent).await;
    server.notify(&answer(&server));
    settles_it(&daemon, &agent, &server, &id).await;
}

#[tokio::test]
async fn an_answer_on_the_stream_of_another_call_settles_a_lost_write() {
    for era in BOTH {
        let server = server(era.behaviour()).await;
        let daemon = daemon(&server)
            .read_tool("fake", READ)
            .start()
            .await
            .unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        let id = lost(&server, &daemon, &agent).await;
        let late = answer(&server);
        let mixed_up = move |_: &Request| {
            let own = json!({ "result": tool_text("read") });
            event_stream().rpc_event(late.clone()).rpc_event(own)
        };
        server.script().on(call(READ)).reply_with(mixed_up);
        let read = agent.call(READ, key("r")).await.unwrap();
        assert_eq!(read.text(), "read", "{read:?}");
        assert!(
            !read
                .events
                .iter()
                .any(|event| format!("{event:?}").contains("late"))
        );
        settles_it(&daemon, &agent, &server, &id).await;
    }
}

/// Neither another server's answer nor another agent's settles it, whatever id it carries.
#[tokio::test]
async fn an_answer_of_another_server_settles_nothing() {
    let (server, other) = (
        server(Behaviour::legacy("2025-11-25")).await,
        Server::start(Behaviour::legacy("2025-11-25")).await,
    );
    let daemon = daemon(&server).server("other", &other.url());
    let daemon = daemon.start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    daemon
        .wait_state("dev", "other", "connected")
        .await
        .unwrap();
    let agent = agent_of(Era::Legacy, &daemon).await;
    seen(&other, |log| log.http("GET").len() == 1).await;
    let id = lost(&server, &daemon, &agent).await;
    other.notify(&answer(&server));
    // What comes behind it on the same stream has been read, and so has it.
    other.notify(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let listed = other.log().count("tools/list");
    let lists = daemon.legacy_agent("dev", "other").await.unwrap();
    lists.initialize().await.unwrap();
    lists.request("tools/list", json!({})).await.unwrap();
    seen(&other, |log| log.count("tools/list") > listed).await;
    wait_for(&daemon, &id, "held").await;
}

/// The agent gives up before the answer, in the way of its era; what comes then is for its next identical call.
#[tokio::test]
async fn an_answer_after_the_agent_gave_up_is_kept_for_it() {
    for era in BOTH {
        let server = server(era.behaviour()).await;
        let daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        let result = json!({ "result": tool_text("late") });
        let slow = event_stream().row().wait_for("end").rpc_event(result);
        server.script().on(call(WRITE).times(1)).reply(slow);
        let params = json!({"name": WRITE, "arguments": key("k")});
        let mut pending = agent.start("tools/call", params).await.unwrap();
        pending.stream().await.unwrap();
        drop(pending);
        let began = std::time::Instant::now();
        // Until the gateway has noticed, another identical call is a call of its own.
        let operation = loop {
            let newest = super::ledger::operations(&daemon).await.remove(0);
            let details = super::ledger::details(&daemon, newest["id"].as_str().unwrap()).await;
            if kinds(&details).contains(&"agent_left") {
                break details;
            }
            assert!(began.elapsed() < crate::common::LIMIT, "{details}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        };
        server.open("end");
        wait_for(&daemon, operation["id"].as_str().unwrap(), "observed").await;
        let told = agent.call(WRITE, key("k")).await.unwrap();
        assert_eq!(told.text(), "late", "{era:?}: {told:?}");
        assert_eq!(server.log().calls(WRITE).len(), 1, "{era:?}");
    }
}

/// A later leg of a call is the same operation: neither a repeat that is held, nor a further one.
#[tokio::test]
async fn the_legs_of_one_call_are_one_operation() {
    use testkit::{Action, Question, Tool};
    let rounds = vec![vec![Question::form("room", "Which room?")]];
    let tools = vec![Tool::new(WRITE, Action::Questions(rounds))];
    let server = Server::start(Behaviour::modern().with_tools(tools)).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &daemon).await;
    let first = agent.call(WRITE, key("k")).await.unwrap();
    let state = first.result()["requestState"].clone();
    assert!(state.is_string(), "{first:?}");
    let accepted = json!({ "action": "accept", "content": { "room": "4" } });
    let second = json!({
        "name": WRITE, "arguments": key("k"), "requestState": state, "inputResponses": {"room": accepted},
    });
    // The second leg is lost: what became of the whole call is open.
    let lost = call(WRITE).times(1);
    server.script().on(lost).reply(Reply::new().rst());
    let unknown = agent.request("tools/call", second.clone()).await.unwrap();
    let id = id_of(&unknown);
    let held = wait_for(&daemon, &id, "held").await;
    assert_eq!(held["attempts"], 2, "{held}");
    assert_eq!(kinds(&held), ["leaving", "answered", "leaving", "lost"]);
    assert_eq!(super::ledger::operations(&daemon).await.len(), 1);
    // Neither leg is sent again.
    for params in [second, json!({"name": WRITE, "arguments": key("k")})] {
        let repeat = agent.request("tools/call", params).await.unwrap();
        assert_eq!(repeat.operation()["duplicate_of"], *id, "{repeat:?}");
    }
    assert_eq!(server.log().calls(WRITE).len(), 2);
}
