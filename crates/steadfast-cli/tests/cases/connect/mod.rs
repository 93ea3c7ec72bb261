//! `steadfast connect`: the gateway on standard input and output. What the server saw counts here, too.

mod legacy;
mod modern;

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Daemon, PATIENCE};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::rig::Era;

/// What a client is told to do that wants our command as its server, and the client itself.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    era: Era,
    /// Messages that came while an answer was waited for.
    aside: Vec<Value>,
    asked: i64,
}

/// Of an agent `dev` for the server `fake`.
const ONE: [&str; 4] = ["--agent", "dev", "--server", "fake"];

impl Client {
    fn start(daemon: &Daemon, era: Era, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_steadfast"))
            .arg("connect")
            .args(arguments)
            .arg("--data")
            .arg(daemon.data())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            stdin: child.stdin.take(),
            stdout,
            child,
            era,
            aside: Vec::new(),
            asked: 0,
        }
    }

    async fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).await.unwrap();
    }

    async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write(&message).await;
    }

    /// Sends a request; its id.
    async fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "stdio", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.asked += 1;
        let id = json!(format!("stdio-{}", self.asked));
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write(&message).await;
        id
    }

    /// The next message, whatever it is.
    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line()).await;
        let line = line.expect("a message in time").unwrap();
        let message: Value = serde_json::from_str(&line.expect("a message")).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// The answer to a request; other messages are kept aside.
    async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().await;
            if message.get("method").is_none() && message["id"] == *id {
                return message;
            }
            self.aside.push(message);
        }
    }

    /// The next message of this method.
    async fn told(&mut self, method: &str) -> Value {
        if let Some(at) = self.aside.iter().position(|it| it["method"] == *method) {
            return self.aside.remove(at);
        }
        loop {
            let message = self.next().await;
            if message["method"] == *method {
                return message;
            }
            self.aside.push(message);
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(&id).await
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    /// As a client of the session era does first.
    async fn initialize(&mut self) -> Value {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "stdio", "version": "1" },
        });
        let answer = self.request("initialize", hello).await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        self.notify("notifications/initialized", json!({})).await;
        answer
    }

    /// Closes its input: how it ended, and what it wrote on standard error.
    async fn close(mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        let rest = async {
            let mut said = String::new();
            let mut stderr = self.child.stderr.take().unwrap();
            stderr.read_to_string(&mut said).await.unwrap();
            while let Some(line) = self.stdout.next_line().await.unwrap() {
                let _: Value = serde_json::from_str(&line).expect("nothing but messages");
            }
            (self.child.wait().await.unwrap(), said)
        };
        let within = Duration::from_secs(10);
        let ended = tokio::time::timeout(within, rest).await;
        ended.expect("it ends with its input")
    }
}

fn text(answer: &Value) -> &str {
    let text = &answer["result"]["content"][0]["text"];
    text.as_str().unwrap_or_else(|| panic!("{answer}"))
}
