//! What a token covers is shown and can be called, and nothing else.

use serde_json::json;
use testkit::Answer;

use super::{House, tools};
use crate::rig::{BOTH, Era};

/// Asserts that the answer asks for a token for exactly this resource.
#[track_caller]
fn assert_lacks(house: &House, answer: &Answer, resource: &str) {
    assert_eq!(answer.status, 403, "{answer:?}");
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    assert!(
        challenge.contains(r#"error="insufficient_scope""#),
        "{challenge}"
    );
    let named = format!(r#"resource_metadata="{}""#, house.metadata(resource));
    assert!(
        challenge.contains(&named),
        "{challenge} is not about {resource}"
    );
    let missing = answer.message["error"]["data"]["missing"].clone();
    assert_eq!(missing, json!([house.resource(resource)]));
}

#[tokio::test]
async fn a_token_for_one_tool_shows_and_calls_that_tool() {
    let house = House::new().await;
    let token = house.token("/mcp/fake/tools/echo");
    for era in BOTH {
        let agent = house.opened(era, "/mcp/fake", &token).await;
        assert_eq!(tools(&agent).await, ["echo"], "{era:?}");
        let answer = agent.call("echo", json!({"text": "hi"})).await.unwrap();
        assert!(answer.text().contains("hi"), "{answer:?}");
        let refused = agent.call("add_row", json!({})).await.unwrap();
        assert_lacks(&house, &refused, "/mcp/fake/tools/add_row");
        let prompts = agent.request("prompts/list", json!({})).await.unwrap();
        assert_eq!(prompts.result()["prompts"], json!([]), "{prompts:?}");
        let refused = agent.request("prompts/get", json!({"name": "p"})).await;
        assert_lacks(&house, &refused.unwrap(), "/mcp/fake");
    }
    assert!(house.server.log().calls("add_row").is_empty());
    assert!(house.server.ledger().rows_of("add_row").unwrap().is_empty());
}

#[tokio::test]
async fn the_same_holds_at_the_address_of_all_servers() {
    let house = House::new().await;
    let token = house.token("/mcp/fake/tools/echo");
    for era in BOTH {
        let agent = house.opened(era, "/mcp", &token).await;
        // What is ours is about all servers.
        assert_eq!(tools(&agent).await, ["fake__echo"], "{era:?}");
        let answer = agent.call("fake__echo", json!({"text": "hi"})).await;
        assert!(answer.unwrap().text().contains("hi"));
        let refused = agent.call("fake__add_row", json!({})).await.unwrap();
        assert_lacks(&house, &refused, "/mcp/fake/tools/add_row");
        let refused = agent.call("steadfast__connections", json!({})).await;
        assert_lacks(&house, &refused.unwrap(), "/mcp");
        let prompts = agent.request("prompts/list", json!({})).await.unwrap();
        assert_eq!(prompts.result()["prompts"], json!([]), "{prompts:?}");
    }
    let whole = house
        .opened(Era::Legacy, "/mcp", &house.token("/mcp"))
        .await;
    assert!(tools(&whole).await.contains(&"fake__add_row".to_owned()));
    assert!(house.server.log().calls("add_row").is_empty());
}

#[tokio::test]
async fn each_request_of_a_session_is_judged_by_its_own_token() {
    let house = House::new().await;
    let wide = house
        .opened(Era::Legacy, "/mcp/fake", &house.token("/mcp"))
        .await;
    let narrow = house.token("/mcp/fake/tools/echo");
    let narrow = house.opened(Era::Legacy, "/mcp/fake", &narrow).await;
    // The same session, with the token that a renewal narrowed.
    narrow.set_session(wide.session().as_deref());
    assert_eq!(wide.call("add_row", json!({})).await.unwrap().status, 200);
    let refused = narrow.call("add_row", json!({})).await.unwrap();
    assert_lacks(&house, &refused, "/mcp/fake/tools/add_row");
    assert_eq!(narrow.call("echo", json!({})).await.unwrap().status, 200);
    assert_eq!(wide.call("add_row", json!({})).await.unwrap().status, 200);
    assert_eq!(house.server.ledger().rows_of("add_row").unwrap().len(), 2);
}

#[tokio::test]
async fn a_token_for_another_server_begins_nothing_here() {
    let house = House::with("", |builder| {
        builder.server("other", "http://127.0.0.1:9/mcp")
    })
    .await;
    let token = house.token("/mcp/other");
    let agent = house.agent(Era::Legacy, "/mcp/fake", Some(&token));
    let refused = agent.initialize().await.unwrap();
    assert_lacks(&house, &refused, "/mcp/fake");
    let agent = house.agent(Era::Modern, "/mcp/fake", Some(&token));
    let refused = agent.call("echo", json!({})).await.unwrap();
    assert_lacks(&house, &refused, "/mcp/fake/tools/echo");
    assert!(house.server.log().calls("echo").is_empty());
}
