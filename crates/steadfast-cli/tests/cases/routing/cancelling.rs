//! GW-02: a cancellation reaches the server that does the work, under the id that the server knows.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::{Reply, event_stream};
use testkit::script::call;
use testkit::{Behaviour, Ending, RequestLog, Server, Tls};

use super::daemon_for;
use crate::common::{daemon, never};
use crate::rig::{Era, Rig, agent_of, seen};

/// A tool that never ends by itself.
fn slow() -> Value {
    json!({ "name": "slow", "arguments": { "gate": "never" } })
}

/// The server was told to stop this call: at once, and only this one.
async fn told(server: &Server, at: usize) -> Duration {
    seen(server, |log| log.count("notifications/cancelled") > at).await;
    let told = server.log().posts("notifications/cancelled")[at].clone();
    let calls = server.log().calls("slow");
    let asked = calls.last().unwrap();
    assert_eq!(told.pointer("/params/requestId"), asked.rpc_id());
    assert_eq!(told.session(), asked.session());
    told.at
}

#[tokio::test]
async fn gw_02_a_legacy_server_is_told_at_once_with_its_own_id() {
    let silent = Reply::new().black_hole();
    let streaming = event_stream().black_hole();
    let tls = Tls::new(&["127.0.0.1"]).unwrap();
    let certificates = tempfile::tempdir().unwrap();
    let ca = tls.write_ca(certificates.path()).unwrap();
    for (what, reply, http2) in [
        ("no headers yet", silent.clone(), false),
        ("streaming", streaming.clone(), false),
        ("no headers yet, HTTP/2", silent, true),
        ("streaming, HTTP/2", streaming, true),
    ] {
        let builder = Server::builder(Behaviour::legacy("2025-11-25"));
        let server = match http2 {
            true => builder.tls(&tls).start().await,
            false => builder.start().await,
        };
        server.script().on(call("slow")).reply(reply);
        let daemon = daemon(&server).set_text("network.ca_file", &ca.display().to_string());
        let daemon = daemon.start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(Era::Legacy, &daemon).await;
        let pending = agent.start_with_id(json!("own"), "tools/call", slow());
        let pending = pending.await.unwrap();
        seen(&server, |log| log.calls("slow").len() == 1).await;
        assert_eq!(server.log().calls("slow")[0].http2, http2, "{what}");
        let cancelled = server.log().now();
        assert_eq!(agent.cancel(&json!("own")).await.unwrap(), 202, "{what}");
        let after = told(&server, 0).await - cancelled;
        assert!(after < Duration::from_secs(1), "{what}: {after:?}");
        let answer = pending.finish().await.unwrap();
        assert_eq!(answer.message, Value::Null, "{what}: {answer:?}");
        // Everything still works, on the same session.
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert_eq!(answer.text(), "{}", "{what}");
        assert_eq!(server.log().count("initialize"), 1, "{what}");
    }
}

/// The agent's own words are passed on; only the id is the server's.
#[tokio::test]
async fn gw_02_the_notification_passes_with_all_that_is_in_it() {
    let rig = Rig::new(Era::Legacy, Era::Legacy.behaviour()).await;
    let pending = rig
        .agent
        .start_with_id(json!(7), "tools/call", slow())
        .await;
    seen(&rig.server, |log| log.calls("slow").len() == 1).await;
    let body = r#"{"jsonrpc":"2.0","params":{"_meta":{"traceparent":"00-1-2-01","n":1.0},"requestId":7,"reason":"\u00e9nough"},"method":"notifications/cancelled"}"#;
    let headers = rig.agent.headers(None);
    let headers: Vec<_> = headers
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    rig.agent.raw_post(&headers, body.as_bytes()).await.unwrap();
    told(&rig.server, 0).await;
    let id = rig.server.log().calls("slow")[0]
        .rpc_id()
        .unwrap()
        .to_string();
    let passed = rig.server.log().posts("notifications/cancelled")[0]
        .body
        .clone();
    let expected = body.replace(":7,", &format!(":{id},"));
    assert_eq!(std::str::from_utf8(&passed).unwrap(), expected);
    drop(pending);
}

/// A legacy agent's loss tells the server nothing; that the agent cancels afterwards does.
#[tokio::test]
async fn gw_02_a_lost_agent_can_still_cancel() {
    let rig = Rig::new(Era::Legacy, Era::Legacy.behaviour()).await;
    let pending = rig
        .agent
        .start_with_id(json!(7), "tools/call", slow())
        .await;
    seen(&rig.server, |log| log.calls("slow").len() == 1).await;
    drop(pending);
    let later = Duration::from_millis(300);
    never(&rig.server, later, |log| {
        log.count("notifications/cancelled") > 0
    })
    .await;
    let index = rig.server.log().calls("slow")[0].index;
    assert_eq!(rig.server.log().ending(index), None, "the call goes on");
    assert_eq!(rig.agent.cancel(&json!(7)).await.unwrap(), 202);
    told(&rig.server, 0).await;
}

