//! `steadfast agent`: agents and their keys.

use clap::Subcommand;
use serde_json::json;
use steadfast::config::{self, Servers, Star};
use steadfast_core::code;
use steadfast_gateway::directory::is_name;

use crate::context::Context;
use crate::directory::{Agent, Directory};
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Look, Output, Table};

/// `agent add|list|remove|key`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Add an agent and print its key, once
    Add {
        /// The name of the agent
        name: String,
        /// A server that it may use (may be given several times); without, all of them
        #[arg(long = "server", value_name = "SERVER")]
        servers: Vec<String>,
        /// Merged tools have bare names instead of `server__tool`
        #[arg(long)]
        no_prefix: bool,
    },
    /// List the agents
    List,
    /// Remove an agent, its key and its connections
    Remove {
        /// The name of the agent
        name: String,
    },
    /// Make a new key and print it, once; the one before is worth nothing from then on
    Key {
        /// The name of the agent
        name: String,
    },
}

/// Runs the command.
pub(crate) async fn run(context: &Context, command: Command) -> Result<Exit, Failure> {
    let directory = context.directory().await?;
    let output = context.output;
    let done = match &command {
        Command::Add {
            name,
            servers,
            no_prefix,
        } => add(output, &directory, name, servers, *no_prefix).await,
        Command::List => list(output, &directory).await,
        Command::Remove { name } => remove(output, &directory, name).await,
        Command::Key { name } => print_new_key(output, &directory, name).await,
    };
    directory.close().await;
    done.map(|()| Exit::Done)
}

async fn add(
    output: Output,
    directory: &Directory,
    name: &str,
    servers: &[String],
    no_prefix: bool,
) -> Result<(), Failure> {
    if !is_name(name) {
        let message = format!("`{name}` is no name: 1 to 64 of A-Z a-z 0-9 _ -, and no `__`");
        return Err(Failure::new(code::CONFIG_BAD_VALUE, message).usage());
    }
    known(directory, name, servers).await?;
    let Some(before) = directory.agent(name).await? else {
        let agent = config::Agent {
            servers: if servers.is_empty() {
                Servers::All(Star::Star)
            } else {
                Servers::Some(servers.to_vec())
            },
            prefix: !no_prefix,
        };
        directory.put_agent(name, &agent).await?;
        return print_new_key(output, directory, name).await;
    };
    if servers.is_empty() && before.has_key {
        return Err(Failure::hinted(
            code::CONFLICT,
            format!("there is an agent `{name}` already, and it has a key"),
            format!(
                "`steadfast agent key {name}` makes a new key; the one before is worth nothing from then on."
            ),
        ));
    }
    if !servers.is_empty() {
        widen(directory, before.clone(), servers).await?;
    }
    if before.has_key {
        return tell_key(output, name, None);
    }
    print_new_key(output, directory, name).await
}

/// Names of servers that are not there would be noticed only when the agent misses them.
async fn known(directory: &Directory, agent: &str, servers: &[String]) -> Result<(), Failure> {
    if servers.is_empty() {
        return Ok(());
    }
    let there = directory.servers().await?;
    match servers
        .iter()
        .find(|wanted| !there.iter().any(|server| server.name == **wanted))
    {
        None => Ok(()),
        Some(unknown) => {
            let message = format!(
                "the agent `{agent}` is to have the server `{unknown}`, which is not there"
            );
            Err(Failure::new(code::NOT_FOUND, message))
        }
    }
}

/// Gives an agent further servers.
pub(super) async fn widen(
    directory: &Directory,
    agent: Agent,
    servers: &[String],
) -> Result<(), Failure> {
    let mut config = agent.config;
    if let Servers::Some(own) = &mut config.servers {
        let further: Vec<String> = servers
            .iter()
            .filter(|server| !own.contains(server))
            .cloned()
            .collect();
        if !further.is_empty() {
            own.extend(further);
            directory.put_agent(&agent.name, &config).await?;
        }
    }
    Ok(())
}

/// Makes a key and prints it: it is never shown again.
pub(super) async fn print_new_key(
    output: Output,
    directory: &Directory,
    name: &str,
) -> Result<(), Failure> {
    let key = directory.make_key(name).await?;
    tell_key(output, name, Some(&key))
}

fn tell_key(output: Output, name: &str, key: Option<&str>) -> Result<(), Failure> {
    if output.json {
        return output.json_line(&json!({"agent": name, "key": key}));
    }
    match key {
        Some(key) => {
            output.line(key)?;
            output.note(format!(
                "The key of {name} is shown this once. Send it as `Authorization: Bearer …`."
            ));
            Ok(())
        }
        None => output.line(format!("{name} is changed and keeps its key")),
    }
}

async fn list(output: Output, directory: &Directory) -> Result<(), Failure> {
    let agents = directory.agents().await?;
    if output.json {
        let agents: Vec<_> = agents.iter().map(shown).collect();
        return output.json(&json!({"agents": agents}));
    }
    let mut table = Table::new(&["AGENT", "SERVERS", "KEY", "DEFINED"]);
    for agent in &agents {
        let servers = match &agent.config.servers {
            Servers::All(_) => "*".to_owned(),
            Servers::Some(servers) => servers.join(", "),
        };
        let key = if agent.has_key {
            Cell::from("yes")
        } else {
            Cell::from("none").look(Look::Warning)
        };
        table.row(vec![
            agent.name.clone().into(),
            servers.into(),
            key,
            defined(agent.from_file).into(),
        ]);
    }
    output.raw(&table.render(output))
}

/// Where an agent or a server was defined.
pub(super) const fn defined(from_file: bool) -> &'static str {
    if from_file {
        "in the file"
    } else {
        "by command"
    }
}

fn shown(agent: &Agent) -> serde_json::Value {
    json!({
        "name": agent.name,
        "servers": agent.config.servers,
        "prefix": agent.config.prefix,
        "has_key": agent.has_key,
        "source": if agent.from_file { "file" } else { "admin" },
    })
}

async fn remove(output: Output, directory: &Directory, name: &str) -> Result<(), Failure> {
    directory.remove_agent(name).await?;
    if output.json {
        return output.json_line(&json!({"agent": name, "removed": true}));
    }
    output.line(format!("{name} is removed"))
}
