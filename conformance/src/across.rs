//! Real clients of one era on a server of the other, and all of them at the address of all servers: each does everything
//! that the eras do in ways of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Failure;
use crate::gateway::{Gateway, Setup};
use crate::peer::Peer;
use crate::peers::{CLIENTS, ClientKind};
use crate::process::Logs;
use crate::programs::Programs;
use crate::report::AcrossRow;
use crate::ways::everything;

const ERAS: [&str; 2] = ["legacy", "modern"];

/// How long the gateway may take to open its connections.
const CONNECT: Duration = Duration::from_secs(30);

/// How long a server may take to learn that a call was begun, or cancelled; and how often it is asked.
const NOTICE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// Lasts until it is cancelled.
const WAIT: &str = "wait_for_cancellation";

/// Each client is a Node or a Python of its own.
const AT_ONCE: usize = 2;

/// What a client is to do.
#[derive(Debug, Clone, Copy)]
enum Task {
    Elicitation,
    Sampling,
    Progress,
    Cancellation,
    Subscription,
    Resources,
}

const TASKS: [Task; 6] = [
    Task::Elicitation,
    Task::Sampling,
    Task::Progress,
    Task::Cancellation,
    Task::Subscription,
    Task::Resources,
];

impl Task {
    fn name(self) -> &'static str {
        match self {
            Self::Elicitation => "elicit",
            Self::Sampling => "sample",
            Self::Progress => "progress",
            Self::Cancellation => "cancel",
            Self::Subscription => "subscribe",
            Self::Resources => "read",
        }
    }
}

/// One client, and where it finds the server.
#[derive(Debug, Clone, Copy)]
struct Pair {
    client: ClientKind,
    server: &'static str,
    merged: bool,
}

/// What all pairs have in common.
struct Stage<'a> {
    programs: &'a Programs,
    logs: &'a Logs,
    gateway: Gateway,
    /// The agents' keys: each has one, and a new one ends the old one.
    keys: BTreeMap<&'static str, String>,
}

impl Pair {
    fn tool(&self, name: &str) -> String {
        if self.merged {
            format!("{}__{name}", self.server)
        } else {
            name.to_owned()
        }
    }

    /// What tells this pair's calls from all others.
    fn key(&self) -> Value {
        let Self {
            client,
            server,
            merged,
        } = self;
        json!({ "key": format!("{}-{server}-{merged}", client.agent) })
    }
}

pub(crate) async fn run(programs: &Programs, logs: &Logs) -> Result<Vec<AcrossRow>, Failure> {
    let mut processes = Vec::new();
    let mut servers = Vec::new();
    for era in ERAS {
        let (process, url) = everything(programs, logs, era).await?;
        processes.push(process);
        servers.push((era, url));
    }
    let setup = Setup {
        agents: &CLIENTS.map(|client| client.agent),
        servers: &servers,
        prefix: true,
        reads: &[WAIT],
        retry: "",
        settings: "",
    };
    let gateway = Gateway::start(programs, logs, &setup).await?;
    let mut keys = BTreeMap::new();
    for client in CLIENTS {
        keys.insert(client.agent, gateway.key(client.agent).await?);
        for era in ERAS {
            gateway.wait(client.agent, era, true, CONNECT).await?;
        }
    }
    let stage = Stage {
        programs,
        logs,
        gateway,
        keys,
    };
    let pairs = CLIENTS.into_iter().flat_map(pairs_of);
    Ok(stream::iter(pairs)
        .map(|pair| play(&stage, pair))
        .buffered(AT_ONCE)
        .collect()
        .await)
}

impl Stage<'_> {
    async fn open(&self, pair: Pair) -> Result<Peer, Failure> {
        let agent = pair.client.agent;
        let key = self.keys.get(agent).ok_or("the agent has no key")?;
        let url = if pair.merged {
            self.gateway.merged()
        } else {
            self.gateway.url(pair.server)
        };
        let command = pair.client.command(self.programs, &url, key);
        Peer::start(command, agent, self.logs).await
    }
}

/// On a server of the other era; and at the address of all servers on either.
fn pairs_of(client: ClientKind) -> impl Iterator<Item = Pair> {
    let pair = move |server, merged| Pair {
        client,
        server,
        merged,
    };
    let other = ERAS.into_iter().filter(move |era| *era != client.era);
    other
        .map(move |server| pair(server, false))
        .chain(ERAS.map(move |server| pair(server, true)))
}