/// A modern agent's closed stream cancels a read; a write is read to its end.
#[tokio::test]
async fn gw_02_a_modern_agents_loss_cancels_reads_and_lets_writes_finish() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era.behaviour()).await;
        let settings = |daemon: testkit::daemon::Builder| daemon.read_tool("fake", "slow");
        let rig = Rig::with(Era::Modern, server, settings).await;
        let read = rig.agent.start("tools/call", slow()).await.unwrap();
        let arguments = json!({ "name": "big", "arguments": { "bytes": 3 } });
        let held = Reply::new().row().wait_for("written").run();
        rig.server.script().on(call("big")).reply(held);
        let write = rig.agent.start("tools/call", arguments).await.unwrap();
        seen(&rig.server, |log| {
            log.calls("slow").len() + log.calls("big").len() == 2
        })
        .await;
        drop((read, write));
        let (slow, big) = (
            rig.server.log().calls("slow"),
            rig.server.log().calls("big"),
        );
        let (slow, big) = (slow[0].index, big[0].index);
        match era {
            Era::Legacy => drop(told(&rig.server, 0).await),
            Era::Modern => {
                let closed = |log: &RequestLog| {
                    log.ending(slow).map(|(_, ending)| ending) == Some(Ending::PeerGone)
                };
                seen(&rig.server, closed).await;
            }
        }
        let of_write = |log: &RequestLog| {
            let id = log.calls("big")[0].rpc_id().cloned();
            let named = |it: &testkit::Request| it.pointer("/params/requestId") == id.as_ref();
            log.ending(big).is_some() || log.matching(named).len() > 1
        };
        never(&rig.server, Duration::from_millis(300), of_write).await;
        rig.server.open("written");
        let read_to_its_end =
            |log: &RequestLog| log.ending(big).map(|(_, ending)| ending) == Some(Ending::Complete);
        seen(&rig.server, read_to_its_end).await;
        rig.works().await;
    }
}

/// Neither another agent's nor another conversation's id is known, and `initialize` is no call.
#[tokio::test]
async fn gw_02_nobody_cancels_for_another() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon_for(&server, &["a", "b"]).await;
    let mut agents = Vec::new();
    for name in ["a", "a", "b"] {
        let agent = daemon.legacy_agent(name, "fake").await.unwrap();
        agent.initialize().await.unwrap();
        agents.push(agent);
    }
    let pending = agents[0]
        .start_with_id(json!("x"), "tools/call", slow())
        .await;
    seen(&server, |log| log.calls("slow").len() == 1).await;
    let upstream = server.log().calls("slow")[0].rpc_id().unwrap().clone();
    for agent in &agents[1..] {
        assert_eq!(agent.cancel(&json!("x")).await.unwrap(), 202);
        assert_eq!(agent.cancel(&upstream).await.unwrap(), 202);
    }
    // The id of its own `initialize`, the server's id, and another form of its own.
    for id in [json!(1), upstream, json!("y")] {
        assert_eq!(agents[0].cancel(&id).await.unwrap(), 202);
    }
    let told = |log: &RequestLog| log.count("notifications/cancelled") > 0;
    never(&server, Duration::from_millis(300), told).await;
    drop(pending);
}

/// The answer that comes all the same is nobody's.
#[tokio::test]
async fn gw_02_a_late_answer_is_harmless() {
    let rig = Rig::new(Era::Legacy, Era::Legacy.behaviour()).await;
    let late = event_stream().wait_for("late").run();
    rig.server.script().on(call("add_row")).reply(late);
    let params = json!({ "name": "add_row", "arguments": {} });
    let pending = rig
        .agent
        .start_with_id(json!(9), "tools/call", params)
        .await;
    seen(&rig.server, |log| log.calls("add_row").len() == 1).await;
    rig.agent.cancel(&json!(9)).await.unwrap();
    seen(&rig.server, |log| log.count("notifications/cancelled") == 1).await;
    rig.server.open("late");
    let answer = pending.unwrap().finish().await.unwrap();
    assert_eq!(answer.message, Value::Null, "{answer:?}");
    rig.works().await;
    assert_eq!(rig.connection().await["state"], "connected");
    assert_eq!(rig.server.log().count("initialize"), 1);
}
