//! Lists of all servers: complete, in the servers' own words, page by page.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::reply::event_stream;
use testkit::script::post;
use testkit::{Action, Behaviour, Tool};

use super::{Fleet, OURS, unavailable};
use crate::rig::{BOTH, Era, PAIRINGS};

const LISTS: [&str; 4] = [
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];

fn numbered(count: usize) -> Vec<Tool> {
    let names = (0..count).map(|number| format!("t{number:03}"));
    names.map(|name| Tool::new(&name, Action::AddRow)).collect()
}

#[tokio::test]
async fn every_list_is_that_of_all_servers() {
    for (agent, server) in PAIRINGS {
        let template = json!({"uriTemplate": "test://{id}", "name": "t"});
        let mut behaviours = [server.behaviour(), server.behaviour()];
        behaviours[1].templates = vec![template];
        let fleet = Fleet::new(agent, behaviours).await;
        let tools = fleet.names("tools/list", "name").await;
        let mut expected = OURS.map(str::to_owned).to_vec();
        for server in ["u1", "u2"] {
            let names = Tool::defaults().into_iter();
            expected.extend(names.map(|tool| format!("{server}__{}", tool.name)));
        }
        assert_eq!(tools, expected, "{agent:?} {server:?}");
        let prompts = fleet.names("prompts/list", "name").await;
        assert_eq!(prompts, ["mcps", "u1__greeting", "u2__greeting"]);
        let uris = fleet.names("resources/list", "uri").await;
        let own = ["steadfast://u1/test://note", "steadfast://u2/test://note"];
        assert_eq!(uris, own, "both have a note");
        let templates = fleet.names("resources/templates/list", "uriTemplate").await;
        assert_eq!(templates, ["test://{id}"], "only one has it");
        let hints = ["resultType", "ttlMs", "cacheScope"];
        for list in LISTS {
            let result = fleet.list(list).await;
            let given: Vec<_> = hints.map(|hint| result[hint].clone()).into();
            match agent {
                Era::Legacy => assert_eq!(given, [Value::Null, Value::Null, Value::Null]),
                Era::Modern => assert_eq!(given, [json!("complete"), json!(0), json!("private")]),
            }
        }
    }
}

