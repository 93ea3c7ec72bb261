//! Steps 3 and 4: the answer is lost. It is fetched where the server still has it, and a read is asked again.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::{content, event_stream, status};
use testkit::script::{call, get};
use testkit::{End, Reply};

use super::super::{READ, WRITE, assert_nothing_follows, ran};
use super::Stage;
use crate::rig::{BOTH, Era};

const CURSOR: &str = "last-event-id";

#[tokio::test]
async fn step_3_a_loss_is_on_record_as_not_observed_and_never_as_failed() {
    for era in BOTH {
        let stage = Stage::new(era, |daemon| daemon).await;
        let answer = stage.lost_write(json!({ "key": "k" })).await;
        assert_eq!(answer.operation()["state"], "not_observed", "{answer:?}");
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
        let operation = stage.operation(&answer).await;
        assert_eq!(operation["executed"], "unknown", "{operation}");
        for said in [answer.message.to_string(), operation.to_string()] {
            assert!(!said.contains("failed"), "{said}");
        }
        // The model is told what to refer to, and what happens next.
        let text = answer.text();
        let id = operation["id"].as_str().unwrap();
        assert!(
            text.contains(id) && text.contains("Do not call it again"),
            "{text}"
        );
        assert_nothing_follows(&stage.server).await;
        assert_eq!(stage.calls(WRITE), 1);
    }
}

#[tokio::test]
async fn step_3_a_resumable_stream_is_resumed_with_its_cursor_after_the_delay_that_it_asked_for() {
    let stage = Stage::new(Era::Legacy, |daemon| daemon).await;
    let retry = Duration::from_millis(200);
    stage.server.change(|behaviour| {
        (behaviour.stream_answers, behaviour.resumable) = (true, true);
        behaviour.retry_ms = Some(200);
    });
    let cut = Reply::new().cut_after(60, End::MidChunk).run();
    stage.server.script().on(call(WRITE).times(1)).reply(cut);
    let answer = stage
        .agent
        .call(WRITE, json!({ "key": "k" }))
        .await
        .unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    assert!(answer.took >= retry, "{:?}", answer.took);
    let resumed = stage
        .server
        .log()
        .matching(|request| request.method == "GET" && request.header(CURSOR).is_some());
    assert_eq!(resumed.len(), 1, "{}", stage.server.log());
    assert_eq!(stage.calls(WRITE), 1);
}

#[tokio::test]
async fn step_3_a_resume_that_is_refused_is_not_replaced_by_another_post() {
    let stage = Stage::new(Era::Legacy, |daemon| daemon).await;
    let primed = event_stream().row().body("id: 7\ndata:\n\n").rst();
    stage.server.script().on(call(WRITE).times(1)).reply(primed);
    let refused = stage.server.script().on(get().header(CURSOR, "7"));
    let refused = refused.reply(status(405));
    let answer = stage
        .agent
        .call(WRITE, json!({ "key": "k" }))
        .await
        .unwrap();
    assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
    assert_eq!(refused.seen(), 1);
    assert_nothing_follows(&stage.server).await;
    assert_eq!(stage.calls(WRITE), 1);
}

/// Whatever ids its events have: this revision has no way to resume.
#[tokio::test]
async fn step_3_a_modern_stream_is_neither_resumed_nor_asked_for_again() {
    let stage = Stage::new(Era::Modern, |daemon| daemon).await;
    let primed = event_stream().row().body("id: 7\ndata:\n\n").rst();
    stage.server.script().on(call(WRITE).times(1)).reply(primed);
    let answer = stage
        .agent
        .call(WRITE, json!({ "key": "k" }))
        .await
        .unwrap();
    assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
    assert_nothing_follows(&stage.server).await;
    assert_eq!(stage.calls(WRITE), 1);
    assert!(stage.server.log().http("GET").is_empty());
}

fn reads(daemon: testkit::daemon::Builder) -> testkit::daemon::Builder {
    daemon.read_tool("fake", READ)
}

