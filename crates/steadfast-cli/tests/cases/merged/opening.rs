//! What an agent is told that its servers can do.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::script::any;
use testkit::{Behaviour, Reply, Server};

use super::{Fleet, agent_of, connected, daemon, name, next};
use crate::common::LIMIT;
use crate::rig::{BOTH, Era, PAIRINGS};

/// What the agent is told: `initialize` or `server/discover`.
async fn told(fleet: &Fleet, era: Era) -> Value {
    let answer = match era {
        Era::Legacy => {
            fleet
                .daemon
                .legacy_agent_of_all("dev")
                .await
                .unwrap()
                .initialize()
                .await
        }
        Era::Modern => fleet.agent.request("server/discover", json!({})).await,
    };
    answer.unwrap().result().clone()
}

#[tokio::test]
async fn capabilities_and_instructions_are_those_of_all() {
    for (agent, server) in PAIRINGS {
        let mut behaviours = [server.behaviour(), server.behaviour(), server.behaviour()];
        behaviours[0].capabilities =
            json!({"tools": {}, "extensions": {"example.com/x": {"n": 1}}});
        behaviours[0].instructions = Some("Book rooms first.".to_owned());
        behaviours[1].capabilities = json!({"resources": {"subscribe": true}, "completions": {}, "extensions": {"example.com/y": {}}});
        behaviours[2].capabilities = json!({"tools": {}, "resources": {}});
        behaviours[2].instructions = Some("Ask before you pay.".to_owned());
        let fleet = Fleet::new(agent, behaviours).await;
        let told = told(&fleet, agent).await;
        let capabilities = json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "completions": {},
            "extensions": {"example.com/x": {"n": 1}, "example.com/y": {}},
        });
        assert_eq!(told["capabilities"], capabilities, "{agent:?} {server:?}");
        assert_eq!(
            told["instructions"],
            "# u1\n\nBook rooms first.\n\n# u3\n\nAsk before you pay."
        );
        let info = match agent {
            Era::Legacy => {
                assert_eq!(told["protocolVersion"], "2025-11-25");
                &told["serverInfo"]
            }
            Era::Modern => {
                assert_eq!(told["supportedVersions"], json!(["2026-07-28"]));
                assert_eq!(told["cacheScope"], "private");
                &told["_meta"]["io.modelcontextprotocol/serverInfo"]
            }
        };
        assert_eq!(info["name"], "steadfast", "{told}");
    }
}

#[tokio::test]
async fn a_session_has_the_revision_that_was_asked_for() {
    let fleet = Fleet::new(Era::Modern, [Behaviour::modern()]).await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let agent = fleet.daemon.legacy_agent_of_all("dev").await.unwrap();
        let agent = agent.with_revision(revision);
        let answer = agent.initialize().await.unwrap();
        assert_eq!(answer.result()["protocolVersion"], revision, "{answer:?}");
        let answer = agent.call("u1__add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        // The session is one with all servers, and with no single one.
        let other = fleet.daemon.legacy_agent("dev", "u1").await.unwrap();
        other.set_session(agent.session().as_deref());
        assert_eq!(other.call("add_row", json!({})).await.unwrap().status, 404);
        assert_eq!(agent.delete().await.unwrap(), 204);
        assert_eq!(
            agent.call("u1__add_row", json!({})).await.unwrap().status,
            404
        );
    }
    assert_eq!(
        fleet.servers[0].ledger().rows_of("add_row").unwrap().len(),
        3
    );
}

/// What 2026-07-28 has no more is not there either.
#[tokio::test]
async fn a_modern_agent_finds_none_of_the_old_methods() {
    let fleet = Fleet::new(Era::Modern, [Behaviour::legacy("2025-11-25")]).await;
    for method in ["ping", "logging/setLevel", "resources/subscribe"] {
        let answer = fleet
            .agent
            .request(method, json!({"uri": "test://note"}))
            .await
            .unwrap();
        assert_eq!(
            (answer.status, answer.error_code()),
            (404, Some(-32601)),
            "{answer:?}"
        );
    }
}

