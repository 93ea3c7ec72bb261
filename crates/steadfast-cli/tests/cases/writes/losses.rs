//! An answer that is lost on the way, in every way: nothing but declared reads is sent twice.

use testkit::reply::event_stream;
use testkit::script::{call, get};
use testkit::{Behaviour, End, Reply, Server};

use super::{READ, WRITE, assert_nothing_follows, assert_unknown, calls, key, ran, rows, server};
use crate::common::{agents_of_both_eras, daemon};

/// The tool runs, and its answer does not come through.
fn losses() -> Vec<(&'static str, Reply)> {
    let json = || ran(200).header("content-type", "application/json");
    let stream = || event_stream().row();
    let progress = r#"data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    vec![
        ("rst-before-headers", Reply::new().row().rst()),
        ("fin-before-headers", Reply::new().row().fin()),
        ("rst-after-headers", json().head().rst()),
        ("fin-after-headers", json().head().fin()),
        ("cut-in-json", Reply::new().cut_after(12, End::Fin).run()),
        ("rst-in-json", Reply::new().cut_after(12, End::Rst).run()),
        ("mid-chunk", json().head().mid_chunk()),
        ("empty-body", json()),
        ("half-json", json().body(r#"{"jsonrpc":"2.0","id":"#)),
        (
            "another-id",
            json().body(r#"{"jsonrpc":"2.0","id":"other","result":{}}"#),
        ),
        (
            "not-http",
            Reply::new()
                .row()
                .step(testkit::Step::Raw("garbage\r\n\r\n".into())),
        ),
        ("stream-rst", stream().rst()),
        ("stream-fin", stream().fin()),
        ("stream-mid-chunk", stream().mid_chunk()),
        ("stream-clean-end", stream()),
        (
            "stream-rst-after-progress",
            stream().body(format!("{progress}\n\n")).rst(),
        ),
        (
            "sign-in-page",
            ran(200)
                .header("content-type", "text/html")
                .body("<title>Sign in</title>"),
        ),
        ("redirected", ran(302).header("location", "/mcp")),
    ]
}

async fn loses_every_answer(behaviour: Behaviour) {
    let server = server(behaviour).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        for (name, reply) in losses() {
            let this = format!("{era}-{name}");
            lose(&server, WRITE, &this, reply);
            let answer = agent.call(WRITE, key(&this)).await.unwrap();
            assert_unknown(&answer, WRITE, &this);
            assert_eq!(calls(&server, WRITE, &this), 1, "{this}");
            assert_eq!(rows(&server, WRITE, &this), 1, "{this}");
        }
        // The connection is good for later calls.
        let answer = agent.call(WRITE, key(era)).await.unwrap();
        assert_eq!(answer.text(), "done", "{era}: {answer:?}");
    }
    assert_nothing_follows(&server).await;
}

/// The first call for this key is answered so.
fn lose(server: &Server, tool: &str, key: &str, reply: Reply) {
    let key = key.to_owned();
    let matcher = call(tool).when(move |request| request.arguments()["key"] == *key);
    server.script().on(matcher.times(1)).reply(reply);
}

#[tokio::test]
async fn a_lost_write_is_not_sent_again_to_a_legacy_server() {
    loses_every_answer(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn a_lost_write_is_not_sent_again_to_a_modern_server() {
    loses_every_answer(Behaviour::modern()).await;
}

/// The stream had an event id: it is resumed, which repeats nothing, and the resume is refused.
#[tokio::test]
async fn a_lost_write_is_not_sent_again_where_its_stream_cannot_be_resumed() {
    let server = server(Behaviour::legacy("2025-11-25").resumable(Some(50))).await;
    let daemon = daemon(&server)
        .set("retry.resume_attempts", "2")
        .start()
        .await
        .unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    for refusal in [405, 404, 503] {
        let resume = get().has_header("last-event-id");
        let refused = server
            .script()
            .on(resume)
            .reply(testkit::reply::status(refusal));
        for (era, agent) in &agents {
            let this = format!("{era}-{refusal}");
            let primed = event_stream()
                .row()
                .body(format!("id: {this}\ndata:\n\n"))
                .rst();
            lose(&server, WRITE, &this, primed);
            let answer = agent.call(WRITE, key(&this)).await.unwrap();
            assert_unknown(&answer, WRITE, &this);
            assert_eq!(calls(&server, WRITE, &this), 1, "{this}");
            assert_eq!(rows(&server, WRITE, &this), 1, "{this}");
        }
        assert!(refused.seen() >= 2, "resuming was tried: {}", server.log());
        refused.remove();
    }
    assert_nothing_follows(&server).await;
}

async fn asks_every_lost_read_again(behaviour: Behaviour) {
    let server = server(behaviour).await;
    let daemon = daemon(&server)
        .read_tool("fake", READ)
        .start()
        .await
        .unwrap();
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        for (name, reply) in losses() {
            let this = format!("{era}-{name}");
            lose(&server, READ, &this, reply);
            let answer = agent.call(READ, key(&this)).await.unwrap();
            assert_eq!(answer.text(), "done", "{this}: {answer:?}");
            let mark = &answer.result()["_meta"]["dev.steadfast/observation"];
            assert_eq!(mark["reissued"], 1, "{this}: {answer:?}");
            assert_eq!(calls(&server, READ, &this), 2, "{this}");
        }
    }
    assert_nothing_follows(&server).await;
}

#[tokio::test]
async fn a_lost_read_is_asked_again_of_a_legacy_server() {
    asks_every_lost_read_again(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn a_lost_read_is_asked_again_of_a_modern_server() {
    asks_every_lost_read_again(Behaviour::modern()).await;
}

/// The server goes down with the answer: what was lost is reported, and what comes next is not sent.
#[tokio::test]
async fn a_write_whose_server_exits_is_unknown_and_the_next_one_is_not_sent() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = server(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        let agents = agents_of_both_eras(&daemon).await;
        let (_, agent) = &agents[0];
        lose(&server, WRITE, "exit", Reply::new().row().exit());
        let answer = agent.call(WRITE, key("exit")).await.unwrap();
        assert_unknown(&answer, WRITE, "exit");
        daemon.wait_state("dev", "fake", "retrying").await.unwrap();
        for (era, agent) in &agents {
            let answer = agent.call(WRITE, key("down")).await.unwrap();
            let connection = &answer.result()["_meta"]["dev.steadfast/connection"];
            assert!(answer.is_error(), "{era}: {answer:?}");
            assert_eq!(connection["server"], "fake", "{era}: {answer:?}");
        }
        server.restart().await;
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        for (era, agent) in &agents {
            let answer = agent.call(WRITE, key(era)).await.unwrap();
            assert_eq!(answer.text(), "done", "{era}: {answer:?}");
        }
        assert_nothing_follows(&server).await;
        assert_eq!(rows(&server, WRITE, "exit"), 1);
        assert_eq!(rows(&server, WRITE, "down"), 0);
        assert_eq!(calls(&server, WRITE, "exit"), 1);
    }
}
