//! What every command is given: where to write, and how to reach the daemon.

use std::path::PathBuf;

use clap::Args;
use steadfast_core::code;
use url::{Host, Url};

use crate::client::Client;
use crate::data_dir::DataDir;
use crate::directory::Directory;
use crate::failure::Failure;
use crate::output::Output;

/// The options of every command.
#[derive(Args, Clone)]
pub(crate) struct Options {
    /// The data directory; else the platform's own
    #[arg(
        long,
        global = true,
        env = "STEADFAST_DATA",
        value_name = "DIR",
        hide_env_values = true
    )]
    pub(crate) data: Option<PathBuf>,
    /// The address of the daemon; else the one that runs on the data directory
    #[arg(
        long,
        global = true,
        env = "STEADFAST_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    pub(crate) url: Option<Url>,
    /// The admin token; else the one in the data directory
    #[arg(
        long,
        global = true,
        env = "STEADFAST_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What every command is given.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) output: Output,
}

impl Context {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            output: Output::new(options.json),
            options,
        }
    }

    /// The data directory.
    pub(crate) fn data_dir(&self) -> Result<DataDir, Failure> {
        DataDir::find(self.options.data.as_deref())
    }

    /// The running daemon.
    pub(crate) fn daemon(&self) -> Result<Client, Failure> {
        match self.find_daemon()? {
            Some(client) => Ok(client),
            None => Err(self.no_daemon()?),
        }
    }

    /// The running daemon as an agent with this key sees it.
    pub(crate) fn gateway(&self, key: &str) -> Result<Client, Failure> {
        match self.address()? {
            Some(url) => Client::new(url, key),
            None => Err(self.no_daemon()?),
        }
    }

    /// The running daemon, if there is one.
    pub(crate) fn find_daemon(&self) -> Result<Option<Client>, Failure> {
        let Some(url) = self.address()? else {
            return Ok(None);
        };
        let token = self.token_for(&url)?;
        Client::new(url, &token).map(Some)
    }

    fn address(&self) -> Result<Option<Url>, Failure> {
        if let Some(url) = &self.options.url {
            return Ok(Some(url.clone()));
        }
        let Some(daemon) = self.data_dir()?.daemon() else {
            return Ok(None);
        };
        let url = Url::parse(&daemon.url);
        url.map(Some)
            .map_err(|error| Failure::new(code::INTERNAL, format!("`{}`: {error}", daemon.url)))
    }

    fn no_daemon(&self) -> Result<Failure, Failure> {
        let message = format!("no daemon runs on {}", self.data_dir()?.path().display());
        Ok(Failure::new(code::NO_DAEMON, message))
    }

    fn token_for(&self, url: &Url) -> Result<String, Failure> {
        if let Some(token) = &self.options.token {
            return Ok(token.clone());
        }
        // The token of this machine's daemon goes to no other machine.
        let is_here = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback() || self.options.url.is_none(),
            Some(Host::Ipv6(address)) => address.is_loopback() || self.options.url.is_none(),
            None => false,
        };
        let kept = if is_here {
            self.data_dir()?.token()?
        } else {
            None
        };
        kept.ok_or_else(|| {
            let message = format!("there is no admin token for the daemon at {url}");
            Failure::hinted(
                code::BAD_ADMIN_TOKEN,
                message,
                "Set STEADFAST_TOKEN to the one in its `admin.token`.",
            )
        })
    }

    /// Agents and servers: in the running daemon, or in the store where none runs.
    pub(crate) async fn directory(&self) -> Result<Directory, Failure> {
        self.directory_or(None).await
    }

    /// The same; where no daemon runs, in the store that a file names with its `store.url`.
    pub(crate) async fn directory_or(&self, store_url: Option<&str>) -> Result<Directory, Failure> {
        if let Some(client) = self.find_daemon()? {
            return Ok(Directory::Daemon(client));
        }
        let data = self.data_dir()?;
        data.create()?;
        let file = store_url.map_or_else(|| data.last_store_file(), |url| data.store_file(url));
        Directory::open(file).await
    }
}
