//! The lists of a server as the keeper keeps them, on the wire.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::config::{self, Span};
use steadfast::{CallHandle, Keeper, Link, Listener, Listing, ServerRequest};
use steadfast_core::catalog::{List, Scope};
use steadfast_core::now::Millis;
use steadfast_store::{MemoryRecords, Vault};
use testkit::reply::{json_rpc_error, json_rpc_result, status};
use testkit::script::{get, post};
use testkit::{Action, Behaviour, RequestLog, Server, Tool};

const LIMIT: Duration = Duration::from_secs(10);

fn settings() -> config::Settings {
    let mut settings = config::Settings::default();
    settings.retry.first = Span(Millis(50));
    settings.retry.max = Span(Millis(400));
    settings.retry.connect_timeout = Span::secs(2);
    settings.retry.request_timeout = Span::secs(3);
    settings
}

/// A keeper with these agents, each connected to the server.
fn vault() -> Arc<Vault> {
    Arc::new(Vault::ephemeral().unwrap())
}

async fn keeper<const N: usize>(
    settings: config::Settings,
    server: &Server,
    agents: [&str; N],
) -> (Keeper, [Arc<Link>; N]) {
    let keeper = Keeper::start(settings, Arc::new(MemoryRecords::new()), vault())
        .await
        .unwrap();
    let config = config::Server::at(server.url().parse().unwrap());
    keeper.put_server("fake".into(), config).await.unwrap();
    let mut links = Vec::new();
    for agent in agents {
        let config = config::Agent::with_servers(["fake"]);
        keeper.put_agent(agent.into(), config).await.unwrap();
        let link = keeper.link(&agent.into(), &"fake".into()).unwrap();
        assert!(link.connected(LIMIT).await, "{:?}", link.report());
        links.push(link);
    }
    (keeper, links.try_into().unwrap())
}

async fn link(server: &Server) -> (Keeper, Arc<Link>) {
    let (keeper, [link]) = keeper(settings(), server, ["dev"]).await;
    (keeper, link)
}

fn keys(listing: &Listing) -> Vec<&str> {
    listing.entries.iter().map(|entry| &*entry.key).collect()
}

async fn size(link: &Arc<Link>, list: List) -> usize {
    link.list(list)
        .await
        .map_or(0, |listing| listing.entries.len())
}

async fn never(server: &Server, within: Duration, condition: impl Fn(&RequestLog) -> bool) {
    let seen = server.log().wait_for(condition, within).await;
    assert!(seen.is_err(), "this must not happen:\n{}", server.log());
}

/// Counts the announcements that reach the agents.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>, tokio::sync::Notify);

impl Listener for Heard {
    fn is_listened_to(&self, _link: &Link) -> bool {
        true
    }

    fn notification(&self, _: &Arc<Link>, message: bytes::Bytes) {
        let message: Value = serde_json::from_slice(&message).unwrap();
        self.0.lock().push(message["method"].to_string());
        self.1.notify_one();
    }
    fn request(&self, _: &Arc<Link>, _: ServerRequest, _: &[CallHandle]) {}
    fn reopened(&self, _: &Arc<Link>) {}
}

#[tokio::test]
async fn ca_03_a_list_is_used_for_its_ttl_and_then_asked_for_when_it_is_used() {
    const TTL: u64 = 600;
    let behaviour = Behaviour {
        ttl_ms: 3_600_000,
        ..Behaviour::modern()
    };
    let server = Server::start(behaviour).await;
    let (_keeper, link) = link(&server).await;
    for _ in 0..3 {
        assert_eq!(size(&link, List::Tools).await, 6);
    }
    assert_eq!(server.log().count("tools/list"), 1, "that of the opening");
    server.change(|behaviour| behaviour.ttl_ms = TTL as i64);
    link.reload(LIMIT).await;
    assert_eq!(
        server.log().count("tools/list"),
        2,
        "the one of the new opening"
    );
    // Over and over again: nobody asks until somebody uses it.
    never(&server, Duration::from_millis(2 * TTL), |log| {
        log.count("tools/list") > 2
    })
    .await;
    assert_eq!(size(&link, List::Tools).await, 6);
    assert_eq!(server.log().count("tools/list"), 3);
}

#[tokio::test]
async fn ca_03_without_a_usable_ttl_a_list_is_stale_at_once() {
    for ttl in [json!(0), json!(-5), json!("2000"), Value::Null] {
        let server = Server::start(Behaviour::modern()).await;
        let mut result = json!({"resultType": "complete", "tools": [{"name": "a"}]});
        if !ttl.is_null() {
            result["ttlMs"] = ttl.clone();
            result["cacheScope"] = json!("public");
        }
        server
            .script()
            .on(post("tools/list"))
            .reply(json_rpc_result(result));
        let (_keeper, link) = link(&server).await;
        for asked in 2..5 {
            let listing = link.list(List::Tools).await.unwrap();
            assert_eq!(keys(&listing), ["a"]);
            assert_eq!(server.log().count("tools/list"), asked, "{ttl}");
            let scope = if ttl.is_null() {
                Scope::Private
            } else {
                Scope::Public
            };
            assert_eq!(listing.hints.scope, scope);
        }
    }
}

