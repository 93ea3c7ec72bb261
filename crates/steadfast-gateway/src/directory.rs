//! The agents and servers that are configured: written to the store first, then given to the keeper.
//! The admin API and whoever applies a configuration file go through here, so that store, keeper and
//! credentials stay in step.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Serialize;
use steadfast::{Keeper, NotAccepted, config};
use steadfast_core::code::{self, Code};
use steadfast_core::merged::names;
use steadfast_core::oauth::bearer::Refusal;
use steadfast_core::replay::Access;
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{
    AgentKey, AgentRecord, KEY_PREFIX, KeyHash, ServerRecord, SharedRecords, Source, make_key,
};
use tokio::sync::{Mutex, broadcast};
use url::Url;

use crate::agents::listening::ListeningStreams;
use crate::clock;
use crate::credential::{Credentials, Refused, Shown, bearer};

/// Agents and servers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Directory {
    keeper: Keeper,
    records: SharedRecords,
    pub(crate) credentials: Arc<Credentials>,
    /// The streams that end with the key of their agent.
    listening: ListeningStreams,
    /// One change at a time, so that store and keeper see changes in the same order.
    changing: Arc<Mutex<()>>,
    told: broadcast::Sender<Configured>,
}

/// Something of the configuration is another one now.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Configured {
    /// `agent`, `server` or `secret`.
    kind: &'static str,
    name: String,
    /// `put` or `removed`.
    change: &'static str,
}

/// Who watches and is this far behind misses changes, and is told so.
const CHANGES: usize = 256;

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that cannot be one.
    #[error("`{0}` is no name: 1 to 64 of A-Z a-z 0-9 _ -, and no `__`")]
    BadName(String),
    /// A name that is ours: `steadfast__connections` is no tool of a server.
    #[error("`{0}` cannot name a server: tools of Steadfast's own are named after it")]
    Reserved(String),
    /// A configuration that could never work. Where, and why.
    #[error("{0}")]
    Wrong(String, Code),
    /// There is nothing of that name.
    #[error("there is no {0} `{1}`")]
    NotFound(&'static str, String),
    /// It came from a file, and is changed there.
    #[error("{0} `{1}` is defined in the configuration file, and is read-only here")]
    ReadOnly(&'static str, String),
    /// A record of the store cannot be understood.
    #[error("the record of {0} `{1}` cannot be read: {2}")]
    BadRecord(&'static str, String, String),
    /// The store refuses.
    #[error("{0}")]
    Store(#[from] steadfast_store::Error),
}

impl Error {
    /// Its entry in the registry.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::BadName(_) | Self::Reserved(_) => code::CONFIG_BAD_VALUE,
            Self::Wrong(_, code) => *code,
            Self::NotFound(..) => code::NOT_FOUND,
            Self::ReadOnly(..) => code::CONFLICT,
            Self::BadRecord(..) => code::STORE_DAMAGED,
            Self::Store(error) => error.code(),
        }
    }
}

/// Whether `name` can name an agent or a server. `__` parts server and tool on the merged endpoint.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        && !name.contains("__")
}

fn check_name(name: &str) -> Result<(), Error> {
    if is_name(name) {
        Ok(())
    } else {
        Err(Error::BadName(name.chars().take(80).collect()))
    }
}

impl Directory {
    /// `anonymous` is who a request without a credential is.
    pub(crate) fn new(
        keeper: Keeper,
        records: SharedRecords,
        anonymous: Option<AgentName>,
        listening: ListeningStreams,
    ) -> Self {
        Self {
            keeper,
            records,
            credentials: Arc::new(Credentials::new(anonymous)),
            listening,
            changing: Arc::default(),
            told: broadcast::Sender::new(CHANGES),
        }
    }

    /// Gives the keeper everything that the store holds. Once, at start.
    pub async fn load(&self) -> Result<(), Error> {
        let _one = self.changing.lock().await;
        for record in self.records.servers().await? {
            let server = serde_json::from_value(record.config)
                .map_err(|error| bad_record("server", record.name.as_str(), &error))?;
            self.keeper.put_server(record.name, server).await?;
        }
        for record in self.records.agents().await? {
            let agent = serde_json::from_value(record.config)
                .map_err(|error| bad_record("agent", record.name.as_str(), &error))?;
            self.credentials
                .set(&record.name, record.key, clock::mono());
            self.keeper.put_agent(record.name, agent).await?;
        }
        Ok(self.keeper.forget_leftovers().await?)
    }

