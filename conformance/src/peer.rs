//! A real client, driven by one line for each command: see `peers/line-protocol.mjs`.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Failure;
use crate::process::Logs;

/// How long one command may take; a cold start of Node on a busy machine is the slowest.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Peer {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Ready(bool),
    Result(Value),
    Error(String),
    /// The client noticed something of its connection by itself. It is to notice nothing.
    Event(String),
}

impl Peer {
    /// Starts the client, and waits until it has connected.
    pub(crate) async fn start(
        mut command: Command,
        name: &str,
        logs: &Logs,
    ) -> Result<Self, Failure> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(logs.file(&format!("{name}.log"))?)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let mut peer = Self {
            _child: child,
            stdin,
            lines: BufReader::new(stdout).lines(),
        };
        match peer.line().await? {
            Line::Ready(true) => Ok(peer),
            other => Err(format!("instead of connecting: {other:?}").into()),
        }
    }

    /// The names of the tools.
    pub(crate) async fn list(&mut self) -> Result<Vec<String>, Failure> {
        let result = self.command("list").await?;
        let tools = result
            .get("tools")
            .and_then(Value::as_array)
            .ok_or("the list has no tools")?;
        Ok(tools
            .iter()
            .filter_map(|tool| tool.get("name")?.as_str())
            .map(str::to_owned)
            .collect())
    }

    /// The text of the answer.
    pub(crate) async fn call(&mut self, tool: &str, arguments: &str) -> Result<String, Failure> {
        let result = self.command(&format!("call {tool} {arguments}")).await?;
        if result.get("isError").and_then(Value::as_bool) == Some(true) {
            return Err(format!("the tool answers with an error: {result}").into());
        }
        let text = result.pointer("/content/0/text").and_then(Value::as_str);
        Ok(text
            .ok_or_else(|| format!("the answer has no text: {result}"))?
            .to_owned())
    }

    /// Closes the client, and sees what it noticed until then.
    pub(crate) async fn quit(mut self) -> Result<(), Failure> {
        self.command("quit").await.map(|_| ())
    }

    /// The result of any command.
    pub(crate) async fn command(&mut self, command: &str) -> Result<Value, Failure> {
        self.stdin
            .write_all(format!("{command}\n").as_bytes())
            .await?;
        match self.line().await? {
            Line::Result(result) => Ok(result),
            Line::Error(error) => Err(format!("{command}: {error}").into()),
            Line::Event(event) => {
                Err(format!("before {command}: the client noticed: {event}").into())
            }
            Line::Ready(_) => Err("ready twice".into()),
        }
    }

    async fn line(&mut self) -> Result<Line, Failure> {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line())
            .await
            .map_err(|_| format!("no answer within {LIMIT:?}"))??
            .ok_or("the client ended")?;
        Ok(serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?)
    }
}
