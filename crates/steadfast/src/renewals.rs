//! Grants kept alive without connections: what the supervisor and the renewals alone cost. For measurements.

use std::sync::Arc;

use steadfast_core::{AgentName, Fault, Kind, ServerName};
use steadfast_store::{SharedStore, Vault};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config;
use crate::configured::Configured;
use crate::grants::{Grants, Woke, supervisor};
use crate::perform::dial::Dialer;
use crate::secrets::Secrets;

/// The part of a keeper that renews grants.
#[derive(Debug)]
pub struct Renewals {
    grants: Arc<Grants>,
    supervisor: JoinHandle<()>,
    /// There is no connection that a wake-up could be told to.
    _woke: mpsc::UnboundedReceiver<Woke>,
}

impl Renewals {
    /// Renews what the store holds for these agents and servers.
    ///
    /// # Errors
    ///
    /// Where `network.ca_file` cannot be used, and where the store cannot be read.
    pub async fn start(
        settings: &config::Settings,
        store: SharedStore,
        vault: Arc<Vault>,
        agents: impl IntoIterator<Item = (AgentName, config::Agent)>,
        servers: impl IntoIterator<Item = (ServerName, config::Server)>,
    ) -> Result<Self, Fault> {
        let misconfigured = |message: String| Fault::new(Kind::Misconfigured, message);
        let connect = settings.retry.connect_timeout.duration();
        let dialer = Dialer::new(&settings.network, connect).map_err(misconfigured)?;
        let secrets = Secrets::load(store, vault).await;
        let secrets = secrets.map_err(|error| misconfigured(error.to_string()))?;
        let configured = Arc::<Configured>::default();
        configured.agents.lock().extend(agents);
        configured.servers.lock().extend(servers);
        let (grants, woke) = Grants::new(Arc::new(secrets), settings, Arc::new(dialer), configured);
        Ok(Self {
            supervisor: supervisor::start(&grants),
            grants,
            _woke: woke,
        })
    }

    /// Begins no further renewal, and waits for those under way.
    pub async fn shutdown(self) {
        self.grants.finish().await;
        self.supervisor.abort();
    }
}
