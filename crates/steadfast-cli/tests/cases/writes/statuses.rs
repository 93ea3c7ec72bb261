//! WR-05: a status is no proof of anything. A write ends as unknown; a declared read is asked again.

use testkit::script::call;
use testkit::{Behaviour, Reply};

use super::{READ, WRITE, assert_nothing_follows, assert_unknown, calls, key, ran, rows, server};
use crate::common::{agents_of_both_eras, daemon};

/// What fronts and servers answer while, or after, the tool runs: name, reply, seconds of Retry-After.
fn refusals() -> Vec<(&'static str, Reply, Option<u64>)> {
    let page = |head: Reply| {
        let page = "<html><head><title>Gateway Time-out</title></head><body>nginx</body></html>";
        head.header("content-type", "text/html").body(page)
    };
    let problem = r#"{"message":"Too Many Requests","retryable":true}"#;
    let later = |reply: Reply, value: &str| reply.header("retry-after", value);
    vec![
        ("500", ran(500), None),
        ("502", page(ran(502)), None),
        ("503", page(later(ran(503), "30")), Some(30)),
        ("504", page(ran(504)), None),
        ("408", ran(408), None),
        ("429", later(ran(429), "7"), Some(7)),
        (
            "429-json",
            later(ran(429), "7")
                .header("content-type", "application/json")
                .body(problem),
            Some(7),
        ),
        (
            "502-stream",
            ran(502).header("content-type", "text/event-stream"),
            None,
        ),
    ]
}

async fn ends_as_unknown(behaviour: Behaviour) {
    let server = server(behaviour).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        for (name, reply, retry_after) in refusals() {
            let this = format!("{era}-{name}");
            let only = this.clone();
            let matcher = call(WRITE).when(move |request| request.arguments()["key"] == *only);
            server.script().on(matcher).reply(reply);
            let answer = agent.call(WRITE, key(&this)).await.unwrap();
            assert_unknown(&answer, WRITE, &this);
            let passed_on = answer.operation()["retry_after_s"].as_u64();
            assert_eq!(passed_on, retry_after, "{this}: {answer:?}");
            assert_eq!(calls(&server, WRITE, &this), 1, "{this}");
            assert_eq!(rows(&server, WRITE, &this), 1, "{this}");
        }
    }
    assert_nothing_follows(&server).await;
    // The server answers: the connection is as it was.
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    assert!(server.log().count("initialize") <= 1, "{}", server.log());
}

#[tokio::test]
async fn wr_05_a_status_of_a_legacy_server_leaves_a_write_unknown() {
    ends_as_unknown(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn wr_05_a_status_of_a_modern_server_leaves_a_write_unknown() {
    ends_as_unknown(Behaviour::modern()).await;
}

async fn reads_are_asked_again(behaviour: Behaviour) {
    let server = server(behaviour).await;
    let daemon = daemon(&server)
        .read_tool("fake", READ)
        .start()
        .await
        .unwrap();
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        for (name, reply) in [
            ("500", ran(500)),
            ("503", ran(503).header("retry-after", "0")),
            ("429", ran(429).header("retry-after", "1")),
        ] {
            let this = format!("{era}-{name}");
            let only = this.clone();
            let matcher = call(READ).when(move |request| request.arguments()["key"] == *only);
            server.script().on(matcher.times(1)).reply(reply);
            let answer = agent.call(READ, key(&this)).await.unwrap();
            assert_eq!(answer.text(), "done", "{this}: {answer:?}");
            let mark = &answer.result()["_meta"]["dev.steadfast/observation"];
            assert_eq!(mark["reissued"], 1, "{this}: {answer:?}");
            let sent = server.log().calls(READ);
            let ids: Vec<_> = sent
                .iter()
                .filter(|call| call.arguments()["key"] == *this)
                .map(|call| call.rpc_id().cloned())
                .collect();
            assert_eq!(ids.len(), 2, "{this}: {ids:?}");
            assert_ne!(ids[0], ids[1], "{this}: a reissue has an id of its own");
        }
    }
}

#[tokio::test]
async fn wr_05_a_read_of_a_legacy_server_is_asked_again_once() {
    reads_are_asked_again(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn wr_05_a_read_of_a_modern_server_is_asked_again_once() {
    reads_are_asked_again(Behaviour::modern()).await;
}

#[tokio::test]
async fn wr_05_a_read_has_a_budget_and_waits_for_no_hour() {
    let server = server(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server)
        .read_tool("fake", READ)
        .start()
        .await
        .unwrap();
    let for_key =
        |wanted: &'static str| call(READ).when(move |request| request.arguments()["key"] == wanted);
    server.script().on(for_key("always")).reply(ran(503));
    let hour = ran(503).header("retry-after", "3600");
    server.script().on(for_key("hour")).reply(hour);
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        let before = calls(&server, READ, "always");
        let answer = agent.call(READ, key("always")).await.unwrap();
        assert_unknown(&answer, READ, era);
        assert_eq!(calls(&server, READ, "always"), before + 2, "{era}");
        let before = calls(&server, READ, "hour");
        let answer = agent.call(READ, key("hour")).await.unwrap();
        assert_unknown(&answer, READ, era);
        assert_eq!(answer.operation()["retry_after_s"], 3600, "{era}");
        assert_eq!(calls(&server, READ, "hour"), before + 1, "{era}");
    }
    assert_nothing_follows(&server).await;
}
