//! Clients of the era without sessions.

use serde_json::json;
use testkit::{Action, Behaviour, PATIENCE, Server, Tool};

use super::{Client, ONE, text};
use crate::common::daemon;
use crate::rig::{BOTH, Era};

#[tokio::test]
async fn a_client_gets_what_the_gateway_gives() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let mut client = Client::start(&daemon, Era::Modern, &ONE);
        let found = client.request("server/discover", json!({})).await;
        let versions = found["result"]["supportedVersions"].to_string();
        assert!(versions.contains("2026-07-28"), "{found}");
        let tools = client.request("tools/list", json!({})).await;
        assert!(tools["result"]["tools"].to_string().contains("add_row"));
        // A name that a header carries only when it is encoded.
        let unknown = client.call("größe", json!({})).await;
        assert!(unknown["error"]["code"].is_i64(), "{unknown}");
        let answer = client.call("echo", json!({ "a": 1 })).await;
        assert_eq!(text(&answer), r#"{"a":1}"#);
        let (ended, said) = client.close().await;
        assert!(ended.success() && said.is_empty(), "{said}");
    }
}

/// A client on stdio mirrors nothing: there is no header layer.
#[tokio::test]
async fn parameters_are_mirrored_for_the_client() {
    let schema = json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
    });
    let book = Tool::new("book", Action::Echo).input_schema(schema);
    let server = Server::start(Behaviour::modern().with_tools(vec![book])).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut client = Client::start(&daemon, Era::Modern, &ONE);
    for region in ["eu", "us"] {
        let answer = client.call("book", json!({ "region": region })).await;
        assert!(text(&answer).contains(region), "{answer}");
    }
    let seen = server.log().calls("book");
    let regions: Vec<_> = seen
        .iter()
        .map(|call| call.header("mcp-param-region").unwrap())
        .collect();
    assert_eq!(regions, ["eu", "us"], "each once");
}

#[tokio::test]
async fn a_cancelled_request_is_cancelled_at_the_server_and_not_answered() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server)
        .read_tool("fake", "slow")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut client = Client::start(&daemon, Era::Modern, &ONE);
    let slow = json!({ "name": "slow", "arguments": { "gate": "late" } });
    let call = client.ask("tools/call", slow).await;
    let called = |log: &testkit::RequestLog| log.calls("slow").len() == 1;
    server.log().wait_for(called, PATIENCE).await.unwrap();
    let index = server.log().calls("slow")[0].index;
    client
        .notify("notifications/cancelled", json!({ "requestId": call }))
        .await;
    let cancelled = |log: &testkit::RequestLog| log.cancelled(index);
    server.log().wait_for(cancelled, PATIENCE).await.unwrap();
    server.open("late");
    let answer = client.call("echo", json!({ "a": 1 })).await;
    assert_eq!(text(&answer), r#"{"a":1}"#);
    assert!(client.aside.is_empty(), "{:?}", client.aside);
}

#[tokio::test]
async fn a_subscription_outlives_the_daemon() {
    let server = Server::start(Behaviour::modern()).await;
    let mut daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut client = Client::start(&daemon, Era::Modern, &ONE);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    client.ask("subscriptions/listen", wanted).await;
    client
        .told("notifications/subscriptions/acknowledged")
        .await;
    daemon.restart().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let announced = async {
        loop {
            server.tools_changed();
            let told = client.told("notifications/tools/list_changed");
            let beat = std::time::Duration::from_millis(200);
            if tokio::time::timeout(beat, told).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, announced).await.unwrap();
    assert!(client.aside.is_empty(), "{:?}", client.aside);
    let (ended, _) = client.close().await;
    assert!(ended.success());
}
