//! What a crash of the daemon, or a restart of a server, leaves as it was.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::reply::json_rpc_error;
use testkit::script::{call, post};
use testkit::{Behaviour, Daemon, Server};

use super::{agents, until};
use crate::common::{LIMIT, agent, daemon, never};

/// The sessions that requests carried, in the order of their first use.
fn sessions(server: &Server) -> Vec<String> {
    let mut seen = Vec::new();
    for request in server.log().requests() {
        if let Some(session) = request.session()
            && !seen.iter().any(|known| known == session)
        {
            seen.push(session.to_owned());
        }
    }
    seen
}

/// Killed in the middle of a session, with a write under way: the next daemon goes on with the session on
/// record, and repeats nothing.
#[tokio::test]
async fn a_killed_daemon_goes_on_with_its_session() {
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let server = Server::start(Behaviour::legacy(revision)).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        let agent = agent(&daemon).await;
        let slow = json!({ "name": "slow", "arguments": { "key": "one", "gate": "one" } });
        let under_way = agent.start("tools/call", slow).await.unwrap();
        server.gates().arrived("one", 1).await;
        daemon.kill9().await.unwrap();
        assert!(
            under_way.finish().await.is_err(),
            "nobody is left to answer"
        );

        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let resumed_at = server.log().requests().len();
        // The agent notices nothing but the broken call: its session is on record too.
        let answer = agent
            .call("add_row", json!({ "key": "after" }))
            .await
            .unwrap();
        assert_eq!(answer.text(), "done", "{revision}: {answer:?}");
        assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
        assert_eq!(sessions(&server), ["S1"], "{}", server.log());
        for request in &server.log().requests()[resumed_at..] {
            assert_eq!(request.session(), Some("S1"), "{}", server.log());
            let version = request.header("mcp-protocol-version");
            assert_eq!(version, Some(revision), "{}", server.log());
        }
        assert_eq!(server.live_sessions(), 1);
        server
            .log()
            .wait_for(|_| server.open_streams() == 1, LIMIT)
            .await
            .unwrap();
        server.open("one");
        let rows: Vec<String> = server
            .ledger()
            .rows()
            .unwrap()
            .into_iter()
            .map(|row| row.key)
            .collect();
        assert_eq!(rows, ["one", "after"], "{}", server.log());
    }
}

/// No RPC id comes twice in a session, although a second process went on with it.
#[tokio::test]
async fn request_ids_are_not_reused_by_the_next_daemon() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    for _ in 0..3 {
        agent.call("echo", json!({})).await.unwrap();
        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
    }
    let mut ids: Vec<String> = server
        .log()
        .matching(|request| request.session().is_some())
        .iter()
        .filter_map(|request| Some(request.rpc_id()?.to_string()))
        .collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "{}", server.log());
}

/// The session went while nobody looked: it is replaced, and what the session was asked to remember is
/// restored.
#[tokio::test]
async fn a_session_that_is_gone_after_a_crash_is_replaced() {
    for how in ["forgotten", "refused-400"] {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        let agent = agent(&daemon).await;
        let level = agent
            .request("logging/setLevel", json!({ "level": "warning" }))
            .await
            .unwrap();
        assert!(level.error_code().is_none(), "{how}: {level:?}");
        daemon.kill9().await.unwrap();
        if how == "refused-400" {
            let refused = json_rpc_error(400, -32000, "Bad Request: No valid session ID provided");
            server
                .script()
                .on(post("ping").session("S1"))
                .reply(refused);
        }
        server.forget_sessions();
        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{how}: {answer:?}");
        assert_eq!(
            server.log().count("initialize"),
            2,
            "{how}: {}",
            server.log()
        );
        assert_eq!(sessions(&server), ["S1", "S2"], "{how}: {}", server.log());
        let restored = server.log_level("S2");
        assert_eq!(
            restored.as_deref(),
            Some("warning"),
            "{how}: {}",
            server.log()
        );
        assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 1);
    }
}

/// A server that was moved gets no session id of the old address.
#[tokio::test]
async fn a_session_on_record_is_not_taken_to_another_address() {
    let (before, after) = (
        Server::start(Behaviour::legacy("2025-11-25")),
        Server::start(Behaviour::legacy("2025-11-25")),
    );
    let (before, after) = (before.await, after.await);
    after.change(|behaviour| "other-".clone_into(&mut behaviour.session_prefix));
    let mut daemon = daemon(&before).start().await.unwrap();
    let agent = agent(&daemon).await;
    daemon.kill9().await.unwrap();
    daemon
        .reconfigure("servers.fake.url", &Value::from(after.url()).to_string())
        .unwrap();
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    assert_eq!(sessions(&after), ["other-1"], "{}", after.log());
    assert_eq!(after.log().count("initialize"), 1);
}

/// Agents of both eras keep what they hold over a crash of the gateway.
#[tokio::test]
async fn an_agents_session_outlives_the_gateway() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agents = agents(&daemon, "fake").await;
        let session = agents[0].1.session();
        assert!(session.is_some());
        for round in ["killed", "asked to end"] {
            if round == "killed" {
                daemon.kill9().await.unwrap();
            } else {
                daemon.terminate().await.unwrap();
            }
            daemon.restart().await.unwrap();
            for (era, agent) in &agents {
                let answer = agent.call("add_row", json!({})).await.unwrap();
                assert_eq!(answer.text(), "done", "{round} {era}: {answer:?}");
            }
        }
        assert_eq!(agents[0].1.session(), session);
        assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 4);
    }
}

