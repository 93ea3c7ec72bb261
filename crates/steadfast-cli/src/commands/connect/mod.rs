//! `steadfast connect`: an MCP server on standard input and output that is the gateway, for clients that speak nothing
//! else. One line is one message (2025-11-25 transports, "stdio"; 2026-07-28 transports/stdio); nothing but messages
//! goes to standard output.
//!
//! Which era it is follows from the first message: `initialize` begins a session, everything else is modern. The daemon
//! may end and begin again meanwhile, also elsewhere: sessions go on or are opened anew, streams are resumed, reads are
//! asked again. A tool call whose answer is lost on the way is never sent twice: it is answered with what is known.
//!
//! | module | what it does |
//! | --- | --- |
//! | `door` | the way to the daemon: where it is now, and with which credential |
//! | `message` | one line, and what it is |
//! | `legacy` | sessions, their listening stream, answers that are resumed |
//! | `modern` | requests that stand alone, and cancellation by hanging up |
//! | `told` | what the client is told where no answer came |

mod door;
mod legacy;
mod message;
mod modern;
mod told;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use steadfast_core::RpcId;
use steadfast_core::wire::envelope::Kind;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::serve::Stop;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use door::Door;
use legacy::Legacy;
use message::Message;
use modern::Modern;

/// How long answers under way are waited for once the client has closed our input.
const GRACE: Duration = Duration::from_secs(2);
/// How many messages may wait for a slow reader.
const WAITING: usize = 64;
/// The key of the agent, where the admin token is not at hand. Not an option: command lines are seen by everybody.
const KEY: &str = "STEADFAST_AGENT_KEY";

/// `connect --agent NAME [--server NAME]`.
///
/// The daemon lets whoever has the admin token speak for an agent; on another machine, set STEADFAST_URL and
/// STEADFAST_AGENT_KEY.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The agent that the client is
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// One server, under its own names; else all servers of the agent
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
}

/// Where messages for the client go.
type Out = mpsc::Sender<Vec<u8>>;

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    let key = std::env::var(KEY).ok().filter(|key| !key.is_empty());
    let door = Door::new(context.clone(), arguments.agent, arguments.server, key);
    door.try_it().await?;
    let mut stop = Stop::new()?;
    let (out, lines) = mpsc::channel(WAITING);
    let mut printer = tokio::spawn(print(lines));
    let (heard, mut input) = mpsc::channel(WAITING);
    let reader = tokio::spawn(read(heard));
    let mut client = Client {
        door: Arc::new(door),
        out,
        legacy: None,
        modern: None,
        asked: JoinSet::new(),
        by_id: HashMap::new(),
    };
    let ended = loop {
        tokio::select! {
            line = input.recv() => match line {
                Some(line) => client.take(line).await,
                None => break Exit::Done,
            },
            Some(_) = client.asked.join_next() => {}
            // The client does not read any more: there is nobody to be a server for.
            _ = &mut printer => break Exit::Done,
            () = stop.asked() => {
                client.asked.abort_all();
                break Exit::Done;
            }
        }
    };
    reader.abort();
    client.finish().await;
    // What was answered is printed; whoever does not read it is waited for no longer.
    let _ = tokio::time::timeout(GRACE, printer).await;
    Ok(ended)
}

/// Reads lines until the end of the input.
async fn read(heard: mpsc::Sender<Vec<u8>>) {
    let mut input = BufReader::new(tokio::io::stdin());
    loop {
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        if !line.trim_ascii().is_empty() && heard.send(line).await.is_err() {
            return;
        }
    }
}

/// Writes messages, each in one line.
async fn print(mut lines: mpsc::Receiver<Vec<u8>>) {
    let mut output = tokio::io::stdout();
    while let Some(line) = lines.recv().await {
        let written = async {
            output.write_all(&message::in_one_line(line)).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// The client on our standard streams.
struct Client {
    door: Arc<Door>,
    out: Out,
    legacy: Option<Arc<Legacy>>,
    modern: Option<Arc<Modern>>,
    /// What has not been answered yet.
    asked: JoinSet<()>,
    by_id: HashMap<RpcId, AbortHandle>,
}

impl Client {
    /// One line from the client.
    async fn take(&mut self, line: Vec<u8>) {
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(answer) => {
                let _ = self.out.send(answer).await;
                return;
            }
        };
        if message.method() == "initialize" {
            let door = Arc::clone(&self.door);
            let legacy = Legacy::open(door, self.out.clone(), message).await;
            let before = self.legacy.replace(legacy);
            if let Some(before) = before {
                before.close().await;
            }
            return;
        }
        match self.legacy.clone() {
            Some(legacy) => self.take_legacy(legacy, message).await,
            None => self.take_modern(message).await,
        }
    }

    async fn take_legacy(&mut self, legacy: Arc<Legacy>, message: Message) {
        match message.kind() {
            // A batch may hold requests (2025-03-26 basic, "Batching").
            None | Some(Kind::Request) => {
                let id = message.id();
                let asked = self.asked.spawn(async move { legacy.ask(message).await });
                self.remember(id, asked);
            }
            // In the order in which they came: what follows may depend on them.
            Some(Kind::Notification | Kind::Result | Kind::Error) => {
                // Nothing more is said of what was cancelled; that nobody reads it any more tells the server nothing,
                // the notification does (2025-11-25 basic/utilities/cancellation).
                self.forget(message.cancelled());
                legacy.post(message).await;
            }
        }
    }

    async fn take_modern(&mut self, message: Message) {
        let modern = self
            .modern
            .get_or_insert_with(|| Arc::new(Modern::new(Arc::clone(&self.door), self.out.clone())));
        let modern = Arc::clone(modern);
        match (message.kind(), message.cancelled()) {
            // There is no stream to close on this side; on the other there is (transports/stdio, "Cancellation"), and
            // nothing more is said of the request.
            (_, Some(id)) => self.forget(Some(id)),
            (Some(Kind::Request), None) => {
                let id = message.id();
                let asked = self.asked.spawn(async move { modern.ask(message).await });
                self.remember(id, asked);
            }
            (Some(Kind::Notification), None) => modern.post(message).await,
            // "The client MUST NOT write JSON-RPC responses", and batches are no messages.
            (Some(Kind::Result | Kind::Error) | None, None) => {}
        }
    }

    fn remember(&mut self, id: Option<RpcId>, asked: AbortHandle) {
        self.by_id.retain(|_, asked| !asked.is_finished());
        self.by_id.extend(id.map(|id| (id, asked)));
    }

    /// What the client has cancelled.
    fn forget(&mut self, id: Option<RpcId>) {
        if let Some(asked) = id.and_then(|id| self.by_id.remove(&id)) {
            asked.abort();
        }
    }

    /// Waits for answers under way, not for long, and ends the session.
    async fn finish(mut self) {
        let answers = async { while self.asked.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, answers).await;
        self.asked.abort_all();
        if let Some(legacy) = self.legacy {
            legacy.close().await;
        }
    }
}
