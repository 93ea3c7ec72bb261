//! The real binary as a child process: started, killed, asked.

mod builder;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

pub use builder::Builder;

use crate::PATIENCE;
use crate::agent::Agent;
use crate::client::{self, EventStream};
use crate::port::Port;

/// A running `steadfast serve`. Dropping it kills the process; if the test is failing its log is printed.
#[derive(Debug)]
pub struct Daemon {
    directory: TempDir,
    data: PathBuf,
    config: PathBuf,
    builder: Builder,
    address: SocketAddr,
    /// Held over restarts, where the test left it to us which port it is.
    _port: Option<Port>,
    child: Option<Child>,
    /// Keys by agent: making a new one may end the old one.
    keys: Mutex<BTreeMap<String, String>>,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Daemon {
    /// Begins a daemon with scaled times; `binary` is `env!("CARGO_BIN_EXE_steadfast")`.
    #[must_use]
    pub fn builder(binary: impl AsRef<Path>) -> Builder {
        Builder::new(binary.as_ref())
    }

    async fn start(mut builder: Builder) -> io::Result<Self> {
        let directory = TempDir::new()?;
        let config = directory.path().join("steadfast.toml");
        std::fs::write(&config, builder.toml())?;
        let wanted = builder.listen.parse::<SocketAddr>().ok();
        let free = wanted.filter(|wanted| wanted.port() == 0);
        let port = free.map(Port::reserve).transpose()?;
        if let Some(port) = &port {
            builder.listen = port.address().to_string();
        }
        let mut daemon = Self {
            data: builder
                .data
                .clone()
                .unwrap_or_else(|| directory.path().join("data")),
            directory,
            config,
            builder,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            _port: port,
            child: None,
            keys: Mutex::default(),
            stdout: Arc::default(),
            stderr: Arc::default(),
        };
        daemon.launch().await?;
        Ok(daemon)
    }

    async fn launch(&mut self) -> io::Result<()> {
        let mut command = Command::new(&self.builder.binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(&self.config)
            .arg("--data")
            .arg(&self.data);
        command
            .arg("--listen")
            .arg(&self.builder.listen)
            .envs(self.builder.environment.iter().cloned());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let (found, listening) = oneshot::channel();
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            tokio::spawn(collect(stdout, Arc::clone(&self.stdout), Some(found)));
            tokio::spawn(collect(stderr, Arc::clone(&self.stderr), None));
        }
        self.child = Some(child);
        let address = tokio::time::timeout(PATIENCE, listening).await;
        let address = address
            .ok()
            .and_then(Result::ok)
            .and_then(|address| address.parse().ok());
        self.address = address.ok_or_else(|| {
            io::Error::other(format!(
                "the daemon does not listen:\n{}\n{}",
                self.stdout.lock(),
                self.stderr.lock()
            ))
        })?;
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Its configuration file; change it to see it noticed.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Sets one value and rewrites the configuration file, for the daemon to notice; see [`Builder::set`].
    pub fn reconfigure(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.builder.put(key, value);
        // Moved into place, so that no half of it is ever read.
        let new = self.config.with_extension("new");
        std::fs::write(&new, self.builder.toml())?;
        std::fs::rename(new, &self.config)
    }

    /// A directory for the test's own files, removed with the daemon.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// What it has written to standard error so far, over all its lives.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.lock().clone()
    }

    /// What it has written to standard output so far, over all its lives.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.lock().clone()
    }

    /// The admin token from the data directory.
    pub fn admin_token(&self) -> io::Result<String> {
        Ok(std::fs::read_to_string(self.data.join("admin.token"))?
            .trim()
            .to_owned())
    }

    /// Kills it at once (SIGKILL) and waits until it is gone.
    pub async fn kill9(&mut self) -> io::Result<()> {
        match self.child.take() {
            Some(mut child) => child.kill().await,
            None => Ok(()),
        }
    }

