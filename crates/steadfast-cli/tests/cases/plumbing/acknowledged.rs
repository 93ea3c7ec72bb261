//! HT-02: the ways in which servers acknowledge a notification.

use serde_json::json;
use testkit::reply::{content, event_stream, json_body, json_rpc_error, status};
use testkit::script::post;
use testkit::{Behaviour, Reply, Server};

use crate::common::daemon;
use crate::rig::{Era, Rig, fault, seen};

fn acknowledgements() -> [(&'static str, Reply); 11] {
    let null_id = json!({"jsonrpc": "2.0", "id": null});
    let result = json!({"jsonrpc": "2.0", "result": {}});
    let error = json!({"error": {"code": -32601}});
    [
        ("202 empty", status(202)),
        ("200 empty", status(200)),
        ("204", status(204)),
        ("200 null id", json_body(200, &null_id)),
        ("200 result", json_body(200, &result)),
        (
            "200 stream that ends",
            content(200, "text/event-stream", ""),
        ),
        ("200 stream that stays", event_stream().wait_for("never")),
        ("200 error", json_body(200, &error)),
        (
            "200 error with code",
            json_rpc_error(200, -32601, "Method not found"),
        ),
        ("202 text", content(202, "text/plain", "Accepted")),
        ("200 html", content(200, "text/html", "<p>ok</p>")),
    ]
}

#[tokio::test]
async fn ht_02_initialized_may_be_acknowledged_in_any_way() {
    for (what, reply) in acknowledgements() {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        server
            .script()
            .on(post("notifications/initialized"))
            .reply(reply);
        let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
        rig.works().await;
        let log = rig.server.log();
        assert_eq!(log.count("initialize"), 1, "{what}: {log}");
        assert_eq!(log.count("notifications/initialized"), 1, "{what}: {log}");
        assert_eq!(rig.connection().await["fault"], json!(null), "{what}");
    }
}

#[tokio::test]
async fn ht_02_an_error_status_on_initialized_fails_the_handshake() {
    for code in [400, 500] {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        server
            .script()
            .on(post("notifications/initialized").times(2))
            .reply(json_rpc_error(code, -32600, "no"));
        let daemon = daemon(&server)
            .set("retry.first", "\"300ms\"")
            .start()
            .await
            .unwrap();
        let fault = fault(&daemon, "protocol_mismatch").await;
        let message = fault["message"].as_str().unwrap();
        assert!(message.contains("initialized"), "{message}");
        assert!(message.contains(&code.to_string()), "{message}");
        // It is tried again, and the sessions of the attempts that failed are not left behind.
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        assert_eq!(server.log().count("initialize"), 3, "{}", server.log());
        seen(&server, |_| server.live_sessions() == 1).await;
    }
}

#[tokio::test]
async fn ht_02_other_notifications_disturb_nothing_however_they_are_answered() {
    let refused = ("400", json_rpc_error(400, -32600, "no"));
    let failed = ("500", status(500));
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    let ways: Vec<_> = acknowledgements()
        .into_iter()
        .chain([refused, failed])
        .collect();
    for (n, (what, reply)) in ways.into_iter().enumerate() {
        rig.server
            .script()
            .first_on(post("notifications/roots/list_changed").times(1))
            .reply(reply);
        let status = rig
            .agent
            .notify("notifications/roots/list_changed", json!({}))
            .await
            .unwrap();
        assert_eq!(status, 202, "{what}");
        seen(&rig.server, |log| {
            log.count("notifications/roots/list_changed") == n + 1
        })
        .await;
    }
    rig.works().await;
    let log = rig.server.log();
    assert_eq!(log.count("initialize"), 1, "{log}");
    let connection = rig.connection().await;
    assert_eq!(connection["state"], "connected", "{connection}");
    assert_eq!(connection["fault"], json!(null), "{connection}");
}
