//! `steadfast apply`: brings agents and servers in step with a file. It adds and changes; what is not in the
//! file stays, since other commands may have added it.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use steadfast_core::code;

use super::server::shown_config;
use crate::config::schema::File;
use crate::config::{self, different_settings};
use crate::context::Context;
use crate::directory::{Directory, Entry};
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Look, Output, Table};

/// `apply FILE [--dry-run]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A file as for `serve --config`
    file: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

/// What is to be done to one agent or server.
#[derive(Debug, PartialEq)]
struct Step {
    kind: &'static str,
    name: String,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    /// It is not there.
    Add,
    /// These keys differ, with what they were and what they become.
    Change(Vec<Difference>),
    /// It is as the file says.
    Keep,
}

#[derive(Debug, PartialEq)]
struct Difference {
    key: String,
    before: Value,
    after: Value,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    let file = config::load(&arguments.file, None)?.file;
    let directory = context.directory_or(Some(&file.store.url)).await?;
    let done = apply(context.output, &directory, &file, arguments.dry_run).await;
    directory.close().await;
    done.map(|()| Exit::Done)
}

async fn apply(
    output: Output,
    directory: &Directory,
    file: &File,
    dry_run: bool,
) -> Result<(), Failure> {
    let (agents, servers) = (directory.agents().await?, directory.servers().await?);
    let mut steps = Vec::new();
    for (name, server) in &file.servers {
        steps.push(step("server", name, server, &servers)?);
    }
    for (name, agent) in &file.agents {
        steps.push(step("agent", name, agent, &agents)?);
    }
    if !dry_run {
        // Servers first: an agent that has them finds them.
        for step in steps.iter().filter(|step| step.action != Action::Keep) {
            match (file.servers.get(&step.name), file.agents.get(&step.name)) {
                (Some(server), _) if step.kind == "server" => {
                    directory.put_server(&step.name, server).await?
                }
                (_, Some(agent)) => directory.put_agent(&step.name, agent).await?,
                (Some(_) | None, None) => {}
            }
        }
    }
    tell(output, &steps, dry_run)?;
    let others = different_settings(file, &File::default());
    if !others.is_empty() {
        output.note(format!(
            "Only agents and servers are applied. `steadfast serve --config` reads the others: {}.",
            others.join(", ")
        ));
    }
    Ok(())
}

fn step<C>(kind: &'static str, name: &str, wanted: &C, there: &[Entry<C>]) -> Result<Step, Failure>
where
    C: serde::Serialize + PartialEq,
{
    let action = match there.iter().find(|entry| entry.name == name) {
        None => Action::Add,
        Some(entry) if entry.config == *wanted => Action::Keep,
        Some(entry) if entry.from_file => {
            let message = format!(
                "{kind} `{name}` is defined in the daemon's configuration file, with other settings"
            );
            return Err(Failure::new(code::CONFLICT, message));
        }
        Some(entry) => Action::Change(differences(&json(&entry.config)?, &json(wanted)?)),
    };
    Ok(Step {
        kind,
        name: name.to_owned(),
        action,
    })
}

fn json(config: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(config).map_err(|error| Failure::new(code::INTERNAL, error.to_string()))
}

/// The keys in which two configurations differ; secrets are masked only now, so that a changed one is seen.
fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let (shown_before, shown_after) = (shown_config(before), shown_config(after));
    let keys = |value: &Value| {
        value
            .as_object()
            .map(|object| object.keys().cloned().collect::<Vec<_>>())
    };
    let mut all = keys(before).unwrap_or_default();
    all.extend(keys(after).unwrap_or_default());
    all.sort();
    all.dedup();
    all.into_iter()
        .filter(|key| before.get(key) != after.get(key))
        .map(|key| Difference {
            before: shown_before.get(&key).cloned().unwrap_or_default(),
            after: shown_after.get(&key).cloned().unwrap_or_default(),
            key,
        })
        .collect()
}

fn tell(output: Output, steps: &[Step], dry_run: bool) -> Result<(), Failure> {
    if output.json {
        let steps: Vec<Value> = steps.iter().map(told).collect();
        return output.json(&json!({"changes": steps, "dry_run": dry_run}));
    }
    let mut table = Table::default();
    let mut unchanged = 0;
    for step in steps {
        let (sign, look) = match &step.action {
            Action::Add => ("+", Look::Good),
            Action::Change(_) => ("~", Look::Warning),
            Action::Keep => {
                unchanged += 1;
                continue;
            }
        };
        table.row(vec![
            Cell::from(format!("{sign} {} {}", step.kind, step.name)).look(look),
        ]);
        if let Action::Change(differences) = &step.action {
            for Difference { key, before, after } in differences {
                table.line(Cell::from(format!("  {key}: {before} → {after}")));
            }
        }
    }
    output.raw(&table.render(output))?;
    let changed = steps.len() - unchanged;
    let verb = if dry_run { "would change" } else { "changed" };
    output.line(format!("{changed} {verb}, {unchanged} as they were"))
}

fn told(step: &Step) -> Value {
    let (change, differences) = match &step.action {
        Action::Add => ("add", &[][..]),
        Action::Change(differences) => ("change", &differences[..]),
        Action::Keep => ("keep", &[][..]),
    };
    let differences: Vec<Value> = differences
        .iter()
        .map(|difference| json!({"key": difference.key, "before": difference.before, "after": difference.after}))
        .collect();
    json!({"kind": step.kind, "name": step.name, "change": change, "differences": differences})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_by_key_and_masked() {
        let before =
            json!({"url": "https://a.test/", "headers": {"K": "canary-1"}, "enabled": true});
        let after =
            json!({"url": "https://b.test/", "headers": {"K": "canary-2"}, "enabled": true});
        let found = differences(&before, &after);
        let keys: Vec<&str> = found
            .iter()
            .map(|difference| difference.key.as_str())
            .collect();
        assert_eq!(keys, ["headers", "url"]);
        assert!(!format!("{found:?}").contains("canary"), "{found:?}");
        assert_eq!(found[1].after, json!("https://b.test/"));
    }
}