#[tokio::test]
async fn ca_03_no_agent_is_shown_what_another_one_was() {
    for scope in ["private", "public"] {
        let server = Server::start(Behaviour::modern()).await;
        let list = |name: &str| {
            json_rpc_result(json!({
                "resultType": "complete", "tools": [{"name": name}],
                "ttlMs": 3_600_000, "cacheScope": scope,
            }))
        };
        server
            .script()
            .on(post("tools/list"))
            .replies([list("for_a"), list("for_b")]);
        let (_keeper, [a, b]) = keeper(settings(), &server, ["a", "b"]).await;
        for (link, name) in [(&a, "for_a"), (&b, "for_b"), (&a, "for_a")] {
            assert_eq!(keys(&link.list(List::Tools).await.unwrap()), [name]);
        }
        assert_eq!(server.log().count("tools/list"), 2, "one for each");
        assert!(a.knows_tool("for_a") && !a.knows_tool("for_b"));
    }
}

#[tokio::test]
async fn lists_that_nobody_uses_are_not_asked_for() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let (keeper, link) = link(&server).await;
    let heard = Arc::new(Heard::default());
    keeper.set_listener(heard.clone());
    assert!(link.listed(List::Prompts).is_none());
    assert_eq!(server.log().count("prompts/list"), 0);
    for _ in 0..3 {
        let prompts = link.list(List::Prompts).await.unwrap();
        assert_eq!(keys(&prompts), ["greeting"]);
        let definition: Value = serde_json::from_slice(&prompts.entries[0].definition).unwrap();
        assert_eq!(definition["description"], "A greeting");
    }
    assert_eq!(server.log().count("prompts/list"), 1);
    assert_eq!(
        keys(&link.list(List::Resources).await.unwrap()),
        ["test://note"]
    );
    assert_eq!(size(&link, List::Templates).await, 0);
    // An announcement makes it stale before anybody is told.
    server.notify(&json!({"jsonrpc": "2.0", "method": List::Prompts.changed()}));
    heard.1.notified().await;
    assert_eq!(size(&link, List::Prompts).await, 1);
    assert_eq!(server.log().count("prompts/list"), 2);
    assert_eq!(server.log().count("resources/list"), 1);
    // A new session is a new list, at the next use.
    link.reload(LIMIT).await;
    assert_eq!(server.log().count("prompts/list"), 2);
    assert_eq!(size(&link, List::Prompts).await, 1);
    assert_eq!(server.log().count("prompts/list"), 3);
}

#[tokio::test]
async fn a_list_whose_changes_cannot_be_heard_is_asked_for_at_each_use() {
    let deaf = Server::start(Behaviour::legacy("2025-11-25")).await;
    deaf.script().on(get()).reply(status(405));
    let silent = Behaviour {
        sessions: false,
        ..Behaviour::legacy("2025-11-25")
    };
    let silent = Server::start(silent).await;
    silent
        .script()
        .on(post("initialize"))
        .reply(json_rpc_result(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "silent", "version": "1"},
        })));
    let stateless = Server::start(Behaviour::legacy_stateless()).await;
    for server in [deaf, silent, stateless] {
        let (_keeper, link) = link(&server).await;
        let before = server.log().count("tools/list");
        for asked in 1..4 {
            assert_eq!(size(&link, List::Tools).await, 6);
            assert_eq!(server.log().count("tools/list"), before + asked);
        }
    }
}

#[tokio::test]
async fn many_who_use_a_list_share_one_question() {
    let server = Server::start(Behaviour::modern()).await;
    let (_keeper, link) = link(&server).await;
    server
        .script()
        .on(post("tools/list").times(1))
        .reply(testkit::Reply::new().wait_for("answer").run());
    let uses: Vec<_> = (0..20)
        .map(|_| {
            let link = Arc::clone(&link);
            tokio::spawn(async move { size(&link, List::Tools).await })
        })
        .collect();
    server
        .log()
        .wait_for(|log| log.count("tools/list") == 2, LIMIT)
        .await
        .unwrap();
    // Whoever goes away takes nothing from the others.
    uses[0].abort();
    server.open("answer");
    for used in uses.into_iter().skip(1) {
        assert_eq!(used.await.unwrap(), 6);
    }
    assert_eq!(server.log().count("tools/list"), 2);
}

