//! Real clients through the gateway to real servers. In each pairing the server is killed and started again in
//! mid-session, on the same port; the client is to notice nothing but a pause.

use std::time::Duration;

use tokio::process::Command;
use tokio::time::Instant;

use crate::Failure;
use crate::gateway::{Gateway, Setup};
use crate::peer::Peer;
use crate::peers::{CLIENTS, ClientKind};
use crate::process::{Logs, Process, free_port};
use crate::programs::Programs;
use crate::report::PairingRow;

/// A connection of the gateway: opening it the first time, noticing that the server is gone, and opening it again.
const CONNECT: Duration = Duration::from_secs(30);
const NOTICE: Duration = Duration::from_secs(10);

/// A server, and a call that it answers.
#[derive(Debug, Clone, Copy)]
struct ServerKind {
    name: &'static str,
    tool: &'static str,
    arguments: &'static str,
    answer: &'static str,
    /// What it writes once it listens.
    ready: &'static str,
}

const SERVERS: [ServerKind; 4] = [
    ServerKind {
        name: "typescript-everything",
        tool: "echo",
        arguments: r#"{"message":"hello"}"#,
        answer: "Echo: hello",
        ready: "listening on port",
    },
    ServerKind {
        name: "python",
        tool: "add",
        arguments: r#"{"a":1,"b":2}"#,
        answer: "1 + 2 = 3",
        ready: "running on http://",
    },
    ServerKind {
        name: "rmcp-everything",
        tool: "greet",
        arguments: r#"{"name":"peer"}"#,
        answer: "Hello, peer!",
        ready: "listening on http://",
    },
    ServerKind {
        name: "rmcp-everything-legacy",
        tool: "greet",
        arguments: r#"{"name":"peer"}"#,
        answer: "Hello, peer!",
        ready: "listening on http://",
    },
];

impl ServerKind {
    fn command(&self, programs: &Programs, port: u16) -> Command {
        let port = port.to_string();
        match self.name {
            "typescript-everything" => {
                let mut command = Command::new(programs.node());
                command
                    .arg(programs.module("@modelcontextprotocol/server-everything/dist/index.js"));
                command.arg("streamableHttp").env("PORT", port);
                command
            }
            "python" => {
                let mut command = Command::new(programs.python());
                command.arg(programs.peer("python_server.py")).arg(port);
                command
            }
            _ => {
                let mut command = Command::new(programs.binary("everything-server"));
                command.args(["--listen", &format!("127.0.0.1:{port}")]);
                if self.name.ends_with("legacy") {
                    command.args(["--era", "legacy"]);
                }
                command
            }
        }
    }

    async fn start(&self, programs: &Programs, logs: &Logs, port: u16) -> Result<Process, Failure> {
        let (process, _) =
            Process::start(self.command(programs, port), self.name, logs, self.ready).await?;
        Ok(process)
    }
}

pub(crate) async fn run(programs: &Programs, logs: &Logs) -> Result<Vec<PairingRow>, Failure> {
    let mut servers = Vec::new();
    for server in SERVERS {
        let port = free_port()?;
        servers.push((server, port, server.start(programs, logs, port).await?));
    }
    let urls: Vec<_> = servers
        .iter()
        .map(|(server, port, _)| (server.name, format!("http://127.0.0.1:{port}/mcp")))
        .collect();
    let setup = Setup {
        agents: &CLIENTS.map(|client| client.agent),
        servers: &urls,
        prefix: true,
        reads: &[],
        retry: "",
        settings: "",
    };
    let gateway = Gateway::start(programs, logs, &setup).await?;
    let mut rows = Vec::new();
    for (server, port, process) in servers {
        rows.extend(with_server(programs, logs, &gateway, server, port, process).await?);
    }
    Ok(rows)
}

/// All clients at once with one server: it dies once for all of them.
async fn with_server(
    programs: &Programs,
    logs: &Logs,
    gateway: &Gateway,
    server: ServerKind,
    port: u16,
    process: Process,
) -> Result<Vec<PairingRow>, Failure> {
    let opened = CLIENTS.map(|client| open(programs, logs, gateway, client, server));
    let opened = futures_util::future::join_all(opened).await;

    let killed = Instant::now();
    process.kill().await?;
    let noticed = CLIENTS.map(|client| notice(gateway, client, server));
    let noticed = futures_util::future::join_all(noticed).await;
    let _process = server.start(programs, logs, port).await?;
    let back = Instant::now();

    let sessions = CLIENTS.into_iter().zip(opened).zip(noticed);
    let resumed = sessions.map(|((client, peer), noticed)| async move {
        let connected = match peer {
            Ok(peer) => resume(gateway, client, server, peer).await,
            Err(failure) => Err(failure),
        };
        let outcome = connected.map_err(|failure| failure.to_string()).map(|connected| {
            let (away, after) = (connected - killed, connected.saturating_duration_since(back));
            if noticed {
                format!("noticed nothing; away for {away:.1?}, connected {after:.1?} after it was back")
            } else {
                "noticed nothing, and nor did the gateway before the next call".to_owned()
            }
        });
        PairingRow { client: client.agent, server: server.name, outcome }
    });
    Ok(futures_util::future::join_all(resumed).await)
}

/// Waits until the gateway knows that the server is gone, and says whether it does. In the era without a listening
/// stream it may learn that only by the next call, which has to come out all the same.
async fn notice(gateway: &Gateway, client: ClientKind, server: ServerKind) -> bool {
    let connection = gateway.connection(client.agent, server.name).await;
    let era = connection
        .ok()
        .and_then(|connection| connection.get("era").cloned());
    era.is_some_and(|era| era == "legacy")
        && gateway
            .wait(client.agent, server.name, false, NOTICE)
            .await
            .is_ok()
}

/// A session that works.
async fn open(
    programs: &Programs,
    logs: &Logs,
    gateway: &Gateway,
    client: ClientKind,
    server: ServerKind,
) -> Result<Peer, Failure> {
    gateway
        .wait(client.agent, server.name, true, CONNECT)
        .await?;
    let key = gateway.key(client.agent).await?;
    let command = client.command(programs, &gateway.url(server.name), &key);
    let mut peer = Peer::start(command, client.agent, logs).await?;
    use_it(&mut peer, server).await?;
    Ok(peer)
}

/// The same session, after its server came back; when the gateway was connected again.
async fn resume(
    gateway: &Gateway,
    client: ClientKind,
    server: ServerKind,
    mut peer: Peer,
) -> Result<Instant, Failure> {
    gateway
        .wait(client.agent, server.name, true, CONNECT)
        .await?;
    let connected = Instant::now();
    use_it(&mut peer, server).await?;
    peer.quit().await?;
    Ok(connected)
}

async fn use_it(peer: &mut Peer, server: ServerKind) -> Result<(), Failure> {
    let tools = peer.list().await?;
    if !tools.iter().any(|tool| tool == server.tool) {
        return Err(format!("{} is not among {tools:?}", server.tool).into());
    }
    let answer = peer.call(server.tool, server.arguments).await?;
    if answer == server.answer {
        Ok(())
    } else {
        Err(format!("unexpected answer: {answer}").into())
    }
}
