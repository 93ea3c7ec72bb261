//! Calls go to the server that is meant, and nowhere else.

use serde_json::{Value, json};
use testkit::{Action, Behaviour, Daemon, Server, Tool};

use super::{Fleet, OURS, connected};
use crate::common::LIMIT;
use crate::rig::{BOTH, Era, PAIRINGS};

fn tools(names: &[&str]) -> Vec<Tool> {
    let named = names.iter().map(|name| Tool::new(name, Action::AddRow));
    named.collect()
}

#[tokio::test]
async fn a_call_goes_to_the_server_that_its_prefix_names() {
    for (agent, server) in PAIRINGS {
        let fleet = Fleet::new(agent, [server.behaviour(), server.behaviour()]).await;
        let what = format!("{agent:?} {server:?}");
        let answer = fleet.agent.call("u2__echo", json!({"n": 1.0})).await;
        let answer = answer.unwrap();
        assert_eq!(answer.text(), r#"{"n":1.0}"#, "{what}: {answer:?}");
        assert_eq!(fleet.servers[1].log().calls("echo").len(), 1, "{what}");
        assert_eq!(fleet.servers[0].log().count("tools/call"), 0, "{what}");
        // Prompts and completions likewise.
        let prompt = json!({"name": "u1__greeting"});
        let prompt = fleet.agent.request("prompts/get", prompt).await.unwrap();
        let said = &prompt.result()["messages"][0]["content"]["text"];
        assert_eq!(*said, "Hello", "{what}: {prompt:?}");
        assert_eq!(fleet.servers[1].log().count("prompts/get"), 0, "{what}");
        let asked = &fleet.servers[0].log().posts("prompts/get")[0];
        assert_eq!(asked.pointer("/params/name"), Some(&json!("greeting")));
        let completion = json!({
            "ref": {"type": "ref/prompt", "name": "u2__greeting"},
            "argument": {"name": "who", "value": "o"},
        });
        let completion = fleet.agent.request("completion/complete", completion).await;
        let completion = completion.unwrap();
        let values = &completion.result()["completion"]["values"];
        assert_eq!(*values, json!(["one", "two"]), "{what}: {completion:?}");
        let asked = &fleet.servers[1].log().posts("completion/complete")[0];
        assert_eq!(asked.pointer("/params/ref/name"), Some(&json!("greeting")));
    }
}

#[tokio::test]
async fn a_mixed_fleet_is_one() {
    for agent in BOTH {
        let eras = [Era::Legacy, Era::Modern].map(Era::behaviour);
        let fleet = Fleet::new(agent, eras).await;
        for server in ["u1", "u2"] {
            let tool = format!("{server}__add_row");
            let answer = fleet.agent.call(&tool, json!({})).await.unwrap();
            assert_eq!(answer.text(), "done", "{agent:?} {tool}");
            let tool = format!("{server}__progress");
            let token = json!({"progressToken": "mine"});
            let answer = fleet.agent.call_with_meta(&tool, json!({}), token).await;
            let answer = answer.unwrap();
            let progress = answer.notifications();
            assert_eq!(progress.len(), 3, "{agent:?} {server}: {answer:?}");
            assert_eq!(progress[0]["params"]["progressToken"], "mine");
        }
        for server in &fleet.servers {
            assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 1);
        }
    }
}

