//! All links, kept in step with the configuration.

mod consent;
mod doctor;
mod housekeeping;
mod isolated;
mod leaving;
mod links;
mod looking;
mod notices;
mod operations;
mod shared;
mod telling;
mod vault;
mod waking;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use steadfast_core::{AgentName, Fault, Kind, ServerName};
use steadfast_store::{Error, SharedRecords, SharedStore, Vault};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::catalog::Catalog;
use crate::config;
use crate::configured::Configured;
use crate::drive::{self, Input};
use crate::fleet::Fleet;
use crate::grants::{self, Credential, Grants, Owner, Want};
use crate::handle::CallHandle;
use crate::issuers::Issuers;
use crate::link::{Link, Remembered};
use crate::operations::{Ledger, supervise};
use crate::perform::dial::Dialer;
use crate::question::ServerRequest;
use crate::report::Report;
use crate::route::Upstream;
use crate::secrets::Secrets;
use crate::sleep;
use crate::trace;

use shared::{Farewells, first_id, write_history};

use links::Links;
use telling::Teller;

pub use self::{doctor::NotExamined, isolated::Isolated, links::NoticeLink};
pub(crate) use shared::Shared;

/// What happened to a connection: feeds the change stream.
#[derive(Clone, Debug)]
pub enum Change {
    /// A connection changed.
    Connection(Arc<Report>),
    /// A connection left the configuration.
    Removed(AgentName, ServerName),
}

/// Who receives what a server sends outside of any call: the gateway.
pub trait Listener: Send + Sync + std::fmt::Debug {
    /// A notification from the server's listening stream.
    fn notification(&self, link: &Arc<Link>, message: Bytes);
    /// A question from the server's listening stream, where it does not say which call caused it.
    /// `in_flight` are the calls that the server owes an answer in this session, oldest first.
    fn request(&self, link: &Arc<Link>, request: ServerRequest, in_flight: &[CallHandle]);
    /// The connection opened again, so that lists may have changed.
    fn reopened(&self, link: &Arc<Link>);
    /// The tools and prompts of the agent have other names together (`prefix`).
    fn renamed(&self, _agent: &AgentName) {}
    /// Whether anybody would hear a notification now. Where nobody does, lists whose changes a server
    /// does not announce are not asked for again.
    fn is_listened_to(&self, link: &Link) -> bool;
}

#[derive(Debug)]
struct Kept {
    link: Arc<Link>,
    driver: JoinHandle<()>,
}

#[derive(Debug)]
struct Inner {
    settings: config::Settings,
    shared: Arc<Shared>,
    dialer: Arc<Dialer>,
    grants: Arc<Grants>,
    secrets: Arc<Secrets>,
    issuers: Arc<Issuers>,
    ledger: Arc<Ledger>,
    links_of_notices: Arc<Links>,
    configured: Arc<Configured>,
    links: RwLock<BTreeMap<Owner, Kept>>,
    /// Those that serve one conversation only.
    isolated: Mutex<Vec<Weak<Link>>>,
    /// The last RPC id of any link: a server that many agents share never sees one twice.
    ids: Arc<AtomicI64>,
    listener: Arc<RwLock<Option<Arc<dyn Listener>>>>,
    changes: broadcast::Sender<Change>,
    /// Whose notices were opened, changed or cleared.
    notice_changes: broadcast::Sender<Owner>,
    /// Held while links are brought in step with the configuration.
    configuring: tokio::sync::Mutex<()>,
    background: Mutex<Vec<JoinHandle<()>>>,
}

/// All links. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keeper {
    inner: Arc<Inner>,
}

/// A watcher that is this far behind misses changes and is told so.
const CHANGES: usize = 1_024;