/// OP-04: servers that are stuck in their various ways delay nobody, and what they offer is announced when
/// they are there.
#[tokio::test]
async fn op_04_stuck_servers_delay_neither_the_hello_nor_the_lists() {
    for agent in BOTH {
        let mut servers = Vec::new();
        for _ in 0..4 {
            servers.push(Server::start(agent.behaviour()).await);
        }
        // One never answers, one is not there at all.
        let stuck = servers[2]
            .script()
            .on(any())
            .reply(Reply::new().black_hole());
        servers[3].stop().await;
        let daemon = daemon(&servers)
            .set("retry.connect_timeout", "\"10s\"")
            .set("retry.request_timeout", "\"10s\"")
            .start()
            .await
            .unwrap();
        let began = Instant::now();
        let fresh = match agent {
            Era::Legacy => agent_of(Era::Legacy, &daemon).await,
            Era::Modern => {
                let fresh = agent_of(Era::Modern, &daemon).await;
                fresh.request("server/discover", json!({})).await.unwrap();
                fresh
            }
        };
        let took = began.elapsed();
        assert!(took < Duration::from_millis(2_500), "{agent:?}: {took:?}");
        for server in ["u1", "u2"] {
            connected(&daemon, server).await;
            let answer = fresh.call(&format!("{server}__add_row"), json!({})).await;
            assert_eq!(answer.unwrap().text(), "done");
        }
        let began = Instant::now();
        let answer = fresh.request("tools/list", json!({})).await.unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_millis(2_500), "{agent:?}: {took:?}");
        let names: Vec<_> = answer.result()["tools"]
            .as_array()
            .unwrap()
            .iter()
            .collect();
        assert_eq!(names.len(), 14, "{answer:?}");
        assert_eq!(
            super::unavailable(answer.result()),
            ["u3", "u4"],
            "{answer:?}"
        );
        let answer = fresh.call("u4__add_row", json!({})).await.unwrap();
        assert_eq!(super::connection(&answer)["server"], "u4", "{answer:?}");

        if agent == Era::Legacy {
            let mut stream = fresh.open_get(None).await.unwrap();
            stuck.remove();
            servers[2].reset_connections().await;
            servers[3].resume();
            next(&mut stream, "notifications/tools/list_changed").await;
        } else {
            stuck.remove();
            servers[2].reset_connections().await;
            servers[3].resume();
        }
        for place in 0..4 {
            connected(&daemon, &name(place)).await;
        }
        let answer = fresh.request("tools/list", json!({})).await.unwrap();
        assert_eq!(answer.result()["tools"].as_array().unwrap().len(), 26);
        for server in [&servers[2], &servers[3]] {
            assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 0);
        }
    }
}

/// A session survives a restart of the gateway.
#[tokio::test]
async fn a_restart_of_the_gateway_is_not_noticed() {
    let mut fleet = Fleet::new(Era::Legacy, BOTH.map(Era::behaviour)).await;
    let mut stream = fleet.agent.open_get(None).await.unwrap();
    fleet.daemon.restart().await.unwrap();
    while stream
        .message()
        .await
        .is_ok_and(|message| message.is_some())
    {}
    for server in ["u1", "u2"] {
        connected(&fleet.daemon, server).await;
        let answer = fleet
            .agent
            .call(&format!("{server}__add_row"), json!({}))
            .await;
        assert_eq!(answer.unwrap().text(), "done");
    }
    let mut stream = fleet.agent.open_get(None).await.unwrap();
    fleet.servers[0].notify(&crate::rig::log_message("hello"));
    let message = tokio::time::timeout(LIMIT, next(&mut stream, "notifications/message"));
    assert_eq!(message.await.unwrap()["params"]["data"], "hello");
}
