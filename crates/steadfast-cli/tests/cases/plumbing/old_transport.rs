//! HT-03: the HTTP+SSE transport of 2024-11-05, and what must not start it.

use serde_json::json;
use testkit::reply::{content, json_rpc_error, json_rpc_error_data, status};
use testkit::script::{any, call, get, http};
use testkit::{Behaviour, Reply, Request, Server};

use crate::common::daemon;
use crate::rig::{BOTH, Era, Rig, assert_unknown, fault, seen};

/// A GET that asks for the old transport: it carries no session.
fn old_transport(request: &Request) -> bool {
    request.method == "GET" && request.session().is_none()
}

/// How many handshakes the old transport saw.
fn handshakes(log: &testkit::RequestLog) -> usize {
    let asked = log.posts("initialize");
    asked
        .iter()
        .filter(|request| request.path != "/sse")
        .count()
}

/// Posts to the address of the stream, which only Streamable HTTP does.
fn streamable(request: &Request) -> bool {
    request.method == "POST" && request.path == "/sse"
}

#[tokio::test]
async fn ht_03_a_server_of_the_old_transport_works_end_to_end() {
    for code in [400, 404, 405] {
        for agent in BOTH {
            let server = Server::start(Behaviour::http_sse()).await;
            server
                .script()
                .on(http("POST").path("/sse"))
                .reply(status(code));
            let rig = Rig::with(agent, server, |daemon| daemon).await;
            let answer = rig.agent.call("add_row", json!({"n": 1})).await.unwrap();
            assert_eq!(answer.text(), "done", "{code} {agent:?}: {answer:?}");
            let echoed = rig.agent.call("echo", json!({"text": "é"})).await.unwrap();
            assert!(echoed.text().contains('é'), "{echoed:?}");
            let tools = rig.agent.request("tools/list", json!({})).await.unwrap();
            let tools = tools.result()["tools"].as_array().map(Vec::len);
            assert_eq!(tools, Some(6));
            let unknown = rig.agent.call("no such tool", json!({})).await.unwrap();
            assert_eq!(unknown.error_code(), Some(-32602), "{unknown:?}");
            assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (1, 1));
            let connection = rig.connection().await;
            assert_eq!(connection["revision"], "2024-11-05", "{connection}");
            assert_eq!(connection["era"], "legacy", "{connection}");
            assert_eq!(rig.server.open_streams(), 1);
        }
    }
}

#[tokio::test]
async fn ht_03_the_old_transport_is_remembered_and_comes_back_after_a_drop() {
    let server = Server::start(Behaviour::http_sse()).await;
    let mut rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    rig.works().await;
    let posted = rig.server.log().matching(streamable).len();
    rig.server.restart().await;
    seen(&rig.server, |log| handshakes(log) == 2).await;
    rig.daemon
        .wait_state("dev", "fake", "connected")
        .await
        .unwrap();
    rig.works().await;
    rig.daemon.restart().await.unwrap();
    rig.daemon
        .wait_state("dev", "fake", "connected")
        .await
        .unwrap();
    let log = rig.server.log();
    assert_eq!(log.matching(streamable).len(), posted, "{log}");
    assert_eq!(handshakes(log), 3, "{log}");
}

#[tokio::test]
async fn ht_03_a_reload_leaves_one_stream_of_the_old_transport() {
    let server = Server::start(Behaviour::http_sse()).await;
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    let path = "/api/v1/connections/dev/fake/reload";
    for _ in 0..3 {
        rig.daemon.post(path, &json!({})).await.unwrap();
    }
    rig.works().await;
    assert_eq!(handshakes(rig.server.log()), 4);
    seen(&rig.server, |_| rig.server.open_streams() == 1).await;
    assert_eq!(rig.server.live_sessions(), 1);
}

#[tokio::test]
async fn ht_03_a_call_whose_stream_ends_is_not_observed() {
    let server = Server::start(Behaviour::http_sse()).await;
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    let params = json!({"name": "slow", "arguments": {}});
    let pending = rig.agent.start("tools/call", params).await.unwrap();
    rig.server.gates().arrived("slow", 1).await;
    rig.server.restart().await;
    let answer = pending.finish().await.unwrap();
    assert_unknown(&answer, "slow", "stream");
    assert_eq!((rig.rows("slow"), rig.calls("slow")), (1, 1));
    seen(&rig.server, |log| handshakes(log) == 2).await;
    rig.daemon
        .wait_state("dev", "fake", "connected")
        .await
        .unwrap();
    rig.works().await;
    assert_eq!(rig.calls("slow"), 1);
}

#[tokio::test]
async fn ht_03_every_other_refusal_reports_its_own_cause() {
    let modern = json!({"supported": ["2026-10-01"], "requested": "2026-07-28"});
    let bare_401 = json_rpc_error(401, -32001, "Unauthorized");
    let refusals = [
        ("401", status(401), "sign_in_required"),
        ("401 json", bare_401, "sign_in_required"),
        (
            "401 challenge",
            status(401).header("www-authenticate", "Bearer"),
            "sign_in_required",
        ),
        ("403", status(403), "forbidden"),
        (
            "403 html",
            content(403, "text/html", "<title>No</title>"),
            "forbidden",
        ),
        ("500", status(500), "server_error"),
        (
            "502",
            content(502, "text/html", "<title>Bad Gateway</title>"),
            "server_error",
        ),
        ("503", status(503), "server_error"),
        ("429", status(429), "rate_limited"),
        ("timeout", Reply::new().black_hole(), "timeout"),
        ("reset", Reply::new().rst(), "network"),
        (
            "modern version",
            json_rpc_error_data(400, -32022, "Unsupported", modern),
            "protocol_mismatch",
        ),
        (
            "modern headers",
            json_rpc_error(400, -32020, "Header mismatch"),
            "protocol_mismatch",
        ),
    ];
    for (what, refusal, kind) in refusals {
        // A stream of the old transport is there for whoever asks.
        let server = Server::start(Behaviour::http_sse()).await;
        server.script().on(http("POST")).reply(refusal);
        let daemon = daemon(&server).set("retry.request_timeout", "\"300ms\"");
        let daemon = daemon.start().await.unwrap();
        fault(&daemon, kind).await;
        let log = server.log();
        assert_eq!(log.http("GET").len(), 0, "{what}: {log}");
    }
}

