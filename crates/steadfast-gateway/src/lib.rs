//! The gateway: what agents connect to, and the admin API. It parses and renders, and decides nothing.
//!
//! # Reading order
//!
//! 1. [`settings`]: what can be set.
//! 2. `listener`: sockets; what goes to agents' handlers and what to the admin API.
//! 3. `guard`, `credential`: who is served at all.
//! 4. `agents`: `/mcp/{server}` and `/mcp` in both eras.
//! 5. [`directory`] and `admin`: configuration and `/api/v1`.
//! 6. [`metrics`]: what is counted.

mod admin;
mod agents;
mod body;
mod clock;
mod console;
mod credential;
pub mod directory;
mod ending;
mod guard;
mod listener;
pub mod metrics;
mod own_wake;
mod problem;
mod protected;
pub mod settings;
mod unguessable;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use steadfast::{Change, Keeper};
use steadfast_core::code::{self, Code};
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{SharedEvents, SharedRecords, SharedStore};
use tokio::net::TcpListener;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

use admin::audit::Audit;
use admin::feed::Feed;
use agents::events::EventLog;
use agents::fanout::Fanout;
use agents::listening::ListeningStreams;
use agents::merged::{Changes, Tasks};
use agents::modern::Hub;
use agents::modern::mirrored::Mirrored;
use agents::modern::parked::Parking;
use agents::sessions::Sessions;
use ending::Ending;
use guard::Guard;
use listener::Listener;
use protected::Protected;
use unguessable::Unguessable;

pub use directory::{Directory, is_name};
pub use metrics::Metrics;
pub use settings::{AdminToken, ConfigFile, ConfigFileStatus, Settings};

/// How often what is no longer needed is cleared away.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listen address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// An agent without a credential is only for those on this machine.
    #[error("anonymous_agent needs a loopback listener, and {0} is none")]
    AnonymousNotLoopback(SocketAddr),
    /// Nothing can be under the public address.
    #[error("`gateway.public_url` has no room for a path: {0}")]
    PublicUrl(url::ParseError),
    /// There are no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
    /// The event log cannot be used.
    #[error(transparent)]
    Events(steadfast_store::Error),
    /// What is configured cannot be read.
    #[error(transparent)]
    Directory(#[from] directory::Error),
}

impl Error {
    /// Its entry in the registry.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Listen { .. } => code::ADDRESS_IN_USE,
            Self::AnonymousNotLoopback(_) | Self::PublicUrl(_) => code::CONFIG_BAD_VALUE,
            Self::Random(_) => code::INTERNAL,
            Self::Events(error) => error.code(),
            Self::Directory(error) => error.code(),
        }
    }
}

/// Where this machine reaches a listener, also one on every address.
#[must_use]
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// What every request needs.
#[derive(Debug)]
pub(crate) struct Gate {
    settings: Settings,
    guard: Guard,
    keeper: Keeper,
    directory: Directory,
    sessions: Arc<Sessions>,
    listening: ListeningStreams,
    events: Arc<EventLog>,
    hub: Arc<Hub>,
    parking: Arc<Parking>,
    mirrored: Mirrored,
    changes: Arc<Changes>,
    tasks: Arc<Tasks>,
    ending: Ending,
    protected: Protected,
    admin: axum::Router,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    listener: Listener,
    gate: Arc<Gate>,
    /// What runs beside the requests.
    chores: [JoinHandle<()>; 3],
}

