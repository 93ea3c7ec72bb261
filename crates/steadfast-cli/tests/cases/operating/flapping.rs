//! OP-03: a server that accepts, answers the handshake and drops, and fifty agents that all want it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Action, Agent, Behaviour, Daemon, Server, Tool};
use tokio::task::JoinSet;

use super::until;

const AGENTS: usize = 50;
/// So many of them call, each with as many calls at a time as there are tools.
const CALLERS: usize = 8;
const TOOLS: usize = 30;
const FLAPPING: Duration = Duration::from_secs(6);
const FIRST: Duration = Duration::from_millis(200);
/// What the gate lets through in a row, and one each half of `retry.first` from then on.
const BURST: usize = 64;

fn agent(number: usize) -> String {
    format!("agent{number}")
}

fn tools() -> Vec<Tool> {
    let tool = |number| Tool::new(&format!("tool{number}"), Action::AddRow).unrecorded();
    (0..TOOLS).map(tool).collect()
}

async fn daemon(flapping: &Server, steady: &Server) -> Daemon {
    let first = format!("\"{}ms\"", FIRST.as_millis());
    let mut builder = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .server("flapping", &flapping.url())
        .server("steady", &steady.url())
        .set("retry.first", &first)
        .set("retry.max", "\"2s\"");
    for number in 0..AGENTS {
        builder = builder.agent(&agent(number));
    }
    builder.start().await.unwrap()
}

/// Drops everything 200 ms after it was let in, and forgets it.
async fn flap(server: &Server) {
    let began = Instant::now();
    while began.elapsed() < FLAPPING {
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.restart().await;
    }
}

/// An agent calls this tool for as long as the server flaps: the longest that an answer took, and what the
/// connection was where the server was not available.
async fn storm(agent: Arc<Agent>, tool: String) -> (Duration, Vec<Value>) {
    let began = Instant::now();
    let (mut longest, mut unavailable) = (Duration::ZERO, Vec::new());
    while began.elapsed() < FLAPPING {
        let answer = agent.call(&tool, json!({})).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        longest = longest.max(answer.took);
        let connection = &answer.result()["_meta"]["dev.steadfast/connection"];
        if connection.is_object() {
            unavailable.push(connection.clone());
        }
        // As an agent does that has other things to do, too.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (longest, unavailable)
}

/// The time that calls of another server take meanwhile.
async fn calm(agent: Agent) -> Vec<Duration> {
    let began = Instant::now();
    let mut took = Vec::new();
    while began.elapsed() < FLAPPING {
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        took.push(answer.took);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    took.sort();
    took
}

/// How often the server was connected to.
fn handshakes(server: &Server) -> usize {
    server.log().count("server/discover") + server.log().count("initialize")
}

async fn connected(daemon: &Daemon) -> usize {
    let path = "/api/v1/connections?server=flapping&state=connected";
    let (_, all) = daemon.get(path).await.unwrap();
    all["connections"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_03_a_server_that_flaps_is_not_stormed() {
    let revision = Behaviour::legacy("2025-11-25");
    let flapping = Server::start(revision.with_tools(tools())).await;
    let steady = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&flapping, &steady).await;
    until("all are connected", async || {
        connected(&daemon).await == AGENTS
    })
    .await;
    daemon
        .wait_state(&agent(0), "steady", "connected")
        .await
        .unwrap();
    let mut calls = JoinSet::new();
    for number in 0..CALLERS {
        let caller = daemon
            .legacy_agent(&agent(number), "flapping")
            .await
            .unwrap();
        caller.initialize().await.unwrap();
        let caller = Arc::new(caller);
        for tool in 0..TOOLS {
            calls.spawn(storm(Arc::clone(&caller), format!("tool{tool}")));
        }
    }
    let others = daemon.modern_agent(&agent(0), "steady").await.unwrap();
    let others = tokio::spawn(calm(others));

    let (before, lines_before) = (handshakes(&flapping), daemon.stderr().lines().count());
    let began = Instant::now();
    flap(&flapping).await;
    let flapped = began.elapsed();
    let attempts = handshakes(&flapping) - before;
    let turns = (flapped.as_millis() / (FIRST / 2).as_millis()) as usize;
    assert!(
        attempts <= BURST + turns + 1,
        "{attempts} attempts within {flapped:?}"
    );

    let mut unavailable = Vec::new();
    while let Some(ended) = calls.join_next().await {
        let (longest, connections) = ended.unwrap();
        assert!(longest < Duration::from_secs(4), "a call took {longest:?}");
        unavailable.extend(connections);
    }
    let says = |connection: &Value| connection["next"]["reason"].to_string();
    let held = |connection: &&Value| says(connection).contains("(held: ");
    let one = unavailable.iter().find(held);
    let reasons: BTreeSet<String> = unavailable.iter().map(says).collect();
    assert!(
        one.is_some_and(|one| one["state"] == "retrying"),
        "{reasons:?}"
    );
    let others = others.await.unwrap();
    let median = others[others.len() / 2];
    assert!(median < Duration::from_millis(500), "others: {others:?}");

    until("all are back", async || connected(&daemon).await == AGENTS).await;
    until("what was left out is summed up", async || {
        daemon
            .stderr()
            .contains("similar lines left out in the last 10 s")
    })
    .await;
    let lines = daemon.stderr().lines().count() - lines_before;
    assert!(lines < 2_000, "{lines} lines");
}
