//! Agents and servers, for the commands that change them: through the running daemon, or, where none runs,
//! in its store.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use steadfast::clock;
use steadfast::config;
use steadfast_core::code;
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{
    AgentRecord, Audit as _, AuditRecord, Records as _, ServerRecord, Source, SqliteOptions,
    SqliteRecords, Via, make_key,
};

use crate::client::{Client, user};
use crate::failure::Failure;

/// Where agents and servers are changed.
pub(crate) enum Directory {
    /// In the daemon that runs.
    Daemon(Client),
    /// In the store: the next daemon finds them there.
    Store(SqliteRecords),
}

/// An agent or a server with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry<C> {
    pub(crate) name: String,
    /// Whether a configuration file defined it, so that it is read-only here.
    pub(crate) from_file: bool,
    /// Whether it has a key; only agents have.
    pub(crate) has_key: bool,
    pub(crate) config: C,
}

/// An agent.
pub(crate) type Agent = Entry<config::Agent>;
/// A server.
pub(crate) type Server = Entry<config::Server>;

#[derive(Deserialize)]
struct Shown {
    name: String,
    source: String,
    #[serde(default)]
    has_key: bool,
    #[serde(flatten)]
    config: Map<String, Value>,
}

impl<C: DeserializeOwned> Entry<C> {
    fn read(value: Value) -> Result<Self, Failure> {
        let shown: Shown = serde_json::from_value(value).map_err(Failure::foreign)?;
        Ok(Self {
            from_file: shown.source == "file",
            has_key: shown.has_key,
            config: serde_json::from_value(Value::Object(shown.config))
                .map_err(Failure::foreign)?,
            name: shown.name,
        })
    }

    fn read_all(mut value: Value, key: &str) -> Result<Vec<Self>, Failure> {
        match value[key].take() {
            Value::Array(values) => values.into_iter().map(Self::read).collect(),
            _ => Err(Failure::new(
                code::INTERNAL,
                format!("the daemon's answer has no list of {key}"),
            )),
        }
    }
}

fn stored<C: DeserializeOwned>(kind: &str, name: &str, config: Value) -> Result<C, Failure> {
    serde_json::from_value(config).map_err(|error| {
        Failure::new(
            code::STORE_DAMAGED,
            format!("the record of {kind} `{name}` cannot be read: {error}"),
        )
    })
}

impl TryFrom<AgentRecord> for Agent {
    type Error = Failure;

    fn try_from(record: AgentRecord) -> Result<Self, Failure> {
        Ok(Self {
            config: stored("agent", record.name.as_str(), record.config)?,
            name: record.name.as_str().to_owned(),
            from_file: record.source == Source::File,
            has_key: record.key.is_some(),
        })
    }
}

impl TryFrom<ServerRecord> for Server {
    type Error = Failure;

    fn try_from(record: ServerRecord) -> Result<Self, Failure> {
        Ok(Self {
            config: stored("server", record.name.as_str(), record.config)?,
            name: record.name.as_str().to_owned(),
            from_file: record.source == Source::File,
            has_key: false,
        })
    }
}

fn to_json(config: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(config).map_err(|error| Failure::new(code::INTERNAL, error.to_string()))
}

fn missing(kind: &str, name: &str) -> Failure {
    Failure::new(code::NOT_FOUND, format!("there is no {kind} `{name}`"))
}

