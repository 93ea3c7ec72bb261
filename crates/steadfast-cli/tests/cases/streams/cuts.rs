//! ST-07: something in front of the server cuts what is silent for too long.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Agent, Behaviour, Daemon, Net, RequestLog, Server};

use super::gets;
use crate::common::{LIMIT, agents_of_both_eras, daemon_at};

/// What the load balancer allows; minutes in the field.
const IDLE: Duration = Duration::from_millis(1_200);

async fn behind_a_proxy(behaviour: Behaviour) -> (Server, Net, Daemon) {
    let server = Server::start(behaviour).await;
    let net = Net::to(server.address()).unwrap();
    net.change(|conditions| conditions.cut_idle = Some(IDLE));
    let daemon = daemon_at(&net.url("/mcp")).start().await.unwrap();
    (server, net, daemon)
}

/// A tool that is silent for so long.
async fn silent_call(agent: &Agent, time: Duration) -> testkit::Answer {
    let time = u64::try_from(time.as_millis()).unwrap();
    agent.call("slow", json!({ "ms": time })).await.unwrap()
}

#[tokio::test]
async fn st_07_a_listening_stream_that_is_cut_on_a_beat_is_reopened_without_noise() {
    let (server, _net, daemon) = behind_a_proxy(Behaviour::legacy("2025-11-25")).await;
    let told = |connection: &Value| {
        connection["stream"]
            .as_str()
            .is_some_and(|text| text.starts_with("idle cut ~1.2"))
    };
    let connection = daemon
        .wait_connection("dev", "fake", LIMIT, told)
        .await
        .unwrap();
    assert_eq!(connection["stream"], "idle cut ~1.2 s observed");
    assert_eq!(connection["state"], "connected", "{connection}");
    assert_eq!(connection["fault"], Value::Null, "{connection}");
    let third = |log: &RequestLog| gets(log, None) == 3;
    server.log().wait_for(third, LIMIT).await.unwrap();

    // One reconnect per cut: each stream was asked for after the end of the one before it.
    let streams = server.log().http("GET");
    for pair in streams.windows(2) {
        let (ended, _) = server.log().ending(pair[0].index).unwrap();
        assert!(pair[1].at >= ended, "{}", server.log());
        assert!(pair[1].at - pair[0].at >= IDLE, "{}", server.log());
    }
    assert_eq!(server.peak_streams(), 1);
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
    assert_eq!(
        server.log().count("ping"),
        0,
        "a cut is no reason to doubt the server"
    );
    let history = daemon.history("dev", "fake").await.unwrap();
    let faults: Vec<_> = history
        .iter()
        .filter(|entry| !entry["fault"].is_null())
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
    let noise: Vec<_> = daemon
        .stderr()
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .map(str::to_owned)
        .collect();
    assert!(noise.is_empty(), "{noise:?}");
}

/// A silent call of each agent ends with its connection, and is not sent again.
async fn assert_silent_calls_are_lost(behaviour: Behaviour, expected: &str) {
    let (server, _net, daemon) = behind_a_proxy(behaviour).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (era, agent) in agents_of_both_eras(&daemon).await {
        tasks.spawn(async move { (era, silent_call(&agent, 5 * IDLE).await) });
    }
    while let Some(ended) = tasks.join_next().await {
        let (era, answer) = ended.unwrap();
        let at_the_cut = answer.took >= IDLE && answer.took < 3 * IDLE;
        assert!(at_the_cut, "{era}: {:?}", answer.took);
        assert!(answer.is_error(), "{era}: {answer:?}");
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
        let evidence = answer.operation()["evidence"].as_str().unwrap();
        assert_eq!(evidence, expected, "{era}");
    }
    assert_eq!(server.log().count("tools/call"), 2, "{}", server.log());
    assert_eq!(server.ledger().rows_of("slow").unwrap().len(), 2);
    let connection = daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["state"], "connected", "{connection}");
}

#[tokio::test]
async fn st_07_a_silent_call_on_a_stream_that_cannot_be_resumed_is_not_observed() {
    let evidence = "body cut short before the response";
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        assert_silent_calls_are_lost(behaviour.streaming(), evidence).await;
    }
}

#[tokio::test]
async fn st_07_a_silent_call_without_a_stream_is_not_observed_either() {
    let evidence = "connection closed before the answer";
    assert_silent_calls_are_lost(Behaviour::legacy("2025-11-25"), evidence).await;
}

#[tokio::test]
async fn st_07_a_silent_call_on_a_stream_that_can_be_resumed_loses_nothing() {
    let (server, _net, daemon) =
        behind_a_proxy(Behaviour::legacy("2025-11-25").resumable(Some(50))).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (era, agent) in agents_of_both_eras(&daemon).await {
        tasks.spawn(async move { (era, silent_call(&agent, 3 * IDLE).await) });
    }
    while let Some(ended) = tasks.join_next().await {
        let (era, answer) = ended.unwrap();
        assert_eq!(answer.text(), "slow is done", "{era}: {answer:?}");
        assert!(!answer.is_error());
    }
    // The third cut is about to come when the answer does.
    let resumed = server.log().matching(|request| {
        request.method == "GET"
            && request
                .header("last-event-id")
                .is_some_and(|id| !id.starts_with("S1s0"))
    });
    assert!((4..=6).contains(&resumed.len()), "{}", server.log());
    assert_eq!(server.log().count("tools/call"), 2);
    assert_eq!(server.ledger().rows_of("slow").unwrap().len(), 2);
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
}
