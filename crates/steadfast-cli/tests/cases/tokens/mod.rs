//! Agents with access tokens: whose they are, what they reach, and what is said where they do not.

mod covered;
mod issuers;
mod refused;

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::issuer::signing::{SigningKey, claims};
use testkit::{Agent, Behaviour, Daemon, Issuer, Server};

use crate::common::daemon;
use crate::rig::Era;

/// An issuer, a daemon that relies on it, and a server behind that.
struct House {
    issuer: Issuer,
    key: SigningKey,
    server: Server,
    daemon: Daemon,
}

impl House {
    async fn new() -> Self {
        Self::with("", |builder| builder).await
    }

    /// With further settings of the issuer, and of the daemon.
    async fn with(issuer_settings: &str, settings: impl FnOnce(Builder) -> Builder) -> Self {
        let issuer = Issuer::start().await;
        let key = SigningKey::new("k1");
        issuer.change(|policy| policy.keys = vec![key.public()]);
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let text = format!(
            "[[gateway.issuers]]\nissuer = \"{}\"\n{issuer_settings}",
            issuer.identifier()
        );
        let builder = settings(daemon(&server)).config(&text);
        let daemon = builder.start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        Self {
            issuer,
            key,
            server,
            daemon,
        }
    }

    /// One of our resources.
    fn resource(&self, path: &str) -> String {
        format!("http://{}{path}", self.daemon.address())
    }

    /// The claims of a good token for one of our resources.
    fn claims(&self, path: &str) -> Value {
        let audience = json!(self.resource(path));
        claims(self.issuer.identifier(), "dev", &audience)
    }

    /// A good token for one of our resources.
    fn token(&self, path: &str) -> String {
        self.key.sign(&json!({}), &self.claims(path))
    }

    fn agent(&self, era: Era, path: &str, token: Option<&str>) -> Agent {
        match era {
            Era::Legacy => Agent::legacy(self.daemon.address(), path, token),
            Era::Modern => Agent::modern(self.daemon.address(), path, token),
        }
    }

    /// An agent that is ready to call.
    async fn opened(&self, era: Era, path: &str, token: &str) -> Agent {
        let agent = self.agent(era, path, Some(token));
        if era == Era::Legacy {
            let answer = agent.initialize().await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        agent
    }

    /// How often the issuer was asked for its keys.
    fn key_requests(&self) -> usize {
        let is_for_keys = |request: &testkit::Request| request.path == "/keys";
        self.issuer.log().matching(is_for_keys).len()
    }

    /// Where the metadata of one of our resources stands.
    fn metadata(&self, path: &str) -> String {
        self.resource(&format!("/.well-known/oauth-protected-resource{path}"))
    }
}

/// The names of the tools that an agent is shown.
async fn tools(agent: &Agent) -> Vec<String> {
    let answer = agent.request("tools/list", json!({})).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let tools = answer.result()["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}
