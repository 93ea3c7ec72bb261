//! Resources keep their URIs, and go to the server that has them.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, Behaviour};

use super::{Fleet, agent_of, connected, next};
use crate::common::LIMIT;
use crate::rig::{BOTH, Era, PAIRINGS};

fn resource(uri: &str, says: &str) -> Value {
    json!({"uri": uri, "name": uri, "title": says})
}

fn with_resources(era: Era, resources: Vec<Value>, templates: Vec<Value>) -> Behaviour {
    let mut behaviour = era.behaviour();
    (behaviour.resources, behaviour.templates) = (resources, templates);
    behaviour
}

async fn read(fleet: &Fleet, uri: &str) -> Answer {
    let answer = fleet.agent.request("resources/read", json!({"uri": uri}));
    answer.await.unwrap()
}

/// Who answered, and under which URI.
fn content(answer: &Answer) -> (&str, &str) {
    let content = &answer.result()["contents"][0];
    let text = |key: &str| {
        content[key]
            .as_str()
            .unwrap_or_else(|| panic!("{answer:?}"))
    };
    (text("text"), text("uri"))
}

#[tokio::test]
async fn a_resource_is_read_where_it_is_listed() {
    for (agent, server) in PAIRINGS {
        let only = vec![resource("a://1", "first"), resource("same://x", "first")];
        let other = vec![resource("b://1", "second"), resource("same://x", "second")];
        let template = json!({"uriTemplate": "t://{id}/end", "name": "t", "title": "templated"});
        let behaviours = [
            with_resources(server, only, vec![]),
            with_resources(server, other, vec![template]),
        ];
        let fleet = Fleet::new(agent, behaviours).await;
        // Before anybody has listed anything.
        assert_eq!(content(&read(&fleet, "b://1").await), ("second", "b://1"));
        let uris = fleet.names("resources/list", "uri").await;
        let own = ["steadfast://u1/same://x", "steadfast://u2/same://x"];
        assert_eq!(
            uris,
            ["a://1", own[0], "b://1", own[1]],
            "{agent:?} {server:?}"
        );
        for (uri, expected) in [
            ("a://1", "first"),
            (own[0], "first"),
            (own[1], "second"),
            ("u2__same://x", "second"),
            ("steadfast://u1/a://1", "first"),
            ("t://7/end", "templated"),
        ] {
            let answer = read(&fleet, uri).await;
            assert_eq!(content(&answer), (expected, uri), "{agent:?} {server:?}");
        }
        let log = fleet.servers[1].log();
        let asked: Vec<_> = log
            .posts("resources/read")
            .iter()
            .map(|request| request.pointer("/params/uri").cloned().unwrap())
            .collect();
        assert_eq!(asked, ["b://1", "same://x", "same://x", "t://7/end"]);

        // Which of the two is meant?
        let answer = read(&fleet, "same://x").await;
        assert_eq!(answer.error_code(), Some(-32602), "{answer:?}");
        let message = answer.message["error"]["message"].as_str().unwrap();
        assert!(own.iter().all(|uri| message.contains(uri)), "{message}");
        // Nobody has it.
        let answer = read(&fleet, "none://1").await;
        let code = if agent == Era::Legacy { -32002 } else { -32602 };
        assert_eq!(answer.error_code(), Some(code), "{answer:?}");
        assert_eq!(answer.message["error"]["data"]["uri"], "none://1");
    }
}

/// A URI that a result refers to need not be listed (MCP Apps, resource links).
#[tokio::test]
async fn the_only_server_with_resources_has_those_that_nobody_lists() {
    for agent in BOTH {
        let mut behaviours = [
            with_resources(agent, vec![], vec![]),
            with_resources(
                agent,
                vec![],
                vec![json!({"uriTemplate": "ui://{x}", "name": "w"})],
            ),
        ];
        let can = behaviours[0].capabilities.as_object_mut().unwrap();
        can.remove("resources");
        let fleet = Fleet::new(agent, behaviours).await;
        assert_eq!(content(&read(&fleet, "ui://widget").await).1, "ui://widget");
        let _ = read(&fleet, "else://where").await;
        assert_eq!(fleet.servers[0].log().count("resources/read"), 0);
        assert_eq!(fleet.servers[1].log().count("resources/read"), 2);
    }
}

