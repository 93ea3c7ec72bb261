//! ST-07 toward agents: a proxy that cuts what is silent never finds a silent stream.

use std::time::Duration;

use serde_json::json;
use testkit::client::EventStream;
use testkit::net::Net;
use testkit::{Agent, Behaviour, Server};

use crate::common::daemon;
use crate::rig::{log_message, seen};

/// The proxy cuts after this long, and everything is silent for three times as long.
const BEAT: Duration = Duration::from_secs(1);

/// Reads comments until the stream has been silent for long enough.
async fn silence(stream: &mut EventStream) {
    let began = std::time::Instant::now();
    let mut comments = 0;
    while began.elapsed() < BEAT * 3 {
        let seen = stream.next().await.unwrap().expect("the stream stays");
        comments += usize::from(seen.event().is_none());
    }
    assert!(comments >= 6, "{comments} comments");
}

#[tokio::test]
async fn st_07_every_open_stream_of_an_agent_is_kept_alive() {
    let server = Server::start(Behaviour::legacy("2025-11-25").streaming()).await;
    let daemon = daemon(&server)
        .set_text("gateway.keep_alive", "300ms")
        .set("gateway.allowed_hosts", r#"["127.0.0.1"]"#);
    let daemon = daemon.start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let proxy = Net::to(daemon.address()).unwrap();
    proxy.change(|net| net.cut_idle = Some(BEAT));
    let key = daemon.agent_key("dev").await.unwrap();
    let legacy = Agent::legacy(proxy.address(), "/mcp/fake", Some(&key));
    legacy.initialize().await.unwrap();
    let modern = Agent::modern(proxy.address(), "/mcp/fake", Some(&key));

    let slow = json!({ "name": "slow", "arguments": {} });
    let mut pending = Vec::new();
    for agent in [&legacy, &modern] {
        pending.push(agent.start("tools/call", slow.clone()).await.unwrap());
    }
    seen(&server, |log| log.calls("slow").len() == 2).await;
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    let mut subscription = modern.start("subscriptions/listen", listen).await.unwrap();
    let mut get = legacy.open_get(None).await.unwrap();
    {
        let [first, second] = &mut pending[..] else {
            unreachable!("two calls");
        };
        tokio::join!(
            async { silence(first.stream().await.unwrap()).await },
            async { silence(second.stream().await.unwrap()).await },
            async { silence(subscription.stream().await.unwrap()).await },
            silence(&mut get),
        );
    }
    server.open("slow");
    for call in pending {
        assert_eq!(call.finish().await.unwrap().text(), "slow is done");
    }
    server.notify(&log_message("still there"));
    let message = get.message().await.unwrap().unwrap();
    assert_eq!(message["params"]["data"], "still there");
}
