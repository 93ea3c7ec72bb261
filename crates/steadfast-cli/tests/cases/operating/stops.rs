//! The end of a daemon: bounded in time in any state, and polite where that is possible. Two daemons on one
//! data directory.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use testkit::script::{any, delete};
use testkit::{Agent, Behaviour, Daemon, Reply, RequestLog, Server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::agents;
use crate::common::{LIMIT, daemon};

const BOUND: Duration = Duration::from_secs(3);

/// Calls are under way, one in each way of answering, and streams are open on both sides.
#[tokio::test]
async fn sigterm_with_calls_under_way_ends_in_time_and_deletes_the_session() {
    for behaviour in [
        Behaviour::legacy("2025-11-25"),
        Behaviour::legacy("2025-11-25").streaming(),
        Behaviour::modern(),
    ] {
        let is_legacy = !behaviour.legacy_revisions.is_empty();
        let server = Server::start(behaviour).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agents = agents(&daemon, "fake").await;
        let listening = agents[0].1.open_get(None).await.unwrap();
        let mut under_way = Vec::new();
        for (era, agent) in &agents {
            for meta in [json!({}), json!({ "progressToken": "p" })] {
                let params = json!({ "name": "slow", "arguments": { "key": era }, "_meta": meta });
                under_way.push(agent.start("tools/call", params).await.unwrap());
            }
        }
        server.gates().arrived("slow", 4).await;
        let (ended, took) = daemon.terminate().await.unwrap();
        assert!(ended.success(), "{ended}");
        assert!(took < BOUND, "it took {took:?}");
        drop((listening, under_way));
        let deleted = server.log().http("DELETE");
        assert_eq!(deleted.len(), usize::from(is_legacy), "{}", server.log());
        assert!(
            deleted
                .iter()
                .all(|request| request.session() == Some("S1")),
            "{}",
            server.log()
        );
        assert_eq!(server.live_sessions(), 0, "{}", server.log());
        assert_eq!(server.ledger().rows().unwrap().len(), 4);

        // The next one opens a session of its own.
        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let answer = agents[0].1.call("echo", json!({})).await.unwrap();
        assert!(!answer.is_error(), "{answer:?}");
        assert_eq!(server.ledger().rows_of("slow").unwrap().len(), 4);
    }
}

/// The server no longer answers anything, DELETE included.
#[tokio::test]
async fn sigterm_ends_in_time_where_the_server_hangs() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agents = agents(&daemon, "fake").await;
    server.script().on(any()).reply(Reply::new().black_hole());
    let mut under_way = Vec::new();
    for (_, agent) in &agents {
        under_way.push(
            agent
                .start("tools/call", json!({ "name": "echo", "arguments": {} }))
                .await
                .unwrap(),
        );
    }
    server
        .log()
        .wait_for(|log| log.calls("echo").len() == 2, LIMIT)
        .await
        .unwrap();
    let (ended, took) = daemon.terminate().await.unwrap();
    assert!(ended.success() && took < BOUND, "{ended} after {took:?}");
    assert_eq!(server.log().http("DELETE").len(), 1, "{}", server.log());
}

/// Many servers at once, each of which lets DELETE hang.
#[tokio::test]
async fn sigterm_ends_in_time_with_many_servers_that_hang() {
    let mut servers = Vec::new();
    let mut builder = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .agent("dev")
        .agent("other");
    for number in 0..10 {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        server
            .script()
            .on(delete())
            .reply(Reply::new().black_hole());
        builder = builder.server(&format!("fake{number}"), &server.url());
        servers.push(server);
    }
    let mut daemon = builder.start().await.unwrap();
    for number in 0..10 {
        for agent in ["dev", "other"] {
            daemon
                .wait_state(agent, &format!("fake{number}"), "connected")
                .await
                .unwrap();
        }
    }
    let (ended, took) = daemon.terminate().await.unwrap();
    assert!(ended.success() && took < BOUND, "{ended} after {took:?}");
    for server in &servers {
        assert_eq!(server.log().http("DELETE").len(), 2, "{}", server.log());
    }
}

/// A second daemon on the data directory of another one.
async fn second(daemon: &Daemon) -> (Child, std::net::SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(daemon.config());
    command.arg("--data").arg(daemon.data());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    loop {
        let line = lines
            .next_line()
            .await
            .unwrap()
            .expect("it prints where it listens");
        if let Some((_, address)) = line.split_once("listening on http://") {
            return (child, address.trim().parse().unwrap());
        }
    }
}

/// Two daemons share agents and keys; when one of them dies the other serves on.
#[tokio::test]
async fn two_daemons_on_one_data_directory_are_safe() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        let mut first = daemon(&server).start().await.unwrap();
        first.wait_state("dev", "fake", "connected").await.unwrap();
        let key = first.agent_key("dev").await.unwrap();
        let (mut other, address) = second(&first).await;
        let there = [
            Agent::legacy(address, "/mcp/fake", Some(&key)),
            Agent::modern(address, "/mcp/fake", Some(&key)),
        ];
        there[0].initialize().await.unwrap();
        let here = agents(&first, "fake").await;
        for (number, agent) in there
            .iter()
            .chain(here.iter().map(|(_, agent)| agent))
            .enumerate()
        {
            let answer = agent
                .call("add_row", json!({ "key": number.to_string() }))
                .await
                .unwrap();
            assert_eq!(answer.text(), "done", "{number}: {answer:?}");
        }
        other.kill().await.unwrap();
        for (era, agent) in &here {
            let answer = agent.call("add_row", json!({ "key": era })).await.unwrap();
            assert_eq!(answer.text(), "done", "{era}: {answer:?}");
        }
        let (third, address) = second(&first).await;
        let (ended, took) = first.terminate().await.unwrap();
        assert!(ended.success() && took < BOUND, "{ended} after {took:?}");
        // The first one has ended what may have been the session of both; nobody notices.
        for (era, agent) in [
            ("legacy", Agent::legacy(address, "/mcp/fake", Some(&key))),
            ("modern", Agent::modern(address, "/mcp/fake", Some(&key))),
        ] {
            if era == "legacy" {
                agent.set_session(here[0].1.session().as_deref());
            }
            let key = format!("{era} on the last");
            let answer = agent.call("add_row", json!({ "key": key })).await.unwrap();
            assert_eq!(answer.text(), "done", "{era}: {answer:?}");
        }
        drop(third);
        assert_eq!(
            server.ledger().rows_of("add_row").unwrap().len(),
            8,
            "{}",
            server.log()
        );
    }
}

/// What a daemon that was asked twice does: it ends at once.
#[tokio::test]
async fn a_second_sigterm_ends_at_once() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server
        .script()
        .on(delete())
        .reply(Reply::new().black_hole());
    let mut daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    daemon.signal(testkit::Signal::TERM).unwrap();
    let polite = |log: &RequestLog| log.http("DELETE").len() == 1;
    server.log().wait_for(polite, LIMIT).await.unwrap();
    let (_, took) = daemon.terminate().await.unwrap();
    assert!(took < Duration::from_millis(800), "it took {took:?}");
}
