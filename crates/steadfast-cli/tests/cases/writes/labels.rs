//! What an agent is told of a call that was lost, and of one that never left: WR-03.

use serde_json::json;
use testkit::Behaviour;
use testkit::reply::json_rpc_error;
use testkit::script::call;

use super::{WRITE, key, ran, server};
use crate::common::{agents_of_both_eras, daemon};

/// Nothing invites to a repeat, and `executed: no` is said only with proof.
#[tokio::test]
async fn wr_03_a_lost_call_is_never_called_retryable_and_not_executed_needs_proof() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let is_legacy = behaviour.speaks == testkit::Speaks::Legacy;
        let server = server(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            let gone = || json_rpc_error(404, -32001, "Session not found");
            let mut cases = vec![
                ("reset", ran(200).head().rst(), "unknown"),
                ("gateway timeout", ran(504), "unknown"),
                ("overloaded", ran(429).header("retry-after", "1"), "unknown"),
            ];
            if is_legacy {
                // Its session is refused, and the next one too: refused before execution, each time.
                cases.push(("session", gone(), "no"));
            }
            for (what, reply, executed) in cases {
                let this = format!("{era} {what}");
                let rule = server.script().on(call(WRITE)).reply(reply);
                let answer = agent.call(WRITE, key(&this)).await.unwrap();
                rule.remove();
                assert!(answer.is_error(), "{this}: {answer:?}");
                assert_eq!(
                    answer.operation()["executed"],
                    executed,
                    "{this}: {answer:?}"
                );
                let said = answer.message.to_string().to_lowercase();
                for word in ["retryable", "try again", "retry the call", "failed"] {
                    assert!(!said.contains(word), "{this}: {word}: {said}");
                }
                daemon.wait_state("dev", "fake", "connected").await.unwrap();
            }
        }
        // Nothing leaves to a server that is down, and that is said.
        let (_, agent) = &agents_of_both_eras(&daemon).await[0];
        server.stop().await;
        daemon.wait_state("dev", "fake", "retrying").await.unwrap();
        let answer = agent.call(WRITE, json!({ "key": "down" })).await.unwrap();
        assert!(answer.text().contains("was not sent"), "{answer:?}");
        assert!(!answer.message.to_string().contains("retryable"));
    }
}
