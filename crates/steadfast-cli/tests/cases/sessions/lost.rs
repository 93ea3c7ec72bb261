//! SE-01, SE-04 and SE-05: a session is gone, and the next one is opened without it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use testkit::reply::{content, status};
use testkit::script::{any, delete, post};
use testkit::{Behaviour, GetStream, Reply, RequestLog, Server, sse};

use super::{assert_done, not_found, not_found_after, rows, wire_from};
use crate::common::{LIMIT, agent, agents_of_both_eras, daemon, never};

#[tokio::test]
async fn se_01_a_lost_session_is_opened_anew_and_the_refused_call_sent_once_more() {
    let refusals = [
        not_found(),
        status(404),
        content(404, "text/plain", "404 page not found"),
        content(404, "text/html", "<title>Not Found</title>"),
        content(404, "application/json", r#"{"detail":"gone"}"#),
    ];
    // A server for each era of agents: eight streams within three seconds are the most that are asked for.
    for era in 0..2 {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let daemon = daemon(&server).start().await.unwrap();
        let (era, agent) = &agents_of_both_eras(&daemon).await[era];
        for (lost, refusal) in refusals.iter().enumerate() {
            let (old, new) = (lost + 1, lost + 2);
            let start = server.log().requests().len();
            server
                .script()
                .on(post("tools/call").times(1))
                .reply(refusal.clone());
            assert_done(&agent.call("add_row", json!({ "n": lost })).await.unwrap());
            let expected = [
                format!("POST tools/call add_row S{old}"),
                "POST initialize -".to_owned(),
                format!("POST notifications/initialized S{new}"),
                format!("GET S{new}"),
                format!("POST tools/list S{new}"),
                format!("POST tools/call add_row S{new}"),
            ];
            assert_eq!(wire_from(&server, start), expected, "{era}, {refusal:?}");
            assert_eq!(rows(&server), lost + 1);
        }
    }
}

#[tokio::test]
async fn se_01_a_deployment_of_the_server_costs_the_agents_nothing() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (era, agent) in agents_of_both_eras(&daemon).await {
        let before = rows(&server);
        server.restart().await;
        let answer = agent.call("add_row", json!({ "by": era })).await.unwrap();
        assert_done(&answer);
        assert_eq!(rows(&server), before + 1);
    }
    assert_eq!(server.log().count("initialize"), 3, "{}", server.log());
    assert_eq!(server.live_sessions(), 1);
}

#[tokio::test]
async fn se_01_a_loss_is_also_found_out_by_what_is_no_call() {
    let mut behaviour = Behaviour::legacy("2025-11-25");
    // No stream of the server's own shall tell first.
    behaviour.get_stream = GetStream::Refused;
    let server = Server::start(behaviour).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    // The list of tools, fetched again because the server said that it changed.
    server
        .script()
        .on(post("tools/list").times(1))
        .reply(not_found_after("list"));
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let reply = Reply::new().run_after(sse::event(None, None, &changed.to_string()));
    server.script().on(post("tools/call").times(1)).reply(reply);
    assert_done(&agent.call("add_row", json!({})).await.unwrap());
    server.gates().arrived("list", 1).await;
    server.forget_sessions();
    server.open("list");
    let second = |log: &RequestLog| log.count("initialize") == 2;
    server.log().wait_for(second, LIMIT).await.unwrap();

    // A notification of the agent.
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    server.forget_sessions();
    agent
        .notify("notifications/roots/list_changed", json!({}))
        .await
        .unwrap();
    let third = |log: &RequestLog| log.count("initialize") == 3;
    server.log().wait_for(third, LIMIT).await.unwrap();
    assert_done(&agent.call("add_row", json!({})).await.unwrap());
    assert_eq!(server.log().count("tools/call"), 2, "{}", server.log());
}

