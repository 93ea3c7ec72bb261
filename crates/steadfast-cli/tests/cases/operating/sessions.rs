//! OP-06: sessions and streams are not left behind, by the keeper at servers or by agents at the gateway.

use std::time::Duration;

use serde_json::json;
use testkit::reply::{json_rpc_error, status};
use testkit::script::delete;
use testkit::{Agent, Behaviour, Daemon, Reply, Server};

use super::{reload, until};
use crate::common::{LIMIT, agent, daemon};

const ROUNDS: usize = 25;

/// Fifty sessions one after the other: half of them replaced by a reload, half because the server forgot
/// them.
async fn replace_sessions(server: &Server, daemon: &Daemon, agent: &Agent) {
    for round in 1..=ROUNDS {
        let connection = reload(daemon, "dev", "fake").await;
        assert_eq!(connection["state"], "connected", "{round}: {connection}");
        server.forget_sessions();
        let answer = agent
            .call("add_row", json!({ "key": round.to_string() }))
            .await
            .unwrap();
        assert_eq!(answer.text(), "done", "{round}: {answer:?}");
    }
    assert_eq!(
        server.sessions_created(),
        1 + 2 * ROUNDS,
        "{}",
        server.log()
    );
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), ROUNDS);
}

fn patient(server: &Server) -> testkit::daemon::Builder {
    daemon(server).set("retry.session_rebuilds", "1000")
}

#[tokio::test]
async fn op_06_every_replaced_session_is_deleted() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = patient(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    replace_sessions(&server, &daemon, &agent).await;
    until("one session is left", async || server.live_sessions() == 1).await;
    until("one stream is left", async || server.open_streams() == 1).await;
    assert!(
        server.peak_sessions() <= 3,
        "{} sessions at a time",
        server.peak_sessions()
    );
    assert!(
        server.peak_streams() <= 3,
        "{} streams at a time",
        server.peak_streams()
    );
    let (ended, took) = daemon.terminate().await.unwrap();
    assert!(
        ended.success() && took < Duration::from_secs(3),
        "{ended} after {took:?}"
    );
    assert_eq!(server.live_sessions(), 0, "{}", server.log());
    // Those that the server had forgotten need no end.
    let mut deleted: Vec<String> = server
        .log()
        .http("DELETE")
        .iter()
        .filter_map(|request| request.session().map(str::to_owned))
        .collect();
    let all = deleted.len();
    deleted.sort();
    deleted.dedup();
    assert_eq!(
        (all, deleted.len()),
        (1 + ROUNDS, 1 + ROUNDS),
        "each one once"
    );
}

/// Servers answer DELETE in many ways, or not at all: nobody waits for them.
async fn delete_is_answered(reply: Reply) {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server.script().on(delete()).reply(reply);
    let mut daemon = patient(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    replace_sessions(&server, &daemon, &agent).await;
    until("one stream is left", async || server.open_streams() == 1).await;
    let replaced = |log: &testkit::RequestLog| log.http("DELETE").len() >= ROUNDS;
    server.log().wait_for(replaced, LIMIT).await.unwrap();
    let (ended, took) = daemon.terminate().await.unwrap();
    assert!(
        ended.success() && took < Duration::from_secs(3),
        "{ended} after {took:?}"
    );
    assert_eq!(
        server.log().http("DELETE").len(),
        1 + ROUNDS,
        "{}",
        server.log()
    );
}

#[tokio::test]
async fn op_06_delete_may_be_refused_with_405() {
    delete_is_answered(status(405)).await;
}

#[tokio::test]
async fn op_06_delete_may_be_answered_with_404() {
    delete_is_answered(json_rpc_error(404, -32001, "Session not found")).await;
}

#[tokio::test]
async fn op_06_delete_may_hang() {
    delete_is_answered(Reply::new().black_hole()).await;
}

/// A server that is gone cannot be told, and the session that it forgot is not deleted.
#[tokio::test]
async fn op_06_a_session_that_the_server_forgot_leaves_nothing_behind() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = patient(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    for round in 1..=5 {
        server.restart().await;
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        until("a call goes through", async || {
            let answer = agent.call("echo", json!({})).await.unwrap();
            !answer.is_error()
        })
        .await;
        assert_eq!(server.live_sessions(), 1, "{round}: {}", server.log());
    }
    assert_eq!(server.peak_sessions(), 1, "{}", server.log());
    let (ended, took) = daemon.terminate().await.unwrap();
    assert!(
        ended.success() && took < Duration::from_secs(3),
        "{ended} after {took:?}"
    );
    assert_eq!(server.live_sessions(), 0, "{}", server.log());
}

/// Resident memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Agents that initialize and go away without a word.
async fn connect(daemon: &Daemon, key: &str, agents: usize) {
    let mut connecting = tokio::task::JoinSet::new();
    for lane in 0..20 {
        let address = daemon.address();
        let key = key.to_owned();
        let share = agents / 20 + usize::from(lane < agents % 20);
        connecting.spawn(async move {
            for _ in 0..share {
                let agent = Agent::legacy(address, "/mcp/fake", Some(&key));
                agent.initialize().await.unwrap();
            }
        });
    }
    while let Some(done) = connecting.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn op_06_agents_that_leave_without_delete_cost_no_memory() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server)
        .env("STEADFAST_LOG", "info")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let key = daemon.agent_key("dev").await.unwrap();
    let pid = daemon.pid().unwrap();
    connect(&daemon, &key, 500).await;
    let before = resident(pid);
    connect(&daemon, &key, 2_000).await;
    let grown = resident(pid).saturating_sub(before);
    assert!(
        grown < 8 * 1024,
        "{grown} KiB more after 2000 agents, from {before} KiB"
    );
    assert_eq!(
        server.live_sessions(),
        1,
        "agents share the keeper's session"
    );
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
}
