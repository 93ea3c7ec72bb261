//! SP-01: priming events, and events that carry nothing but an id.

use std::time::Duration;

use serde_json::json;
use testkit::reply::{event_stream, message_for, tool_text};
use testkit::script::{call, get};
use testkit::{Behaviour, Reply, RequestLog};

use crate::rig::{BOTH, Era, PAIRINGS, Rig, event, seen};

/// Ways to begin a stream, with the event id that is to be remembered.
const PRIMERS: [(&str, &str); 6] = [
    ("id: 1\ndata:\n\n", "1"),
    ("id: 1\nretry: 300\ndata: \n\n", "1"),
    ("data:\nid: 0\n\n", "0"),
    ("id: 2\n\n", "2"),
    ("id:3\ndata\n\n", "3"),
    ("event: message\nid: 4\ndata:\n\n: ready\n\n", "4"),
];

#[tokio::test]
async fn sp_01_the_answer_behind_a_priming_event_is_delivered() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        for (n, (primer, _)) in PRIMERS.iter().enumerate() {
            let first = call("add_row").times(1);
            rig.server
                .script()
                .first_on(first)
                .reply(Reply::new().run_after(*primer));
            let answer = rig.agent.call("add_row", json!({"n": n})).await.unwrap();
            assert_eq!(answer.text(), "done", "{agent:?} {server:?} {primer:?}");
        }
        assert_eq!(rig.calls("add_row"), PRIMERS.len());
        assert_eq!(rig.rows("add_row"), PRIMERS.len());
        assert_eq!(rig.connection().await["fault"], json!(null));
    }
}

/// The response to the last call of this tool, on a stream that is not the call's own.
fn late_response(log: &RequestLog, tool: &str, text: &str) -> String {
    let call = log.calls(tool).pop().expect("a call");
    event(
        None,
        &message_for(&call, &json!({"result": tool_text(text)})),
    )
}

#[tokio::test]
async fn sp_01_the_id_of_a_priming_event_is_the_cursor_of_a_call() {
    for agent in BOTH {
        let rig = Rig::new(agent, Behaviour::legacy("2025-11-25")).await;
        for (n, (primer, cursor)) in PRIMERS.iter().enumerate() {
            let script = rig.server.script();
            script.clear();
            script
                .on(call("add_row"))
                .reply(event_stream().body(*primer).row().fin());
            let log = rig.server.log().clone();
            script
                .on(get().header("last-event-id", cursor))
                .reply_with(move |_| event_stream().body(late_response(&log, "add_row", "late")));
            let answer = rig.agent.call("add_row", json!({"n": n})).await.unwrap();
            assert_eq!(answer.text(), "late", "{agent:?} {primer:?}");
        }
        // Each was sent once: what was lost was asked for by its cursor, not by calling again.
        assert_eq!(rig.calls("add_row"), PRIMERS.len());
        assert_eq!(rig.rows("add_row"), PRIMERS.len());
    }
}

#[tokio::test]
async fn sp_01_the_retry_of_a_priming_event_is_taken() {
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    let script = rig.server.script();
    script
        .on(call("add_row"))
        .reply(event_stream().body("id: 1\nretry: 400\ndata: \n\n").fin());
    let log = rig.server.log().clone();
    script
        .on(get().has_header("last-event-id"))
        .reply_with(move |_| event_stream().body(late_response(&log, "add_row", "late")));
    let answer = rig.agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "late");
    let log = rig.server.log();
    let (broken, _) = log.ending(log.calls("add_row")[0].index).unwrap();
    let resumed = log.matching(|request| request.header("last-event-id").is_some());
    assert_eq!(resumed.len(), 1, "{log}");
    let waited = resumed[0].at.saturating_sub(broken);
    assert!(waited >= Duration::from_millis(395), "{waited:?}");
}

#[tokio::test]
async fn sp_01_a_priming_event_on_the_get_stream_is_its_cursor() {
    for (primer, cursor) in PRIMERS {
        let server = testkit::Server::start(Behaviour::legacy("2025-11-25")).await;
        let changed =
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
        server.script().on(get().times(1)).reply(
            event_stream()
                .body(primer)
                .wait_for("announce")
                .body(event(None, &changed))
                .wait_for("drop")
                .fin(),
        );
        let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
        let log = rig.server.log();
        let lists = log.count("tools/list");
        rig.server.open("announce");
        // The message behind the priming event arrived: the list is fetched again.
        seen(&rig.server, |log| log.count("tools/list") > lists).await;
        assert_eq!(log.http("GET").len(), 1, "{primer:?}: {log}");
        rig.server.open("drop");
        seen(&rig.server, |log| log.http("GET").len() == 2).await;
        let again = log.http("GET").pop().unwrap();
        assert_eq!(again.header("last-event-id"), Some(cursor), "{primer:?}");
        assert_eq!(log.count("initialize"), 1, "{log}");
        assert_eq!(rig.connection().await["fault"], json!(null));
    }
}