#[tokio::test]
async fn a_completion_goes_to_the_server_with_the_template() {
    let template = |uri: &str| vec![json!({"uriTemplate": uri, "name": "t"})];
    for agent in BOTH {
        let behaviours = [
            with_resources(agent, vec![], template("a://{id}")),
            with_resources(agent, vec![], template("b://{id}")),
        ];
        let fleet = Fleet::new(agent, behaviours).await;
        for (uri, place) in [
            ("b://{id}", 1),
            ("a://{id}", 0),
            ("steadfast://u1/a://{id}", 0),
        ] {
            let completion = json!({
                "ref": {"type": "ref/resource", "uri": uri},
                "argument": {"name": "id", "value": ""},
            });
            let log = fleet.servers[place].log();
            let before = log.count("completion/complete");
            let answer = fleet.agent.request("completion/complete", completion).await;
            let answer = answer.unwrap();
            assert!(answer.result()["completion"].is_object(), "{answer:?}");
            assert_eq!(log.count("completion/complete"), before + 1, "{uri}");
            let asked = log.posts("completion/complete").pop().unwrap();
            let sent = asked.pointer("/params/ref/uri").unwrap().as_str().unwrap();
            assert_eq!(sent, uri.trim_start_matches("steadfast://u1/"));
        }
    }
}

/// An update comes under the URI by which the agent knows the resource, once.
#[tokio::test]
async fn updates_come_under_the_uri_that_the_agent_knows() {
    for server in BOTH {
        let listed = |only: &str| vec![resource(only, "x"), resource("same://x", "x")];
        let behaviours = [
            with_resources(server, listed("a://1"), vec![]),
            with_resources(server, listed("b://1"), vec![]),
        ];
        let mut fleet = Fleet::new(Era::Legacy, behaviours).await;
        let mut stream = fleet.agent.open_get(None).await.unwrap();
        let asked = ["a://1", "steadfast://u2/same://x", "u2__b://1"];
        for uri in asked {
            let answer = fleet
                .agent
                .request("resources/subscribe", json!({"uri": uri}));
            assert_eq!(*answer.await.unwrap().result(), json!({}), "{uri}");
        }
        let updated = |uri: &str| {
            json!({
                "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri},
            })
        };
        let theirs = [(0, "a://1"), (1, "same://x"), (1, "b://1")];
        for ((place, theirs), known) in theirs.into_iter().zip(asked) {
            fleet.servers[place].notify(&updated(theirs));
            let message = next(&mut stream, "notifications/resources/updated").await;
            assert_eq!(message["params"]["uri"], known, "{server:?}: {message}");
        }
        // The record of the session has them.
        fleet.daemon.restart().await.unwrap();
        for server in ["u1", "u2"] {
            connected(&fleet.daemon, server).await;
        }
        let mut stream = fleet.agent.open_get(None).await.unwrap();
        let again = async {
            loop {
                fleet.servers[1].notify(&updated("b://1"));
                let message = stream.message();
                let message = tokio::time::timeout(Duration::from_millis(50), message).await;
                if let Ok(message) = message {
                    let message = message.unwrap().unwrap();
                    if message["params"]["uri"] == asked[2] {
                        return;
                    }
                }
            }
        };
        tokio::time::timeout(LIMIT, again).await.unwrap();
        let answer = fleet
            .agent
            .request("resources/unsubscribe", json!({"uri": asked[2]}));
        assert_eq!(*answer.await.unwrap().result(), json!({}));
    }
}

/// What one conversation asked to hear of is told to no other one of the same agent.
#[tokio::test]
async fn gw_06_updates_come_to_the_conversations_that_asked_for_them() {
    for server in BOTH {
        let listed = ["a://1", "a://2"].map(|uri| resource(uri, "x")).to_vec();
        let behaviour = with_resources(server, listed, vec![]);
        let fleet = Fleet::new(Era::Legacy, [behaviour]).await;
        let other = agent_of(Era::Legacy, &fleet.daemon).await;
        let alone = fleet.daemon.legacy_agent("dev", "u1").await.unwrap();
        alone.initialize().await.unwrap();
        let mut streams = Vec::new();
        for (agent, uris) in [
            (&fleet.agent, &["a://1", "a://2"][..]),
            (&other, &["a://2"]),
            (&alone, &["a://2"]),
        ] {
            streams.push(agent.open_get(None).await.unwrap());
            for uri in uris {
                let answer = agent.request("resources/subscribe", json!({"uri": uri}));
                assert_eq!(*answer.await.unwrap().result(), json!({}), "{uri}");
            }
        }
        for uri in ["a://1", "a://2", "a://1/of-it"] {
            fleet.servers[0].notify(&json!({
                "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri},
            }));
        }
        let first = ["a://1", "a://2", "a://2"];
        for (stream, uri) in streams.iter_mut().zip(first) {
            let message = next(stream, "notifications/resources/updated").await;
            assert_eq!(message["params"]["uri"], uri, "{server:?}");
        }
    }
}