/// The longest delay of the schedule, and what a handshake may take on a busy machine.
const BACKOFF_STEP: Duration = Duration::from_millis(400);
const HANDSHAKE: Duration = Duration::from_millis(1_500);

/// A server restarts under way, three times, with a write that it has begun and an outage of several
/// failed attempts: each time the connection is back within one step and one handshake.
async fn survives_restarts(behaviour: Behaviour) {
    let server = Server::start(behaviour).await;
    let daemon = daemon(&server)
        .set("retry.max", "\"400ms\"")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agents = agents(&daemon, "fake").await;
    for round in 1..=3 {
        let mut under_way = Vec::new();
        for (era, agent) in &agents {
            let arguments = json!({ "key": format!("{era} {round}"), "gate": "never" });
            let params = json!({ "name": "slow", "arguments": arguments });
            under_way.push(agent.start("tools/call", params).await.unwrap());
        }
        server.gates().arrived("never", 2 * round).await;
        server.stop().await;
        for under_way in under_way {
            let answer = under_way.finish().await.unwrap();
            assert_eq!(
                answer.operation()["executed"],
                "unknown",
                "{round}: {answer:?}"
            );
        }
        // So long that the delay has reached its longest.
        let attempts_fail = |connection: &Value| {
            let attempt = connection["next"]["reason"].as_str().unwrap_or_default();
            ["attempt 5", "attempt 6", "attempt 7"]
                .iter()
                .any(|late| attempt.ends_with(late))
        };
        daemon
            .wait_connection("dev", "fake", LIMIT, attempts_fail)
            .await
            .unwrap();
        server.forget_sessions();
        let back = Instant::now();
        server.resume();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let took = back.elapsed();
        assert!(took < BACKOFF_STEP + HANDSHAKE, "{round}: it took {took:?}");
        for (era, agent) in &agents {
            let answer = agent
                .call("add_row", json!({ "key": format!("{era} {round} after") }))
                .await
                .unwrap();
            assert_eq!(answer.text(), "done", "{round} {era}: {answer:?}");
        }
    }
    assert_no_duplicates(&server, 12);
}

/// Each of the calls has run once.
fn assert_no_duplicates(server: &Server, calls: usize) {
    let rows = server.ledger().rows().unwrap();
    let mut keys: Vec<_> = rows.iter().map(|row| (&row.tool, &row.key)).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), rows.len()), (calls, calls), "{rows:?}");
}

#[tokio::test]
async fn a_restarted_legacy_server_is_connected_again_within_one_step() {
    survives_restarts(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn a_restarted_modern_server_is_connected_again_within_one_step() {
    survives_restarts(Behaviour::modern()).await;
}

/// Agents go on calling while the server restarts under them: every row is there once, and every call that
/// was answered with success has its row.
#[tokio::test]
async fn calls_that_go_on_over_restarts_make_no_duplicate() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let answered = keep_calling(&server, &daemon).await;
        let rows = server.ledger().rows_of("add_row").unwrap();
        let mut keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all, "{}", server.log());
        for key in &answered {
            assert!(
                keys.contains(&key.as_str()),
                "{key} was answered, and never ran"
            );
        }
        assert!(!answered.is_empty());
    }
}

/// Calls from several agents while the server restarts; the keys of those that were answered.
async fn keep_calling(server: &Server, daemon: &Daemon) -> Vec<String> {
    let mut calling = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    for lane in 0..4 {
        let agents = agents(daemon, "fake").await;
        let stopped = stopped.clone();
        calling.spawn(async move {
            let [_, (era, agent)] = if lane % 2 == 0 {
                agents
            } else {
                let [a, b] = agents;
                [b, a]
            };
            let mut answered = Vec::new();
            for number in 0.. {
                if *stopped.borrow() {
                    break;
                }
                let key = format!("{era} {lane} {number}");
                let answer = agent.call("add_row", json!({ "key": key })).await.unwrap();
                if answer.text() == "done" {
                    answered.push(key);
                }
            }
            answered
        });
    }
    for round in 1..=4 {
        let rows = server.ledger().rows().unwrap().len();
        until("calls go through", async || {
            server.ledger().rows().unwrap().len() > rows + 10
        })
        .await;
        server.restart().await;
        daemon
            .wait_state("dev", "fake", "connected")
            .await
            .unwrap_or_else(|error| panic!("{round}: {error}"));
    }
    stop.send_replace(true);
    let mut answered = Vec::new();
    while let Some(keys) = calling.join_next().await {
        answered.extend(keys.unwrap());
    }
    answered
}

/// The server is restarted while the daemon is down as well; nothing under way is sent by the next daemon.
#[tokio::test]
async fn nothing_under_way_is_sent_again_by_the_next_daemon() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        let mut daemon = daemon(&server)
            .read_tool("fake", "slow")
            .start()
            .await
            .unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        server
            .script()
            .on(call("add_row"))
            .reply(testkit::Reply::new().row().black_hole());
        for (era, agent) in &agents(&daemon, "fake").await {
            for tool in ["add_row", "slow"] {
                let params = json!({ "name": tool, "arguments": { "key": era, "gate": "never" } });
                let pending = agent.start("tools/call", params).await.unwrap();
                let sent = |log: &testkit::RequestLog| {
                    log.calls(tool)
                        .iter()
                        .any(|call| call.arguments()["key"] == *era)
                };
                server.log().wait_for(sent, LIMIT).await.unwrap();
                drop(pending);
            }
        }
        let calls = server.log().count("tools/call");
        daemon.kill9().await.unwrap();
        server.restart().await;
        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        never(&server, Duration::from_millis(300), |log| {
            log.count("tools/call") > calls
        })
        .await;
    }
}