    /// Every change of the configuration from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Configured> {
        self.told.subscribe()
    }

    /// Tells everyone who watches, be it anybody.
    pub(crate) fn tell(&self, kind: &'static str, name: &str, change: &'static str) {
        let name = name.to_owned();
        let _ = self.told.send(Configured { kind, name, change });
    }

    /// All agents.
    pub async fn agents(&self) -> Result<Vec<AgentRecord>, Error> {
        Ok(self.records.agents().await?)
    }

    /// One agent.
    pub async fn agent(&self, name: &str) -> Result<AgentRecord, Error> {
        let found = self.records.agent(&AgentName::from(name)).await?;
        found.ok_or_else(|| Error::NotFound("agent", name.to_owned()))
    }

    /// Adds or changes an agent. Whether it is new.
    pub async fn put_agent(
        &self,
        name: &str,
        agent: config::Agent,
        source: Source,
    ) -> Result<bool, Error> {
        check_name(name)?;
        let _one = self.changing.lock().await;
        let name = AgentName::from(name);
        let before = self.records.agent(&name).await?;
        if let Some(before) = &before {
            writable(source, before.source, "agent", name.as_str())?;
        }
        let record = AgentRecord {
            name: name.clone(),
            config: serde_json::to_value(&agent)
                .map_err(|error| bad_record("agent", name.as_str(), &error))?,
            source,
            key: None,
            created_at: clock::wall(),
        };
        self.records.put_agent(&record).await?;
        self.keeper.put_agent(name, agent).await?;
        self.tell("agent", record.name.as_str(), "put");
        Ok(before.is_none())
    }

    /// Gives an agent a further server. Nothing changes where it has it already.
    pub(crate) async fn give_server(&self, agent: &str, server: &str) -> Result<(), Error> {
        let (record, _) = (self.agent(agent).await?, self.server(server).await?);
        let mut config: config::Agent = serde_json::from_value(record.config)
            .map_err(|error| bad_record("agent", agent, &error))?;
        match &mut config.servers {
            config::Servers::Some(names) if !names.iter().any(|name| name == server) => {
                names.push(server.to_owned());
            }
            config::Servers::Some(_) | config::Servers::All(_) => return Ok(()),
        }
        self.put_agent(agent, config, Source::Admin).await?;
        Ok(())
    }

    /// Removes an agent, its key and its links.
    pub async fn remove_agent(&self, name: &str, source: Source) -> Result<(), Error> {
        let _one = self.changing.lock().await;
        let before = self.agent(name).await?;
        writable(source, before.source, "agent", name)?;
        self.records.remove_agent(&before.name).await?;
        self.credentials.set(&before.name, None, clock::mono());
        self.keeper.remove_agent(&before.name).await;
        self.tell("agent", name, "removed");
        Ok(())
    }

    /// Makes a new key for an agent; the one before is worth nothing from then on. A key is no
    /// configuration: agents of a file get theirs here as well.
    pub async fn make_key(&self, name: &str) -> Result<AgentKey, Error> {
        let _one = self.changing.lock().await;
        let name = AgentName::from(name);
        let (key, hash) = make_key()?;
        if !self.records.set_agent_key(&name, hash).await? {
            return Err(Error::NotFound("agent", name.as_str().to_owned()));
        }
        self.credentials.set(&name, Some(hash), clock::mono());
        // Before anybody knows the new key: no stream that it opens can be among them.
        self.listening.end_of(&name);
        self.tell("agent", name.as_str(), "put");
        Ok(key)
    }

    /// A pass for an agent, beside its key: for whoever has the admin token and speaks for the agent on this machine
    /// (`steadfast connect`). It is kept in memory only.
    ///
    /// # Errors
    ///
    /// Where there is no such agent.
    pub async fn make_pass(&self, name: &str) -> Result<AgentKey, Error> {
        let agent = self.agent(name).await?.name;
        let (pass, hash) = make_key()?;
        self.credentials.add_pass(&agent, hash, clock::mono());
        Ok(pass)
    }

    /// What the credential of a request says. `public_url` is where we are reached.
    pub(crate) async fn access_of(
        &self,
        headers: &HeaderMap,
        public_url: &Url,
    ) -> Result<Access, Refused> {
        match self.token_of(headers) {
            // Boxed as everything rare is: each connection holds room for what is not.
            Some(token) => Box::pin(self.by_token(token, public_url)).await,
            None => self.agent_of(headers).await.map(Access::of_key),
        }
    }

    /// The access token of a request: what is shown like a key and is none. A key never reaches an issuer.
    fn token_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        if self.keeper.issuers().is_empty() {
            return None;
        }
        let token = headers.get(AUTHORIZATION).and_then(bearer)?;
        (!token.starts_with(KEY_PREFIX)).then_some(token)
    }

    async fn by_token(&self, token: &str, public_url: &Url) -> Result<Access, Refused> {
        let accepted = self.keeper.issuers().accept(token, public_url).await;
        let access = accepted.map_err(|why| match why {
            NotAccepted::Refused(refusal) => Refused::Token(refusal),
            NotAccepted::Unavailable => Refused::Unavailable,
        })?;
        if !self.keeper.has_agent(&access.agent) {
            return Err(Refused::Token(Refusal::NoAgent));
        }
        Ok(access)
    }

    /// Whose request this is. Another daemon on the same store may have made the key, or a newer one.
    async fn agent_of(&self, headers: &HeaderMap) -> Result<AgentName, Refused> {
        match self.credentials.shown(headers, clock::mono())? {
            Shown::Agent(agent) => Ok(agent),
            Shown::Key(key, agent) => self.looked_up(key, agent).await,
        }
    }

    async fn looked_up(
        &self,
        key: KeyHash,
        known: Option<AgentName>,
    ) -> Result<AgentName, Refused> {
        let unchanged = match (self.records.agent_by_key(&key).await, &known) {
            (Ok(None), None) => return Err(Refused::Unknown),
            (Ok(found), _) => found.is_some_and(|found| Some(&found.name) == known.as_ref()),
            (Err(error), _) => {
                // A store that does not answer changes nothing in who is who.
                tracing::warn!(%error, "the key of an agent cannot be looked up");
                return known.ok_or(Refused::Unknown);
            }
        };
        if let (true, Some(agent)) = (unchanged, known) {
            self.credentials.saw(key, clock::mono());
            return Ok(agent);
        }
        self.take_over(key).await
    }

    /// What another daemon wrote counts here, too. Looked at again while nobody changes anything here.
    async fn take_over(&self, key: KeyHash) -> Result<AgentName, Refused> {
        let _one = self.changing.lock().await;
        let take = |agent: &AgentName, key| {
            if self.credentials.set(agent, key, clock::mono()) {
                self.listening.end_of(agent);
            }
        };
        let found = self.records.agent_by_key(&key).await;
        match found.map_err(|_| Refused::Unknown)? {
            Some(record) => {
                take(&record.name, record.key);
                Ok(record.name)
            }
            None => {
                if let Some(agent) = self.credentials.owner(key) {
                    let record = self.records.agent(&agent).await;
                    let record = record.map_err(|_| Refused::Unknown)?;
                    take(&agent, record.and_then(|record| record.key));
                }
                Err(Refused::Unknown)
            }
        }
    }

    /// All servers.
    pub async fn servers(&self) -> Result<Vec<ServerRecord>, Error> {
        Ok(self.records.servers().await?)
    }

    /// One server.
    pub async fn server(&self, name: &str) -> Result<ServerRecord, Error> {
        let found = self.records.server(&ServerName::from(name)).await?;
        found.ok_or_else(|| Error::NotFound("server", name.to_owned()))
    }

    /// Adds or changes a server. Whether it is new.
    pub async fn put_server(
        &self,
        name: &str,
        server: config::Server,
        source: Source,
    ) -> Result<bool, Error> {
        check_name(name)?;
        if name == names::OURS {
            return Err(Error::Reserved(name.to_owned()));
        }
        if let Some(wrong) = server.check().into_iter().next() {
            let place = wrong.place.join(".");
            return Err(Error::Wrong(format!("{place}: {}", wrong.why), wrong.code));
        }
        let _one = self.changing.lock().await;
        let name = ServerName::from(name);
        let before = self.records.server(&name).await?;
        if let Some(before) = &before {
            writable(source, before.source, "server", name.as_str())?;
        }
        let record = ServerRecord {
            name: name.clone(),
            config: serde_json::to_value(&server)
                .map_err(|error| bad_record("server", name.as_str(), &error))?,
            source,
        };
        self.records.put_server(&record).await?;
        self.keeper.put_server(name, server).await?;
        self.tell("server", record.name.as_str(), "put");
        Ok(before.is_none())
    }

    /// Removes a server and its links.
    pub async fn remove_server(&self, name: &str, source: Source) -> Result<(), Error> {
        let _one = self.changing.lock().await;
        let before = self.server(name).await?;
        writable(source, before.source, "server", name)?;
        self.records.remove_server(&before.name).await?;
        self.keeper.remove_server(&before.name).await;
        self.tell("server", name, "removed");
        Ok(())
    }
}

fn bad_record(kind: &'static str, name: &str, error: &serde_json::Error) -> Error {
    Error::BadRecord(kind, name.to_owned(), error.to_string())
}

/// What came from a file is changed in the file.
fn writable(by: Source, defined: Source, kind: &'static str, name: &str) -> Result<(), Error> {
    match (by, defined) {
        (Source::Admin, Source::File) => Err(Error::ReadOnly(kind, name.to_owned())),
        (Source::Admin, Source::Admin) | (Source::File, Source::File | Source::Admin) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_stand_in_a_path_and_before_a_tool() {
        for good in ["a", "booking", "Booking-2", "a_b", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "a__b", "a b", "a/b", "ä", "a.b", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn only_the_file_changes_what_the_file_defined() {
        assert!(writable(Source::Admin, Source::File, "agent", "a").is_err());
        assert!(writable(Source::Admin, Source::Admin, "agent", "a").is_ok());
        assert!(writable(Source::File, Source::File, "agent", "a").is_ok());
        assert!(writable(Source::File, Source::Admin, "agent", "a").is_ok());
    }
}
