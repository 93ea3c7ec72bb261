//! What the scenes play with: scripted servers of each era, one of them behind a scripted authorization server, the
//! daemon in front of them, and an agent of each era for each server. All of it is in this process and on loopback; the
//! wire is real.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::Report;
use steadfast_core::code;
use tempfile::TempDir;
use testkit::issuer::policy::Tokens;
use testkit::{Action, Agent, Answer, Behaviour, Browser, Issuer, Ledger, PATIENCE, Server, Tool};
use url::Url;

use super::scene::{Broken, Proof, counted, times};
use crate::client::Client;
use crate::config;
use crate::daemon::{Daemon, Start};
use crate::data_dir::DataDir;
use crate::directory::Directory;
use crate::failure::Failure;

/// The agent's name.
pub(super) const AGENT: &str = "demo";
/// What a booking says.
pub(super) const BOOKED: &str = "Room 12 is yours";
/// What a purchase says.
pub(super) const BOUGHT: &str = "Seat 4A is yours";
/// What the booking of a table says.
pub(super) const TABLE: &str = "Table 3 is yours";
/// What a search says.
pub(super) const ROOMS: &str = "Rooms 11 and 12 are free";
/// What a look at the board says.
pub(super) const DEPARTURES: &str = "10:04 to the sea, on time";
/// What a look into the mailbox says.
pub(super) const UNREAD: &str = "2 unread: the team, the bank";
/// What is said of a mail that was sent.
pub(super) const SENT: &str = "Sent to the team";

/// How long an access token lives. The answers that bring one say a second, for they say it in whole ones.
const LIFETIME: Duration = Duration::from_millis(1_500);

/// How often the notices are looked at, where one is to change.
const LOOK: Duration = Duration::from_millis(20);

/// The delays are scaled down: what takes minutes in the field takes a second here.
const SETTINGS: &str = r#"
[gateway]
listen = "127.0.0.1:0"

[retry]
first = "400ms"
max = "1s"
connect_timeout = "1s"
request_timeout = "3s"
silence_timeout = "3s"
stream_open_timeout = "1s"
health_every = "1s"

[renewal]
retry_first = "200ms"
retry_max = "1s"

[repeat]
again_first = "300ms"
lookup_first = "300ms"

[agents.demo]
servers = "*"

[servers.booking]
url = "BOOKING_URL"

[servers.booking.tools.search]
effect = "read"

[servers.booking.tools.find_table]
effect = "read"

[servers.booking.tools.book_table.lookup]
tool = "find_table"
arguments = { reference = "$.arguments.reference" }
accepted = "$.structuredContent.tables[?@.reference == $reference]"
must_equal = { "$.table" = "$.arguments.table" }
settle_after = "100ms"

[servers.trains]
url = "TRAINS_URL"

[servers.trains.tools.departures]
effect = "read"

[servers.trains.tools.buy_seat]
duplicate_key = { argument = "$.idempotency_key", retention = "24h", scope = "account", atomic = true, payload_bound = true, propagated = true }

[servers.mail]
url = "MAIL_URL"

[servers.mail.tools.unread]
effect = "read"
"#;

/// Everything that the scenes play with.
pub(super) struct Stage {
    daemon: Daemon,
    admin: Client,
    pub(super) key: String,
    /// Speaks 2025-11-25: sessions, a stream of its own, replay.
    pub(super) booking: Provider,
    /// Speaks 2026-07-28: every request stands alone.
    pub(super) trains: Provider,
    /// Speaks 2025-11-25, to whoever has a token of the issuer.
    pub(super) mail: Provider,
    /// The authorization server.
    pub(super) issuer: Issuer,
    /// Goes last: what runs writes there.
    _folder: TempDir,
}

/// A scripted server, and the agents that use it through the gateway.
pub(super) struct Provider {
    pub(super) name: &'static str,
    pub(super) server: Server,
    /// How the server behaves where no scene is played.
    behaviour: Behaviour,
    /// An agent that speaks 2025-11-25.
    pub(super) legacy: Agent,
    /// An agent that speaks 2026-07-28.
    pub(super) modern: Agent,
}

