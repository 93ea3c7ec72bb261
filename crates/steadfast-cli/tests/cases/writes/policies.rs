//! What an operator says of a tool counts: `effect` and `reissue`. What the server says of it does not.

use serde_json::json;
use testkit::script::call;
use testkit::{Action, Behaviour, Reply, Server, Tool};

use super::{READ, WRITE, assert_nothing_follows, assert_unknown, calls, key, rows, server};
use crate::common::{agents_of_both_eras, daemon};

#[tokio::test]
async fn reissue_false_reports_a_lost_read_instead() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = server(behaviour).await;
        let daemon = daemon(&server)
            .read_tool("fake", READ)
            .set(&format!("servers.fake.tools.{READ}.reissue"), "false");
        let daemon = daemon.start().await.unwrap();
        server
            .script()
            .on(call(READ))
            .reply(Reply::new().row().rst());
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            let answer = agent.call(READ, key(era)).await.unwrap();
            assert_unknown(&answer, READ, era);
            assert_eq!(calls(&server, READ, era), 1, "{era}");
        }
        assert_nothing_follows(&server).await;
    }
}

#[tokio::test]
async fn reissue_true_does_not_make_a_read_of_a_write() {
    for effect in [None, Some("write")] {
        let server = server(Behaviour::legacy("2025-11-25")).await;
        let mut builder =
            daemon(&server).set(&format!("servers.fake.tools.{WRITE}.reissue"), "true");
        if let Some(effect) = effect {
            builder = builder.set_text(&format!("servers.fake.tools.{WRITE}.effect"), effect);
        }
        let daemon = builder.start().await.unwrap();
        server
            .script()
            .on(call(WRITE))
            .reply(Reply::new().row().rst());
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            let answer = agent.call(WRITE, key(era)).await.unwrap();
            assert_unknown(&answer, WRITE, era);
            assert_eq!(rows(&server, WRITE, era), 1, "{era}");
        }
        assert_nothing_follows(&server).await;
    }
}

/// Annotations are hints, and this operator has not said that the server's count.
#[tokio::test]
async fn a_servers_hints_do_not_make_a_read_of_a_write() {
    let hinted = [("peek", "readOnlyHint"), ("set", "idempotentHint")];
    let tools = hinted
        .map(|(tool, hint)| Tool::new(tool, Action::AddRow).annotations(json!({ hint: true })));
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour.with_tools(tools.to_vec())).await;
        let daemon = daemon(&server).start().await.unwrap();
        server
            .script()
            .on(call("peek"))
            .reply(Reply::new().row().rst());
        server
            .script()
            .on(call("set"))
            .reply(Reply::new().row().fin());
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            for (tool, _) in hinted {
                let answer = agent.call(tool, key(era)).await.unwrap();
                assert_unknown(&answer, tool, era);
                assert_eq!(rows(&server, tool, era), 1, "{era} {tool}");
            }
        }
        assert_nothing_follows(&server).await;
    }
}

/// A policy that changes in the file counts from the next call on, without a reconnect.
#[tokio::test]
async fn a_changed_policy_counts_from_the_next_call_on() {
    let server = server(Behaviour::legacy("2025-11-25")).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    let (_, agent) = &agents[0];
    let lost = || Reply::new().row().rst();
    server.script().on(call(READ).times(1)).reply(lost());
    assert_unknown(
        &agent.call(READ, key("before")).await.unwrap(),
        READ,
        "before",
    );

    let applied = applied_at(&daemon).await;
    let policy = format!("servers.fake.tools.{READ}.effect");
    daemon.reconfigure(&policy, "\"read\"").unwrap();
    crate::operating::until("the file is applied again", async || {
        applied_at(&daemon).await != applied
    })
    .await;
    server.script().on(call(READ).times(1)).reply(lost());
    let answer = agent.call(READ, key("after")).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    assert_eq!(calls(&server, READ, "after"), 2);
    assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
}

async fn applied_at(daemon: &testkit::Daemon) -> serde_json::Value {
    daemon.get("/api/v1/config").await.unwrap().1["applied_at"].clone()
}

/// Where the operator trusts the server's annotations, a tool that only reads is a read; any other hint is none.
#[tokio::test]
async fn trusted_annotations_make_a_read_of_what_only_reads() {
    let hinted = [("peek", "readOnlyHint"), ("set", "idempotentHint")];
    let tools = hinted
        .map(|(tool, hint)| Tool::new(tool, Action::AddRow).annotations(json!({ hint: true })));
    let behaviour = Behaviour::modern().with_tools(tools.to_vec());
    let server = Server::start(behaviour).await;
    let daemon = daemon(&server).set("servers.fake.trust_annotations", "true");
    let daemon = daemon.start().await.unwrap();
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        for (tool, sent) in [("peek", 2), ("set", 1)] {
            let lost = call(tool).times(1);
            server.script().on(lost).reply(Reply::new().row().rst());
            agent.call(tool, key(era)).await.unwrap();
            assert_eq!(calls(&server, tool, era), sent, "{era} {tool}");
        }
    }
    assert_nothing_follows(&server).await;
}