impl Gateway {
    /// Binds, loads what the store holds into the keeper, and serves.
    pub async fn start(
        settings: Settings,
        keeper: Keeper,
        store: SharedStore,
        events: SharedEvents,
    ) -> Result<Self, Error> {
        let records: SharedRecords = Arc::clone(&store) as SharedRecords;
        let listening = |source| Error::Listen {
            address: settings.listen,
            source,
        };
        let socket = TcpListener::bind(settings.listen)
            .await
            .map_err(listening)?;
        let local = socket.local_addr().map_err(listening)?;
        if settings.anonymous_agent.is_some() && !local.ip().is_loopback() {
            return Err(Error::AnonymousNotLoopback(local));
        }
        let ids = Arc::new(Unguessable::new().map_err(Error::Random)?);
        let sessions = Arc::new(Sessions::new(
            Arc::clone(&records),
            Arc::clone(&ids),
            settings.sessions_in_memory,
            settings.session_idle,
            settings.input_wait,
        ));
        let hub = Arc::new(Hub::default());
        let changes = Changes::new(keeper.clone(), Arc::clone(&sessions), Arc::clone(&hub));
        keeper.set_listener(Arc::new(Fanout {
            sessions: Arc::clone(&sessions),
            hub: Arc::clone(&hub),
            changes: Arc::clone(&changes),
        }));
        let anonymous = settings.anonymous_agent.clone();
        let listening = ListeningStreams::new(Arc::clone(&sessions), Arc::clone(&hub));
        let records_of = Arc::clone(&records);
        let doors = admin::oauth::doors(&settings, local).map_err(Error::PublicUrl)?;
        let public_url = admin::oauth::public_url(&settings, local).map_err(Error::PublicUrl)?;
        let protected = Protected::new(public_url.clone(), keeper.issuers());
        // Before any connection may want a sign-in.
        keeper.set_doors(doors.clone());
        let directory = Directory::new(keeper.clone(), records_of, anonymous, listening.clone());
        directory.load().await?;
        let parking = Parking::new(Arc::clone(&records), Arc::clone(&ids), settings.input_wait);
        let ending = Ending::default();
        let events = EventLog::open(
            events,
            Arc::clone(&store),
            settings.event_retention,
            settings.event_budget,
            ids,
            public_url,
        )
        .await
        .map_err(Error::Events)?;
        let audit = Audit::new(Arc::clone(&store));
        let audit_retention = settings.audit_retention;
        let admin = admin::router(admin::State {
            settings: settings.clone(),
            keeper: keeper.clone(),
            records,
            store,
            directory: directory.clone(),
            doors,
            sessions: Arc::clone(&sessions),
            ending: ending.clone(),
            audit: audit.clone(),
            feed: Feed::default(),
        });
        let gate = Arc::new(Gate {
            guard: Guard::new(&settings, local),
            events,
            settings,
            keeper,
            directory,
            sessions,
            listening,
            hub,
            parking,
            mirrored: Mirrored::default(),
            changes,
            protected,
            tasks: Arc::default(),
            ending,
            admin,
        });
        let chores = [
            tokio::spawn(sweep(Arc::clone(&gate))),
            tokio::spawn(follow_changes(Arc::clone(&gate), gate.keeper.changes())),
            tokio::spawn(audit.forget(audit_retention)),
        ];
        Ok(Self {
            listener: Listener::start(socket, local, Arc::clone(&gate)),
            gate,
            chores,
        })
    }

    /// The address really listened on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local()
    }

    /// The agents and servers: for whoever applies a configuration file.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.gate.directory
    }

    /// Ends streams, lets answers under way finish, and closes, within two seconds. Sessions stay.
    pub async fn shutdown(self) {
        let _parked = LeftAtTheEnd(&self.gate.parking);
        self.gate.ending.begin();
        for chore in &self.chores {
            chore.abort();
        }
        self.gate.listening.end_all();
        self.listener.shutdown().await;
        self.gate.events.close().await;
    }
}

/// Calls that wait for their agents are left to the next process: last, since agents may go on with them
/// until then, and also where the end is cut short.
struct LeftAtTheEnd<'p>(&'p Parking);

impl Drop for LeftAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.leave_all();
    }
}

async fn sweep(gate: Arc<Gate>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        gate.settings.metrics.tidy();
        gate.events.sweep().await;
        gate.sessions.sweep().await;
        gate.parking.sweep().await;
    }
}

/// A connection that left the configuration leaves nothing open behind.
async fn follow_changes(gate: Arc<Gate>, mut changes: Receiver<Change>) {
    loop {
        let gone = match changes.recv().await {
            Ok(Change::Connection(report)) => {
                // What is switched off is as good as gone for those who have all servers of the agent.
                if report.state == "disabled" {
                    let agent = AgentName::from(report.agent.as_str());
                    let server = ServerName::from(report.server.as_str());
                    gate.changes.left(&agent, &server);
                }
                continue;
            }
            Ok(Change::Removed(agent, _)) => vec![agent],
            Err(RecvError::Lagged(_)) => gate.keeper.agents(),
            Err(RecvError::Closed) => return,
        };
        let there = |agent: &_, server: &_| gate.keeper.link(agent, server).is_some();
        gate.sessions.retain(|agent, server| match server {
            Some(server) => there(agent, server),
            None => gate.keeper.has_agent(agent),
        });
        gate.hub.retain(|agent, server| match server {
            Some(server) => there(agent, server),
            None => gate.keeper.has_agent(agent),
        });
        gate.parking.retain(there);
        gate.mirrored.retain(there);
        gate.changes.retain(there);
        gate.tasks.retain(|agent| gate.keeper.has_agent(agent));
        for agent in gone {
            gate.changes.all(&agent);
        }
    }
}
