//! The providers: scripted servers of both eras, each behind a network that cuts.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::net::Direction;
use testkit::reply::{content, json_rpc_error, json_rpc_result, run, status, tool_text};
use testkit::script::{any, call};
use testkit::{Action, Behaviour, End, Net, Reply, Request, Server, Step, Tool};
use tokio::sync::watch;

use super::plan::{Contract, Fault, HEAD, Random};

/// The tool that looks up. It only reads.
const LOOKUP: &str = "find";

/// One server, and the network that leads to it.
pub(super) struct Provider {
    pub(super) server: Arc<Server>,
    net: Net,
}

/// What a provider remembers.
struct Memory {
    server: Weak<Server>,
    /// How often each call came.
    calls: Mutex<HashMap<String, usize>>,
    /// The keys under which something was done.
    keys: Mutex<HashSet<String>>,
    /// How often each was looked up.
    lookups: Mutex<HashMap<String, usize>>,
    arrivals: watch::Sender<u64>,
}

fn behaviour(number: usize) -> Behaviour {
    let mut tools: Vec<Tool> = Contract::ALL
        .iter()
        .map(|contract| Tool::new(contract.tool(), Action::AddRow).unrecorded())
        .collect();
    tools.push(Tool::new(LOOKUP, Action::AddRow).unrecorded());
    let behaviour = match number % 4 {
        0 => Behaviour::legacy("2025-11-25"),
        1 => Behaviour::modern(),
        2 => Behaviour::legacy("2025-06-18").resumable(Some(5)),
        _ => Behaviour::modern().streaming(),
    };
    behaviour.with_tools(tools)
}

impl Provider {
    /// `arrivals` counts the calls that came to any of them.
    pub(super) async fn start(number: usize, arrivals: &watch::Sender<u64>) -> Self {
        let server = Server::builder(behaviour(number))
            .http1_only()
            .start()
            .await;
        let server = Arc::new(server);
        let memory = Arc::new(Memory {
            server: Arc::downgrade(&server),
            calls: Mutex::default(),
            keys: Mutex::default(),
            lookups: Mutex::default(),
            arrivals: arrivals.clone(),
        });
        let looks = Arc::clone(&memory);
        let script = server.script();
        script
            .on(call(LOOKUP))
            .reply_with(move |request| looks.look_up(request));
        script
            .on(any().when(|request| contract_of(request).is_some()))
            .reply_with(move |request| memory.reply(request));
        let net = Net::to(server.address()).unwrap();
        Self { server, net }
    }

    /// The configuration for it.
    pub(super) fn configure(&self, name: &str, builder: Builder) -> Builder {
        let key = "{ argument = \"$.idempotency_key\", retention = \"1h\", scope = \"account\", \
                   atomic = true, payload_bound = true, propagated = true }";
        let lookup = |more: &str| {
            format!(
                "{{ tool = \"{LOOKUP}\", arguments = {{ reference = \"$.arguments.key\", blurred = \"$.arguments.blurred\" }}, \
                 accepted = \"$.structuredContent.bookings[?@.reference == $reference]\", \
                 must_equal = {{ \"$.reference\" = \"$.arguments.key\" }}{more} }}"
            )
        };
        let setting = |contract: Contract, what: &str| {
            format!("servers.{name}.tools.{}.{what}", contract.tool())
        };
        let definitive = lookup(", absent_is_definitive = true, settle_after = \"500ms\"");
        builder
            .server(name, &self.net.url("/mcp"))
            .read_tool(name, LOOKUP)
            .set(&setting(Contract::Key, "duplicate_key"), key)
            .set(&setting(Contract::Lookup, "lookup"), &lookup(""))
            .set(&setting(Contract::Definitive, "lookup"), &definitive)
    }