/// What came from a file is changed in the file.
fn writable<C>(kind: &str, entry: Option<&Entry<C>>) -> Result<(), Failure> {
    match entry {
        Some(entry) if entry.from_file => {
            let message = format!(
                "{kind} `{}` is defined in the configuration file, and is read-only here",
                entry.name
            );
            Err(Failure::new(code::CONFLICT, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Puts a change of the store on record, named as the daemon names it.
async fn recorded(records: &SqliteRecords, action: &str, target: &str) -> Result<(), Failure> {
    let user = user().and_then(|user| user.to_str().map(str::to_owned).ok());
    let record = AuditRecord {
        at: clock::wall(),
        who: user.map_or_else(|| "admin".to_owned(), |user| format!("admin ({user})")),
        via: Via::Offline,
        action: action.to_owned(),
        target: target.to_owned(),
        detail: String::new(),
    };
    Ok(records.append_audit(&record).await?)
}

impl Directory {
    /// The store in this file, which is made where it is not there.
    pub(crate) async fn open(file: PathBuf) -> Result<Self, Failure> {
        Ok(Self::Store(
            SqliteRecords::open(file, SqliteOptions::default()).await?,
        ))
    }

    /// Lets go of the store.
    pub(crate) async fn close(&self) {
        if let Self::Store(records) = self {
            records.close().await;
        }
    }

    /// All agents.
    pub(crate) async fn agents(&self) -> Result<Vec<Agent>, Failure> {
        match self {
            Self::Daemon(client) => Agent::read_all(client.get(&["agents"]).await?, "agents"),
            Self::Store(records) => records
                .agents()
                .await?
                .into_iter()
                .map(Agent::try_from)
                .collect(),
        }
    }

    /// All servers.
    pub(crate) async fn servers(&self) -> Result<Vec<Server>, Failure> {
        match self {
            Self::Daemon(client) => Server::read_all(client.get(&["servers"]).await?, "servers"),
            Self::Store(records) => records
                .servers()
                .await?
                .into_iter()
                .map(Server::try_from)
                .collect(),
        }
    }

    /// One agent, if it is there.
    pub(crate) async fn agent(&self, name: &str) -> Result<Option<Agent>, Failure> {
        Ok(self
            .agents()
            .await?
            .into_iter()
            .find(|agent| agent.name == name))
    }

    /// One server.
    pub(crate) async fn server(&self, name: &str) -> Result<Server, Failure> {
        let found = self
            .servers()
            .await?
            .into_iter()
            .find(|server| server.name == name);
        found.ok_or_else(|| missing("server", name))
    }

    /// Adds or changes an agent.
    pub(crate) async fn put_agent(&self, name: &str, agent: &config::Agent) -> Result<(), Failure> {
        let config = to_json(agent)?;
        match self {
            Self::Daemon(client) => client.put(&["agents", name], &config).await.map(drop),
            Self::Store(records) => {
                writable("agent", self.agent(name).await?.as_ref())?;
                let record = AgentRecord {
                    name: AgentName::from(name),
                    config,
                    source: Source::Admin,
                    key: None,
                    created_at: clock::wall(),
                };
                records.put_agent(&record).await?;
                recorded(records, "put_agent", name).await
            }
        }
    }

    /// Removes an agent.
    pub(crate) async fn remove_agent(&self, name: &str) -> Result<(), Failure> {
        match self {
            Self::Daemon(client) => client.delete(&["agents", name]).await.map(drop),
            Self::Store(records) => {
                let agent = self
                    .agent(name)
                    .await?
                    .ok_or_else(|| missing("agent", name))?;
                writable("agent", Some(&agent))?;
                records.remove_agent(&AgentName::from(name)).await?;
                recorded(records, "remove_agent", name).await
            }
        }
    }

    /// Makes a key for an agent; the one before is worth nothing from then on.
    pub(crate) async fn make_key(&self, name: &str) -> Result<String, Failure> {
        match self {
            Self::Daemon(client) => {
                let answer = client.post(&["agents", name, "key"], None).await?;
                let key = answer["key"].as_str().map(str::to_owned);
                key.ok_or_else(|| Failure::new(code::INTERNAL, "the daemon's answer has no key"))
            }
            Self::Store(records) => {
                let (key, hash) = make_key()?;
                if records.set_agent_key(&AgentName::from(name), hash).await? {
                    recorded(records, "make_key", name).await?;
                    Ok(key.reveal().to_owned())
                } else {
                    Err(missing("agent", name))
                }
            }
        }
    }

    /// Adds or changes a server.
    pub(crate) async fn put_server(
        &self,
        name: &str,
        server: &config::Server,
    ) -> Result<(), Failure> {
        let config = to_json(server)?;
        match self {
            Self::Daemon(client) => client.put(&["servers", name], &config).await.map(drop),
            Self::Store(records) => {
                let before = self
                    .servers()
                    .await?
                    .into_iter()
                    .find(|server| server.name == name);
                writable("server", before.as_ref())?;
                let record = ServerRecord {
                    name: ServerName::from(name),
                    config,
                    source: Source::Admin,
                };
                records.put_server(&record).await?;
                recorded(records, "put_server", name).await
            }
        }
    }

    /// Removes a server.
    pub(crate) async fn remove_server(&self, name: &str) -> Result<(), Failure> {
        match self {
            Self::Daemon(client) => client.delete(&["servers", name]).await.map(drop),
            Self::Store(records) => {
                let server = self.server(name).await?;
                writable("server", Some(&server))?;
                records.remove_server(&ServerName::from(name)).await?;
                recorded(records, "remove_server", name).await
            }
        }
    }
}