/// `a` and `a_`: `a___x` may be of either.
#[tokio::test]
async fn names_that_begin_alike_do_not_mix() {
    let lists = [&["_x", "y__z"], &["y", "_y"]];
    let servers = lists.map(|names| Behaviour::modern().with_tools(tools(names)));
    let servers = [
        Server::start(servers[0].clone()).await,
        Server::start(servers[1].clone()).await,
    ];
    let daemon = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .agent("dev")
        .server("a", &servers[0].url())
        .server("a_", &servers[1].url())
        .start()
        .await
        .unwrap();
    for server in ["a", "a_"] {
        connected(&daemon, server).await;
    }
    let agent = daemon.modern_agent_of_all("dev").await.unwrap();
    for (name, place, tool) in [
        ("a___x", 0, "_x"),
        ("a__y__z", 0, "y__z"),
        ("a___y", 1, "y"),
        ("a____y", 1, "_y"),
    ] {
        let answer = agent.call(name, json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{name}: {answer:?}");
        assert_eq!(servers[place].log().calls(tool).len(), 1, "{name}");
    }
}

#[tokio::test]
async fn what_no_server_has_is_an_error_that_reaches_no_server() {
    for agent in BOTH {
        let fleet = Fleet::new(agent, BOTH.map(Era::behaviour)).await;
        let before: Vec<_> = fleet
            .servers
            .iter()
            .map(|it| it.log().requests().len())
            .collect();
        for name in ["echo", "u3__echo", "__echo", "u1", ""] {
            let answer = fleet.agent.call(name, json!({})).await.unwrap();
            assert_eq!(answer.error_code(), Some(-32602), "{name}: {answer:?}");
            let message = answer.message["error"]["message"].as_str().unwrap();
            assert_eq!(message, format!("Unknown tool: {name}"));
        }
        let answer = fleet
            .agent
            .request("prompts/get", json!({"name": "greeting"}));
        assert_eq!(answer.await.unwrap().error_code(), Some(-32602));
        let answer = fleet
            .agent
            .request("vendor/method", json!({}))
            .await
            .unwrap();
        assert_eq!(answer.error_code(), Some(-32601), "{answer:?}");
        let expected = if agent == Era::Modern { 404 } else { 200 };
        assert_eq!(answer.status, expected, "{answer:?}");
        let after: Vec<_> = fleet
            .servers
            .iter()
            .map(|it| it.log().requests().len())
            .collect();
        assert_eq!(before, after, "{agent:?}");
    }
}

#[tokio::test]
async fn the_only_server_gets_what_nobody_knows() {
    for agent in BOTH {
        let fleet = Fleet::new(agent, [agent.behaviour()]).await;
        let answer = fleet.agent.request("vendor/method", json!({"n": 1})).await;
        assert_eq!(answer.unwrap().error_code(), Some(-32601));
        assert_eq!(fleet.servers[0].log().count("vendor/method"), 1);
    }
}

/// A method of an extension goes to the only server that declares it, and nowhere where several do.
#[tokio::test]
async fn a_method_of_an_extension_goes_to_the_server_that_has_it() {
    for (agent, server) in PAIRINGS {
        let mut behaviours = [server.behaviour(), server.behaviour(), server.behaviour()];
        let ours = |name: &str| json!({ name: {} });
        behaviours[0].capabilities["extensions"] = ours("io.example/other");
        behaviours[1].capabilities["extensions"] = ours("io.example/vendor");
        let fleet = Fleet::new(agent, behaviours).await;
        for (method, asked) in [("vendor/method", [0, 1, 0]), ("another/one", [0, 0, 0])] {
            let answer = fleet.agent.request(method, json!({"n": 1})).await.unwrap();
            assert_eq!(answer.error_code(), Some(-32601), "{answer:?}");
            let counts: Vec<_> = fleet
                .servers
                .iter()
                .map(|it| it.log().count(method))
                .collect();
            assert_eq!(counts, asked, "{method}");
        }
    }
}

#[tokio::test]
async fn without_a_prefix_names_are_bare_and_shared_ones_are_refused() {
    for agent in BOTH {
        let behaviours = [
            Behaviour::legacy("2025-11-25").with_tools(tools(&["create", "search"])),
            Behaviour::modern().with_tools(tools(&["search", "find"])),
        ];
        let fleet = Fleet::with(agent, behaviours, |builder| {
            builder.set("agents.dev.prefix", "false")
        })
        .await;
        let names = fleet.names("tools/list", "name").await;
        assert_eq!(names[..2], OURS);
        assert_eq!(names[2..], ["create", "find"]);
        let prompts = fleet.names("prompts/list", "name").await;
        assert_eq!(prompts, ["mcps"], "both have a greeting");
        for (tool, place) in [("create", 0), ("find", 1)] {
            let answer = fleet.agent.call(tool, json!({})).await.unwrap();
            assert_eq!(answer.text(), "done", "{answer:?}");
            assert_eq!(fleet.servers[place].log().calls(tool).len(), 1);
        }
        let answer = fleet.agent.call("search", json!({})).await.unwrap();
        assert_eq!(answer.error_code(), Some(-32602), "{answer:?}");
        let error = &answer.message["error"];
        let message = error["message"].as_str().unwrap();
        for named in ["`search`", "`u1`", "`u2`"] {
            assert!(message.contains(named), "{message}");
        }
        assert_eq!(error["data"]["code"], "SF0070");
        assert!(
            error["data"]["hint"]
                .as_str()
                .unwrap()
                .contains("prefix = true")
        );
        let answer = fleet
            .agent
            .request("prompts/get", json!({"name": "greeting"}));
        assert_eq!(answer.await.unwrap().error_code(), Some(-32602));
        for server in &fleet.servers {
            assert_eq!(server.log().calls("search").len(), 0);
            assert_eq!(server.log().count("prompts/get"), 0);
        }
        let answer = fleet.agent.call("nothing", json!({})).await.unwrap();
        let message = answer.message["error"]["message"].as_str().unwrap();
        assert_eq!(message, "Unknown tool: nothing");
    }
}

/// An agent that kept a name from before uses it before it lists anything.
#[tokio::test]
async fn a_bare_name_is_known_before_anybody_lists() {
    for (agent, server) in PAIRINGS {
        let mut lacks_it = server.behaviour();
        lacks_it.prompts = vec![json!({"name": "other"})];
        let behaviours = [lacks_it, server.behaviour()];
        let fleet = Fleet::with(agent, behaviours, |builder| {
            builder.set("agents.dev.prefix", "false")
        })
        .await;
        let params = json!({"name": "greeting", "arguments": {"who": "you"}});
        let answer = fleet.agent.request("prompts/get", params).await.unwrap();
        assert!(answer.result()["messages"].is_array(), "{answer:?}");
        let asked = |place: usize| fleet.servers[place].log().count("prompts/get");
        assert_eq!((asked(0), asked(1)), (0, 1));
    }
}

#[tokio::test]
async fn a_server_asks_on_the_stream_of_its_call() {
    for other in BOTH {
        let eras = [Era::Legacy, other].map(Era::behaviour);
        let fleet = Fleet::new(Era::Legacy, eras).await;
        let mut calls = Vec::new();
        for tool in ["u1__ask", "u2__ask"] {
            let token = json!({"progressToken": tool});
            let params = json!({"name": tool, "arguments": {}, "_meta": token});
            let mut call = fleet.agent.start("tools/call", params).await.unwrap();
            let question = loop {
                let message = call.message().await.unwrap().unwrap();
                if message["method"] == "elicitation/create" {
                    break message;
                }
            };
            calls.push((call, question));
        }
        // Both servers number theirs alike.
        assert_ne!(calls[0].1["id"], calls[1].1["id"]);
        for (place, (call, question)) in calls.into_iter().enumerate().rev() {
            let room = format!("room {place}");
            let answer = json!({"action": "accept", "content": {"room": room}});
            fleet.agent.respond(&question["id"], answer).await.unwrap();
            let answer = call.finish().await.unwrap();
            assert!(answer.text().contains(&room), "{other:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn an_agent_without_a_session_is_asked_by_a_result() {
    for server in BOTH {
        let fleet = Fleet::new(Era::Modern, [server, server].map(Era::behaviour)).await;
        let call = async |more: Value| {
            let mut params = json!({"name": "u2__ask", "arguments": {}});
            let members = params.as_object_mut().unwrap();
            members.extend(more.as_object().unwrap().clone());
            fleet.agent.request("tools/call", params).await.unwrap()
        };
        let first = call(json!({})).await;
        let asked = first.result();
        assert_eq!(
            asked["resultType"], "input_required",
            "{server:?}: {first:?}"
        );
        let questions = asked["inputRequests"].as_object().unwrap();
        let (key, question) = questions.iter().next().unwrap();
        assert_eq!(question["method"], "elicitation/create", "{first:?}");
        let answer = json!({"action": "accept", "content": {"room": "blue"}});
        let second = call(json!({
            "requestState": asked["requestState"],
            "inputResponses": {key: answer},
        }))
        .await;
        assert!(second.text().contains("blue"), "{server:?}: {second:?}");
        assert_eq!(fleet.servers[0].log().count("tools/call"), 0);
        let rows = fleet.servers[1].ledger().rows_of("ask").unwrap();
        assert_eq!(rows.len(), 1, "{server:?}");
    }
}

#[tokio::test]
async fn a_cancellation_reaches_the_server_of_its_call() {
    let fleet = Fleet::new(Era::Legacy, BOTH.map(Era::behaviour)).await;
    for (place, tool) in ["u1__slow", "u2__slow"].into_iter().enumerate() {
        let params = json!({"name": tool, "arguments": {}});
        let call = fleet.agent.start("tools/call", params).await.unwrap();
        let server = &fleet.servers[place];
        server.gates().arrived("slow", 1).await;
        fleet.agent.cancel(&call.id).await.unwrap();
        let cancelled = |log: &testkit::RequestLog| {
            let events = log.events();
            events
                .iter()
                .any(|(_, event)| matches!(event, testkit::Event::Cancelled { .. }))
        };
        server.log().wait_for(cancelled, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_batch_may_be_for_several_servers() {
    let servers = [Behaviour::legacy("2025-03-26"), Behaviour::modern()];
    let fleet = Fleet::new(Era::Modern, servers).await;
    let agent = fleet.daemon.legacy_agent_of_all("dev").await.unwrap();
    let agent = agent.with_revision("2025-03-26");
    agent.initialize().await.unwrap();
    let call = |id: u32, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {"id": id}}});
    let batch = json!([
        call(1, "u1__echo"),
        call(2, "u2__echo"),
        call(3, "u3__echo"),
        call(4, "steadfast__connections"),
        {"jsonrpc": "2.0", "id": 5, "method": "ping"},
    ]);
    let headers = agent.headers(None);
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut response = agent
        .raw_post(&headers, batch.to_string().as_bytes())
        .await
        .unwrap();
    let answers: Value = response.json().await.unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 5, "{answers}");
    for (place, text) in [(0, r#"{"id":1}"#), (1, r#"{"id":2}"#)] {
        assert_eq!(
            answers[place]["result"]["content"][0]["text"], text,
            "{answers}"
        );
    }
    assert_eq!(answers[2]["error"]["code"], -32602, "{answers}");
    assert!(answers[3]["result"]["structuredContent"]["connections"].is_array());
    assert_eq!(answers[4]["result"], json!({}), "{answers}");
}

#[tokio::test]
async fn a_log_level_is_for_all_servers_that_log() {
    let quiet = |behaviour: &mut Behaviour| {
        behaviour
            .capabilities
            .as_object_mut()
            .unwrap()
            .remove("logging");
    };
    let mut without = Behaviour::legacy("2025-11-25");
    quiet(&mut without);
    let fleet = Fleet::new(
        Era::Legacy,
        [
            Behaviour::legacy("2025-11-25"),
            without,
            Behaviour::modern(),
        ],
    )
    .await;
    let answer = fleet
        .agent
        .request("logging/setLevel", json!({"level": "warning"}));
    assert_eq!(*answer.await.unwrap().result(), json!({}));
    assert_eq!(fleet.servers[0].log_level("S1").as_deref(), Some("warning"));
    assert_eq!(fleet.servers[1].log().count("logging/setLevel"), 0);
    // A modern server is told with every request.
    fleet.agent.call("u3__echo", json!({})).await.unwrap();
    let asked = &fleet.servers[2].log().calls("echo")[0];
    let level = "/params/_meta/io.modelcontextprotocol~1logLevel";
    assert_eq!(asked.pointer(level), Some(&json!("warning")), "{asked:?}");
    let answer = fleet
        .agent
        .request("logging/setLevel", json!({"level": "loud"}));
    assert_eq!(answer.await.unwrap().error_code(), Some(-32602));
}

/// A task is asked about where it runs, though its id does not say where that is.
#[tokio::test]
async fn a_task_belongs_to_the_server_that_began_it() {
    let task = |id: &str| {
        let times = "2026-11-30T10:00:00Z";
        Action::Fixed(json!({"task": {
            "taskId": id, "status": "working", "createdAt": times, "lastUpdatedAt": times, "ttl": null,
        }}))
    };
    let server = |id: &str| {
        let mut behaviour = Behaviour::legacy("2025-11-25");
        behaviour.tools = vec![Tool::new("long", task(id))];
        behaviour.capabilities["tasks"] = json!({"requests": {"tools": {"call": {}}}});
        behaviour
    };
    let fleet = Fleet::new(Era::Legacy, [server("t1"), server("t2")]).await;
    for tool in ["u1__long", "u2__long"] {
        let params = json!({"name": tool, "arguments": {}, "task": {"ttl": 60_000}});
        let answer = fleet.agent.request("tools/call", params).await.unwrap();
        assert!(answer.result()["task"].is_object(), "{answer:?}");
    }
    for (id, place) in [("t2", 1), ("t1", 0)] {
        let answer = fleet
            .agent
            .request("tasks/get", json!({"taskId": id}))
            .await;
        assert_eq!(
            answer.unwrap().error_code(),
            Some(-32601),
            "the testkit knows no tasks"
        );
        let asked = fleet.servers[place].log().posts("tasks/get");
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].pointer("/params/taskId"), Some(&json!(id)));
    }
    let answer = fleet
        .agent
        .request("tasks/get", json!({"taskId": "t3"}))
        .await;
    assert_eq!(answer.unwrap().error_code(), Some(-32602));
}