#[tokio::test]
async fn se_01_a_call_that_its_new_session_refuses_as_well_ends_in_an_error() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server)
        .set("retry.session_rebuilds", "100")
        .start()
        .await
        .unwrap();
    for (era, agent) in agents_of_both_eras(&daemon).await {
        let (calls, openings) = (
            server.log().count("tools/call"),
            server.log().count("initialize"),
        );
        let rule = server.script().on(post("tools/call")).reply(not_found());
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.status, 200, "{era}");
        assert!(answer.is_error(), "{answer:?}");
        // A refusal for the session comes before the work: the agent may be told so.
        assert_eq!(answer.operation()["executed"], "no", "{answer:?}");
        assert_eq!(answer.operation()["tool"], "add_row");

        // One more session is opened for what comes next; the refused call is not sent in it.
        let settled = |log: &RequestLog| log.count("initialize") == openings + 2;
        server.log().wait_for(settled, LIMIT).await.unwrap();
        let more = |log: &RequestLog| {
            log.count("initialize") > openings + 2 || log.count("tools/call") > calls + 2
        };
        never(&server, Duration::from_millis(400), more).await;
        rule.remove();
        assert_done(
            &agent
                .call("add_row", json!({ "after": era }))
                .await
                .unwrap(),
        );
        assert_eq!(server.log().count("initialize"), openings + 2);
    }
    assert_eq!(rows(&server), 2);
}

#[tokio::test]
async fn se_01_sessions_that_are_lost_again_and_again_come_to_rest() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server)
        .set("retry.session_rebuilds", "2")
        .set("retry.session_rebuild_window", "\"2s\"")
        .start()
        .await
        .unwrap();
    let agent = agent(&daemon).await;
    let rule = server.script().on(post("tools/call")).reply(not_found());
    assert!(agent.call("add_row", json!({})).await.unwrap().is_error());
    assert!(agent.call("add_row", json!({})).await.unwrap().is_error());
    let resting = daemon
        .wait_connection("dev", "fake", LIMIT, |connection| {
            connection["state"] == "retrying"
        })
        .await
        .unwrap();
    assert_eq!(resting["fault"]["kind"], "unstable_sessions", "{resting}");
    assert_eq!(resting["next"]["kind"], "reconnect", "{resting}");
    assert_eq!(server.log().count("initialize"), 3, "{}", server.log());

    // Until then a call is answered at once, and says what is wrong.
    let answer = agent.call("add_row", json!({})).await.unwrap();
    let connection = &answer.result()["_meta"]["dev.steadfast/connection"];
    assert!(answer.is_error());
    assert_eq!(
        connection["fault"]["kind"], "unstable_sessions",
        "{answer:?}"
    );
    rule.remove();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    assert_done(&agent.call("add_row", json!({})).await.unwrap());
    assert_eq!(server.log().count("initialize"), 4, "{}", server.log());
    assert_eq!(rows(&server), 1);
}

#[tokio::test]
async fn se_01_a_server_that_knows_none_of_its_new_sessions_is_asked_less_and_less_often() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    server.script().on(any().session("any")).reply(not_found());
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert!(answer.is_error(), "{answer:?}");
    let openings = |log: &RequestLog| log.count("initialize") >= 6;
    server.log().wait_for(openings, LIMIT).await.unwrap();
    let at: Vec<_> = server
        .log()
        .posts("initialize")
        .iter()
        .map(|request| request.at)
        .collect();
    // The first opening is that of the start, the second follows the loss at once. From then on the
    // delay doubles: 25 to 50 ms, 50 to 100 ms, 100 to 200 ms …
    for (step, pair) in at[1..].windows(2).enumerate() {
        let least = Duration::from_millis(25 << step);
        assert!(pair[1] - pair[0] >= least, "delay {step} of {at:?}");
    }
    server.script().clear();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    assert_done(&agent.call("add_row", json!({})).await.unwrap());
    assert_eq!(rows(&server), 1);
}