impl Keeper {
    /// Starts without agents and servers.
    ///
    /// # Errors
    ///
    /// Where `network.ca_file` cannot be used, and where the store cannot be read.
    pub async fn start(
        settings: config::Settings,
        store: SharedStore,
        vault: Arc<Vault>,
    ) -> Result<Self, Fault> {
        let connect = settings.retry.connect_timeout.duration();
        let dialer = Dialer::new(&settings.network, connect)
            .map_err(|message| Fault::new(Kind::Misconfigured, message))?;
        let (history, entries) = mpsc::unbounded_channel();
        let dialer = Arc::new(dialer);
        if let Some(traces) = settings.traces.clone() {
            trace::start(traces, &dialer);
        }
        let configured = Arc::<Configured>::default();
        let ledger = Ledger::open(Arc::clone(&store), Arc::clone(&vault), &settings.repeat);
        let ledger = ledger
            .await
            .map_err(|error| Fault::new(Kind::Misconfigured, error.to_string()))?;
        let secrets = Secrets::load(Arc::clone(&store), vault).await;
        let secrets =
            Arc::new(secrets.map_err(|error| Fault::new(Kind::Misconfigured, error.to_string()))?);
        let (grants, woken) = Grants::new(
            Arc::clone(&secrets),
            &settings,
            Arc::clone(&dialer),
            Arc::clone(&configured),
        );
        let limit = settings.retry.connect_timeout.duration();
        let issuers = Issuers::new(&settings.issuers, &dialer, &store, &secrets, limit);
        let issuers = Arc::new(issuers);
        let kept = Arc::clone(&store);
        let store: SharedRecords = store;
        let retry = Arc::new(settings.retry.clone());
        let shared = Arc::new(Shared {
            connection_policy: retry.connection(),
            session_policy: retry.session(),
            stream_policy: retry.stream(),
            fleet: Fleet::new(retry.gate()),
            farewells: Farewells::default(),
            history,
            stopping: AtomicBool::new(false),
            retry,
            store: Arc::clone(&store),
        });
        let keeper = Self {
            inner: Arc::new(Inner {
                settings,
                shared,
                dialer,
                grants,
                links_of_notices: Arc::new(Links::new(Arc::clone(&secrets.vault))),
                secrets,
                issuers,
                ledger,
                configured,
                links: RwLock::default(),
                isolated: Mutex::default(),
                ids: Arc::new(AtomicI64::new(first_id())),
                listener: Arc::default(),
                changes: broadcast::Sender::new(CHANGES),
                notice_changes: broadcast::Sender::new(CHANGES),
                configuring: tokio::sync::Mutex::default(),
                background: Mutex::default(),
            }),
        };
        let write = tokio::spawn(write_history(store, entries));
        let inner = &keeper.inner;
        let admit = tokio::spawn(Arc::clone(&inner.shared.fleet).run());
        let look = inner.shared.retry.sleep().every().duration();
        let watch = tokio::spawn(sleep::watch(Arc::downgrade(&inner.grants), look));
        let wake = tokio::spawn(waking::follow(Arc::downgrade(inner), woken));
        let renew = grants::supervisor::start(&inner.grants);
        let follow = tokio::spawn(consent::follow(
            Arc::downgrade(inner),
            inner.grants.changed(),
        ));
        let changes = inner.changes.subscribe();
        let (news, _) = watch::channel(());
        for teller in Teller::all(inner, &kept, &news) {
            inner.background.lock().push(tokio::spawn(teller.run()));
        }
        let tidy = tokio::spawn(housekeeping::run(
            Arc::downgrade(&inner.grants),
            Arc::clone(&kept),
        ));
        let held = Arc::clone(&inner.ledger);
        let told = notices::Told {
            news,
            changes: inner.notice_changes.clone(),
        };
        let keep = notices::keep(Arc::downgrade(inner), kept, held, changes, told);
        let tell = tokio::spawn(keep);
        let every = inner.settings.renewal.check_every.duration();
        let reread = tokio::spawn(vault::follow(Arc::downgrade(inner), every));
        let operate = tokio::spawn(supervise(
            Arc::downgrade(&inner.ledger),
            Arc::new(operations::Connections(Arc::downgrade(inner))),
            every,
        ));
        let background = [
            write, admit, watch, wake, renew, follow, tidy, tell, reread, operate,
        ];
        inner.background.lock().extend(background);
        Ok(keeper)
    }

    /// Who receives what servers send outside of any call.
    pub fn set_listener(&self, listener: Arc<dyn Listener>) {
        *self.inner.listener.write() = Some(listener);
    }

    /// Who may issue access tokens to agents.
    #[must_use]
    pub fn issuers(&self) -> &Issuers {
        &self.inner.issuers
    }