impl Stage {
    /// Starts everything, signs in, and waits until all servers are connected.
    pub(super) async fn start() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("steadfast-demo-")
            .tempdir()
            .map_err(no_folder)?;
        let booking = Behaviour::legacy("2025-11-25").with_tools(booking_tools());
        let trains = Behaviour::modern().with_tools(trains_tools());
        let issuer = Issuer::builder().policy(|policy| policy.tokens = tokens());
        let issuer = issuer.try_start().await;
        let issuer = issuer.map_err(|error| cannot_start(&error))?;
        let mail = Behaviour::legacy("2025-11-25").with_tools(mail_tools());
        let mail = mail.protected_by(&issuer);
        let servers = (
            start_server(&booking, folder.path().join("booking.ledger")).await?,
            start_server(&trains, folder.path().join("trains.ledger")).await?,
            start_server(&mail, folder.path().join("mail.ledger")).await?,
        );

        let file = folder.path().join("steadfast.toml");
        let urls = [&servers.0, &servers.1, &servers.2].map(Server::url);
        let [booking_url, trains_url, mail_url] = urls;
        let settings = SETTINGS
            .replace("BOOKING_URL", &booking_url)
            .replace("TRAINS_URL", &trains_url)
            .replace("MAIL_URL", &mail_url);
        std::fs::write(&file, settings).map_err(no_folder)?;
        let daemon = Daemon::start(Start {
            data: &DataDir::find(Some(folder.path()))?,
            config: Some(config::load(&file, None)?),
            listen: None,
            token: None,
        })
        .await?;

