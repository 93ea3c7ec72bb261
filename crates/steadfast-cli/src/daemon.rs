//! Store, keeper and gateway wired together: what `serve` runs, and `demo` in its own process.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use steadfast::{Keeper, Traces, config as keeper};
use steadfast_core::{AgentName, code};
use steadfast_gateway::{AdminToken, ConfigFile, Gateway, Metrics, Settings, reachable};
use steadfast_store::vault::source::KEY_VARIABLE;
use steadfast_store::{
    KeySource, SecretString, SharedEvents, SharedRecords, SharedStore, Source, SqliteEvents,
    SqliteOptions, SqliteRecords, Vault,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::config::Loaded;
use crate::config::schema::File;
use crate::config::watch::{self, Watch};
use crate::data_dir::{DaemonEntry, DaemonLock, DataDir, TokenOrigin};
use crate::failure::Failure;

/// How long answers under way may take when the daemon stops …
const GATEWAY_ENDS: Duration = Duration::from_millis(800);
/// … how long servers may take to hear that their sessions end …
const KEEPER_ENDS: Duration = Duration::from_millis(1_400);
/// … and how long the last writes may take. Together under 3 s, in any state (OP-04).
const STORE_ENDS: Duration = Duration::from_millis(400);

/// The longest that an agent waits for a server that was never seen.
const HELLO_WAIT: Duration = Duration::from_secs(5);

/// How a daemon is started.
pub(crate) struct Start<'s> {
    pub(crate) data: &'s DataDir,
    /// The configuration file, if there is one.
    pub(crate) config: Option<Loaded>,
    /// The address to listen on, instead of the file's.
    pub(crate) listen: Option<SocketAddr>,
    /// The admin token for a first start; else one is made.
    pub(crate) token: Option<&'s str>,
}

/// A running daemon.
pub(crate) struct Daemon {
    gateway: Gateway,
    keeper: Keeper,
    records: SharedRecords,
    events: SharedEvents,
    watching: Option<JoinHandle<()>>,
    /// The admin token, and how it came to be.
    pub(crate) token: (String, TokenOrigin),
    _announced: DaemonLock,
}

impl Daemon {
    /// Starts it. Nothing is changed where the address cannot be listened on.
    pub(crate) async fn start(start: Start<'_>) -> Result<Self, Failure> {
        let file = start
            .config
            .as_ref()
            .map(|loaded| loaded.file.clone())
            .unwrap_or_default();
        let listen = start.listen.unwrap_or(file.gateway.listen);
        start.data.create()?;
        drop(
            TcpListener::bind(listen)
                .await
                .map_err(|error| cannot_listen(listen, &error))?,
        );

        let store = start.data.store_file(&file.store.url);
        let records = SqliteRecords::open(&store, SqliteOptions::default()).await?;
        let kept: SharedStore = Arc::new(records);
        let events = SqliteEvents::open(events_beside(&store), SqliteOptions::default()).await?;
        let events: SharedEvents = Arc::new(events);
        let key = KeySource::choose(vault_key(), start.data.path());
        let vault = Arc::new(Vault::open(&*kept, key).await?);
        let records: SharedRecords = Arc::clone(&kept) as SharedRecords;
        let token = start.data.token_or_make(start.token)?;
        match &start.config {
            Some(loaded) => watch::prepare(&*records, &loaded.file).await?,
            None => warn_of_leftovers(&records).await?,
        }

        let keeping = keeper::Settings {
            traces: traces()?,
            ..keeper_settings(&file)
        };
        let keeper = Keeper::start(keeping, Arc::clone(&kept), vault)
            .await
            .map_err(|fault| Failure::new(fault.kind.code(), fault.message))?;
        let status = ConfigFile::default();
        let settings = Settings {
            metrics: counting()?,
            ..gateway_settings(&file, listen, &token.0, status.clone())
        };
        let gateway = Gateway::start(settings, keeper.clone(), kept, Arc::clone(&events))
            .await
            .map_err(|error| match &error {
                steadfast_gateway::Error::Listen { address, source } => {
                    cannot_listen(*address, source)
                }
                other => Failure::new(other.code(), other.to_string()),
            })?;

        let announced = start.data.announce(&DaemonEntry {
            url: format!("http://{}", reachable(gateway.local_addr())),
            pid: std::process::id(),
            store,
        })?;
        let watching = start.config.map(|loaded| {
            status.set(watch::applied(&loaded));
            let watch = Watch {
                loaded,
                listen: start.listen,
                directory: gateway.directory().clone(),
                status,
            };
            tokio::spawn(watch.run())
        });
        Ok(Self {
            gateway,
            keeper,
            records,
            events,
            watching,
            token,
            _announced: announced,
        })
    }

