//! HT: the cookies of a load balancer, for servers that need them (`cookies = true`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use testkit::script::{any, call, post};
use testkit::{Agent, Behaviour, Reply, Request, Server};

use crate::common::daemon;
use crate::rig::{BOTH, Era, Rig};

/// A backend of its own for whoever opens a connection.
fn backend(request: &Request) -> Reply {
    let cookie = format!("lb=backend-{}; Path=/; HttpOnly", request.index);
    Reply::new().header("set-cookie", &cookie).run()
}

/// Behind a load balancer that sends each opening of a connection to a backend of its own.
async fn balanced(era: Era) -> Server {
    let server = Server::start(era.behaviour()).await;
    let openings = ["initialize", "server/discover"].map(post);
    for opening in openings {
        server.script().on(opening).reply_with(backend);
    }
    server
}

async fn sticky(era: Era) -> Rig {
    let server = balanced(era).await;
    Rig::with(era, server, |daemon| {
        daemon
            .set("servers.fake.cookies", "true")
            .set("retry.session_rebuilds", "1000")
    })
    .await
}

/// The cookie with which the last call of this tool came.
fn of_last_call(server: &Server, tool: &str) -> Option<String> {
    let calls = server.log().calls(tool);
    calls.last()?.header("cookie").map(str::to_owned)
}

async fn add_row(agent: &Agent, key: &str) {
    let answer = agent.call("add_row", json!({ "key": key })).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
}

#[tokio::test]
async fn cookies_go_back_with_the_next_request() {
    for era in BOTH {
        let rig = sticky(era).await;
        add_row(&rig.agent, "1").await;
        let cookie = of_last_call(&rig.server, "add_row").unwrap();
        assert!(cookie.starts_with("lb=backend-"), "{era:?}: {cookie}");
        // Also one that comes with the answer to a call, next to the one that is there.
        let other = Reply::new().header("set-cookie", "zone=b").run();
        let rule = call("add_row").times(1);
        rig.server.script().first_on(rule).reply(other);
        add_row(&rig.agent, "2").await;
        add_row(&rig.agent, "3").await;
        let both = format!("{cookie}; zone=b");
        assert_eq!(of_last_call(&rig.server, "add_row"), Some(both), "{era:?}");
    }
}

#[tokio::test]
async fn a_new_session_begins_without_the_cookies_of_the_old_one() {
    let rig = sticky(Era::Legacy).await;
    add_row(&rig.agent, "1").await;
    let old = of_last_call(&rig.server, "add_row").unwrap();
    rig.server.forget_sessions();
    add_row(&rig.agent, "2").await;
    let openings = rig.server.log().posts("initialize");
    let last = openings.last().unwrap();
    assert!(openings.len() > 1 && last.header("cookie").is_none());
    let new = of_last_call(&rig.server, "add_row").unwrap();
    assert_ne!(new, old);
    assert_eq!(new, format!("lb=backend-{}", last.index));
}

#[tokio::test]
async fn two_agents_never_share_a_cookie() {
    let server = balanced(Era::Legacy).await;
    let daemon = daemon(&server)
        .agent("ops")
        .set("servers.fake.cookies", "true")
        .start()
        .await
        .unwrap();
    for name in ["dev", "ops"] {
        daemon.wait_state(name, "fake", "connected").await.unwrap();
        let agent = daemon.legacy_agent(name, "fake").await.unwrap();
        agent.initialize().await.unwrap();
        add_row(&agent, name).await;
    }
    let mut cookies = BTreeMap::<String, BTreeSet<String>>::new();
    for request in server.log().requests() {
        if let (Some(session), Some(cookie)) = (request.session(), request.header("cookie")) {
            let of_session = cookies.entry(session.to_owned()).or_default();
            of_session.insert(cookie.to_owned());
        }
    }
    let all: Vec<_> = cookies.values().flatten().collect();
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (2, 2), "{cookies:?}");
}

#[tokio::test]
async fn cookies_are_not_returned_unless_they_are_wanted() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let rule = server.script().on(any());
    let set = rule.reply(Reply::new().header("set-cookie", "lb=1").run());
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    add_row(&rig.agent, "1").await;
    add_row(&rig.agent, "2").await;
    assert!(set.seen() > 2, "it was set");
    let with_cookie = |request: &Request| request.header("cookie").is_some();
    assert!(rig.server.log().matching(with_cookie).is_empty());
}