/// Nothing but the name is ours: members that nobody knows, forms of numbers and their order survive.
#[tokio::test]
async fn definitions_are_the_servers_bytes() {
    let definition = r#"{"zeta":1.50,"inputSchema":{"type":"object","x":1e2},"name":"odd" ,"_meta":{"ui":{"resourceUri":"ui://w"}},"a":"\u00e9"}"#;
    for (agent, server) in PAIRINGS {
        let fleet = Fleet::with(agent, [server.behaviour()], |builder| builder).await;
        let (before, after) = (r#"{"jsonrpc":"2.0","id":$ID,"result":{"#, r#""tools":["#);
        let extra = match server {
            Era::Legacy => "",
            Era::Modern => r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#,
        };
        let list = format!("{before}{extra}{after}{definition}]}}}}");
        fleet.servers[0]
            .script()
            .on(post("tools/list"))
            .reply_with(move |request| {
                let id = request.rpc_id().unwrap().to_string();
                testkit::reply::content(200, "application/json", list.replace("$ID", &id))
            });
        fleet.servers[0].tools_changed();
        let expected = definition.replace(r#""odd""#, r#""u1__odd""#);
        let seen = async {
            loop {
                let answer = fleet.agent.request("tools/list", json!({})).await.unwrap();
                let body = String::from_utf8(answer.body.to_vec()).unwrap();
                if body.contains(&expected) {
                    return;
                }
            }
        };
        let seen = tokio::time::timeout(crate::common::LIMIT, seen).await;
        assert!(seen.is_ok(), "{agent:?} {server:?}");
    }
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    for agent in BOTH {
        let behaviours = [numbered(700), numbered(400)];
        let behaviours = behaviours.map(|tools| {
            let mut behaviour = agent.behaviour().with_tools(tools);
            behaviour.page_size = Some(150);
            behaviour
        });
        let fleet = Fleet::new(agent, behaviours).await;
        let mut names = Vec::new();
        let mut cursors = Vec::new();
        let mut params = json!({});
        loop {
            let answer = fleet.agent.request("tools/list", params.clone()).await;
            let result = answer.unwrap().result().clone();
            let page = result["tools"].as_array().unwrap();
            assert!(page.len() <= 500, "{}", page.len());
            names.extend(
                page.iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            match result["nextCursor"].as_str() {
                Some(next) => params = json!({"cursor": next}),
                None => break,
            }
            cursors.push(params["cursor"].clone());
        }
        assert_eq!(cursors.len(), 2);
        assert_eq!(names.len(), 2 + 700 + 400, "each once");
        assert_eq!(names[..2], OURS);
        assert_eq!(names[2..702][699], "u1__t699");
        assert_eq!(names[1_101], "u2__t399");
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());

        // The list changes between two pages: the next one goes on behind the last entry.
        let server = &fleet.servers[0];
        let mut tools = numbered(700);
        tools.remove(0);
        server.set_tools(tools);
        server.tools_changed();
        let goes_on = async {
            loop {
                let params = json!({"cursor": cursors[0]});
                let answer = fleet.agent.request("tools/list", params).await.unwrap();
                let first = answer.result()["tools"][0]["name"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                assert_eq!(first, "u1__t498");
                let listed = fleet.agent.request("tools/list", json!({})).await.unwrap();
                if listed.result()["tools"][2]["name"] == "u1__t001" {
                    return;
                }
            }
        };
        tokio::time::timeout(crate::common::LIMIT, goes_on)
            .await
            .unwrap();

        for garbled in [json!("x"), json!(7), json!(""), json!("MgphCjAKeA")] {
            let answer = fleet
                .agent
                .request("tools/list", json!({"cursor": garbled}));
            let answer = answer.await.unwrap();
            assert_eq!(answer.error_code(), Some(-32602), "{garbled}: {answer:?}");
        }
    }
}

/// A server that does not answer costs a second, and keeps its tools.
#[tokio::test]
async fn a_server_that_is_slow_to_list_delays_nobody() {
    for agent in BOTH {
        let behaviours = [agent.behaviour(), agent.behaviour()];
        // Its announcement makes the list worth asking for again.
        let fleet = Fleet::new(agent, behaviours).await;
        let before = fleet.names("tools/list", "name").await;
        let black_hole = event_stream().black_hole();
        fleet.servers[1]
            .script()
            .on(post("tools/list"))
            .reply(black_hole);
        fleet.servers[1].tools_changed();
        fleet.servers[1]
            .log()
            .wait_for(|log| log.count("tools/list") >= 2, crate::common::LIMIT)
            .await
            .unwrap();
        let began = Instant::now();
        let list = fleet.list("tools/list").await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(1_800), "{took:?}");
        let names = list["tools"].as_array().unwrap().len();
        assert_eq!(names, before.len());
        assert!(unavailable(&list).is_empty(), "it is connected: {list}");
    }
}

/// CA-03: a list is as fresh as the first server's that goes stale, and of one agent only.
#[tokio::test]
async fn ca_03_hints_are_those_of_the_first_that_goes_stale() {
    let with_ttl = |ttl_ms: i64| {
        let mut behaviour = Behaviour::modern();
        behaviour.ttl_ms = ttl_ms;
        behaviour
    };
    let fleet = Fleet::new(Era::Modern, [with_ttl(60_000), with_ttl(5_000)]).await;
    for list in LISTS {
        let result = fleet.list(list).await;
        assert_eq!(result["ttlMs"], 5_000, "{list}: {result}");
        assert_eq!(result["cacheScope"], "private", "{list}: {result}");
    }
    fleet.servers[1].change(|behaviour| behaviour.ttl_ms = -5);
    fleet.servers[1].restart().await;
    let stale = async {
        while fleet.list("tools/list").await["ttlMs"] != 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::common::LIMIT, stale)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_agent_without_servers_has_what_is_ours() {
    for agent in BOTH {
        let fleet = Fleet::new(agent, []).await;
        let tools = fleet.names("tools/list", "name").await;
        assert_eq!(tools, OURS);
        assert_eq!(fleet.names("prompts/list", "name").await, ["mcps"]);
        assert!(fleet.names("resources/list", "uri").await.is_empty());
    }
}