    /// Something happens to it, or to its network.
    pub(super) async fn disturb(&self, random: &mut Random) {
        let end = [End::Rst, End::Fin][random.below(2)];
        // A call is some 900 bytes up and 500 down, heads and all: the cut may be anywhere in the next two.
        match random.below(8) {
            0..4 => self
                .net
                .cut_after(Direction::Up, random.below(1_800) as u64, end),
            4..6 => self
                .net
                .cut_after(Direction::Down, random.below(1_000) as u64, end),
            // Tasks of their own, so that a server whose gateway is killed meanwhile comes back.
            6 => {
                let server = Arc::clone(&self.server);
                let reset = tokio::spawn(async move { server.reset_connections().await });
                reset.await.unwrap();
            }
            _ => {
                let server = Arc::clone(&self.server);
                let restarted = tokio::spawn(async move { server.restart().await });
                restarted.await.unwrap();
            }
        }
    }
}

fn contract_of(request: &Request) -> Option<Contract> {
    Contract::of_tool(request.tool()?)
}

fn key_of(request: &Request) -> String {
    request.arguments()["key"].as_str().unwrap().to_owned()
}

/// The number before this time.
fn count(counts: &Mutex<HashMap<String, usize>>, key: String) -> usize {
    let mut counts = counts.lock().unwrap();
    let count = counts.entry(key).or_default();
    *count += 1;
    *count - 1
}

impl Memory {
    fn reply(&self, request: &Request) -> Reply {
        self.arrivals.send_modify(|arrivals| *arrivals += 1);
        let knows_session = |session| {
            let server = self.server.upgrade();
            server.is_some_and(|server| server.initialized(session))
        };
        if request
            .session()
            .is_some_and(|session| !knows_session(session))
        {
            // Refused as it should be, before anything runs.
            return run();
        }
        let arguments = request.arguments();
        let faults: Vec<Fault> = serde_json::from_value(arguments["faults"].clone()).unwrap();
        let number = count(&self.calls, key_of(request));
        let fault = faults.into_iter().nth(number).unwrap_or(Fault::None);
        let is_new = match arguments["idempotency_key"].as_str() {
            Some(key) if fault.runs() => self.keys.lock().unwrap().insert(key.to_owned()),
            Some(_) | None => true,
        };
        play(&fault, is_new)
    }

    fn look_up(&self, request: &Request) -> Reply {
        let reference = request.arguments()["reference"].as_str().unwrap();
        let blurred = request.arguments()["blurred"].as_u64().unwrap_or_default();
        let number = count(&self.lookups, reference.to_owned());
        if (number as u64) < blurred {
            return match number % 3 {
                0 => status(503),
                1 => json_rpc_error(200, -32000, "the books are closed"),
                _ => json_rpc_result(json!({ "content": [], "isError": true })),
            };
        }
        let server = self.server.upgrade();
        let rows = server.map_or_else(Vec::new, |server| server.ledger().rows().unwrap());
        let found: Vec<Value> = rows
            .iter()
            .filter(|row| row.key == reference)
            .map(|row| json!({ "reference": row.key }))
            .collect();
        let mut result = tool_text("looked up");
        result["structuredContent"] = json!({ "bookings": found });
        json_rpc_result(result)
    }
}

fn play(fault: &Fault, is_new: bool) -> Reply {
    let runs = |reply: Reply| if is_new { reply.row() } else { reply };
    let begun = match fault.runs() {
        true if !matches!(fault, Fault::Late { .. }) => runs(Reply::new()),
        true | false => Reply::new(),
    };
    match fault {
        Fault::None => begun.run(),
        Fault::Body { at, how, .. } => begun.cut_after(*at, how.end()).run(),
        Fault::Head { at, .. } => begun.step(Step::Raw(HEAD.as_bytes()[..*at].into())),
        Fault::Status { status: code, .. } => begun.then(status(*code)),
        Fault::Error { .. } => begun.then(json_rpc_error(200, -32000, "it is not so easy")),
        Fault::Garbage { .. } => {
            begun.then(content(200, "application/json", "{\"jsonrpc\":\"2.0\","))
        }
        Fault::Slow { ms } => begun.delay(Duration::from_millis(*ms)).run(),
        Fault::Late { ms } => runs(begun.delay(Duration::from_millis(*ms))).run(),
    }
}
