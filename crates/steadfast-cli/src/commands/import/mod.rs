//! `steadfast import`: takes servers over from the configuration of another client.

mod jsonc;
mod read;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use steadfast::config::{self, Servers};
use steadfast_core::code;
use steadfast_gateway::directory::is_name;

use super::agent::{print_new_key, widen};
use super::server::shown_url;
use crate::config::check_server;
use crate::context::Context;
use crate::directory::Directory;
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Look, Output, Table};
use read::{Entry, Found};

/// `import FILE [--agent NAME] [--dry-run]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// mcp.json, .mcp.json, claude_desktop_config.json, or VS Code's mcp.json
    file: PathBuf,
    /// Give the servers to this agent; it is added if it is not there
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only show what would be taken over
    #[arg(long)]
    dry_run: bool,
}

/// What became of one entry.
struct Outcome {
    name: String,
    result: Done,
    /// The address, and what there is to know.
    remarks: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Added,
    /// It was there, exactly so.
    There,
    /// One of that name is there, with other settings.
    Conflict,
    Skipped,
}

impl Done {
    const fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::There => "unchanged",
            Self::Conflict => "conflict",
            Self::Skipped => "skipped",
        }
    }
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    if let Some(agent) = arguments.agent.as_deref().filter(|agent| !is_name(agent)) {
        let message = format!("`{agent}` is no name: 1 to 64 of A-Z a-z 0-9 _ -, and no `__`");
        return Err(Failure::new(code::CONFIG_BAD_VALUE, message).usage());
    }
    let unreadable = |why: String| {
        Failure::new(
            code::FILE_UNREADABLE,
            format!("{}: {why}", arguments.file.display()),
        )
    };
    let text =
        std::fs::read_to_string(&arguments.file).map_err(|error| unreadable(error.to_string()))?;
    let entries = read::read(&text).map_err(unreadable)?;
    let directory = context.directory().await?;
    let done = import(context.output, &directory, entries, &arguments).await;
    directory.close().await;
    done
}

async fn import(
    output: Output,
    directory: &Directory,
    entries: Vec<Entry>,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let there = directory.servers().await?;
    let mut outcomes = Vec::new();
    for entry in entries {
        let found = match entry {
            Entry::Usable(found) => *found,
            Entry::Skipped { name, why } => {
                outcomes.push(skipped(name, why));
                continue;
            }
        };
        if let Err(Failure::Said(said)) = check_server(&found.name, &found.server) {
            outcomes.push(skipped(found.name, said.message));
            continue;
        }
        let result = match there.iter().find(|there| there.name == found.name) {
            Some(there) if there.config == found.server => Done::There,
            Some(_) => Done::Conflict,
            None => {
                if !arguments.dry_run {
                    directory.put_server(&found.name, &found.server).await?;
                }
                Done::Added
            }
        };
        outcomes.push(outcome(found, result));
    }
    tell(output, &outcomes, arguments.dry_run)?;
    let usable: Vec<String> = outcomes
        .iter()
        .filter(|outcome| matches!(outcome.result, Done::Added | Done::There))
        .map(|outcome| outcome.name.clone())
        .collect();
    if let Some(agent) = arguments
        .agent
        .as_deref()
        .filter(|_| !arguments.dry_run && !usable.is_empty())
    {
        give(output, directory, agent, &usable).await?;
    }
    let has_conflict = outcomes
        .iter()
        .any(|outcome| outcome.result == Done::Conflict);
    Ok(if usable.is_empty() || has_conflict {
        Exit::Failed
    } else {
        Exit::Done
    })
}

fn skipped(name: String, why: String) -> Outcome {
    Outcome {
        name,
        result: Done::Skipped,
        remarks: vec![why],
    }
}

fn outcome(found: Found, result: Done) -> Outcome {
    let mut remarks = vec![shown_url(&found.server.url)];
    remarks.extend(found.notes);
    if result == Done::Conflict {
        remarks.push(
            "a server of this name is there with other settings, and stays as it is".to_owned(),
        );
    }
    Outcome {
        name: found.name,
        result,
        remarks,
    }
}

/// Gives an agent the servers; it gets a key if it has none.
async fn give(
    output: Output,
    directory: &Directory,
    agent: &str,
    servers: &[String],
) -> Result<(), Failure> {
    let has_key = match directory.agent(agent).await? {
        Some(there) => {
            let has_key = there.has_key;
            widen(directory, there, servers).await?;
            has_key
        }
        None => {
            let config = config::Agent {
                servers: Servers::Some(servers.to_vec()),
                ..config::Agent::default()
            };
            directory.put_agent(agent, &config).await?;
            false
        }
    };
    if has_key {
        Ok(())
    } else {
        print_new_key(output, directory, agent).await
    }
}

fn tell(output: Output, outcomes: &[Outcome], dry_run: bool) -> Result<(), Failure> {
    if output.json {
        let servers: Vec<_> = outcomes
            .iter()
            .map(|outcome| {
                json!({"name": outcome.name, "result": outcome.result.word(), "remarks": outcome.remarks})
            })
            .collect();
        return output.json_line(&json!({"servers": servers, "dry_run": dry_run}));
    }
    let mut table = Table::new(&["SERVER", if dry_run { "WOULD BE" } else { "RESULT" }, ""]);
    for outcome in outcomes {
        let look = match outcome.result {
            Done::Added => Look::Good,
            Done::There => Look::Dim,
            Done::Conflict | Done::Skipped => Look::Warning,
        };
        let mut remarks = outcome.remarks.iter();
        let first = remarks.next().cloned().unwrap_or_default();
        table.row(vec![
            outcome.name.clone().into(),
            Cell::from(outcome.result.word()).look(look),
            first.into(),
        ]);
        for remark in remarks {
            table.line(Cell::from(remark.as_str()).look(Look::Dim));
        }
    }
    output.raw(&table.render(output))
}
