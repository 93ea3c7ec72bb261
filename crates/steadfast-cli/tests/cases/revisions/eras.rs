//! PV-01 to PV-03 and PV-07: how a legacy server says that it is one.

use serde_json::json;
use testkit::reply::{content, event_stream, json_body, json_rpc_error, json_rpc_result, status};
use testkit::script::post;
use testkit::{Behaviour, Reply, Server, Speaks};

use crate::common::LIMIT;
use crate::rig::{Era, Rig, agent_of, seen};

/// Connects to a legacy server that answers the first question so, and uses it; the rig.
async fn falls_back(refusal: Reply, what: &str) -> Rig {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server.script().on(post("server/discover")).reply(refusal);
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    let log = rig.server.log();
    assert_eq!(
        log.order()[..3],
        [
            "POST server/discover",
            "POST initialize",
            "POST notifications/initialized"
        ],
        "{what}: {log}"
    );
    let initialize = &log.posts("initialize")[0];
    assert_eq!(initialize.session(), None, "{what}: {log}");
    assert_eq!(log.http("DELETE").len(), 0, "{what}: {log}");
    let connection = rig.connection().await;
    assert_eq!(connection["era"], "legacy", "{what}: {connection}");
    assert_eq!(connection["fault"], json!(null), "{what}: {connection}");
    assert_eq!(
        connection["sign_in_url"],
        json!(null),
        "{what}: {connection}"
    );
    assert_eq!(connection["grant"]["state"], "none", "{what}: {connection}");
    rig.works().await;
    rig
}

/// The era is not asked for again: not after the session was lost, not after a reload, not by a new process.
async fn assert_remembered(mut rig: Rig, what: &str) {
    rig.server.forget_sessions();
    rig.works().await;
    reload(&rig).await;
    rig.daemon.restart().await.unwrap();
    rig.daemon
        .wait_state("dev", "fake", "connected")
        .await
        .unwrap();
    let log = rig.server.log();
    assert_eq!(log.count("server/discover"), 1, "{what}: {log}");
}

async fn reload(rig: &Rig) {
    let path = "/api/v1/connections/dev/fake/reload";
    let (status, reloaded) = rig.daemon.post(path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{reloaded}");
}

#[tokio::test]
async fn pv_01_a_first_question_refused_for_its_session_means_legacy() {
    let no_id = json!({"jsonrpc": "2.0", "id": null, "error": {
        "code": -32000, "message": "Bad Request: Mcp-Session-Id header is required"}});
    let refusals = [
        ("text", content(404, "text/plain", "Invalid session ID")),
        (
            "html",
            content(404, "text/html", "<h1>Invalid session ID</h1>"),
        ),
        ("404", json_rpc_error(404, -32001, "Session not found")),
        (
            "400",
            json_rpc_error(400, -32000, "Mcp-Session-Id header is required"),
        ),
        ("400 without id", json_body(400, &no_id)),
        ("400 text", content(400, "text/plain", "Missing session ID")),
        (
            "401",
            json_rpc_error(401, -32000, "Unauthorized: Session ID is required"),
        ),
    ];
    for (what, refusal) in refusals {
        let rig = falls_back(refusal, what).await;
        assert_remembered(rig, what).await;
    }
}

#[tokio::test]
async fn pv_02_a_refusal_that_is_no_modern_error_means_legacy() {
    let invalid_payload = json!({"error": {
        "code": "invalid_payload", "message": "Unknown method server/discover",
        "type": "invalid_request_error"}});
    let refusals = [
        ("string code", json_body(400, &invalid_payload)),
        (
            "html",
            content(400, "text/html", "<title>Bad Request</title>"),
        ),
        ("empty", status(400)),
        (
            "422",
            json_body(422, &json!({"detail": [{"msg": "method"}]})),
        ),
        ("501", status(501)),
        ("500", json_rpc_error(500, -32603, "Internal error")),
        (
            "404 method",
            json_rpc_error(404, -32601, "Method not found"),
        ),
        ("405", status(405).header("allow", "GET")),
        ("406", json_rpc_error(406, -32000, "Not Acceptable")),
        ("a number", content(400, "application/json", "42")),
        ("broken", content(400, "application/json", "{\"jsonrpc\":")),
    ];
    for (what, refusal) in refusals {
        falls_back(refusal, what).await;
    }
}

#[tokio::test]
async fn pv_02_a_modern_error_means_a_modern_server() {
    for (code, status) in [(-32020, 400), (-32021, 400), (-32020, 200)] {
        let server = Server::start(Behaviour::dual()).await;
        let refusal = json_rpc_error(status, code, "Header mismatch: Mcp-Method");
        server
            .script()
            .on(post("server/discover").times(1))
            .reply(refusal);
        let rig = Rig::with(Era::Modern, server, |daemon| daemon).await;
        let log = rig.server.log();
        assert_eq!(log.count("initialize"), 0, "{log}");
        assert_eq!(rig.connection().await["era"], "modern");
    }
}

#[tokio::test]
async fn pv_03_a_refusal_with_200_means_legacy() {
    let bare = |code: i64, message: &str| {
        json_body(200, &json!({"error": {"code": code, "message": message}}))
    };
    let refusals = [
        ("-32601 bare", bare(-32601, "Method not found")),
        ("-32600 bare", bare(-32600, "not initialized")),
        ("-32601", json_rpc_error(200, -32601, "Method not found")),
        (
            "-32002",
            json_rpc_error(200, -32002, "Server not initialized"),
        ),
        ("empty result", json_rpc_result(json!({}))),
        ("bare result", json_body(200, &json!({"result": {}}))),
        (
            "no versions",
            json_rpc_result(json!({"supportedVersions": []})),
        ),
        (
            "on a stream",
            event_stream().rpc_event(json!({"error": {"code": -32601, "message": "no"}})),
        ),
        ("empty", content(200, "application/json", "")),
        ("accepted", status(202)),
    ];
    for (what, refusal) in refusals {
        falls_back(refusal, what).await;
    }
}

#[tokio::test]
async fn pv_03_a_200_is_no_sign_in_and_a_later_challenge_is_what_counts() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server
        .script()
        .on(post("server/discover"))
        .reply(json_rpc_error(200, -32601, "Method not found"));
    server
        .script()
        .on(post("initialize"))
        .reply(status(401).header("www-authenticate", "Bearer realm=\"mcp\""));
    let daemon = crate::common::daemon(&server).start().await.unwrap();
    let connection = daemon
        .wait_state("dev", "fake", "awaiting_sign_in")
        .await
        .unwrap();
    assert_eq!(connection["fault"]["kind"], "sign_in_required");
    assert_eq!(connection["fault"]["person_needed"], true);
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
}

