//! A server that wants tokens.

use std::time::Duration;

use serde_json::json;
use testkit::issuer::Client;
use testkit::{Agent, Behaviour, Issuer, Protection, Server};

use crate::app::get;

async fn protected(protection: Protection) -> Server {
    Server::start(Behaviour::legacy("2025-11-25").protected(protection)).await
}

fn agent(server: &Server, token: Option<&str>) -> Agent {
    Agent::legacy(server.address(), "/mcp", token)
}

fn challenges(answer: &testkit::Answer) -> Vec<&str> {
    let headers = answer.headers.iter();
    headers
        .filter(|(name, _)| name == "www-authenticate")
        .map(|(_, value)| value.as_str())
        .collect()
}

#[tokio::test]
async fn only_live_tokens_for_this_resource_are_let_in_by_any_method() {
    let issuer = Issuer::start().await;
    let server = protected(Protection::by(&issuer)).await;
    let client = Client::public("app");
    let good = issuer.issue(client.clone(), &[], Some(&server.url()));
    let foreign = issuer.issue(client, &[], Some("https://other.test/mcp"));
    let place = "/.well-known/oauth-protected-resource";
    let origin = format!("http://{}", server.address());

    let nobody = agent(&server, None).initialize().await.unwrap();
    let metadata = format!("resource_metadata=\"{origin}{place}/mcp\"");
    assert_eq!(nobody.status, 401);
    assert_eq!(challenges(&nobody), [format!("Bearer {metadata}")]);
    let refused = agent(&server, Some(&foreign.access_token));
    let refused = refused.initialize().await.unwrap();
    let invalid = format!("Bearer error=\"invalid_token\", {metadata}");
    assert_eq!(
        (refused.status, challenges(&refused)),
        (401, vec![invalid.as_str()])
    );
    server.change_protection(|protection| protection.audience = false);
    let lenient = agent(&server, Some(&foreign.access_token));
    assert_eq!(lenient.initialize().await.unwrap().status, 200);

    let agent = agent(&server, Some(&good.access_token));
    agent.initialize().await.unwrap();
    let _stream = agent.open_get(None).await.unwrap();
    issuer.revoke_all();
    assert_eq!(agent.call("add_row", json!({})).await.unwrap().status, 401);
    assert_eq!(agent.open_get(None).await.unwrap().response.status, 401);
    assert_eq!(agent.delete().await.unwrap(), 401);
    assert_eq!(server.ledger().rows().unwrap(), []);
    let sent = server.log().http("DELETE");
    assert_eq!(sent[0].bearer(), Some(good.access_token.as_str()));
    server.change_protection(|protection| protection.open_methods = vec!["DELETE".to_owned()]);
    assert_eq!(agent.delete().await.unwrap(), 200);
    assert_eq!(get(server.address(), "/token").await.0, 404, "not 401");
}

#[tokio::test]
async fn tools_and_methods_want_their_own_scopes() {
    let issuer = Issuer::start().await;
    let protection = Protection::by(&issuer)
        .tool("add_row", &["write"])
        .method("tools/list", &["read"]);
    let server = protected(protection).await;
    let issued = issuer.issue(Client::public("app"), &["read"], Some(&server.url()));
    let agent = agent(&server, Some(&issued.access_token));
    agent.initialize().await.unwrap();
    assert_eq!(
        agent.request("tools/list", json!({})).await.unwrap().status,
        200
    );
    let refused = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(refused.status, 403);
    assert!(
        challenges(&refused)[0]
            .starts_with("Bearer error=\"insufficient_scope\", scope=\"write\", ")
    );
    server.change_protection(|protection| protection.names_scope = false);
    let refused = agent.call("add_row", json!({})).await.unwrap();
    assert!(!challenges(&refused)[0].contains(" scope="));
    assert_eq!(server.ledger().rows().unwrap(), []);
    let path = "/.well-known/oauth-protected-resource";
    let (_, document) = get(server.address(), path).await;
    assert_eq!(document["scopes_supported"], json!(["read", "write"]));
}

#[tokio::test]
async fn challenges_and_metadata_are_bent_and_moved() {
    let (first, second) = (Issuer::start().await, Issuer::start().await);
    let server = protected(Protection::by(&first)).await;
    let lines = [
        "Basic realm=\"x\"",
        "bearer resource_metadata = \"/custom\"",
    ];
    server.change_protection(|protection| {
        protection.unauthorized = Some(lines.map(str::to_owned).into());
        protection.metadata_at = Some(vec!["/custom".to_owned()]);
        protection.metadata.set("resource", "https://evil.test/mcp");
        protection.trust(&[&second, &first]);
    });
    let refused = agent(&server, None).initialize().await.unwrap();
    assert_eq!(challenges(&refused), lines);
    let (_, document) = get(server.address(), "/custom").await;
    assert_eq!(document["resource"], "https://evil.test/mcp");
    assert_eq!(
        document["authorization_servers"],
        json!([second.identifier(), first.identifier()])
    );
    let usual = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(get(server.address(), usual).await.0, 404);
    server.change_protection(|protection| {
        protection.metadata.restore();
        protection.metadata.status(503).content("text/html", "<p>");
    });
    assert_eq!(get(server.address(), "/custom").await.0, 503);
}

#[tokio::test]
async fn a_token_may_turn_stale_inside_a_result() {
    let issuer = Issuer::start().await;
    let server = protected(Protection::by(&issuer)).await;
    let issued = issuer.issue(Client::public("app"), &[], Some(&server.url()));
    let agent = agent(&server, Some(&issued.access_token));
    agent.initialize().await.unwrap();
    server.change_protection(|protection| protection.stale_after = Some(Duration::ZERO));
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!((answer.status, answer.is_error()), (200, true));
    assert_eq!(answer.text(), "Authentication failed: 401");
    assert_eq!(server.ledger().rows().unwrap(), []);
}
