//! PV-08: headers that mirror the body.

use serde_json::{Value, json};
use testkit::reply::json_rpc_error;
use testkit::script::call;
use testkit::{Action, Agent, Behaviour, Server, Tool};

use crate::rig::{BOTH, Era, Rig};

/// Tools whose names and parameters go into headers: plain, with spaces, and beyond ASCII.
fn tools() -> Vec<Tool> {
    let schema = json!({"type": "object", "properties": {
        "room": {"type": "string", "x-mcp-header": "Room"},
        "seats": {"type": "integer", "x-mcp-header": "Seats"},
        "note": {"type": "string"},
    }});
    let mut tools = Tool::defaults();
    let named = ["größe", " padded ", "=?base64?x?=", "u1__create"];
    tools.extend(named.map(|name| Tool::new(name, Action::AddRow)));
    tools.push(Tool::new("book", Action::AddRow).input_schema(schema));
    tools
}

#[tokio::test]
async fn pv_08_headers_say_what_the_outgoing_body_says() {
    for agent in BOTH {
        // The server verifies them all: version, method, name and parameters.
        let rig = Rig::new(agent, Behaviour::modern().with_tools(tools())).await;
        let names = ["größe", " padded ", "=?base64?x?=", "u1__create", "add_row"];
        for name in names {
            let answer = rig.agent.call(name, json!({})).await.unwrap();
            assert_eq!(answer.text(), "done", "{agent:?} {name:?}: {answer:?}");
        }
        let log = rig.server.log();
        let read = json!({"uri": "test://note"});
        let read = rig.agent.request("resources/read", read).await.unwrap();
        assert!(read.result()["contents"].is_array(), "{read:?}");
        let prompt = json!({"name": "greeting"});
        let prompt = rig.agent.request("prompts/get", prompt).await.unwrap();
        assert!(prompt.result()["messages"].is_array(), "{prompt:?}");
        // Nothing was refused and tried again.
        assert_eq!(log.count("tools/call"), names.len(), "{log}");
    }
}

#[tokio::test]
async fn pv_08_parameters_are_mirrored_where_the_tool_says_so() {
    for era in BOTH {
        let rig = Rig::new(era, Behaviour::modern().with_tools(tools())).await;
        let arguments = [
            (
                json!({"room": "blue", "seats": 12, "note": "n"}),
                vec![("Mcp-Param-Room", "blue"), ("Mcp-Param-Seats", "12")],
            ),
            (
                json!({"room": "größer\n", "seats": null}),
                vec![("Mcp-Param-Room", "=?base64?Z3LDtsOfZXIK?=")],
            ),
            (json!({"note": "neither"}), vec![]),
            (
                json!({"room": "=?base64?x?=", "seats": -1}),
                vec![
                    ("Mcp-Param-Room", "=?base64?PT9iYXNlNjQ/eD89?="),
                    ("Mcp-Param-Seats", "-1"),
                ],
            ),
        ];
        for (arguments, headers) in &arguments {
            let (status, answer) = book(&rig.agent, arguments, headers).await;
            assert_eq!(status, 200, "{era:?} {arguments}: {answer}");
            assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
            let asked = rig.server.log().calls("book").pop().unwrap();
            for name in ["Mcp-Param-Room", "Mcp-Param-Seats"] {
                let expected = headers.iter().find(|(given, _)| *given == name);
                let sent = asked.header(&name.to_ascii_lowercase());
                assert_eq!(sent, expected.map(|(_, value)| *value), "{asked:?}");
            }
        }
        let log = rig.server.log();
        assert_eq!(log.count("tools/call"), arguments.len(), "{log}");
    }
}

#[tokio::test]
async fn pv_08_a_legacy_server_gets_no_headers_of_the_other_era() {
    for agent in BOTH {
        let rig = Rig::new(agent, Behaviour::legacy("2025-11-25").with_tools(tools())).await;
        let arguments = json!({"room": "blue"});
        let (status, answer) = book(&rig.agent, &arguments, &[("Mcp-Param-Room", "blue")]).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
        let asked = &rig.server.log().calls("book")[0];
        assert_eq!(asked.header("mcp-protocol-version"), Some("2025-11-25"));
        for name in ["mcp-method", "mcp-name", "mcp-param-room"] {
            assert_eq!(asked.header(name), None, "{agent:?}: {asked:?}");
        }
    }
}

