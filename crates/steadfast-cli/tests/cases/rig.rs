//! One agent, one daemon and one scripted server, of whichever eras.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::{Agent, Answer, Behaviour, Daemon, Server};

use crate::common::{LIMIT, daemon};

/// The era that an agent or a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// An agent, and a server of the same or of the other era.
pub(crate) const PAIRINGS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Modern, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Legacy, Era::Modern),
];

/// An agent, and a server of the same era.
pub(crate) const BOTH: [Era; 2] = [Era::Legacy, Era::Modern];

impl Era {
    pub(crate) fn behaviour(self) -> Behaviour {
        match self {
            Self::Legacy => Behaviour::legacy("2025-11-25"),
            Self::Modern => Behaviour::modern(),
        }
    }
}

pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) daemon: Daemon,
    pub(crate) agent: Agent,
}

impl Rig {
    /// Connected, with an agent that is ready to call.
    pub(crate) async fn new(agent: Era, behaviour: Behaviour) -> Self {
        Self::with(agent, Server::start(behaviour).await, |daemon| daemon).await
    }

    /// The same with settings of the test's own.
    pub(crate) async fn with(
        agent: Era,
        server: Server,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let daemon = settings(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(agent, &daemon).await;
        Self {
            server,
            daemon,
            agent,
        }
    }

    /// How often the tool really ran.
    pub(crate) fn rows(&self, tool: &str) -> usize {
        self.server.ledger().rows_of(tool).unwrap().len()
    }

    /// How often it was asked for.
    pub(crate) fn calls(&self, tool: &str) -> usize {
        self.server.log().calls(tool).len()
    }

    /// The connection object.
    pub(crate) async fn connection(&self) -> Value {
        self.daemon.connection("dev", "fake").await.unwrap()
    }

    /// A tool that answers shows that everything works; also that nothing of what was asked before is
    /// still on its way, for the connection is used in order.
    pub(crate) async fn works(&self) {
        let answer = self.agent.call("echo", json!({"still": "works"})).await;
        let answer = answer.unwrap();
        assert!(answer.text().contains("works"), "{answer:?}");
    }
}

pub(crate) async fn agent_of(era: Era, daemon: &Daemon) -> Agent {
    match era {
        Era::Legacy => {
            let agent = daemon.legacy_agent("dev", "fake").await.unwrap();
            agent.initialize().await.unwrap();
            agent
        }
        Era::Modern => daemon.modern_agent("dev", "fake").await.unwrap(),
    }
}

/// Waits until the connection has a fault of this kind; the fault.
pub(crate) async fn fault(daemon: &Daemon, kind: &str) -> Value {
    let found = daemon
        .wait_connection("dev", "fake", LIMIT, |connection| {
            connection["fault"]["kind"] == *kind
        })
        .await;
    found.unwrap()["fault"].clone()
}

/// Asserts that the agent was told in plain words that nobody knows whether the tool ran.
#[track_caller]
pub(crate) fn assert_unknown(answer: &Answer, tool: &str, evidence: &str) {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.is_error(), "{answer:?}");
    let operation = answer.operation();
    assert_eq!(operation["state"], "not_observed", "{answer:?}");
    assert_eq!(operation["executed"], "unknown", "{answer:?}");
    assert_eq!(operation["server"], "fake", "{answer:?}");
    assert_eq!(operation["tool"], *tool, "{answer:?}");
    assert!(operation["sent_at"].is_string(), "{answer:?}");
    assert!(operation["bytes_sent"].as_u64() > Some(0), "{answer:?}");
    let seen = operation["evidence"].as_str().unwrap_or_default();
    assert!(
        seen.contains(evidence),
        "{seen:?} does not say {evidence:?}"
    );
    assert!(answer.text().contains(tool), "{answer:?}");
}

/// A message as one event of a stream.
pub(crate) fn event(id: Option<&str>, message: &str) -> String {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("{id}data: {message}\n\n")
}

/// A notification of the server's that is no answer to anything.
pub(crate) fn log_message(data: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": data},
    })
}

/// What a test waits for, within the limit of all.
pub(crate) async fn seen(server: &Server, condition: impl Fn(&testkit::RequestLog) -> bool) {
    server.log().wait_for(condition, LIMIT).await.unwrap();
}

/// No pause at all: the pieces are chunks of their own all the same.
pub(crate) const AT_ONCE: Duration = Duration::ZERO;