#[tokio::test]
async fn step_4_a_declared_read_is_asked_again_under_a_new_id_and_marked_as_a_new_observation() {
    for era in BOTH {
        let stage = Stage::new(era, reads).await;
        stage.lose(READ);
        let answer = stage.agent.call(READ, json!({ "key": "r" })).await.unwrap();
        let mark = &answer.result()["_meta"]["dev.steadfast/observation"];
        assert_eq!(*mark, json!({ "reissued": 1 }), "{answer:?}");
        let asked = stage.server.log().calls(READ);
        let [first, second] = &asked[..] else {
            panic!("{asked:?}");
        };
        assert_ne!(first.rpc_id(), second.rpc_id());
        assert_eq!(first.arguments(), second.arguments());
    }
}

#[tokio::test]
async fn step_4_a_hint_of_the_server_makes_no_read_of_it() {
    for era in BOTH {
        let stage = Stage::new(era, |daemon| daemon).await;
        stage.server.change(|behaviour| {
            for tool in &mut behaviour.tools {
                tool.definition["annotations"] = json!({ "readOnlyHint": true });
            }
        });
        stage.lose(READ);
        let answer = stage.agent.call(READ, json!({ "key": "r" })).await.unwrap();
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
        assert_eq!(stage.calls(READ), 1);
    }
}

#[tokio::test]
async fn step_4_where_fresh_data_will_not_do_the_loss_is_reported() {
    let not_again = format!("servers.fake.tools.{READ}.reissue");
    let settings = |daemon| reads(daemon).set(&not_again, "false");
    let stage = Stage::new(Era::Modern, settings).await;
    stage.lose(READ);
    let answer = stage.agent.call(READ, json!({ "key": "r" })).await.unwrap();
    assert_eq!(answer.operation()["state"], "not_observed", "{answer:?}");
    assert_eq!(stage.calls(READ), 1);
}

/// How long a server asks to wait, and whether the read is asked again.
#[tokio::test]
async fn step_4_what_a_server_asks_for_with_retry_after_is_honoured() {
    for (seconds, calls) in [("1", 2), ("3600", 1)] {
        let stage = Stage::new(Era::Modern, reads).await;
        let busy = ran(503).header("retry-after", seconds);
        stage.server.script().on(call(READ).times(1)).reply(busy);
        let answer = stage.agent.call(READ, json!({ "key": "r" })).await.unwrap();
        assert_eq!(stage.calls(READ), calls, "{seconds}: {answer:?}");
        if calls == 2 {
            assert!(answer.took >= Duration::from_secs(1), "{:?}", answer.took);
            assert_eq!(answer.text(), "done", "{answer:?}");
        } else {
            assert_eq!(answer.operation()["retry_after_s"], 3600, "{answer:?}");
        }
    }
}

/// Lost again and again, it ends: a read has a budget.
#[tokio::test]
async fn step_4_a_read_is_asked_once_more_and_not_for_ever() {
    let stage = Stage::new(Era::Modern, reads).await;
    let lost = Reply::new().row().rst();
    stage.server.script().on(call(READ)).reply(lost);
    let answer = stage.agent.call(READ, json!({ "key": "r" })).await.unwrap();
    assert_eq!(answer.operation()["state"], "not_observed", "{answer:?}");
    assert_eq!(stage.calls(READ), 2);
}

/// Access may have gone with the answer: then nothing is asked without it.
#[tokio::test]
async fn step_4_what_is_not_permitted_any_more_is_not_asked_again() {
    for era in BOTH {
        let stage = Stage::new(era, reads).await;
        let lost = Reply::new().row().rst();
        stage.server.script().on(call(READ).times(1)).reply(lost);
        let forbidden = content(403, "text/plain", "no more");
        let forbidden = stage.server.script().on(call(READ)).reply(forbidden);
        let answer = stage.agent.call(READ, json!({ "key": "r" })).await.unwrap();
        assert_ne!(answer.text(), "done", "{answer:?}");
        assert_eq!(
            answer.result()["_meta"]["dev.steadfast/observation"],
            Value::Null
        );
        assert_eq!(forbidden.seen(), 1, "{}", stage.server.log());
        assert_nothing_follows(&stage.server).await;
    }
}
