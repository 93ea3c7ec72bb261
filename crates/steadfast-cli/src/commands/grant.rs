//! `steadfast grant`: what is held for an agent and a server, and tokens from elsewhere.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::Value;
use steadfast_core::code;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// `grant show|import`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show a grant, without its secrets
    Show {
        /// The agent
        agent: String,
        /// The server
        server: String,
    },
    /// Take over tokens from another client's store
    Import {
        /// The agent
        agent: String,
        /// The server
        server: String,
        /// A JSON file with the tokens; without, standard input
        file: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) async fn run(context: &Context, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Show { agent, server } => {
            let daemon = context.daemon()?;
            let path = ["connections", &agent, &server, "grant"];
            let grant = daemon.get(&path).await?;
            show(context, &grant)?;
        }
        Command::Import {
            agent,
            server,
            file,
        } => {
            let grant = read(file)?;
            let daemon = context.daemon()?;
            let path = ["connections", &agent, &server, "grant"];
            let connection = daemon.put(&path, &grant).await?;
            show(context, &connection["grant"])?;
        }
    }
    Ok(Exit::Done)
}

fn read(file: Option<PathBuf>) -> Result<Value, Failure> {
    let (read, place) = match &file {
        Some(path) => (std::fs::read_to_string(path), path.display().to_string()),
        None => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            (read.map(|_| text), "standard input".to_owned())
        }
    };
    let text = read.map_err(|error| {
        let message = format!("{place} cannot be read: {error}");
        Failure::new(code::BAD_MESSAGE, message).usage()
    })?;
    // Where it is wrong is said; what stands there is not, for it may be a token.
    serde_json::from_str(&text).map_err(|error| {
        let message = format!(
            "{place} is no JSON: line {}, column {}",
            error.line(),
            error.column()
        );
        Failure::new(code::BAD_MESSAGE, message).usage()
    })
}

/// One line for each member.
fn show(context: &Context, grant: &Value) -> Result<(), Failure> {
    if context.output.json {
        return context.output.json(grant);
    }
    for (name, value) in grant.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                texts.join(" ")
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
        };
        let text = crate::output::printable(&text);
        context
            .output
            .line(format!("{:<18}{text}", name.replace('_', " ")))?;
    }
    Ok(())
}