#[tokio::test]
async fn what_cannot_be_read_to_its_end_replaces_nothing() {
    let behaviour = Behaviour {
        page_size: Some(4),
        ..Behaviour::modern()
    };
    let server = Server::start(behaviour).await;
    let (_keeper, link) = link(&server).await;
    assert_eq!(size(&link, List::Tools).await, 6);
    let page = json!({"resultType": "complete", "tools": [{"name": "a"}], "nextCursor": "again"});
    for reply in [
        json_rpc_result(page),
        json_rpc_result(json!({"resultType": "complete", "tools": {"name": "a"}})),
        json_rpc_error(200, -32603, "Internal error"),
        status(503),
    ] {
        let rule = server.script().first_on(post("tools/list")).reply(reply);
        assert_eq!(size(&link, List::Tools).await, 6);
        assert!(rule.seen() > 0 && rule.seen() < 5, "{}", rule.seen());
        rule.remove();
    }
}

#[tokio::test]
async fn a_server_without_a_list_has_none_and_one_that_is_down_keeps_its_own() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server
        .script()
        .on(post("prompts/list"))
        .reply(json_rpc_error(200, -32601, "Method not found"));
    let (_keeper, link) = link(&server).await;
    for _ in 0..2 {
        assert!(link.list(List::Prompts).await.is_none());
    }
    assert_eq!(server.log().count("prompts/list"), 1);
    server.stop().await;
    assert_eq!(size(&link, List::Tools).await, 6);
    assert!(link.knows_tool("echo"));
}

#[tokio::test]
async fn the_old_transport_has_lists_too() {
    let server = Server::start(Behaviour::http_sse()).await;
    let (_keeper, link) = link(&server).await;
    assert_eq!(server.log().count("tools/list"), 0);
    for _ in 0..2 {
        assert_eq!(size(&link, List::Tools).await, 6);
    }
    assert_eq!(server.log().count("tools/list"), 1);
}

#[tokio::test]
async fn another_address_is_another_server() {
    let one = Server::start(Behaviour::modern()).await;
    let tools = vec![Tool::new("only", Action::Echo)];
    let other = Server::start(Behaviour::modern().with_tools(tools)).await;
    let (keeper, link) = link(&one).await;
    assert_eq!(size(&link, List::Tools).await, 6);
    let config = config::Server::at(other.url().parse().unwrap());
    keeper.put_server("fake".into(), config).await.unwrap();
    other
        .log()
        .wait_for(|log| log.count("tools/list") == 1, LIMIT)
        .await
        .unwrap();
    assert!(link.connected(LIMIT).await);
    // No shrink is held: it is not the list of before that got shorter.
    assert_eq!(keys(&link.list(List::Tools).await.unwrap()), ["only"]);
}

#[tokio::test]
async fn ca_03_what_was_shown_to_another_identity_is_forgotten() {
    let server = Server::start(Behaviour::modern()).await;
    let list = |names: &[&str]| {
        let tools: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json_rpc_result(json!({
            "resultType": "complete", "tools": tools,
            "ttlMs": 3_600_000, "cacheScope": "private",
        }))
    };
    let user = |key| post("tools/list").header("x-key", key);
    let script = server.script();
    script.on(user("a")).reply(list(&["one", "two", "three"]));
    script.on(user("b")).reply(list(&["one"]));
    let (keeper, link) = link(&server).await;
    let mut config = config::Server::at(server.url().parse().unwrap());
    for (key, names) in [("a", &["one", "two", "three"][..]), ("b", &["one"])] {
        config.headers.insert("x-key".into(), key.into());
        keeper
            .put_server("fake".into(), config.clone())
            .await
            .unwrap();
        server
            .log()
            .wait_for(
                |log| {
                    log.posts("tools/list")
                        .iter()
                        .any(|it| it.header("x-key") == Some(key))
                },
                LIMIT,
            )
            .await
            .unwrap();
        assert!(link.connected(LIMIT).await);
        let shown = link.list(List::Tools).await.unwrap();
        assert_eq!(keys(&shown), names, "nothing of it is held for the other");
    }
}

#[tokio::test]
async fn denied_tools_are_in_no_list() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let (keeper, link) = link(&server).await;
    let mut config = config::Server::at(server.url().parse().unwrap());
    config.tools_deny = vec!["*_row".into(), "b*".into()];
    keeper
        .put_server("fake".into(), config.clone())
        .await
        .unwrap();
    let shown = link.listed(List::Tools).unwrap();
    assert_eq!(keys(&shown), ["echo", "slow", "progress", "ask"]);
    assert!(!link.allows_tool("add_row") && link.allows_tool("echo"));
    assert!(!link.knows_tool("add_row") && link.knows_tool("echo"));
    assert_eq!(link.report().tools, Some(4));
    config.tools_deny.clear();
    keeper.put_server("fake".into(), config).await.unwrap();
    assert_eq!(link.report().tools, Some(6));
    assert_eq!(server.log().count("initialize"), 1);
    assert_eq!(server.log().count("tools/list"), 1);
}
