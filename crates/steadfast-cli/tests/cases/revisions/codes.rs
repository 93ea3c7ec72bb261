//! PV-10: one code, three meanings.

use serde_json::json;
use testkit::reply::{event_stream, json_rpc_error, message_for};
use testkit::script::call;
use testkit::{Behaviour, Reply};

use crate::rig::{BOTH, Era, PAIRINGS, Rig, event};

#[tokio::test]
async fn pv_10_a_lost_session_is_rebuilt_and_the_refused_call_sent_again() {
    for agent in BOTH {
        let rig = Rig::new(agent, Behaviour::legacy("2025-11-25")).await;
        rig.server
            .script()
            .on(call("add_row").session("S1"))
            .reply(json_rpc_error(404, -32001, "Session not found"));
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (1, 2));
        let log = rig.server.log();
        let calls = log.calls("add_row");
        assert_eq!(calls[1].session(), Some("S2"), "{log}");
        assert_eq!(calls[0].arguments(), calls[1].arguments());
        assert_eq!(log.count("initialize"), 2, "{log}");
    }
}

#[tokio::test]
async fn pv_10_a_header_mismatch_of_a_draft_is_no_lost_session() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let message = "Header mismatch: Mcp-Name 'x' does not match body value 'add_row'";
        rig.server
            .script()
            .on(call("add_row"))
            .reply(json_rpc_error(400, -32001, message));
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.error_code(), Some(-32001), "{answer:?}");
        // Never again with an unchanged request.
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (0, 1));
        let log = rig.server.log();
        let handshakes = usize::from(server == Era::Legacy);
        assert_eq!(log.count("initialize"), handshakes, "{log}");
        assert_eq!(log.http("DELETE").len(), 0, "{log}");
        rig.works().await;
    }
}

#[tokio::test]
async fn pv_10_a_timeout_that_the_server_reports_is_its_answer() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        rig.server
            .script()
            .on(call("add_row"))
            .reply_with(|request| {
                let arguments = request.arguments();
                let error = json!({"code": -32001, "message": arguments["message"]});
                let error = message_for(request, &json!({"error": error}));
                let ran = Reply::new().row();
                if arguments["streams"] == true {
                    ran.then(event_stream().body(event(None, &error)))
                } else {
                    ran.header("content-type", "application/json").body(error)
                }
            });
        let mut calls = 0;
        for streams in [false, true] {
            for message in ["Request timed out", "Session not found in the archive"] {
                let arguments = json!({"streams": streams, "message": message});
                let answer = rig.agent.call("add_row", arguments).await.unwrap();
                calls += 1;
                let what = format!("{agent:?} {server:?} streams: {streams}: {answer:?}");
                assert_eq!(answer.error_code(), Some(-32001), "{what}");
                assert_eq!(answer.message["error"]["message"], *message, "{what}");
                let counts = (rig.rows("add_row"), rig.calls("add_row"));
                assert_eq!(counts, (calls, calls), "{what}");
                rig.works().await;
            }
        }
        let log = rig.server.log();
        let handshakes = usize::from(server == Era::Legacy);
        assert_eq!(log.count("initialize"), handshakes, "{log}");
    }
}
