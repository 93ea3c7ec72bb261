//! CA-01: list_changed ignored.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::EventStream;
use testkit::reply::{event_stream, tool_text};
use testkit::script::call;
use testkit::{Action, Agent, Behaviour, Daemon, Pending, Server, Tool};

use super::{CHANGED, listed, told};
use crate::common::{LIMIT, never};
use crate::rig::{BOTH, Era, PAIRINGS, Rig, seen};

/// The default tools without `big`, with a new one, and with another schema of `echo`.
fn others() -> Vec<Tool> {
    let mut tools: Vec<_> = Tool::defaults()
        .into_iter()
        .filter(|tool| tool.name != "big")
        .collect();
    tools[0] =
        Tool::new("echo", Action::Echo).input_schema(json!({"type": "object", "title": "changed"}));
    tools.push(Tool::new("fresh", Action::Echo));
    tools
}

/// What an agent listens on.
enum Listening {
    Get(EventStream),
    Subscription(Pending),
}

impl Listening {
    async fn of(agent: &Agent, era: Era) -> Self {
        match era {
            Era::Legacy => Self::Get(agent.open_get(None).await.unwrap()),
            Era::Modern => {
                let params = json!({"notifications": {"toolsListChanged": true}});
                let mut pending = agent.start("subscriptions/listen", params).await.unwrap();
                let first = pending.message().await.unwrap().expect("acknowledged");
                assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
                Self::Subscription(pending)
            }
        }
    }

    async fn told(&mut self) -> Value {
        match self {
            Self::Get(stream) => told(stream, CHANGED).await,
            Self::Subscription(pending) => told(pending.stream().await.unwrap(), CHANGED).await,
        }
    }
}

async fn tools_are(daemon: &Daemon, server: &str, count: usize) {
    daemon
        .wait_connection("dev", server, LIMIT, |connection| {
            connection["tools"] == count
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn ca_01_a_change_on_the_servers_stream_reaches_agents_and_the_list() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let mut listening = Listening::of(&rig.agent, agent).await;
        let before = rig.server.log().count("tools/list");
        let mut tools = others();
        tools.push(Tool::new("another", Action::Echo));
        rig.server.set_tools(tools);
        rig.server.tools_changed();
        listening.told().await;
        seen(&rig.server, |log| log.count("tools/list") == before + 1).await;
        let names = listed(&rig.agent).await;
        assert!(names.contains(&"fresh".to_owned()), "{agent:?} {names:?}");
        assert!(!names.contains(&"big".to_owned()), "{agent:?} {names:?}");
        tools_are(&rig.daemon, "fake", 7).await;
        let fresh = rig.agent.call("fresh", json!({"a": 1})).await.unwrap();
        assert_eq!(fresh.text(), r#"{"a":1}"#, "{fresh:?}");
        // What is gone is refused here.
        let gone = rig.agent.call("big", json!({})).await.unwrap();
        assert_eq!(gone.error_code(), Some(-32602), "{gone:?}");
        assert_eq!(rig.calls("big"), 0);
    }
}

#[tokio::test]
async fn ca_01_a_change_inside_an_answer_stream_counts_as_well() {
    for era in BOTH {
        let rig = Rig::new(era, era.behaviour()).await;
        let changed = json!({"jsonrpc": "2.0", "method": CHANGED});
        rig.server.script().on(call("add_row")).reply(
            event_stream()
                .rpc_event(changed)
                .rpc_event(json!({"result": tool_text("done")})),
        );
        let before = rig.server.log().count("tools/list");
        let mut tools = others();
        tools.push(Tool::new("another", Action::Echo));
        rig.server.set_tools(tools);
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        let notified = answer.notifications();
        assert_eq!(notified.len(), 1, "{answer:?}");
        assert_eq!(notified[0]["method"], CHANGED);
        seen(&rig.server, |log| log.count("tools/list") == before + 1).await;
        tools_are(&rig.daemon, "fake", 7).await;
        let gone = rig.agent.call("big", json!({})).await.unwrap();
        assert_eq!(gone.error_code(), Some(-32602), "{gone:?}");
        assert_eq!(rig.calls("big"), 0);
    }
}

#[tokio::test]
async fn ca_01_many_announcements_make_one_question_and_all_reach_the_agent() {
    const ANNOUNCEMENTS: usize = 50;
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    let mut stream = rig.agent.open_get(None).await.unwrap();
    let before = rig.server.log().count("tools/list");
    rig.server.set_tools(others());
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..ANNOUNCEMENTS {
        pace.tick().await;
        rig.server.tools_changed();
    }
    for _ in 0..ANNOUNCEMENTS {
        told(&mut stream, CHANGED).await;
    }
    seen(&rig.server, |log| log.count("tools/list") > before).await;
    never(&rig.server, Duration::from_secs(1), |log| {
        log.count("tools/list") > before + 1
    })
    .await;
    // The one question came after the last announcement, so that it saw the last list.
    rig.server.set_tools(vec![Tool::new("echo", Action::Echo)]);
    rig.server.tools_changed();
    tools_are(&rig.daemon, "fake", 1).await;
    assert_eq!(rig.server.log().count("tools/list"), before + 2);
}

#[tokio::test]
async fn ca_01_servers_with_similar_names_do_not_mix() {
    let bar = Server::start(Behaviour::legacy("2025-11-25")).await;
    let foo_bar = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .server("bar", &bar.url())
        .server("foo_bar", &foo_bar.url())
        .agent("dev")
        .start()
        .await
        .unwrap();
    for name in ["bar", "foo_bar"] {
        daemon.wait_state("dev", name, "connected").await.unwrap();
    }
    let agent = daemon.legacy_agent("dev", "bar").await.unwrap();
    let other = daemon.legacy_agent("dev", "foo_bar").await.unwrap();
    for agent in [&agent, &other] {
        agent.initialize().await.unwrap();
    }
    let mut stream = agent.open_get(None).await.unwrap();
    let mut other_stream = other.open_get(None).await.unwrap();
    let asked = foo_bar.log().count("tools/list");
    bar.set_tools(vec![Tool::new("echo", Action::Echo)]);
    bar.tools_changed();
    told(&mut stream, CHANGED).await;
    tools_are(&daemon, "bar", 1).await;
    tools_are(&daemon, "foo_bar", 6).await;
    assert_eq!(foo_bar.log().count("tools/list"), asked);
    // The first thing that the other agent hears is its own server's.
    let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
    foo_bar.notify(&message);
    let heard = other_stream.message().await.unwrap().unwrap();
    assert_eq!(heard["method"], "notifications/message", "{heard}");
}
