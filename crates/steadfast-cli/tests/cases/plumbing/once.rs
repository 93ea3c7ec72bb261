//! The HTTP client's own retries are off: a body leaves once, whatever becomes of its connection.

use serde_json::json;
use testkit::script::{call, post};
use testkit::{Behaviour, Reply, Server, Tls};

use crate::common::{daemon, daemon_at};
use crate::rig::{BOTH, Era, PAIRINGS, Rig, agent_of, assert_unknown, seen};

/// Ways in which a connection ends after the request was read and before any answer.
fn endings() -> [(&'static str, Reply); 4] {
    [
        ("reset", Reply::new().row().rst()),
        ("closed", Reply::new().row().fin()),
        ("reset behind the head", Reply::new().row().head().rst()),
        ("closed in a chunk", Reply::new().row().mid_chunk()),
    ]
}

#[tokio::test]
async fn a_write_whose_connection_ends_leaves_once() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        for (n, (what, ending)) in endings().into_iter().enumerate() {
            rig.server
                .script()
                .first_on(call("add_row").times(1))
                .reply(ending);
            // On the connection that was used last, and so on one that the pool has kept.
            rig.works().await;
            let answer = rig.agent.call("add_row", json!({"n": n})).await.unwrap();
            assert_unknown(&answer, "add_row", "");
            rig.works().await;
            let counts = (rig.rows("add_row"), rig.calls("add_row"));
            assert_eq!(counts, (n + 1, n + 1), "{what}: {}", rig.server.log());
        }
    }
}

#[tokio::test]
async fn a_write_on_a_fresh_connection_leaves_once() {
    for era in BOTH {
        for (what, ending) in endings() {
            let server = Server::start(era.behaviour()).await;
            let rig = Rig::with(era, server, |daemon| {
                // No idle connection is young enough for a write.
                daemon.set("retry.connection_max_idle", "\"0s\"")
            })
            .await;
            rig.server.script().on(call("add_row")).reply(ending);
            let answer = rig.agent.call("add_row", json!({})).await.unwrap();
            assert_unknown(&answer, "add_row", "");
            rig.works().await;
            let counts = (rig.rows("add_row"), rig.calls("add_row"));
            assert_eq!(counts, (1, 1), "{what}: {}", rig.server.log());
        }
    }
}

#[tokio::test]
async fn a_read_that_may_not_be_asked_again_leaves_once() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let rig = Rig::with(era, server, |daemon| {
            let daemon = daemon.read_tool("fake", "add_row");
            daemon.set("servers.fake.tools.add_row.reissue", "false")
        })
        .await;
        rig.server
            .script()
            .on(call("add_row"))
            .reply(Reply::new().row().rst());
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_unknown(&answer, "add_row", "");
        rig.works().await;
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (1, 1));
    }
}

#[tokio::test]
async fn a_read_is_asked_again_under_a_new_id_and_marked() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let rig = Rig::with(era, server, |daemon| daemon.read_tool("fake", "echo")).await;
        rig.server
            .script()
            .on(call("echo").times(1))
            .reply(Reply::new().rst());
        let answer = rig.agent.call("echo", json!({"a": 1})).await.unwrap();
        let observation = &answer.result()["_meta"]["dev.steadfast/observation"];
        assert_eq!(observation["reissued"], 1, "{answer:?}");
        let calls = rig.server.log().calls("echo");
        assert_eq!(calls.len(), 2);
        assert_ne!(calls[0].rpc_id(), calls[1].rpc_id());
    }
}

/// A daemon before a server that era HTTP/2 by ALPN.
async fn http2(era: Era) -> (Rig, tempfile::TempDir) {
    let tls = Tls::new(&["rs.test"]).unwrap();
    let server = Server::builder(era.behaviour()).tls(&tls).start().await;
    let directory = tempfile::TempDir::new().unwrap();
    let ca_file = tls.write_ca(directory.path()).unwrap();
    let daemon = daemon_at(&server.url_as("rs.test"))
        .set_text("network.ca_file", ca_file.to_str().unwrap())
        .set("network.resolve", "{ \"rs.test\" = \"127.0.0.1\" }")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(era, &daemon).await;
    let rig = Rig {
        server,
        daemon,
        agent,
    };
    (rig, directory)
}

#[tokio::test]
async fn a_write_over_http2_leaves_once() {
    for era in BOTH {
        let (rig, _directory) = http2(era).await;
        for (n, (what, ending)) in endings().into_iter().enumerate() {
            rig.server
                .script()
                .first_on(call("add_row").times(1))
                .reply(ending);
            let answer = rig.agent.call("add_row", json!({"n": n})).await.unwrap();
            assert_unknown(&answer, "add_row", "");
            rig.daemon
                .wait_state("dev", "fake", "connected")
                .await
                .unwrap();
            rig.works().await;
            let calls = rig.server.log().calls("add_row");
            assert!(calls.iter().all(|call| call.http2));
            assert_eq!((rig.rows("add_row"), calls.len()), (n + 1, n + 1), "{what}");
        }
    }
}

#[tokio::test]
async fn only_a_refusal_that_proves_it_is_sent_again_over_http2() {
    for era in BOTH {
        let (rig, _directory) = http2(era).await;
        // RFC 9113 section 8.7: REFUSED_STREAM says that nothing was processed.
        rig.server
            .script()
            .on(call("add_row").times(1))
            .reply(Reply::new().step(testkit::Step::Refuse));
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (1, 2));
    }
}

#[tokio::test]
async fn the_questions_of_the_handshake_leave_once_per_attempt() {
    for method in ["server/discover", "initialize", "notifications/initialized"] {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        server
            .script()
            .on(post(method).times(1))
            .reply(Reply::new().rst());
        let daemon = daemon(&server)
            .set("retry.first", "\"400ms\"")
            .start()
            .await;
        let daemon = daemon.unwrap();
        let failed = crate::rig::fault(&daemon, "network").await;
        assert_eq!(failed["person_needed"], false);
        assert_eq!(server.log().count(method), 1, "{}", server.log());
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        assert_eq!(server.log().count(method), 2, "{}", server.log());
    }
}

#[tokio::test]
async fn a_notification_leaves_once() {
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    let method = "notifications/roots/list_changed";
    rig.server
        .script()
        .on(post(method))
        .reply(Reply::new().rst());
    rig.agent.notify(method, json!({})).await.unwrap();
    seen(&rig.server, |log| log.count(method) == 1).await;
    rig.works().await;
    assert_eq!(rig.server.log().count(method), 1);
}
