//! The keeper as a library, on the wire: what a Rust program gets that uses it without the gateway.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::config::{self, Span};
use steadfast::{Answer, Call, CallHandle, Keeper, Link, Message, Origin};
use steadfast_core::bridge::Client;
use steadfast_core::now::Millis;
use steadfast_core::wire::envelope;
use steadfast_core::{Effect, Revision};
use steadfast_store::{MemoryRecords, Vault};
use testkit::reply::json_rpc_error;
use testkit::script::post;
use testkit::{Behaviour, Server};

const LIMIT: Duration = Duration::from_secs(10);

fn settings() -> config::Settings {
    let mut settings = config::Settings::default();
    settings.retry.first = Span(Millis(50));
    settings.retry.max = Span(Millis(400));
    settings.retry.connect_timeout = Span::secs(2);
    settings.retry.request_timeout = Span::secs(3);
    settings
}

fn vault() -> Arc<Vault> {
    Arc::new(Vault::ephemeral().unwrap())
}

async fn keeper(server: &Server) -> (Keeper, Arc<Link>) {
    let keeper = Keeper::start(settings(), Arc::new(MemoryRecords::new()), vault())
        .await
        .unwrap();
    let mut config = config::Server::at(server.url().parse().unwrap());
    let read = config::Tool {
        effect: Effect::Read,
        ..config::Tool::default()
    };
    config.tools.insert("echo".into(), read);
    keeper.put_server("fake".into(), config).await.unwrap();
    let agent = config::Agent::with_servers(["fake"]);
    keeper.put_agent("dev".into(), agent).await.unwrap();
    let link = keeper.link(&"dev".into(), &"fake".into()).unwrap();
    (keeper, link)
}

fn legacy(message: Value) -> Call {
    let message = Bytes::from(message.to_string());
    let envelope = envelope::read(&message).unwrap();
    let params = envelope::read_params(&message, &envelope);
    Call {
        message,
        envelope,
        params,
        origin: Origin::Legacy {
            revision: Revision::LATEST_LEGACY,
            client: Arc::new(Client {
                info: r#"{"name":"test","version":"1"}"#.into(),
                capabilities: "{}".into(),
                log_level: None,
            }),
        },
    }
}

fn call(tool: &str, arguments: Value) -> Call {
    legacy(json!({
        "jsonrpc": "2.0", "id": "agent-1", "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }))
}

async fn response(link: &Arc<Link>, call: Call) -> Value {
    match link.call(call, CallHandle::new()).await {
        Answer::Whole { message, .. } => serde_json::from_slice(&message).unwrap(),
        Answer::Stream(mut stream) => loop {
            match stream.next().await.expect("a last message") {
                Message::Response(message) => break serde_json::from_slice(&message).unwrap(),
                Message::Failed(failure) => panic!("{failure:?}"),
                Message::Notification(_) | Message::Request(_) => {}
            }
        },
        Answer::Failed(failure) => panic!("{failure:?}"),
    }
}

#[tokio::test]
async fn it_connects_to_either_era_and_keeps_the_agents_id() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        let (keeper, link) = keeper(&server).await;
        assert!(link.connected(LIMIT).await, "{:?}", link.report());
        let answer = response(&link, call("echo", json!({"text": "hi"}))).await;
        assert_eq!(answer["id"], "agent-1", "{answer}");
        assert!(
            answer["result"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("hi")
        );
        keeper.shutdown().await;
    }
}

#[tokio::test]
async fn a_lost_session_is_rebuilt_and_the_refused_call_sent_once_more() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let (_keeper, link) = keeper(&server).await;
    assert!(link.connected(LIMIT).await);
    let lost = json_rpc_error(404, -32001, "Session not found");
    server
        .script()
        .on(post("tools/call").session("any").times(1))
        .reply(lost);
    let answer = response(&link, call("add_row", json!({}))).await;
    assert!(
        answer["result"]["isError"].as_bool() != Some(true),
        "{answer}"
    );
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 1);
    assert_eq!(server.log().count("initialize"), 2);
    assert_eq!(server.log().count("tools/call"), 2);
}

#[tokio::test]
async fn a_restarted_server_is_connected_again_by_itself() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let (_keeper, link) = keeper(&server).await;
    assert!(link.connected(LIMIT).await);
    server.stop().await;
    server
        .log()
        .wait_for(|log| log.count("initialize") == 1, LIMIT)
        .await
        .unwrap();
    server.restart().await;
    server
        .log()
        .wait_for(|log| log.count("initialize") == 2, LIMIT)
        .await
        .unwrap();
    assert!(link.connected(LIMIT).await);
    response(&link, call("echo", json!({}))).await;
}