async fn play(stage: &Stage<'_>, pair: Pair) -> AcrossRow {
    let mut outcomes = Vec::new();
    let mut open = None;
    for task in TASKS {
        let outcome = one(stage, pair, &mut open, task).await;
        if outcome.is_err() {
            // Its answers may come late, and be taken for those of the next task.
            open = None;
        }
        outcomes.push((task.name(), outcome.map_err(|failure| failure.to_string())));
    }
    if let (Some(peer), Some((_, last))) = (open, outcomes.last_mut())
        && let Err(failure) = peer.quit().await
    {
        *last = Err(failure.to_string());
    }
    AcrossRow {
        client: pair.client.agent,
        server: pair.server,
        merged: pair.merged,
        outcomes,
    }
}

async fn one(
    stage: &Stage<'_>,
    pair: Pair,
    open: &mut Option<Peer>,
    task: Task,
) -> Result<(), Failure> {
    let peer = match open {
        Some(peer) => peer,
        None => open.insert(stage.open(pair).await?),
    };
    match task {
        Task::Elicitation => {
            let arguments = json!({ "message": "Who are you?" });
            let answer = call(peer, &pair, "test_elicitation", &arguments).await?;
            contains(&answer, "peer@example.com")
        }
        Task::Sampling => {
            let arguments = json!({ "prompt": "What do you say?" });
            let answer = call(peer, &pair, "test_sampling", &arguments).await?;
            contains(&answer, "the peer says so")
        }
        Task::Progress => {
            let tool = pair.tool("test_tool_with_progress");
            let seen = peer.command(&format!("progress {tool} {{}}")).await?;
            let seen: Vec<f64> = serde_json::from_value(seen)?;
            same(&seen, &vec![0.0, 50.0, 100.0])
        }
        Task::Cancellation => cancellation(peer, &pair).await,
        Task::Subscription => subscription(peer, &pair).await,
        Task::Resources => {
            let uri = uri(peer, &pair, "static-text").await?;
            let result = peer.command(&format!("read {uri}")).await?;
            same(&result.pointer("/contents/0/uri"), &Some(&json!(uri)))?;
            let text = result.pointer("/contents/0/text").and_then(Value::as_str);
            contains(text.unwrap_or_default(), "static text")
        }
    }
}

async fn call(
    peer: &mut Peer,
    pair: &Pair,
    tool: &str,
    arguments: &Value,
) -> Result<String, Failure> {
    peer.call(&pair.tool(tool), &arguments.to_string()).await
}

/// The server sees that a call is cancelled, once, and nothing else.
async fn cancellation(peer: &mut Peer, pair: &Pair) -> Result<(), Failure> {
    let tool = pair.tool(WAIT);
    peer.command(&format!("begin {tool} {}", pair.key()))
        .await?;
    counted(peer, pair, "1 begun, 0 cancelled").await?;
    let ended = peer.command("cancel").await?;
    same(&ended, &json!({ "cancelled": true }))?;
    counted(peer, pair, "1 begun, 1 cancelled").await
}

/// Asks the server until it says so.
async fn counted(peer: &mut Peer, pair: &Pair, wanted: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + NOTICE;
    let mut clock = tokio::time::interval(POLL);
    loop {
        clock.tick().await;
        let count = call(peer, pair, "count_cancellations", &pair.key()).await?;
        if count == wanted || Instant::now() > deadline {
            return same(&count.as_str(), &wanted);
        }
    }
}

/// Updates come as long as they are subscribed to.
async fn subscription(peer: &mut Peer, pair: &Pair) -> Result<(), Failure> {
    let uri = uri(peer, pair, "watched-resource").await?;
    peer.command(&format!("subscribe {uri}")).await?;
    call(peer, pair, "test_trigger_resource_update", &json!({})).await?;
    let update = peer.command("updated").await?;
    same(&update, &json!({ "uri": uri }))?;
    peer.command("unsubscribe").await.map(|_| ())
}

/// The URI under which the client finds a resource of the server.
async fn uri(peer: &mut Peer, pair: &Pair, name: &str) -> Result<String, Failure> {
    let result = peer.command("resources").await?;
    let resources = result.get("resources").and_then(Value::as_array);
    let found = resources.into_iter().flatten().find_map(|resource| {
        let uri = resource.get("uri")?.as_str()?;
        let is_it = resource.get("name")?.as_str()? == name;
        // Both servers have it: its URI says which one is meant.
        let is_here = !pair.merged || uri.contains(&format!("//{}/", pair.server));
        (is_it && is_here).then(|| uri.to_owned())
    });
    found.ok_or_else(|| format!("{name} is not among {result}").into())
}

fn contains(text: &str, wanted: &str) -> Result<(), Failure> {
    if text.contains(wanted) {
        Ok(())
    } else {
        Err(format!("no {wanted:?} in {text:?}").into())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T) -> Result<(), Failure> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{found:?} instead of {wanted:?}").into())
    }
}
