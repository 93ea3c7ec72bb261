//! The gateway is killed right after an answer, or just before its agent takes it.

use serde_json::{Value, json};
use testkit::{Daemon, Server};

use crate::common::daemon;
use crate::rig::{BOTH, Era, agent_of};
use crate::writes::ledger::operations;

const TOOL: &str = "add_row";

async fn restarted(daemon: &mut Daemon, era: Era) -> testkit::Agent {
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    agent_of(era, daemon).await
}

fn rows(server: &Server, key: &str) -> usize {
    let rows = server.ledger().rows_of(TOOL).unwrap();
    rows.iter().filter(|row| row.key == key).count()
}

async fn newest(daemon: &Daemon) -> Value {
    operations(daemon).await.remove(0)
}

/// An agent that has its answer is never told later that nobody knows what became of the call.
#[tokio::test]
async fn what_became_of_a_call_is_on_record_before_its_agent_has_the_answer() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let mut agent = agent_of(era, &daemon).await;
        for round in 0..3 {
            let key = format!("{round}");
            let answer = agent.call(TOOL, json!({ "key": key })).await.unwrap();
            assert_eq!(answer.text(), "done", "{answer:?}");
            daemon.kill9().await.unwrap();
            agent = restarted(&mut daemon, era).await;
            let operation = newest(&daemon).await;
            assert_eq!(operation["state"], "observed", "{era:?}: {operation}");
            assert_eq!(operation["executed"], "yes", "{era:?}: {operation}");
            assert_eq!(rows(&server, &key), 1, "{era:?}");
        }
    }
}

/// Killed when the server has just answered, the gateway has seen the answer or not, and its agent has it or not. An agent
/// that has none and asks again makes nothing run twice: it is given the answer, or is told that nobody knows.
#[tokio::test]
async fn a_kill_between_the_servers_answer_and_the_agent_makes_nothing_run_twice() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let mut agent = agent_of(era, &daemon).await;
        for round in 0..6 {
            let arguments = json!({ "key": format!("{round}") });
            let params = json!({ "name": TOOL, "arguments": arguments });
            let pending = agent.start("tools/call", params).await.unwrap();
            crate::rig::seen(&server, |log| {
                let calls = log.calls(TOOL);
                let index = calls.get(round).map(|call| call.index);
                index.is_some_and(|index| log.ending(index).is_some())
            })
            .await;
            daemon.kill9().await.unwrap();
            let answered = pending.finish().await;
            agent = restarted(&mut daemon, era).await;
            if answered.is_ok_and(|answer| answer.text() == "done") {
                continue;
            }
            let again = agent.call(TOOL, arguments).await.unwrap();
            assert_eq!(rows(&server, &format!("{round}")), 1, "{era:?}: {again:?}");
            let is_told = !again.operation().is_null() || again.text() == "done";
            assert!(is_told, "{era:?}: {again:?}");
            // The next round is to find the newest call of its own.
            assert_eq!(server.log().calls(TOOL).len(), round + 1, "{era:?}");
        }
    }
}
