//! What is done about an answer that is lost, decided in six steps: each step and each branch of it, and two examples
//! from the beginning to the end (docs/operations.md, "What is decided, step by step").

mod before;
mod evidence;
mod examples;
mod lookups;
mod lost;

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::reply::{json_rpc_result, tool_text};
use testkit::script::call;
use testkit::{Agent, Answer, Daemon, Reply, Server};

use super::ledger::details;
use super::{READ, WRITE, ran, server};
use crate::common::daemon;
use crate::rig::{Era, agent_of};

/// A daemon, the server behind it, and an agent, all of one era.
struct Stage {
    server: Server,
    daemon: Daemon,
    agent: Agent,
}

impl Stage {
    async fn new(era: Era, settings: impl FnOnce(Builder) -> Builder) -> Self {
        let server = server(era.behaviour()).await;
        let daemon = settings(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        Self {
            server,
            daemon,
            agent,
        }
    }

    /// The next call of the tool runs, and its answer is lost.
    fn lose(&self, tool: &str) {
        let lost = ran(200)
            .header("content-type", "application/json")
            .head()
            .rst();
        self.server.script().on(call(tool).times(1)).reply(lost);
    }

    /// Makes a write whose answer is lost.
    async fn lost_write(&self, arguments: Value) -> Answer {
        self.lose(WRITE);
        self.agent.call(WRITE, arguments).await.unwrap()
    }

    /// How often the tool was called.
    fn calls(&self, tool: &str) -> usize {
        self.server.log().calls(tool).len()
    }

    /// The operation that an answer names, with everything on record of it.
    async fn operation(&self, answer: &Answer) -> Value {
        details(&self.daemon, &super::ledger::id_of(answer)).await
    }
}

/// A booking that is looked up by its reference, at once and three times at most.
fn with_lookup(more: &str) -> impl FnOnce(Builder) -> Builder {
    let lookup = format!(
        "{{ tool = \"{READ}\", arguments = {{ reference = \"$.arguments.key\" }}, \
         accepted = \"$.structuredContent.bookings[?@.reference == $reference]\", \
         must_equal = {{ \"$.room\" = \"$.arguments.room\" }}{more} }}"
    );
    move |daemon| {
        daemon
            .read_tool("fake", READ)
            .set(&format!("servers.fake.tools.{WRITE}.lookup"), &lookup)
            .set("repeat.lookup_first", "\"20ms\"")
            .set("repeat.lookup_tries", "3")
    }
}

/// What a provider promises of its keys; `less` is what it does not, `more` what it does besides.
fn with_key(less: &str, more: &str) -> impl FnOnce(Builder) -> Builder {
    let promises = [
        "retention = \"1h\"",
        "scope = \"account\"",
        "atomic = true",
        "payload_bound = true",
        "propagated = true",
    ];
    let kept: Vec<_> = promises
        .into_iter()
        .filter(|promise| less.is_empty() || !promise.starts_with(less))
        .collect();
    let contract = format!(
        "{{ argument = \"$.idempotency_key\", {}{more} }}",
        kept.join(", ")
    );
    move |daemon| {
        daemon
            .set(
                &format!("servers.fake.tools.{WRITE}.duplicate_key"),
                &contract,
            )
            .set("repeat.again_first", "\"20ms\"")
    }
}

fn bookings(bookings: Value) -> Reply {
    let mut result = tool_text("found");
    result["structuredContent"] = json!({ "bookings": bookings });
    json_rpc_result(result)
}

fn booking() -> Value {
    json!({ "key": "r-17", "room": "4" })
}
