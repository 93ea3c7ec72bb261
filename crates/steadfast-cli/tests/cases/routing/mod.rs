//! What one agent, server or conversation does never shows up in another.

mod bytes;
mod cancelling;
mod identity;
mod ids;
mod isolated;
mod keep_alive;
mod progress;
mod questions;

use serde_json::Value;
use testkit::client::EventStream;
use testkit::daemon::Builder;
use testkit::{Daemon, Server};

use crate::common::LIMIT;
use crate::rig::seen;

/// A daemon with these agents in front of one server, connected for each of them.
async fn daemon_for(server: &Server, agents: &[&str]) -> Daemon {
    connected(builder(server), agents).await
}

/// Without any agent.
fn builder(server: &Server) -> Builder {
    Daemon::builder(env!("CARGO_BIN_EXE_steadfast")).server("fake", &server.url())
}

async fn connected(builder: Builder, agents: &[&str]) -> Daemon {
    let builder = agents
        .iter()
        .fold(builder, |builder, agent| builder.agent(agent));
    let daemon = builder.start().await.unwrap();
    for agent in agents {
        daemon.wait_state(agent, "fake", "connected").await.unwrap();
    }
    daemon
}

/// Waits until every session of the server is listened on, so that what it says there is heard.
async fn listening(server: &Server, streams: usize) {
    seen(server, |log| log.http("GET").len() >= streams).await;
    let all_open = async {
        while server.open_streams() < streams {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, all_open).await.unwrap();
}

/// The message that follows on the agent's stream is this one: nothing of others came before it.
async fn next_is(stream: &mut EventStream, marker: &str) {
    let message = stream.message().await.unwrap().unwrap_or(Value::Null);
    assert!(message.to_string().contains(marker), "{message}");
}