#[tokio::test]
async fn ht_03_without_an_endpoint_the_refused_post_is_the_cause() {
    let gets = [
        ("405", status(405)),
        ("404", status(404)),
        ("html", content(200, "text/html", "<title>Home</title>")),
        (
            "another event",
            content(200, "text/event-stream", "event: hello\ndata: x\n\n"),
        ),
        ("no event", content(200, "text/event-stream", "")),
    ];
    for (what, reply) in gets {
        for code in [400, 404, 405] {
            let server = Server::start(Behaviour::http_sse()).await;
            server.script().on(get()).reply(reply.clone());
            server.script().on(any()).reply(status(code));
            let daemon = daemon(&server).start().await.unwrap();
            let fault = fault(&daemon, "protocol_mismatch").await;
            let message = fault["message"].as_str().unwrap();
            let cause = format!("({code})");
            assert!(message.contains(&cause), "GET {what}: {message}");
        }
    }
}

#[tokio::test]
async fn ht_03_an_endpoint_of_another_origin_is_not_used() {
    let other = Server::start(Behaviour::http_sse()).await;
    let server = Server::start(Behaviour::http_sse()).await;
    let endpoint = format!(
        "event: endpoint\ndata: http://{}/messages\n\n",
        other.address()
    );
    let stream = content(200, "text/event-stream", endpoint);
    server.script().on(get()).reply(stream.wait_for("never"));
    let daemon = daemon(&server).start().await.unwrap();
    let connection = daemon
        .wait_connection("dev", "fake", crate::common::LIMIT, |connection| {
            connection["fault"].is_object()
        })
        .await;
    let connection = connection.unwrap();
    assert_ne!(connection["state"], "connected", "{connection}");
    assert_eq!(other.log().requests().len(), 0, "{}", other.log());
}

/// A server of sessions that would offer the old transport to whoever asks.
async fn tempting() -> Rig {
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    let endpoint = "event: endpoint\ndata: /messages\n\n";
    let stream = content(200, "text/event-stream", endpoint).wait_for("never");
    rig.server.script().on(get().session("none")).reply(stream);
    rig
}

#[tokio::test]
async fn ht_03_a_refused_call_never_starts_it() {
    for code in [400, 404, 405] {
        let rig = tempting().await;
        rig.server.script().on(call("add_row")).reply(status(code));
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        // 404 with a session is the loss of that session, and it was refused in the next one too.
        let executed = if code == 404 { "no" } else { "unknown" };
        assert_eq!(answer.operation()["executed"], *executed, "{answer:?}");
        rig.works().await;
        assert_eq!(rig.server.log().matching(old_transport).len(), 0);
        assert_eq!(rig.rows("add_row"), 0);
    }
}

#[tokio::test]
async fn ht_03_a_server_that_refuses_everything_from_now_on_never_starts_it() {
    for code in [400, 404, 405] {
        let rig = tempting().await;
        let refused = rig.server.script().on(http("POST")).reply(status(code));
        rig.server.reset_connections().await;
        let answer = rig.agent.call("echo", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        seen(&rig.server, |log| log.count("initialize") >= 3).await;
        let log = rig.server.log();
        assert_eq!(log.matching(old_transport).len(), 0, "{log}");
        // It comes back by itself.
        refused.remove();
        rig.daemon
            .wait_state("dev", "fake", "connected")
            .await
            .unwrap();
        rig.works().await;
        assert_eq!(log.matching(old_transport).len(), 0, "{log}");
    }
}

#[tokio::test]
async fn ht_03_a_call_over_the_old_transport_can_be_cancelled() {
    let rig = Rig::new(Era::Legacy, Behaviour::http_sse()).await;
    let params = json!({"name": "slow", "arguments": {}});
    let pending = rig.agent.start("tools/call", params).await.unwrap();
    rig.server.gates().arrived("slow", 1).await;
    rig.agent.cancel(&pending.id).await.unwrap();
    let cancelled = "notifications/cancelled";
    seen(&rig.server, |log| log.count(cancelled) == 1).await;
    let log = rig.server.log();
    let slow = &log.calls("slow")[0];
    let named = log.posts(cancelled)[0]
        .pointer("/params/requestId")
        .cloned();
    assert_eq!(named.as_ref(), slow.rpc_id(), "{log}");
    seen(&rig.server, |log| log.cancelled(slow.index)).await;
    rig.works().await;
}

#[tokio::test]
async fn ht_03_a_server_that_gave_up_the_old_transport_is_found_anew() {
    let rig = Rig::new(Era::Legacy, Behaviour::http_sse()).await;
    rig.works().await;
    rig.server.change(|behaviour| {
        behaviour.speaks = testkit::Speaks::Legacy;
        behaviour.legacy_revisions = vec!["2025-11-25".to_owned()];
    });
    rig.server.restart().await;
    let found = rig
        .daemon
        .wait_connection("dev", "fake", crate::common::LIMIT, |connection| {
            connection["revision"] == "2025-11-25" && connection["state"] == "connected"
        });
    found.await.unwrap();
    rig.works().await;
}