    /// The address really listened on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.local_addr()
    }

    /// Ends everything politely, within three seconds whatever servers and agents do.
    pub(crate) async fn shutdown(self) {
        if let Some(watching) = self.watching {
            watching.abort();
        }
        let stores = async { tokio::join!(self.records.close(), self.events.close()) };
        let ended = [
            tokio::time::timeout(GATEWAY_ENDS, self.gateway.shutdown())
                .await
                .is_ok(),
            tokio::time::timeout(KEEPER_ENDS, self.keeper.shutdown())
                .await
                .is_ok(),
            tokio::time::timeout(STORE_ENDS, stores).await.is_ok(),
        ];
        if ended.contains(&false) {
            tracing::info!("not everything had ended in time");
        }
    }
}

/// Where OpenTelemetry's variables say that traces go.
fn traces() -> Result<Option<Traces>, Failure> {
    Traces::from_environment(|name| std::env::var(name).ok())
        .map_err(|why| Failure::new(code::CONFIG_BAD_VALUE, why))
}

fn counting() -> Result<Metrics, Failure> {
    Metrics::install().map_err(|error| {
        let message = format!("nothing can be counted for /metrics: {error}");
        Failure::new(code::INTERNAL, message)
    })
}

/// The file of the event log: `steadfast-events.db` beside `steadfast.db`.
fn events_beside(store: &Path) -> PathBuf {
    let mut name = store.file_stem().unwrap_or_default().to_owned();
    name.push("-events");
    let events = store.with_file_name(name);
    match store.extension() {
        Some(extension) => events.with_extension(extension),
        None => events,
    }
}

/// The key of the vault, where the environment holds it.
fn vault_key() -> Option<SecretString> {
    std::env::var(KEY_VARIABLE)
        .ok()
        .filter(|key| !key.is_empty())
        .map(SecretString::from)
}

/// An agent without its file keeps its key: whoever forgot `--config` once would have to hand out new ones.
async fn warn_of_leftovers(records: &SharedRecords) -> Result<(), Failure> {
    let agents = records.agents().await?;
    let servers = records.servers().await?;
    let agents = agents
        .iter()
        .filter(|agent| agent.source == Source::File)
        .map(|agent| agent.name.as_str());
    let servers = servers
        .iter()
        .filter(|server| server.source == Source::File)
        .map(|server| server.name.as_str());
    let names: Vec<&str> = agents.chain(servers).collect();
    if !names.is_empty() {
        tracing::warn!(
            names = names.join(", "),
            "defined by the configuration file of an earlier start, and kept as they were: name the file with --config"
        );
    }
    Ok(())
}

fn keeper_settings(file: &File) -> keeper::Settings {
    keeper::Settings {
        retry: file.retry.clone(),
        catalog: file.catalog.clone(),
        renewal: file.renewal.clone(),
        sign_in: file.sign_in.clone(),
        repeat: file.repeat.clone(),
        network: file.network.clone(),
        notify: keeper::Notify {
            webhook: file.notify.webhook.clone().map(keeper::Webhook),
            email: file.notify.email.clone(),
        },
        issuers: file.gateway.issuers.clone(),
        max_message: keeper::MaxMessage(file.limits.max_message.0),
        traces: None,
    }
}

fn gateway_settings(
    file: &File,
    listen: SocketAddr,
    token: &str,
    config_file: ConfigFile,
) -> Settings {
    let gateway = &file.gateway;
    Settings {
        public_url: gateway.public_url.clone(),
        client_metadata_url: gateway.client_metadata_url.clone(),
        allowed_hosts: gateway.allowed_hosts.clone(),
        allowed_origins: gateway.allowed_origins.clone(),
        anonymous_agent: gateway.anonymous_agent.as_deref().map(AgentName::from),
        max_message: file.limits.max_message.0,
        event_retention: file.store.event_retention.duration(),
        event_budget: u64::try_from(file.store.event_size.0).unwrap_or(u64::MAX),
        audit_retention: file.store.audit_retention.duration(),
        keep_alive: gateway.keep_alive.duration(),
        input_wait: file.retry.input_wait.duration(),
        // No longer than the server may take to be reached.
        hello_wait: HELLO_WAIT.min(file.retry.connect_timeout.duration()),
        config_file,
        ..Settings::new(listen, AdminToken::new(token))
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    let message = match error.kind() {
        ErrorKind::AddrInUse => format!("{address} is in use by another program"),
        _ => format!("cannot listen on {address}: {error}"),
    };
    Failure::new(code::ADDRESS_IN_USE, message)
}
