//! SE-06: what happens to one server is no matter of the others, and is said where it matters.

use serde_json::{Value, json};
use testkit::reply::{json_rpc_error, status};
use testkit::script::{any, call};

use super::{Fleet, connected, connection, unavailable};
use crate::common::LIMIT;
use crate::rig::{BOTH, Era, PAIRINGS};

/// SE-06: one upstream forgets its session, the agent does not notice.
#[tokio::test]
async fn se_06_one_server_that_forgets_its_session_is_opened_again_silently() {
    for agent in BOTH {
        let fleet = Fleet::new(agent, [Era::Legacy, Era::Legacy].map(Era::behaviour)).await;
        let [u1, u2] = &*fleet.servers else {
            unreachable!()
        };
        let session = fleet.agent.session();
        let lost = json_rpc_error(404, -32001, "Session not found");
        u2.script().on(call("add_row").times(1)).reply(lost);
        let answer = fleet.agent.call("u2__add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{agent:?}: {answer:?}");
        assert_eq!(u2.log().count("initialize"), 2, "{}", u2.log());
        assert_eq!(u2.ledger().rows_of("add_row").unwrap().len(), 1);
        assert_eq!(u1.log().count("initialize"), 1, "{}", u1.log());
        assert_eq!(fleet.agent.session(), session);
        let answer = fleet.agent.call("u1__add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
    }
}

/// SE-06: while one upstream is down its tools say so, by name; the list keeps them and says so as well.
#[tokio::test]
async fn se_06_tools_of_a_server_that_is_down_stay_listed_and_say_so() {
    for (agent, server) in PAIRINGS {
        let fleet = Fleet::new(agent, [server.behaviour(), server.behaviour()]).await;
        let before = fleet.names("tools/list", "name").await;
        assert!(before.contains(&"u2__echo".to_owned()), "{before:?}");
        assert!(unavailable(&fleet.list("tools/list").await).is_empty());
        fleet.servers[1].stop().await;
        // A refused call shows that it is gone.
        let gone = |it: &Value| it["state"] != "connected";
        let _ = fleet.agent.call("u2__echo", json!({})).await.unwrap();
        fleet
            .daemon
            .wait_connection("dev", "u2", LIMIT, gone)
            .await
            .unwrap();

        let answer = fleet.agent.call("u2__add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{agent:?} {server:?}: {answer:?}");
        assert_eq!(connection(&answer)["server"], "u2", "{answer:?}");
        assert!(answer.text().contains("`u2`"), "{answer:?}");
        let began = std::time::Instant::now();
        assert_eq!(fleet.names("tools/list", "name").await, before);
        let list = fleet.list("tools/list").await;
        assert_eq!(unavailable(&list), ["u2"], "{list}");
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
        // The other one is not concerned.
        let answer = fleet.agent.call("u1__add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        fleet.servers[1].resume();
        connected(&fleet.daemon, "u2").await;
        let answer = fleet.agent.call("u2__add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        assert_eq!(
            fleet.servers[1].ledger().rows_of("add_row").unwrap().len(),
            1
        );
        assert!(unavailable(&fleet.list("tools/list").await).is_empty());
    }
}

/// A server that answers 500 to everything is no reason for the others to suffer.
#[tokio::test]
async fn a_server_in_trouble_is_trouble_for_nobody_else() {
    let fleet = Fleet::new(Era::Modern, BOTH.map(Era::behaviour)).await;
    fleet.servers[0].script().on(any()).reply(status(500));
    for _ in 0..3 {
        let answer = fleet.agent.call("u2__add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        let names = fleet.names("tools/list", "name").await;
        assert!(names.contains(&"u1__echo".to_owned()), "{names:?}");
    }
}
