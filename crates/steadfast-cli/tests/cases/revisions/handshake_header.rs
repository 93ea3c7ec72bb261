//! PV-05: MCP-Protocol-Version on `initialize` itself.

use serde_json::json;
use testkit::reply::{content, json_body, json_rpc_error, status};
use testkit::script::post;
use testkit::{Behaviour, Reply, Request, Server};

use crate::rig::{Era, Rig, seen};

const VERSION: &str = "mcp-protocol-version";

/// A GET that asks for the old transport: it carries no session.
fn old_transport(request: &Request) -> bool {
    request.method == "GET" && request.session().is_none()
}

/// A server that refuses `initialize`, and any question without a session, where the header is there.
async fn refuses_header(behaviour: Behaviour, refusal: Reply) -> Server {
    let server = Server::start(behaviour).await;
    let with_header = post("initialize").has_header(VERSION);
    server.script().on(with_header).reply(refusal.clone());
    server
        .script()
        .on(post("server/discover").has_header(VERSION))
        .reply(refusal);
    server
}

#[tokio::test]
async fn pv_05_initialize_goes_without_the_header_and_all_else_with_it() {
    let refusals = [
        json_rpc_error(400, -32000, "Bad Request: Unsupported protocol version"),
        content(400, "text/plain", "Invalid MCP-Protocol-Version"),
        status(400),
    ];
    for refusal in refusals {
        for revision in ["2025-06-18", "2025-11-25"] {
            let server = refuses_header(Behaviour::legacy(revision), refusal.clone()).await;
            let mut rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
            rig.works().await;
            // Once more after the session was lost, and by a new process.
            rig.server.forget_sessions();
            rig.works().await;
            rig.daemon.terminate().await.unwrap();
            rig.daemon.restart().await.unwrap();
            let connected = rig.daemon.wait_state("dev", "fake", "connected").await;
            assert_eq!(connected.unwrap()["revision"], *revision);
            seen(&rig.server, |log| log.http("DELETE").len() == 1).await;
            let log = rig.server.log();
            assert!(log.count("initialize") >= 2, "{log}");
            for initialize in log.posts("initialize") {
                assert_eq!(initialize.header(VERSION), None, "{log}");
            }
            for request in log.matching(|request| request.session().is_some()) {
                assert_eq!(request.header(VERSION), Some(revision), "{request:?}");
            }
            let methods = ["POST", "GET", "DELETE"];
            assert!(methods.iter().all(|method| !log.http(method).is_empty()));
            assert_eq!(log.matching(old_transport).len(), 0, "{log}");
        }
    }
}

#[tokio::test]
async fn pv_05_a_server_that_insists_gets_the_header_once_and_from_then_on() {
    let no_id = json!({"jsonrpc": "2.0", "id": null,
        "error": {"code": -32600, "message": "Bad Request"}});
    let refusals = [
        (
            "named",
            json_rpc_error(400, -32600, "Missing MCP-Protocol-Version header"),
        ),
        (
            "text",
            content(400, "text/plain", "MCP-Protocol-Version required"),
        ),
        ("no id", json_body(400, &no_id)),
        ("empty", status(400)),
        (
            "version",
            json_rpc_error(
                400,
                -32000,
                "Bad Request: Unsupported protocol version: undefined",
            ),
        ),
    ];
    for (what, refusal) in refusals {
        let server = Server::start(Behaviour::legacy("2025-06-18")).await;
        let insists = post("initialize").when(|r| r.header(VERSION) != Some("2025-06-18"));
        server.script().on(insists).reply(refusal);
        let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
        rig.works().await;
        let headers = |rig: &Rig| -> Vec<_> {
            let asked = rig.server.log().posts("initialize");
            asked
                .iter()
                .map(|request| request.header(VERSION).map(str::to_owned))
                .collect()
        };
        let first = [None, Some("2025-06-18".to_owned())];
        assert_eq!(headers(&rig), first, "{what}: {}", rig.server.log());
        // It is remembered: the next handshake needs one question.
        rig.server.forget_sessions();
        rig.works().await;
        assert_eq!(
            headers(&rig)[2..],
            first[1..],
            "{what}: {}",
            rig.server.log()
        );
        let log = rig.server.log();
        assert_eq!(log.matching(old_transport).len(), 0, "{what}: {log}");
        assert_eq!(log.count("server/discover"), 1, "{what}: {log}");
    }
}

#[tokio::test]
async fn pv_05_what_is_remembered_and_proves_wrong_is_unlearned() {
    let server = Server::start(Behaviour::legacy("2025-06-18")).await;
    let insists = server
        .script()
        .on(post("initialize").when(|r| r.header(VERSION).is_none()))
        .reply(json_rpc_error(
            400,
            -32600,
            "Missing MCP-Protocol-Version header",
        ));
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    rig.works().await;
    // A new release of the server behaves the other way round.
    insists.remove();
    rig.server
        .script()
        .on(post("initialize").has_header(VERSION))
        .reply(json_rpc_error(
            400,
            -32600,
            "Unexpected MCP-Protocol-Version header",
        ));
    rig.server.forget_sessions();
    rig.works().await;
    let log = rig.server.log();
    let last = log.posts("initialize").pop().unwrap();
    assert_eq!(last.header(VERSION), None, "{log}");
    assert_eq!(rig.connection().await["state"], "connected");
}
