//! One address for all the servers of an agent: `/mcp`.

mod calls;
mod changes;
mod headers;
mod lists;
mod opening;
mod outages;
mod own;
mod resources;

use serde_json::Value;
use testkit::client::EventStream;
use testkit::daemon::Builder;
use testkit::{Agent, Answer, Behaviour, Daemon, Server};

use crate::common::LIMIT;
use crate::rig::Era;

/// The tools that are ours, before those of the servers.
pub(crate) const OURS: [&str; 2] = ["steadfast__connections", "steadfast__operation"];

/// Some servers, a daemon in front of them, and an agent that has them all.
pub(crate) struct Fleet {
    pub(crate) servers: Vec<Server>,
    pub(crate) daemon: Daemon,
    pub(crate) agent: Agent,
}

/// A daemon with the agent `dev` and these servers, named `u1`, `u2`, and so on.
pub(crate) fn daemon(servers: &[Server]) -> Builder {
    let builder = Daemon::builder(env!("CARGO_BIN_EXE_steadfast")).agent("dev");
    let named = servers.iter().enumerate();
    named.fold(builder, |builder, (place, server)| {
        builder.server(&name(place), &server.url())
    })
}

pub(crate) fn name(place: usize) -> String {
    format!("u{}", place + 1)
}

impl Fleet {
    /// All connected, with an agent that is ready to call.
    pub(crate) async fn new(agent: Era, behaviours: impl IntoIterator<Item = Behaviour>) -> Self {
        Self::with(agent, behaviours, |builder| builder).await
    }

    /// The same with settings of the test's own.
    pub(crate) async fn with(
        agent: Era,
        behaviours: impl IntoIterator<Item = Behaviour>,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let mut servers = Vec::new();
        for behaviour in behaviours {
            servers.push(Server::start(behaviour).await);
        }
        let daemon = settings(daemon(&servers)).start().await.unwrap();
        for place in 0..servers.len() {
            connected(&daemon, &name(place)).await;
        }
        let agent = agent_of(agent, &daemon).await;
        Self {
            servers,
            daemon,
            agent,
        }
    }

    /// The names of what a list holds, of all pages.
    pub(crate) async fn names(&self, list: &str, key: &str) -> Vec<String> {
        let result = self.list(list).await;
        let member = result.as_object().unwrap().iter();
        let entries = member
            .filter(|(key, _)| !key.starts_with('_'))
            .find_map(|(_, value)| value.as_array())
            .unwrap();
        let names = entries.iter().map(|entry| entry[key].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    /// The result of a list that fits on one page.
    pub(crate) async fn list(&self, list: &str) -> Value {
        let answer = self.agent.request(list, serde_json::json!({})).await;
        let answer = answer.unwrap();
        assert_eq!(answer.result()["nextCursor"], Value::Null, "{answer:?}");
        answer.result().clone()
    }
}

pub(crate) async fn connected(daemon: &Daemon, server: &str) {
    daemon.wait_state("dev", server, "connected").await.unwrap();
}

/// An agent with all its servers, ready to call.
pub(crate) async fn agent_of(era: Era, daemon: &Daemon) -> Agent {
    match era {
        Era::Legacy => {
            let agent = daemon.legacy_agent_of_all("dev").await.unwrap();
            agent.initialize().await.unwrap();
            agent
        }
        Era::Modern => daemon.modern_agent_of_all("dev").await.unwrap(),
    }
}

/// The next notification of this method on a stream.
pub(crate) async fn next(stream: &mut EventStream, method: &str) -> Value {
    let found = async {
        loop {
            let message = stream.message().await.unwrap().expect("the stream is open");
            if message["method"] == *method {
                return message;
            }
        }
    };
    let found = tokio::time::timeout(LIMIT, found).await;
    found.unwrap_or_else(|_| panic!("no {method} came"))
}

/// The connection objects of servers that are not there, by name.
pub(crate) fn unavailable(result: &Value) -> Vec<&str> {
    let those = result["_meta"]["dev.steadfast/unavailable"].as_array();
    let those = those.into_iter().flatten();
    those.map(|it| it["server"].as_str().unwrap()).collect()
}

/// The connection object of an answer that says that a server is not there.
pub(crate) fn connection(answer: &Answer) -> &Value {
    &answer.result()["_meta"]["dev.steadfast/connection"]
}
