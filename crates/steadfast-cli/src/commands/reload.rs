//! `steadfast reload`: connects now, whatever the schedule says.

use clap::Args;
use serde_json::{Value, json};

use super::status::{ending, read_all, show};
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// `reload AGENT [SERVER]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The agent
    agent: String,
    /// The server; without, all of the agent's
    server: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    let daemon = context.daemon()?;
    let answer = match &arguments.server {
        Some(server) => {
            let path = ["connections", &arguments.agent, server, "reload"];
            json!({"connections": [daemon.post(&path, None).await?]})
        }
        None => {
            daemon
                .post(&["agents", &arguments.agent, "reload"], None)
                .await?
        }
    };
    let connections: Vec<Value> = answer["connections"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    show(context.output, &connections)?;
    let reports = read_all(&connections)?;
    let all_connected = reports
        .iter()
        .all(|report| matches!(report.state.as_str(), "connected" | "disabled"));
    Ok(match ending(&reports) {
        Exit::Done if !all_connected => Exit::Failed,
        ending => ending,
    })
}
