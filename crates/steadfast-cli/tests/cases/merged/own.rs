//! What is ours: a tool and a prompt that say how the connections are.

use serde_json::{Value, json};

use super::Fleet;
use crate::common::LIMIT;
use crate::rig::{BOTH, Era};

#[tokio::test]
async fn the_connections_are_shown_in_the_words_of_status() {
    for agent in BOTH {
        for prefix in ["true", "false"] {
            let fleet = Fleet::with(agent, BOTH.map(Era::behaviour), |builder| {
                builder
                    .set("agents.dev.prefix", prefix)
                    // Of other agents nothing is said.
                    .server("hidden", "http://127.0.0.1:9/mcp")
                    .agent("other")
                    .set("agents.dev.servers", r#"["u1", "u2"]"#)
            })
            .await;
            fleet.servers[1].stop().await;
            let gone = |it: &Value| it["fault"].is_object();
            let _ = fleet
                .daemon
                .post("/api/v1/connections/dev/u2/reload", &json!({}))
                .await;
            fleet
                .daemon
                .wait_connection("dev", "u2", LIMIT, gone)
                .await
                .unwrap();

            let tools = fleet.names("tools/list", "name").await;
            assert!(
                tools.contains(&"steadfast__connections".to_owned()),
                "{tools:?}"
            );
            let answer = fleet.agent.call("steadfast__connections", json!({})).await;
            let answer = answer.unwrap();
            let connections = &answer.result()["structuredContent"]["connections"];
            assert_eq!(connections.as_array().unwrap().len(), 2, "{answer:?}");
            assert_eq!(connections[0]["server"], "u1", "{answer:?}");
            assert_eq!(connections[0]["state"], "connected", "{answer:?}");
            assert_eq!(connections[1]["agent"], "dev", "{answer:?}");
            let prompt = fleet
                .agent
                .request("prompts/get", json!({"name": "mcps"}))
                .await;
            let prompt = prompt.unwrap();
            let said = prompt.result()["messages"][0]["content"]["text"]
                .as_str()
                .unwrap();
            let shown = fleet.daemon.command(&["status", "dev"]).await.unwrap();
            let shown = String::from_utf8(shown.stdout).unwrap();
            for text in [answer.text(), said, &shown] {
                for word in ["u1", "connected", "u2", "SF00", "hint: "] {
                    assert!(text.contains(word), "no {word} in {text}");
                }
                assert!(!text.contains("hidden"), "{text}");
            }
            let (_, fault) = answer.text().split_once("SF00").unwrap();
            let fault = fault.lines().next().unwrap();
            assert!(shown.contains(fault), "{shown}");
            // Nothing of it concerns a server.
            for server in &fleet.servers {
                assert_eq!(server.log().count("tools/call"), 0);
                assert_eq!(server.log().count("prompts/get"), 0);
            }
            if agent == Era::Modern {
                assert_eq!(answer.result()["resultType"], "complete");
                assert_eq!(prompt.result()["resultType"], "complete");
            }
        }
    }
}

#[tokio::test]
async fn at_the_address_of_one_server_there_is_nothing_of_ours() {
    let fleet = Fleet::new(Era::Modern, [Era::Modern.behaviour()]).await;
    let one = fleet.daemon.modern_agent("dev", "u1").await.unwrap();
    let answer = one.call("steadfast__connections", json!({})).await.unwrap();
    assert_eq!(answer.error_code(), Some(-32602), "{answer:?}");
    for list in ["tools/list", "prompts/list"] {
        let answer = one.request(list, json!({})).await.unwrap();
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(
            !body.contains("steadfast__") && !body.contains("mcps"),
            "{body}"
        );
    }
}