    /// Asks it to end (SIGTERM); how it ended, and how long that took.
    pub async fn terminate(&mut self) -> io::Result<(ExitStatus, Duration)> {
        let mut child = self
            .child
            .take()
            .ok_or_else(|| io::Error::other("it does not run"))?;
        self.signal_child(&child, Signal::TERM)?;
        let asked = Instant::now();
        let status = tokio::time::timeout(PATIENCE, child.wait()).await??;
        Ok((status, asked.elapsed()))
    }

    /// Sends a signal, such as `Signal::STOP` and `Signal::CONT` for a machine that sleeps.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let child = self
            .child
            .as_ref()
            .ok_or_else(|| io::Error::other("it does not run"))?;
        self.signal_child(child, signal)
    }

    fn signal_child(&self, child: &Child, signal: Signal) -> io::Result<()> {
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("it does not run"))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Starts it again on the same port and data, killing it first if it still runs.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.kill9().await?;
        self.builder.listen = self.address.to_string();
        self.launch().await
    }

    /// Runs another command of the binary on this data directory.
    pub async fn command(&self, arguments: &[&str]) -> io::Result<Output> {
        let mut command = Command::new(&self.builder.binary);
        command
            .args(arguments)
            .arg("--data")
            .arg(&self.data)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command.envs(self.builder.environment.iter().cloned());
        tokio::time::timeout(PATIENCE, command.output()).await?
    }

    /// The key of a configured agent, made at the first request for it.
    pub async fn agent_key(&self, agent: &str) -> io::Result<String> {
        let known = self.keys.lock().get(agent).cloned();
        match known {
            Some(key) => Ok(key),
            None => self.new_agent_key(agent).await,
        }
    }

    /// A new key for a configured agent.
    pub async fn new_agent_key(&self, agent: &str) -> io::Result<String> {
        let key = self.key_from(&["agent", "key", agent, "--json"]).await?;
        self.keys.lock().insert(agent.to_owned(), key.clone());
        Ok(key)
    }

    /// Adds an agent that is in no file; its key.
    pub async fn add_agent(&self, agent: &str) -> io::Result<String> {
        self.key_from(&["agent", "add", agent, "--json"]).await
    }

    async fn key_from(&self, arguments: &[&str]) -> io::Result<String> {
        let output = self.command(arguments).await?;
        let printed: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let key = printed.as_ref().and_then(|printed| printed["key"].as_str());
        key.map(str::to_owned)
            .ok_or_else(|| io::Error::other(format!("{arguments:?} printed no key: {output:?}")))
    }

    /// A legacy agent on one server, with its key, not yet initialized.
    pub async fn legacy_agent(&self, agent: &str, server: &str) -> io::Result<Agent> {
        let key = self.agent_key(agent).await?;
        Ok(Agent::legacy(
            self.address,
            &format!("/mcp/{server}"),
            Some(&key),
        ))
    }

    /// A modern agent on one server, with its key.
    pub async fn modern_agent(&self, agent: &str, server: &str) -> io::Result<Agent> {
        let key = self.agent_key(agent).await?;
        Ok(Agent::modern(
            self.address,
            &format!("/mcp/{server}"),
            Some(&key),
        ))
    }

    /// A legacy agent on all its servers, with its key, not yet initialized.
    pub async fn legacy_agent_of_all(&self, agent: &str) -> io::Result<Agent> {
        let key = self.agent_key(agent).await?;
        Ok(Agent::legacy(self.address, "/mcp", Some(&key)))
    }

    /// A modern agent on all its servers, with its key.
    pub async fn modern_agent_of_all(&self, agent: &str) -> io::Result<Agent> {
        let key = self.agent_key(agent).await?;
        Ok(Agent::modern(self.address, "/mcp", Some(&key)))
    }

    /// GET of the admin API, such as `/api/v1/connections`: status and JSON.
    pub async fn get(&self, path: &str) -> io::Result<(u16, Value)> {
        self.admin("GET", path, None).await
    }

    /// POST to the admin API: status and JSON.
    pub async fn post(&self, path: &str, body: &Value) -> io::Result<(u16, Value)> {
        self.admin("POST", path, Some(body)).await
    }

    /// Any request to the admin API: status and JSON.
    pub async fn admin(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Value)> {
        let authorization = format!("Bearer {}", self.admin_token()?);
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Content-Type", "application/json"),
        ];
        let body = body.map(Value::to_string).unwrap_or_default();
        let sent = client::send(self.address, method, path, &headers, body.as_bytes()).await?;
        let mut response = sent.response().await?;
        Ok((response.status, response.json().await?))
    }

    /// The connection object.
    pub async fn connection(&self, agent: &str, server: &str) -> io::Result<Value> {
        Ok(self
            .get(&format!("/api/v1/connections/{agent}/{server}"))
            .await?
            .1)
    }

    /// The transitions of a connection, newest first as the API gives them.
    pub async fn history(&self, agent: &str, server: &str) -> io::Result<Vec<Value>> {
        let (_, body) = self
            .get(&format!("/api/v1/connections/{agent}/{server}/history"))
            .await?;
        Ok(body["transitions"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until the connection has this state; the connection object.
    pub async fn wait_state(&self, agent: &str, server: &str, state: &str) -> io::Result<Value> {
        self.wait_connection(agent, server, PATIENCE, |connection| {
            connection["state"] == *state
        })
        .await
    }

    /// Waits until the connection object satisfies a condition; the object.
    ///
    /// Looks again at each event of `/api/v1/changes`, and on a short beat besides: not everything that the object
    /// shows is an event.
    pub async fn wait_connection(
        &self,
        agent: &str,
        server: &str,
        limit: Duration,
        condition: impl Fn(&Value) -> bool,
    ) -> io::Result<Value> {
        let mut changes = self.changes().await.ok();
        let mut last = Value::Null;
        let seen = async {
            loop {
                last = self.connection(agent, server).await?;
                if condition(&last) {
                    return Ok(last.clone());
                }
                let beat = tokio::time::sleep(Duration::from_millis(20));
                match &mut changes {
                    None => beat.await,
                    Some(stream) => {
                        let open = tokio::select! {
                            () = beat => true,
                            event = stream.next() => matches!(event, Ok(Some(_))),
                        };
                        if !open {
                            changes = None;
                        }
                    }
                }
            }
        };
        match tokio::time::timeout(limit, seen).await {
            Ok(found) => found,
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the connection stayed {last}"),
            )),
        }
    }

    /// The stream of changes of the admin API.
    pub async fn changes(&self) -> io::Result<EventStream> {
        let authorization = format!("Bearer {}", self.admin_token()?);
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Accept", "text/event-stream"),
        ];
        let sent = client::send(self.address, "GET", "/api/v1/changes", &headers, b"").await?;
        let response = sent.response().await?;
        if response.status == 200 && response.is_event_stream() {
            Ok(response.events())
        } else {
            Err(io::Error::other(format!(
                "no stream of changes: {}",
                response.status
            )))
        }
    }
}

impl Drop for Daemon {
    #[allow(
        clippy::print_stderr,
        reason = "the log of the daemon explains a failing test"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("standard error of the daemon:\n{}", self.stderr.lock());
        }
    }
}

/// Reads a pipe to its end, so that the process never blocks on it; sends the address once it is printed.
async fn collect(
    pipe: impl AsyncRead + Unpin,
    into: Arc<Mutex<String>>,
    mut found: Option<oneshot::Sender<String>>,
) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some((_, address)) = line.split_once("listening on http://")
            && let Some(found) = found.take()
        {
            let address = address
                .split(|c: char| c == '/' || c.is_whitespace())
                .next()
                .unwrap_or_default();
            let _given_up = found.send(address.to_owned());
        }
        let mut text = into.lock();
        text.push_str(&line);
        text.push('\n');
    }
}
