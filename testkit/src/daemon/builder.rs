//! What a daemon is started with.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Daemon;

/// Settings that make hours into seconds; a test overrides what it is about.
const SCALED: [(&str, &str); 10] = [
    ("gateway.config_check", "\"100ms\""),
    ("retry.first", "\"50ms\""),
    ("retry.max", "\"1s\""),
    ("retry.connect_timeout", "\"1s\""),
    ("retry.request_timeout", "\"5s\""),
    ("retry.silence_timeout", "\"10s\""),
    ("retry.call_timeout", "\"30s\""),
    ("retry.stream_open_timeout", "\"1s\""),
    ("retry.stream_recheck", "\"5s\""),
    // No health checks between the requests that a test counts.
    ("retry.health_every", "\"0s\""),
];

/// How a daemon is to be started.
#[derive(Debug)]
pub struct Builder {
    pub(super) binary: PathBuf,
    /// Values as TOML text, by table and key.
    settings: BTreeMap<String, BTreeMap<String, String>>,
    text: String,
    pub(super) environment: Vec<(String, String)>,
    pub(super) listen: String,
    pub(super) data: Option<PathBuf>,
}

impl Builder {
    pub(super) fn new(binary: &Path) -> Self {
        let builder = Self {
            binary: binary.to_owned(),
            settings: BTreeMap::new(),
            text: String::new(),
            environment: vec![("STEADFAST_LOG".to_owned(), "debug".to_owned())],
            listen: "127.0.0.1:0".to_owned(),
            data: None,
        };
        SCALED
            .iter()
            .fold(builder, |builder, (key, value)| builder.set(key, value))
    }

    /// Sets one value: a dotted key and the value as TOML, such as `("retry.first", "\"10ms\"")`.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.put(key, value);
        self
    }

    pub(super) fn put(&mut self, key: &str, value: &str) {
        let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
        let table = self.settings.entry(table.to_owned()).or_default();
        table.insert(key.to_owned(), value.to_owned());
    }

    /// Sets one string value.
    #[must_use]
    pub fn set_text(self, key: &str, value: &str) -> Self {
        // A JSON string is a TOML basic string.
        self.set(key, &Value::from(value).to_string())
    }

    /// Adds a server.
    #[must_use]
    pub fn server(self, name: &str, url: &str) -> Self {
        self.set_text(&format!("servers.{name}.url"), url)
    }

    /// Declares a tool of a server to be a read.
    #[must_use]
    pub fn read_tool(self, server: &str, tool: &str) -> Self {
        self.set_text(&format!("servers.{server}.tools.{tool}.effect"), "read")
    }

    /// Adds an agent with access to every server.
    #[must_use]
    pub fn agent(self, name: &str) -> Self {
        self.set(&format!("agents.{name}.servers"), "\"*\"")
    }

    /// Adds an agent with access to these servers.
    #[must_use]
    pub fn agent_with(self, name: &str, servers: &[&str]) -> Self {
        self.set(
            &format!("agents.{name}.servers"),
            &Value::from(servers.to_vec()).to_string(),
        )
    }

    /// Listens there instead of on a free loopback port.
    #[must_use]
    pub fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// Shares this data directory with another daemon, instead of having one of its own.
    #[must_use]
    pub fn data(mut self, directory: &Path) -> Self {
        self.data = Some(directory.to_owned());
        self
    }

    /// Adds configuration text at the end, as it is.
    #[must_use]
    pub fn config(mut self, toml: &str) -> Self {
        self.text.push_str(toml);
        self.text.push('\n');
        self
    }

    /// Sets an environment variable of the process.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn toml(&self) -> String {
        let mut toml = String::new();
        for (table, values) in &self.settings {
            if !table.is_empty() {
                toml.push_str(&format!("[{table}]\n"));
            }
            for (key, value) in values {
                toml.push_str(&format!("{key} = {value}\n"));
            }
            toml.push('\n');
        }
        toml.push_str(&self.text);
        toml
    }

    /// Starts the daemon and waits until it listens.
    pub async fn start(self) -> io::Result<Daemon> {
        Daemon::start(self).await
    }
}
