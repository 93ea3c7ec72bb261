//! Applying a file: at start to the store, before anything is loaded from it; later, whenever the file
//! changes, to everything that runs. A file with an error changes nothing.

use std::time::Duration;

use std::net::SocketAddr;
use steadfast_core::{AgentName, ServerName, code};
use steadfast_gateway::{ConfigFile, ConfigFileStatus, Directory};
use steadfast_store::{AgentRecord, Records, ServerRecord, Source};

use super::schema::File;
use super::{Loaded, different_settings, parse, read};
use crate::failure::Failure;

/// How long a changed file must stay as it is before it is applied: a program that writes it in two steps
/// must not make us apply the first.
const SETTLE: Duration = Duration::from_millis(50);

/// Brings the store in step with a file: what it defines is there, and what it defined and no longer does
/// is gone.
pub(crate) async fn prepare(records: &dyn Records, file: &File) -> Result<(), Failure> {
    let agents = records.agents().await?;
    let servers = records.servers().await?;
    for agent in &agents {
        if agent.source == Source::File && !file.agents.contains_key(agent.name.as_str()) {
            records.remove_agent(&agent.name).await?;
        }
    }
    for server in &servers {
        if server.source == Source::File && !file.servers.contains_key(server.name.as_str()) {
            records.remove_server(&server.name).await?;
        }
    }
    for (name, server) in &file.servers {
        let record = ServerRecord {
            name: ServerName::from(name.as_str()),
            config: to_json(server)?,
            source: Source::File,
        };
        if !servers.contains(&record) {
            records.put_server(&record).await?;
        }
    }
    for (name, agent) in &file.agents {
        let config = to_json(agent)?;
        let is_there = |there: &AgentRecord| {
            there.name.as_str() == name && there.source == Source::File && there.config == config
        };
        if !agents.iter().any(is_there) {
            let record = AgentRecord {
                name: AgentName::from(name.as_str()),
                config,
                source: Source::File,
                key: None,
                created_at: steadfast::clock::wall(),
            };
            records.put_agent(&record).await?;
        }
    }
    Ok(())
}

fn to_json(config: &impl serde::Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(config).map_err(|error| Failure::new(code::INTERNAL, error.to_string()))
}

/// What the admin API shows of a file that has just been applied.
pub(crate) fn applied(loaded: &Loaded) -> ConfigFileStatus {
    ConfigFileStatus {
        source: Some(loaded.path.display().to_string()),
        applied_at: Some(steadfast::report::rfc3339(steadfast::clock::wall())),
        error: None,
    }
}

/// Watches a file and applies it when it changes.
pub(crate) struct Watch {
    pub(crate) loaded: Loaded,
    /// The address that the command line gives instead of the file's.
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) directory: Directory,
    pub(crate) status: ConfigFile,
}

impl Watch {
    /// Runs for ever.
    pub(crate) async fn run(mut self) {
        // What the daemon was started with: what differs from it waits for the next start.
        let started = self.loaded.file.clone();
        let mut refused: Option<Result<String, super::Error>> = None;
        loop {
            tokio::time::sleep(self.loaded.file.gateway.config_check.duration()).await;
            let seen = self.settled().await;
            if seen.as_ref() == Ok(&self.loaded.text) {
                if refused.take().is_some() {
                    self.say(None);
                }
                continue;
            }
            // A file that was refused is looked at again once it is another one.
            if refused.as_ref() == Some(&seen) {
                continue;
            }
            match self.apply(&seen, &started).await {
                Ok(()) => refused = None,
                Err(Refused::File(error)) => {
                    tracing::warn!(code = %error.code(), %error, "the changed configuration file is not applied");
                    self.say(Some(error.to_string()));
                    refused = Some(seen);
                }
                Err(Refused::Now(error)) => {
                    tracing::warn!(code = %error.code(), %error, "the changed configuration file cannot be applied now");
                    self.say(Some(error.to_string()));
                }
            }
        }
    }

    /// The text of the file, once it has been the same twice.
    async fn settled(&self) -> Result<String, super::Error> {
        let mut seen = read(&self.loaded.path);
        while seen.as_ref() != Ok(&self.loaded.text) {
            tokio::time::sleep(SETTLE).await;
            let again = read(&self.loaded.path);
            if again == seen {
                break;
            }
            seen = again;
        }
        seen
    }

    async fn apply(
        &mut self,
        seen: &Result<String, super::Error>,
        started: &File,
    ) -> Result<(), Refused> {
        let text = seen
            .as_ref()
            .map_err(|error| Refused::File(error.clone()))?;
        let path = &self.loaded.path;
        let folder = path.parent().unwrap_or(path);
        let file =
            parse(&path.display().to_string(), text, folder, self.listen).map_err(Refused::File)?;
        change(&self.directory, &self.loaded.file, &file)
            .await
            .map_err(Refused::Now)?;
        let waiting = different_settings(started, &file);
        if !waiting.is_empty() {
            tracing::warn!(
                tables = waiting.join(", "),
                "changed settings take effect when the daemon starts again"
            );
        }
        self.loaded.text.clone_from(text);
        self.loaded.file = file;
        self.status.set(applied(&self.loaded));
        tracing::info!(file = %self.loaded.path.display(), "the changed configuration file is applied");
        Ok(())
    }

    fn say(&self, error: Option<String>) {
        self.status.set(ConfigFileStatus {
            error,
            ..self.status.get()
        });
    }
}

/// Why a changed file was not applied.
enum Refused {
    /// There is an error in it, or it cannot be read.
    File(super::Error),
    /// The store refuses; it is tried again.
    Now(steadfast_gateway::directory::Error),
}

/// Carries the difference of two files to the daemon.
async fn change(
    directory: &Directory,
    before: &File,
    after: &File,
) -> Result<(), steadfast_gateway::directory::Error> {
    for (name, server) in &after.servers {
        if before.servers.get(name) != Some(server) {
            directory
                .put_server(name, server.clone(), Source::File)
                .await?;
        }
    }
    for (name, agent) in &after.agents {
        if before.agents.get(name) != Some(agent) {
            directory
                .put_agent(name, agent.clone(), Source::File)
                .await?;
        }
    }
    for name in before
        .agents
        .keys()
        .filter(|name| !after.agents.contains_key(*name))
    {
        gone(directory.remove_agent(name, Source::File).await)?;
    }
    for name in before
        .servers
        .keys()
        .filter(|name| !after.servers.contains_key(*name))
    {
        gone(directory.remove_server(name, Source::File).await)?;
    }
    Ok(())
}

/// What another daemon on the same store removed already is gone.
fn gone(
    removed: Result<(), steadfast_gateway::directory::Error>,
) -> Result<(), steadfast_gateway::directory::Error> {
    match removed {
        Err(steadfast_gateway::directory::Error::NotFound(..)) => Ok(()),
        other => other,
    }
}