#[tokio::test]
async fn pv_07_a_session_minted_for_the_refused_probe_is_ended_and_never_used() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let minted = Reply::new().header("mcp-session-id", "X");
    let refusal = minted.then(json_rpc_error(400, -32600, "Not initialized"));
    server.script().on(post("server/discover")).reply(refusal);
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    rig.works().await;
    seen(&rig.server, |log| {
        log.http("DELETE")
            .iter()
            .any(|request| request.session() == Some("X"))
    })
    .await;
    let log = rig.server.log();
    let used = log.matching(|request| request.session() == Some("X"));
    assert_eq!(used.len(), 1, "{log}");
    assert_eq!(rig.server.live_sessions(), 1);
}

#[tokio::test]
async fn pv_07_a_hundred_reconnects_probe_once_and_leave_no_session() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    for _ in 0..100 {
        reload(&rig).await;
    }
    let log = rig.server.log();
    assert_eq!(log.count("server/discover"), 1);
    assert!(
        log.count("initialize") >= 100,
        "{}",
        log.count("initialize")
    );
    rig.works().await;
    seen(&rig.server, |_| rig.server.live_sessions() == 1).await;
    assert!(
        rig.server.peak_sessions() <= 3,
        "{}",
        rig.server.peak_sessions()
    );
}

/// A new release of the server speaks the other era, and all that it had in memory is gone.
async fn changes_its_era(from: Behaviour, to: Behaviour, restarts: bool) {
    let server = Server::start(from).await;
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    let modern = agent_of(Era::Modern, &rig.daemon).await;
    rig.works().await;
    let era = match to.speaks {
        Speaks::Modern => "modern",
        Speaks::Legacy | Speaks::Both | Speaks::HttpSse => "legacy",
    };
    rig.server.change(|behaviour| *behaviour = to);
    if restarts {
        rig.server.restart().await;
    } else {
        // Behind a load balancer the connections stay: the next call shows it.
        rig.server.forget_sessions();
    }
    let answer = rig.agent.call("add_row", json!({})).await.unwrap();
    let rows = usize::from(answer.text() == "done");
    let found = rig
        .daemon
        .wait_connection("dev", "fake", LIMIT, |connection| {
            connection["state"] == "connected" && connection["era"] == era
        });
    found.await.unwrap();
    rig.works().await;
    let answer = modern.call("echo", json!({"text": "hello"})).await.unwrap();
    assert!(answer.text().contains("hello"), "{answer:?}");
    assert_eq!(rig.rows("add_row"), rows);
}

#[tokio::test]
async fn pv_01_a_server_that_changes_its_era_is_found_anew() {
    let legacy = || Behaviour::legacy("2025-11-25");
    for restarts in [true, false] {
        changes_its_era(legacy(), Behaviour::modern(), restarts).await;
        changes_its_era(Behaviour::modern(), legacy(), restarts).await;
    }
}
