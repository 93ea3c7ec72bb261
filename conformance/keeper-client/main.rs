//! The keeper as a client of the suite: the suite starts `keeper-client URL` with the scenario's name in its environment,
//! and watches what arrives at its own server.
//!
//! The keeper connects, keeps the catalog and adds the headers; what an agent would do (call tools, answer questions) is
//! in `agent.rs`, and which of it a scenario wants to see is here.

mod agent;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::{Keeper, config};
use steadfast_store::{MemoryRecords, Vault};

use crate::agent::{Agent, Outcome};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const AGENT: &str = "suite";
const SERVER: &str = "scenario";

/// The suite gives a scenario thirty seconds.
const CONNECT: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The suite appends the address to the command.
    let url = std::env::args()
        .next_back()
        .ok_or("usage: keeper-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let revision = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")?;
    let keeper = Keeper::start(
        config::Settings::default(),
        Arc::new(MemoryRecords::new()),
        Arc::new(Vault::ephemeral()?),
    )
    .await
    .map_err(|fault| format!("{fault:?}"))?;
    keeper.set_listener(Arc::new(agent::Standing));
    keeper
        .put_server(SERVER.into(), config::Server::at(url.parse()?))
        .await?;
    keeper
        .put_agent(AGENT.into(), config::Agent::with_servers([SERVER]))
        .await?;
    let link = keeper
        .link(&AGENT.into(), &SERVER.into())
        .ok_or("the keeper has no such link")?;
    if !link.connected(CONNECT).await {
        return Err(format!("not connected: {:?}", link.report()).into());
    }
    let mut agent = Agent::new(link, &revision)?;
    let played = play(&mut agent, &scenario).await;
    keeper.shutdown().await;
    played?;
    // What the runner looks for.
    writeln!(std::io::stdout(), "done")?;
    Ok(())
}

/// What each scenario expects to see of a client.
async fn play(agent: &mut Agent, scenario: &str) -> Result<(), Failure> {
    match scenario {
        // The handshake is the keeper's own; a list shows that the connection is of use.
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            agent.list("tools").await.map(|_| ())
        }
        "tools_call" => agent
            .call("add_numbers", json!({ "a": 5, "b": 3 }))
            .await
            .map(|_| ()),
        // The server asks in mid-call, and wants its own defaults back.
        "elicitation-sep1034-client-defaults" => agent
            .call("test_client_elicitation_defaults", json!({}))
            .await
            .map(|_| ()),
        // The server closes the stream of the call; the answer comes on the one that resumes it.
        "sse-retry" => agent.call("test_reconnection", json!({})).await.map(|_| ()),
        "json-schema-2020-12-preservation" => echo_schema(agent).await,
        "sep-2322-client-request-state" => answer_questions(agent).await,
        "http-standard-headers" => use_everything(agent).await,
        "http-custom-headers" => calls_of_the_context(agent).await,
        "http-invalid-tool-headers" => call_each_kept_tool(agent).await,
        other => Err(format!("unknown scenario: {other}").into()),
    }
}

/// The schema goes back as the keeper's catalog has it.
async fn echo_schema(agent: &mut Agent) -> Result<(), Failure> {
    let tools = agent.catalog()?;
    let schema = tools
        .iter()
        .find(|tool| tool.get("name") == Some(&json!("json_schema_2020_12_tool")))
        .and_then(|tool| tool.get("inputSchema"))
        .ok_or("the catalog has no such tool")?;
    agent
        .call("json_schema_echo", json!({ "schema": schema }))
        .await
        .map(|_| ())
}

/// A second leg has the answers and the state of its own first leg, a fresh id, and leaks nothing into other calls.
async fn answer_questions(agent: &mut Agent) -> Result<(), Failure> {
    for tool in ["test_mrtr_echo_state", "test_mrtr_no_state"] {
        let call = json!({ "name": tool, "arguments": {} });
        let Outcome::Question(question) = agent.request("tools/call", call.clone()).await? else {
            return Err(format!("{tool} asked nothing").into());
        };
        agent.call("test_mrtr_unrelated", json!({})).await?;
        agent
            .request("tools/call", agent::second_leg(call, &question))
            .await?;
    }
    agent
        .call("test_mrtr_no_result_type", json!({}))
        .await
        .map(|_| ())
}

async fn use_everything(agent: &mut Agent) -> Result<(), Failure> {
    for tool in names(&agent.list("tools").await?, "name") {
        agent.call(&tool, json!({})).await?;
    }
    for uri in names(&agent.list("resources").await?, "uri") {
        agent
            .request("resources/read", json!({ "uri": uri }))
            .await?;
    }
    for prompt in names(&agent.list("prompts").await?, "name") {
        agent
            .request("prompts/get", json!({ "name": prompt }))
            .await?;
    }
    Ok(())
}

/// The scenario says itself which calls it wants.
async fn calls_of_the_context(agent: &mut Agent) -> Result<(), Failure> {
    let context: Value = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    let calls = context
        .get("toolCalls")
        .and_then(Value::as_array)
        .ok_or("the context has no calls")?;
    for call in calls {
        agent.request("tools/call", call.clone()).await?;
    }
    Ok(())
}

/// Tools that the keeper leaves out are not there to be called.
async fn call_each_kept_tool(agent: &mut Agent) -> Result<(), Failure> {
    for tool in names(&agent.catalog()?, "name") {
        agent.call(&tool, json!({ "region": "us-west1" })).await?;
    }
    Ok(())
}

fn names(entries: &[Value], key: &str) -> Vec<String> {
    entries
        .iter()
        .filter_map(|entry| entry.get(key)?.as_str())
        .map(str::to_owned)
        .collect()
}