    /// Adds or changes an agent (in memory and its links; the records are the caller's business).
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub async fn put_agent(&self, name: AgentName, agent: config::Agent) -> Result<(), Error> {
        let _configuring = self.inner.configuring.lock().await;
        let prefix = agent.prefix;
        let configured = &self.inner.configured;
        let before = configured.agents.lock().insert(name.clone(), agent);
        if before.is_some_and(|before| before.prefix != prefix)
            && let Some(listener) = self.inner.listener.read().clone()
        {
            listener.renamed(&name);
        }
        self.bring_in_step().await
    }

    /// Removes an agent and its links.
    pub async fn remove_agent(&self, name: &AgentName) {
        let _configuring = self.inner.configuring.lock().await;
        self.inner.configured.agents.lock().remove(name);
        if let Err(error) = self.bring_in_step().await {
            tracing::warn!(%error, "links cannot be brought in step");
        }
    }

    /// Adds or changes a server. Its links are reopened only where the change concerns them, and an
    /// upstream stream that still owes an answer is read to its end.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub async fn put_server(&self, name: ServerName, server: config::Server) -> Result<(), Error> {
        let _configuring = self.inner.configuring.lock().await;
        let before = self.inner.configured.servers.lock().get(&name).cloned();
        let moved = match &before {
            Some(before) => self.grants_that_stay_behind(&name, before, &server).await?,
            None => Vec::new(),
        };
        let configured = &self.inner.configured;
        configured
            .servers
            .lock()
            .insert(name.clone(), server.clone());
        if let Some(before) = before
            && before != server
        {
            // Before anything is sent to the new address.
            for owner in moved {
                self.inner.leave(owner, Some(before.clone()));
            }
            self.reconfigure(&name, &before, &server);
        }
        self.bring_in_step().await
    }

    /// Removes a server and its links.
    pub async fn remove_server(&self, name: &ServerName) {
        let _configuring = self.inner.configuring.lock().await;
        let Some(server) = self.inner.configured.servers.lock().remove(name) else {
            return;
        };
        for link in self.links().iter().filter(|link| link.server() == name) {
            let owner = (link.agent.clone(), link.server.clone());
            self.inner.leave(owner, Some(server.clone()));
        }
        if let Err(error) = self.bring_in_step().await {
            tracing::warn!(%error, "links cannot be brought in step");
        }
    }

    /// One link.
    pub fn link(&self, agent: &AgentName, server: &ServerName) -> Option<Arc<Link>> {
        let links = self.inner.links.read();
        // The key is two shared strings: cloning them costs two counters.
        let kept = links.get(&(agent.clone(), server.clone()))?;
        Some(Arc::clone(&kept.link))
    }

    /// All links, by agent and server.
    pub fn links(&self) -> Vec<Arc<Link>> {
        let links = self.inner.links.read();
        links.values().map(|kept| Arc::clone(&kept.link)).collect()
    }

    /// Every change of a connection from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    /// Ends sessions politely, lets renewals of grants end, and closes, within two seconds whatever the servers do.
    pub async fn shutdown(&self) {
        self.inner.shared.stopping.store(true, Ordering::Relaxed);
        let _configuring = self.inner.configuring.lock().await;
        let kept = std::mem::take(&mut *self.inner.links.write());
        let ended = async {
            let isolated = self.isolated_links();
            let links = kept.values().map(|kept| &kept.link).chain(&isolated);
            // All are told before any is waited for.
            let ending: Vec<_> = links.map(|link| stop(link)).collect();
            for done in ending {
                let _ = done.await;
            }
            self.inner.shared.farewells.all().await;
            self.inner.ledger.flush().await;
            trace::flush().await;
        };
        let all = async { tokio::join!(ended, self.inner.grants.finish()) };
        let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
        for kept in kept.into_values() {
            kept.driver.abort();
        }
        for task in self.inner.background.lock().drain(..) {
            task.abort();
        }
    }

    /// Opens links that are wanted and missing, and closes those that are no longer wanted.
    async fn bring_in_step(&self) -> Result<(), Error> {
        let (unwanted, missing) = self.out_of_step();
        for key in unwanted {
            let kept = self.inner.links.write().remove(&key);
            if let Some(kept) = kept {
                drop(stop(&kept.link));
                let server = self.inner.configured.servers.lock().get(&key.1).cloned();
                self.inner.leave(key.clone(), server);
                self.inner.grants.forget_slot(&key);
                let _ = self.inner.changes.send(Change::Removed(key.0, key.1));
            }
        }
        for link in self.isolated_links() {
            if !self.inner.configured.has(link.credential.owner()) {
                drop(stop(&link));
            }
        }
        for (key, server) in missing {
            self.add_link(key, &server).await?;
        }
        Ok(())
    }

    /// The links that are there and not wanted, and those that are wanted and not there. Looks at every
    /// pair and copies nothing of the others: a fleet comes in agent by agent.
    fn out_of_step(&self) -> (Vec<Owner>, Vec<(Owner, config::Server)>) {
        let links = self.inner.links.read();
        let configured = &self.inner.configured;
        let unwanted = links.keys().filter(|owner| !configured.has(owner));
        let unwanted = unwanted.cloned().collect();
        let agents = configured.agents.lock();
        let servers = configured.servers.lock();
        let mut missing = Vec::new();
        for (agent, config) in agents.iter() {
            for (server, settings) in servers.iter() {
                let key = (agent.clone(), server.clone());
                if config.servers.include(server.as_str()) && !links.contains_key(&key) {
                    missing.push((key, settings.clone()));
                }
            }
        }
        (unwanted, missing)
    }

    async fn add_link(&self, key: Owner, server: &config::Server) -> Result<(), Error> {
        let record = self.inner.shared.store.session(&key.0, &key.1).await?;
        // The address may be another one since the grant was used last.
        if !self.inner.grants.survives(&key, None, &server.url).await? {
            self.inner.leave(key.clone(), None);
        }
        let credential = self.inner.grants.credential(&key).await;
        let (inbox, input) = mpsc::unbounded_channel();
        let link = Arc::new(Link::new(
            credential.clone(),
            inbox,
            Arc::clone(&self.inner.listener),
            self.inner.changes.clone(),
            Arc::clone(&self.inner.ids),
            Arc::clone(&self.inner.ledger),
            Catalog::new(self.inner.settings.catalog.policy(), server.access()),
        ));
        if let Some(record) = &record {
            let remembered: Option<Remembered> = serde_json::from_value(record.state.clone()).ok();
            *link.remembered.lock() = remembered.unwrap_or_default();
        }
        let shared = Arc::clone(&self.inner.shared);
        let driver = drive::start(Arc::clone(&link), shared, input, record);
        link.tell(Input::Configure(self.upstream(server, credential)));
        self.inner.links.write().insert(key, Kept { link, driver });
        Ok(())
    }

    fn upstream(
        &self,
        server: &config::Server,
        credential: Credential,
    ) -> Result<Option<Arc<Upstream>>, Fault> {
        if !server.enabled {
            return Ok(None);
        }
        let upstream = Upstream::new(
            server.clone(),
            &self.inner.settings,
            Arc::clone(&self.inner.shared.retry),
            Arc::clone(&self.inner.dialer),
            &self.inner.shared.fleet,
            credential,
            Arc::clone(&self.inner.secrets),
        )?;
        Ok(Some(Arc::new(upstream)))
    }

    /// A changed server. Policies of tools count from the next call on; only what is on the wire
    /// reopens the connection.
    fn reconfigure(&self, name: &ServerName, before: &config::Server, after: &config::Server) {
        let on_the_wire = before.url != after.url
            || before.headers != after.headers
            || before.enabled != after.enabled
            || before.cookies != after.cookies;
        for link in self.links().into_iter().chain(self.isolated_links()) {
            if link.server() != name {
                continue;
            }
            if link.catalog.set_access(after.access()) {
                link.access_changed();
            }
            if link.conversation().is_none() {
                match (
                    before.oauth != after.oauth,
                    before.enabled || !after.enabled,
                ) {
                    (true, _) => link.credential.client_changed(Want::Anew),
                    (false, false) => link.credential.client_changed(Want::Missing),
                    (false, true) => {}
                }
            }
            let configured = self.upstream(after, link.credential.clone());
            if on_the_wire {
                link.tell(Input::Configure(configured));
            } else if let Ok(Some(upstream)) = configured {
                *link.upstream.write() = Some(upstream);
            }
        }
    }
}

/// Asks a driver to end; the receiver tells when it has.
fn stop(link: &Link) -> oneshot::Receiver<()> {
    let (done, ended) = oneshot::channel();
    link.tell(Input::Stop(done));
    ended
}
