//! Cleartext HTTP/2 with prior knowledge.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use bytes::Bytes;
use common::House;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use testkit::Behaviour;
use tokio::net::TcpStream;

#[tokio::test]
async fn calls_share_one_connection() {
    let house = House::with(Behaviour::legacy("2025-11-25")).await;
    let stream = TcpStream::connect(house.address()).await.unwrap();
    let (client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = |id: u64, authority: &str| {
        let body = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"id": id}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}},
        });
        Request::post(format!("http://{authority}/mcp/booking"))
            .header("authorization", format!("Bearer {}", house.key))
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "echo")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap()
    };
    let own = house.address().to_string();
    let answers = futures_util::future::join_all((0..20).map(|id| {
        let mut client = client.clone();
        let request = request(id, &own);
        async move {
            let answer = client.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (id, serde_json::from_slice::<Value>(&body).unwrap())
        }
    }))
    .await;
    for (id, answer) in answers {
        assert_eq!(answer["id"], id);
        assert_eq!(
            answer["result"]["content"][0]["text"],
            format!("{{\"id\":{id}}}")
        );
    }
    let mut client = client.clone();
    let refused = client.send_request(request(1, "evil.test")).await.unwrap();
    assert_eq!(refused.status(), 403);
}
