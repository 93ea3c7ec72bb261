//! SE-07: a server that issues no session id.

use serde_json::json;
use testkit::reply::{json_rpc_error, status};
use testkit::script::post;
use testkit::{Behaviour, GetStream, Server};

use super::{assert_done, rows};
use crate::common::{LIMIT, agents_of_both_eras, daemon};

#[tokio::test]
async fn se_07_a_server_without_session_ids_never_gets_one() {
    for get_stream in [GetStream::Refused, GetStream::Many] {
        let mut behaviour = Behaviour::legacy_stateless();
        behaviour.get_stream = get_stream;
        let server = Server::start(behaviour).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        let agents = agents_of_both_eras(&daemon).await;
        for (_, agent) in &agents {
            assert_done(&agent.call("add_row", json!({})).await.unwrap());
        }
        // Also over a restart of the keeper, which has no session to go on with.
        daemon.kill9().await.unwrap();
        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        for (_, agent) in &agents {
            let later = json!({ "after": "the restart" });
            assert_done(&agent.call("add_row", later).await.unwrap());
        }
        let (status, _) = daemon.terminate().await.unwrap();
        assert!(status.success(), "{status:?}");
        let with_session = server.log().matching(|request| request.session().is_some());
        assert!(with_session.is_empty(), "{with_session:?}");
        assert!(server.log().http("DELETE").is_empty(), "{}", server.log());
        assert_eq!(server.log().http("GET").len(), 2, "{}", server.log());
        assert_eq!(server.log().count("initialize"), 2, "{}", server.log());
        assert_eq!(rows(&server), 4);
    }
}

#[tokio::test]
async fn se_07_its_404_is_an_error_and_no_loss_of_a_session() {
    let server = Server::start(Behaviour::legacy_stateless()).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (era, agent) in agents_of_both_eras(&daemon).await {
        // An answer with the id of the request passes as it is.
        let not_found = json_rpc_error(404, -32001, "Session not found");
        server
            .script()
            .on(post("tools/call").times(1))
            .reply(not_found);
        let answer = agent.call("add_row", json!({ "of": era })).await.unwrap();
        assert_eq!(answer.error_code(), Some(-32001), "{era}: {answer:?}");
        // One without proves nothing about what the server did.
        server
            .script()
            .on(post("tools/call").times(1))
            .reply(status(404));
        let answer = agent.call("add_row", json!({ "of": era })).await.unwrap();
        assert!(answer.is_error(), "{era}: {answer:?}");
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
        let evidence = answer.operation()["evidence"].as_str().unwrap();
        assert!(evidence.contains("404"), "{evidence}");
    }
    // The server was asked whether it still answers, and it does.
    let asked = |log: &testkit::RequestLog| log.count("ping") > 0;
    server.log().wait_for(asked, LIMIT).await.unwrap();
    assert_eq!(server.log().count("tools/call"), 4);
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
    let connection = daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["state"], "connected", "{connection}");
}