#[tokio::test]
async fn se_04_calls_refused_together_share_one_new_session_and_a_late_refusal_changes_nothing() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let old = || post("tools/call").session("S1");
    server
        .script()
        .on(old().times(9))
        .reply(not_found_after("refuse"));
    server
        .script()
        .on(old())
        .reply(not_found_after("refuse late"));
    let mut calls = Vec::new();
    for n in 0..10 {
        let params = json!({ "name": "add_row", "arguments": { "n": n } });
        calls.push(agent.start("tools/call", params).await.unwrap());
    }
    server.gates().arrived("refuse", 9).await;
    server.gates().arrived("refuse late", 1).await;
    server.open("refuse");
    let again = |log: &RequestLog| {
        log.matching(|request| request.tool().is_some() && request.session() == Some("S2"))
            .len()
            == 9
    };
    server.log().wait_for(again, LIMIT).await.unwrap();

    server.open("refuse late");
    for call in calls {
        assert_done(&call.finish().await.unwrap());
    }
    assert_eq!(rows(&server), 10);
    assert_eq!(server.log().count("tools/call"), 20);
    let another = |log: &RequestLog| log.count("initialize") > 2;
    never(&server, Duration::from_millis(300), another).await;
    assert_done(&agent.call("add_row", json!({ "n": 10 })).await.unwrap());
    let sessions: Vec<_> = server
        .log()
        .calls("add_row")
        .iter()
        .skip(10)
        .map(|call| call.session().map(str::to_owned))
        .collect();
    assert_eq!(sessions, vec![Some("S2".to_owned()); 11]);
}

#[tokio::test]
async fn se_04_many_calls_after_a_loss_leave_one_session_alive() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (era, agent) in agents_of_both_eras(&daemon).await {
        let agent = Arc::new(agent);
        let before = rows(&server);
        let openings = server.log().count("initialize");
        server.forget_sessions();
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..10 {
            let (agent, arguments) = (Arc::clone(&agent), json!({ "by": era, "n": n }));
            calls.spawn(async move { agent.call("add_row", arguments).await });
        }
        while let Some(call) = calls.join_next().await {
            assert_done(&call.unwrap().unwrap());
        }
        assert_eq!(rows(&server), before + 10);
        assert_eq!(
            server.log().count("initialize"),
            openings + 1,
            "{}",
            server.log()
        );
        assert_eq!(server.live_sessions(), 1);
    }
}

#[tokio::test]
async fn se_05_no_opening_carries_a_session_id() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    // A server that mints a session even for a probe that it refuses.
    let minted = Reply::new().header("mcp-session-id", "minted").run();
    server.script().on(post("server/discover")).reply(minted);
    let mut daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    let deleted = |log: &RequestLog| {
        log.http("DELETE")
            .iter()
            .any(|request| request.session() == Some("minted"))
    };
    server.log().wait_for(deleted, LIMIT).await.unwrap();

    // Every way in which a session is opened again.
    server
        .script()
        .on(post("tools/call").times(1))
        .reply(not_found());
    assert_done(&agent.call("add_row", json!({})).await.unwrap());
    let opened = async |count: usize| {
        let enough = move |log: &RequestLog| log.count("initialize") >= count;
        server.log().wait_for(enough, LIMIT).await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
    };
    opened(2).await;
    server.restart().await;
    opened(3).await;
    daemon
        .post("/api/v1/connections/dev/fake/reload", &json!({}))
        .await
        .unwrap();
    opened(4).await;
    daemon.kill9().await.unwrap();
    server.forget_sessions();
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    assert!(server.log().count("initialize") >= 5, "{}", server.log());
    assert_done(&agent.call("add_row", json!({})).await.unwrap());

    for method in ["initialize", "server/discover"] {
        for request in server.log().posts(method) {
            assert_eq!(request.session(), None, "{request:?}");
            assert_eq!(request.header("last-event-id"), None, "{request:?}");
        }
    }
    assert_eq!(rows(&server), 2);
}

#[tokio::test]
async fn se_05_a_recovery_ends_although_the_server_cannot_be_told_goodbye() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server.script().on(delete()).reply(not_found());
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    daemon
        .post("/api/v1/connections/dev/fake/reload", &json!({}))
        .await
        .unwrap();
    let told = |log: &RequestLog| log.http("DELETE").len() == 1;
    server.log().wait_for(told, LIMIT).await.unwrap();
    assert_done(&agent.call("add_row", json!({})).await.unwrap());
    assert_eq!(server.log().count("initialize"), 2, "{}", server.log());
    assert_eq!(server.log().calls("add_row")[0].session(), Some("S2"));
}
