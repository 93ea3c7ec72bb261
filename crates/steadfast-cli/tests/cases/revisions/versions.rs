//! PV-04: a modern server refuses the version. PV-06: a legacy server answers another one.

use serde_json::{Value, json};
use testkit::reply::{json_rpc_error, json_rpc_error_data};
use testkit::script::post;
use testkit::{Behaviour, Reply, Server};

use crate::common::daemon;
use crate::rig::{Era, Rig, fault, seen};

fn refused(supported: Value) -> Reply {
    let data = json!({"supported": supported, "requested": "2026-07-28"});
    json_rpc_error_data(400, -32022, "Unsupported protocol version", data)
}

#[tokio::test]
async fn pv_04_no_common_version_is_an_error_that_names_both_lists() {
    let server = Server::start(Behaviour::dual()).await;
    server
        .script()
        .on(post("server/discover"))
        .reply(refused(json!(["2026-10-01"])));
    let daemon = daemon(&server).start().await.unwrap();
    let fault = fault(&daemon, "protocol_mismatch").await;
    let message = fault["message"].as_str().unwrap();
    assert!(message.contains("2026-10-01"), "{message}");
    assert!(message.contains("2026-07-28"), "{message}");
    // It is tried again, and never by the handshake of the era before.
    seen(&server, |log| log.count("server/discover") >= 3).await;
    assert_eq!(server.log().count("initialize"), 0, "{}", server.log());
}

#[tokio::test]
async fn pv_04_the_refused_question_is_asked_again_in_a_version_that_is_named() {
    let server = Server::start(Behaviour::dual()).await;
    server
        .script()
        .on(post("server/discover").times(1))
        .reply(refused(json!(["2025-06-18", "2026-07-28"])));
    let rig = Rig::with(Era::Modern, server, |daemon| daemon).await;
    let log = rig.server.log();
    let asked = log.posts("server/discover");
    assert_eq!(asked.len(), 2, "{log}");
    assert_eq!(asked[0].pointer("/params"), asked[1].pointer("/params"));
    assert_ne!(asked[0].rpc_id(), asked[1].rpc_id());
    assert_eq!(log.count("initialize"), 0, "{log}");
    let connection = rig.connection().await;
    assert_eq!(connection["revision"], "2026-07-28", "{connection}");
    rig.works().await;
}

#[tokio::test]
async fn pv_04_a_server_that_refuses_what_it_names_is_not_asked_in_a_circle() {
    let server = Server::start(Behaviour::dual()).await;
    server
        .script()
        .on(post("server/discover"))
        .reply(refused(json!(["2026-07-28"])));
    let daemon = daemon(&server)
        .set("retry.first", "\"1m\"")
        .set("retry.max", "\"1m\"")
        .start()
        .await
        .unwrap();
    fault(&daemon, "protocol_mismatch").await;
    assert_eq!(server.log().count("server/discover"), 2, "{}", server.log());
    assert_eq!(server.log().requests().len(), 2, "{}", server.log());
}

#[tokio::test]
async fn pv_04_a_named_legacy_version_is_what_initialize_offers() {
    let cases = [
        (json!(["2025-11-25"]), "2025-11-25"),
        (
            json!(["2026-10-01", "2025-06-18", "2025-03-26"]),
            "2025-06-18",
        ),
    ];
    for (supported, offered) in cases {
        let server = Server::start(Behaviour::legacy(offered)).await;
        server
            .script()
            .on(post("server/discover"))
            .reply(refused(supported));
        let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
        let log = rig.server.log();
        let initialize = log.posts("initialize");
        assert_eq!(initialize.len(), 1, "{log}");
        let version = initialize[0].pointer("/params/protocolVersion");
        assert_eq!(version, Some(&json!(offered)));
        assert_eq!(rig.connection().await["revision"], *offered);
        rig.works().await;
    }
}

#[tokio::test]
async fn pv_04_nothing_is_guessed_where_no_version_is_named() {
    let nameless = [
        json_rpc_error(400, -32022, "Unsupported protocol version"),
        json_rpc_error_data(
            400,
            -32022,
            "Unsupported",
            json!({"requested": "2026-07-28"}),
        ),
        json_rpc_error_data(
            400,
            -32022,
            "Unsupported",
            json!({"supported": "2025-11-25"}),
        ),
        refused(json!([])),
    ];
    for refusal in nameless {
        let server = Server::start(Behaviour::dual()).await;
        server.script().on(post("server/discover")).reply(refusal);
        let daemon = daemon(&server).start().await.unwrap();
        fault(&daemon, "protocol_mismatch").await;
        seen(&server, |log| log.count("server/discover") >= 2).await;
        assert_eq!(server.log().count("initialize"), 0, "{}", server.log());
    }
}

/// A legacy server that always answers with this revision.
fn insists_on(revision: &str) -> Behaviour {
    let mut behaviour = Behaviour::legacy("2025-11-25");
    behaviour.insists_on = Some(revision.to_owned());
    behaviour
}

#[tokio::test]
async fn pv_06_another_legacy_version_is_accepted_and_used() {
    for revision in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        let rig = Rig::new(Era::Legacy, insists_on(revision)).await;
        rig.works().await;
        let log = rig.server.log();
        assert_eq!(log.count("initialize"), 1, "{log}");
        let connection = rig.connection().await;
        assert_eq!(connection["revision"], *revision, "{connection}");
        for request in log.matching(|request| request.session().is_some()) {
            let header = request.header("mcp-protocol-version");
            assert_eq!(header, Some(revision), "{request:?}");
        }
    }
}

#[tokio::test]
async fn pv_06_a_later_version_than_asked_for_is_accepted_and_used() {
    // It wants the header on initialize, and so is asked for the revision that has it.
    let server = Server::start(insists_on("2025-11-25")).await;
    let no_header = json_rpc_error(400, -32600, "MCP-Protocol-Version header is required");
    server
        .script()
        .on(post("initialize").when(|request| request.header("mcp-protocol-version").is_none()))
        .reply(no_header);
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    rig.works().await;
    let log = rig.server.log();
    let accepted = log.posts("initialize").pop().unwrap();
    assert_eq!(
        accepted.pointer("/params/protocolVersion"),
        Some(&json!("2025-06-18"))
    );
    assert_eq!(rig.connection().await["revision"], "2025-11-25");
    for request in log.matching(|request| request.session().is_some()) {
        let header = request.header("mcp-protocol-version");
        assert_eq!(header, Some("2025-11-25"), "{request:?}");
    }
}

#[tokio::test]
async fn pv_06_a_modern_or_unknown_version_is_never_a_sessions() {
    for revision in ["2026-07-28", "banana", "", "2025-11-25 "] {
        let server = Server::start(insists_on(revision)).await;
        let daemon = daemon(&server).start().await.unwrap();
        let fault = fault(&daemon, "protocol_mismatch").await;
        let message = fault["message"].as_str().unwrap();
        assert!(message.contains(revision.trim()), "{message}");
        seen(&server, |log| log.count("initialize") >= 2).await;
        let log = server.log();
        assert_eq!(log.count("notifications/initialized"), 0, "{log}");
        assert_eq!(log.http("GET").len(), 0, "{log}");
    }
}