        let admin = || Client::new(url_of(&daemon)?, &daemon.token.0);
        let key = Directory::Daemon(admin()?).make_key(AGENT).await?;
        let address = daemon.address();
        let stage = Self {
            admin: admin()?,
            booking: Provider::new("booking", (servers.0, booking), address, &key),
            trains: Provider::new("trains", (servers.1, trains), address, &key),
            mail: Provider::new("mail", (servers.2, mail), address, &key),
            issuer,
            daemon,
            key,
            _folder: folder,
        };
        match tokio::time::timeout(PATIENCE, stage.open()).await {
            Ok(Ok(())) => Ok(stage),
            Ok(Err(Broken(why))) => Err(cannot_start(&why)),
            Err(_) => Err(cannot_start(&"the gateway does not answer")),
        }
    }

    async fn open(&self) -> Result<(), Broken> {
        self.sign_in(&self.mail).await?;
        self.calm().await?;
        for provider in self.providers() {
            provider.legacy.initialize().await?;
        }
        Ok(())
    }

    fn providers(&self) -> [&Provider; 3] {
        [&self.booking, &self.trains, &self.mail]
    }

    /// A person opens the link of a sign-in, and agrees; the page at which the browser ends.
    pub(super) async fn sign_in(&self, provider: &Provider) -> Result<String, Broken> {
        let path = ["connections", AGENT, provider.name, "sign-in"];
        let offer = self.admin.post(&path, Some(&json!({}))).await?;
        let link = offer["url"].as_str().unwrap_or_default();
        Ok(Browser::new().open(link).await?.body)
    }

    /// Waits until the newest notice about a server is open, or cleared; the notice then.
    pub(super) async fn notice(&self, provider: &Provider, open: bool) -> Result<Value, Broken> {
        let mut clock = tokio::time::interval(LOOK);
        let seen = async {
            loop {
                clock.tick().await;
                let mut notices = self.admin.get(&["notices"]).await?;
                let notices = notices["notices"].as_array_mut().map(std::mem::take);
                let ours = |notice: &Value| notice["server"] == provider.name;
                let newest = notices.unwrap_or_default().into_iter().rfind(ours);
                if let Some(notice) = newest.filter(|it| it["cleared_at"].is_null() == open) {
                    return Ok(notice);
                }
            }
        };
        let seen = tokio::time::timeout(PATIENCE / 2, seen).await;
        seen.unwrap_or_else(|_| {
            let wanted = if open { "opened" } else { "cleared" };
            let name = provider.name;
            Err(Broken(format!("no notice about {name} was {wanted}")))
        })
    }

    /// Waits until an operation has this state; the operation then.
    pub(super) async fn operation(&self, id: &str, state: &str) -> Result<Value, Broken> {
        let mut clock = tokio::time::interval(LOOK);
        let seen = async {
            loop {
                clock.tick().await;
                let operation = self.admin.get(&["operations", id]).await?;
                if operation["state"] == state {
                    return Ok(operation);
                }
            }
        };
        let seen = tokio::time::timeout(PATIENCE / 2, seen).await;
        seen.unwrap_or_else(|_| Err(Broken(format!("the operation {id} is not {state}"))))
    }

    /// A person says what became of an operation.
    pub(super) async fn settle(&self, id: &str, outcome: &str, note: &str) -> Result<(), Broken> {
        let decision = json!({ "outcome": outcome, "note": note });
        let path = ["operations", id, "settle"];
        self.admin.post(&path, Some(&decision)).await?;
        Ok(())
    }

    /// The gateway's address.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.daemon.address())
    }

    /// The admin token.
    pub(super) fn token(&self) -> &str {
        &self.daemon.token.0
    }

    /// Waits until the connection to a server satisfies a condition; the connection then.
    pub(super) async fn until(
        &self,
        provider: &Provider,
        condition: impl Fn(&Report) -> bool,
    ) -> Result<Report, Broken> {
        let mut changes = self.admin.changes().await?;
        let mut last = None;
        let seen = async {
            while let Some((_, change)) = changes.next().await {
                let Ok(report) = serde_json::from_value::<Report>(change) else {
                    continue;
                };
                if report.server == provider.name {
                    if condition(&report) {
                        return Some(report);
                    }
                    last = Some(report);
                }
            }
            None
        };
        let seen = tokio::time::timeout(PATIENCE / 2, seen)
            .await
            .ok()
            .flatten();
        seen.ok_or_else(|| {
            Broken(format!(
                "the connection to {} stays {last:?}",
                provider.name
            ))
        })
    }

    /// Waits until a server is connected.
    pub(super) async fn connected(&self, provider: &Provider) -> Result<Report, Broken> {
        self.until(provider, |report| report.state == "connected")
            .await
    }

    /// The connection to a server as it is now.
    pub(super) async fn connection(&self, provider: &Provider) -> Result<Report, Broken> {
        let connection = self
            .admin
            .get(&["connections", AGENT, provider.name])
            .await?;
        serde_json::from_value(connection).map_err(|error| Broken(error.to_string()))
    }

    /// Takes every fault away, and waits until all servers are connected.
    pub(super) async fn calm(&self) -> Result<(), Broken> {
        self.issuer.change(|policy| policy.tokens = tokens());
        for provider in self.providers() {
            provider.server.script().clear();
            provider
                .server
                .change(|behaviour| *behaviour = provider.behaviour.clone());
            self.connected(provider).await?;
        }
        Ok(())
    }

    /// Ends everything politely.
    pub(super) async fn end(self) {
        self.daemon.shutdown().await;
    }
}

impl Provider {
    fn new(
        name: &'static str,
        (server, behaviour): (Server, Behaviour),
        gateway: SocketAddr,
        key: &str,
    ) -> Self {
        let path = format!("/mcp/{name}");
        Self {
            legacy: Agent::legacy(gateway, &path, Some(key)),
            modern: Agent::modern(gateway, &path, Some(key)),
            name,
            server,
            behaviour,
        }
    }

