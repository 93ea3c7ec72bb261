//! PV-08 at the address of all servers: the name in a header is that in the body, here and there.

use serde_json::{Value, json};
use testkit::{Action, Behaviour, Tool};

use super::Fleet;
use crate::rig::{BOTH, Era};

/// PV-08: headers are those of the body that goes out, not of the one that came.
#[tokio::test]
async fn pv_08_the_prefix_is_in_no_header_that_goes_out() {
    let schema = json!({"type": "object", "properties": {
        "room": {"type": "string", "x-mcp-header": "Room"},
    }});
    for agent in BOTH {
        let book = Tool::new("book", Action::AddRow).input_schema(schema.clone());
        let behaviour = || Behaviour::modern().with_tools(vec![book.clone()]);
        let fleet = Fleet::new(agent, [behaviour(), behaviour()]).await;
        let (status, answer) = book_room(&fleet, "u2__book", Some("blue")).await;
        assert_eq!(status, 200, "{agent:?}: {answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
        let asked = &fleet.servers[1].log().calls("book")[0];
        assert_eq!(asked.header("mcp-name"), Some("book"), "{asked:?}");
        assert_eq!(asked.header("mcp-param-room"), Some("blue"), "{asked:?}");
        assert_eq!(fleet.servers[1].log().count("tools/call"), 1);
        assert_eq!(fleet.servers[0].log().count("tools/call"), 0);
    }
}

#[tokio::test]
async fn pv_08_a_name_or_a_parameter_that_disagrees_goes_nowhere() {
    let schema = json!({"type": "object", "properties": {
        "room": {"type": "string", "x-mcp-header": "Room"},
    }});
    let book = Tool::new("book", Action::AddRow).input_schema(schema);
    let fleet = Fleet::new(Era::Modern, [Behaviour::modern().with_tools(vec![book])]).await;
    // The name without its prefix is that of another tool, for whoever routes by it.
    for name in ["book", "u2__book", ""] {
        let message = message("u1__book");
        let mut headers = fleet.agent.headers(Some(&message));
        headers.retain(|(key, _)| key != "Mcp-Name");
        headers.push(("Mcp-Name".to_owned(), name.to_owned()));
        headers.push(("Mcp-Param-Room".to_owned(), "blue".to_owned()));
        let (status, answer) = post(&fleet, &headers, &message).await;
        assert_eq!(status, 400, "{name}: {answer}");
        assert_eq!(answer["error"]["code"], -32020, "{name}: {answer}");
    }
    for room in [None, Some("red")] {
        let (status, answer) = book_room(&fleet, "u1__book", room).await;
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["error"]["code"], -32020, "{answer}");
    }
    assert_eq!(fleet.servers[0].log().count("tools/call"), 0);
    let (status, answer) = book_room(&fleet, "u1__book", Some("blue")).await;
    assert_eq!(status, 200, "{answer}");
}

fn message(tool: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": "mine", "method": "tools/call",
        "params": {"name": tool, "arguments": {"room": "blue"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    })
}

/// Calls with the room `blue`; a modern agent says in its header that it is `header`.
async fn book_room(fleet: &Fleet, tool: &str, header: Option<&str>) -> (u16, Value) {
    if fleet.agent.session().is_some() {
        let answer = fleet
            .agent
            .call(tool, json!({"room": "blue"}))
            .await
            .unwrap();
        return (answer.status, answer.message);
    }
    let message = message(tool);
    let mut headers = fleet.agent.headers(Some(&message));
    headers.extend(header.map(|room| ("Mcp-Param-Room".to_owned(), room.to_owned())));
    post(fleet, &headers, &message).await
}

async fn post(fleet: &Fleet, headers: &[(String, String)], message: &Value) -> (u16, Value) {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let body = message.to_string();
    let response = fleet.agent.raw_post(&headers, body.as_bytes()).await;
    let mut response = response.unwrap();
    (response.status, response.json().await.unwrap())
}