/// Calls `book`; a modern agent mirrors its parameters, as it must.
async fn book(agent: &Agent, arguments: &Value, mirrored: &[(&str, &str)]) -> (u16, Value) {
    if agent.session().is_some() {
        let answer = agent.call("book", arguments.clone()).await.unwrap();
        return (answer.status, answer.message);
    }
    post_with(agent, "book", arguments, |headers| {
        headers.extend(
            mirrored
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
    })
    .await
}

/// Posts a call of a modern agent with headers that are changed first; status and JSON.
async fn post_with(
    agent: &Agent,
    tool: &str,
    arguments: &Value,
    change: impl Fn(&mut Vec<(String, String)>),
) -> (u16, Value) {
    let version = "io.modelcontextprotocol/protocolVersion";
    let message = json!({
        "jsonrpc": "2.0", "id": "mine", "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": {
            version: "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    });
    let mut headers = agent.headers(Some(&message));
    change(&mut headers);
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let body = message.to_string();
    let mut response = agent.raw_post(&headers, body.as_bytes()).await.unwrap();
    (response.status, response.json().await.unwrap())
}

#[tokio::test]
async fn pv_08_an_agent_whose_headers_and_body_disagree_is_refused_and_nothing_forwarded() {
    for server in BOTH {
        let rig = Rig::new(Era::Modern, server.behaviour()).await;
        let names = ["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version"];
        let before = rig.server.log().requests().len();
        for name in names {
            for value in [None, Some("echo")] {
                let (status, answer) = post_with(&rig.agent, "add_row", &json!({}), |headers| {
                    headers.retain(|(key, _)| key != name);
                    if let Some(value) = value {
                        headers.push((name.to_owned(), value.to_owned()));
                    }
                })
                .await;
                let what = format!("{server:?} {name} {value:?}: {answer}");
                assert_eq!(status, 400, "{what}");
                assert_eq!(answer["id"], "mine", "{what}");
                assert_eq!(answer["error"]["code"], -32020, "{what}");
            }
        }
        let log = rig.server.log();
        assert_eq!(log.requests().len(), before, "{log}");
        assert_eq!(rig.rows("add_row"), 0);
        let (status, answer) = post_with(&rig.agent, "add_row", &json!({}), |_| ()).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn pv_08_headers_of_the_agent_are_never_passed_on() {
    for server in BOTH {
        let behaviour = server.behaviour().with_tools(tools());
        let rig = Rig::new(Era::Modern, behaviour).await;
        let (status, answer) = post_with(&rig.agent, "add_row", &json!({}), |headers| {
            let stale = [
                ("Mcp-Param-Other", "stale"),
                ("Last-Event-ID", "9"),
                ("Mcp-Session-Id", "S9"),
            ];
            headers.extend(stale.map(|(name, value)| (name.to_owned(), value.to_owned())));
        })
        .await;
        assert_eq!(status, 200, "{server:?}: {answer}");
        let asked = &rig.server.log().calls("add_row")[0];
        assert_eq!(asked.header("mcp-param-other"), None, "{asked:?}");
        assert_eq!(asked.header("last-event-id"), None, "{asked:?}");
        assert_ne!(asked.session(), Some("S9"), "{asked:?}");
        let agents_key = rig.agent.headers(None);
        let key = agents_key.iter().find(|(name, _)| name == "Authorization");
        let key = key.unwrap().1.trim_start_matches("Bearer ");
        assert!(!format!("{asked:?}").contains(key), "{asked:?}");
    }
}

#[tokio::test]
async fn pv_08_a_mismatch_is_mended_once_where_the_list_of_tools_says_how() {
    for agent in BOTH {
        let plain = Tool::new("book", Action::AddRow);
        let rig = Rig::new(agent, Behaviour::modern().with_tools(vec![plain])).await;
        // A new release of the server wants a header, and has told nobody.
        rig.server.set_tools(tools());
        let arguments = json!({"room": "blue", "seats": 2});
        let answer = rig.agent.call("book", arguments).await.unwrap();
        assert_eq!(answer.text(), "done", "{agent:?}: {answer:?}");
        assert_eq!((rig.rows("book"), rig.calls("book")), (1, 2));
        let calls = rig.server.log().calls("book");
        assert_eq!(calls[0].header("mcp-param-room"), None);
        assert_eq!(calls[1].header("mcp-param-room"), Some("blue"));
    }
}

#[tokio::test]
async fn pv_08_a_mismatch_that_cannot_be_mended_is_never_sent_again() {
    for agent in BOTH {
        let server = Server::start(Behaviour::modern().with_tools(tools())).await;
        let message = "Header mismatch: Mcp-Name is missing";
        let refusal = json_rpc_error(400, -32020, message);
        server.script().on(call("add_row")).reply(refusal.clone());
        let rig = Rig::with(agent, server, |daemon| daemon).await;
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.error_code(), Some(-32020), "{answer:?}");
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (0, 1));
        assert_eq!(rig.server.log().count("initialize"), 0);
        rig.works().await;
    }
}

#[tokio::test]
async fn pv_08_a_mismatch_that_stays_after_it_was_mended_is_the_answer() {
    for agent in BOTH {
        let plain = vec![
            Tool::new("book", Action::AddRow),
            Tool::new("echo", Action::Echo),
        ];
        let server = Server::start(Behaviour::modern().with_tools(plain)).await;
        let refusal = json_rpc_error(400, -32020, "Header mismatch: it is never right");
        server.script().on(call("book")).reply(refusal);
        let rig = Rig::with(agent, server, |daemon| daemon).await;
        rig.server.set_tools(tools());
        let arguments = json!({"room": "blue"});
        let answer = rig.agent.call("book", arguments).await.unwrap();
        assert_eq!(answer.error_code(), Some(-32020), "{answer:?}");
        assert_eq!((rig.rows("book"), rig.calls("book")), (0, 2));
        rig.works().await;
    }
}