    /// How often the tool really ran with these arguments.
    pub(super) fn runs(&self, tool: &str, arguments: &Value) -> Result<usize, Broken> {
        let key = arguments.to_string();
        Ok(self
            .server
            .ledger()
            .rows_of(tool)?
            .iter()
            .filter(|row| row.key == key)
            .count())
    }

    /// How often the server was asked to run the tool with these arguments.
    pub(super) fn asked(&self, tool: &str, arguments: &Value) -> usize {
        self.server
            .log()
            .calls(tool)
            .iter()
            .filter(|call| call.arguments() == arguments)
            .count()
    }

    /// How many sessions were opened so far.
    pub(super) fn openings(&self) -> usize {
        self.server.log().count("initialize")
    }

    /// Claims that the tool ran once with these arguments.
    pub(super) fn claim_one_run(
        &self,
        proof: &mut Proof,
        tool: &str,
        arguments: &Value,
    ) -> Result<(), Broken> {
        let runs = self.runs(tool, arguments)?;
        proof.claim(
            runs == 1,
            format!(
                "the server ran the tool once: {} in its ledger",
                counted(runs, "row")
            ),
        );
        Ok(())
    }

    /// Claims that a write was sent once and is not sent again: calls that come later do arrive.
    pub(super) async fn claim_not_repeated(
        &self,
        proof: &mut Proof,
        agent: &Agent,
        (tool, arguments): (&str, &Value),
    ) -> Result<(), Broken> {
        let later = agent.call(tool, json!({ "after": arguments })).await?;
        let asked = self.asked(tool, arguments);
        let is_good = asked == 1 && is_result(&later);
        proof.claim(
            is_good,
            format!(
                "the call was sent {}, and a later call went through",
                times(asked)
            ),
        );
        self.claim_one_run(proof, tool, arguments)
    }
}

/// Whether a tool has answered.
fn is_result(answer: &Answer) -> bool {
    answer.status == 200 && !answer.is_error() && !answer.text().is_empty()
}

fn booking_tools() -> Vec<Tool> {
    vec![
        tool("search", "Finds free rooms", ROOMS),
        tool("create_booking", "Books a room", BOOKED),
        tool("find_table", "Finds the booking of a table", "None"),
        tool("book_table", "Books a table", TABLE),
    ]
}

fn trains_tools() -> Vec<Tool> {
    vec![
        tool("departures", "Shows the next trains", DEPARTURES),
        tool("buy_ticket", "Buys a ticket", BOUGHT),
        tool("buy_seat", "Buys a seat under a key", BOUGHT),
    ]
}

fn mail_tools() -> Vec<Tool> {
    vec![
        tool("unread", "Lists unread mail", UNREAD),
        tool("send", "Sends a mail", SENT),
    ]
}

/// How tokens are issued where no scene is played.
fn tokens() -> Tokens {
    Tokens {
        lifetime: Some(LIFETIME),
        ..Tokens::default()
    }
}

fn tool(name: &str, description: &str, says: &str) -> Tool {
    let mut tool = Tool::new(name, Action::Fixed(testkit::reply::tool_text(says)));
    tool.definition["description"] = description.into();
    tool
}

async fn start_server(behaviour: &Behaviour, ledger: PathBuf) -> Result<Server, Failure> {
    let ledger = Ledger::at(ledger).map_err(no_folder)?;
    let server = Server::builder(behaviour.clone()).ledger(ledger);
    server
        .try_start()
        .await
        .map_err(|error| cannot_start(&error))
}

fn url_of(daemon: &Daemon) -> Result<Url, Failure> {
    Url::parse(&format!("http://{}", daemon.address())).map_err(|error| cannot_start(&error))
}

fn cannot_start(why: &dyn Display) -> Failure {
    Failure::new(code::INTERNAL, format!("the demo cannot start: {why}"))
}

fn no_folder(error: std::io::Error) -> Failure {
    let message = format!("the demo's temporary folder cannot be used: {error}");
    Failure::hinted(
        code::FILE_UNREADABLE,
        message,
        "Set TMPDIR to a folder that you may write in.",
    )
}
