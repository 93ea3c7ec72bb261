//! What the gateway needs to know: `[gateway]` and `[limits]` of `steadfast.toml`, and its own delays.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use steadfast_core::AgentName;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use url::Url;
use utoipa::ToSchema;

use crate::metrics::Metrics;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `gateway.listen`: where agents and the admin API connect. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// `gateway.public_url`: how the gateway is reached from outside, where that differs.
    pub public_url: Option<Url>,
    /// `gateway.client_metadata_url`: where our client-id metadata document is hosted, if not here.
    pub client_metadata_url: Option<Url>,
    /// `gateway.allowed_hosts`: further values of the Host header. One without a port stands for every port.
    pub allowed_hosts: Vec<String>,
    /// `gateway.allowed_origins`: further values of the Origin header.
    pub allowed_origins: Vec<String>,
    /// `gateway.anonymous_agent`: who a request without a credential is. Only on a loopback listener.
    pub anonymous_agent: Option<AgentName>,
    /// What the admin API asks for.
    pub admin_token: AdminToken,
    /// `limits.max_message`, in bytes.
    pub max_message: usize,
    /// `store.event_retention`: how long a stream can be resumed.
    pub event_retention: Duration,
    /// `store.event_size`: how many bytes the event log may take on disk; then the oldest events are forgotten.
    pub event_budget: u64,
    /// How long a stream may be silent before a comment keeps it alive.
    pub keep_alive: Duration,
    /// `retry.input_wait`: how long a server's question may wait for its agent.
    pub input_wait: Duration,
    /// How long `initialize` waits for a server that was never seen.
    pub hello_wait: Duration,
    /// How long an unused session is kept on record.
    pub session_idle: Duration,
    /// How many unused sessions stay in memory; the others are read from the store when they come back.
    pub sessions_in_memory: usize,
    /// `store.audit_retention`: how long it is on record who changed what.
    pub audit_retention: Duration,
    /// What `GET /api/v1/config` shows.
    pub config_file: ConfigFile,
    /// What `GET /metrics` shows of the whole process.
    pub metrics: Metrics,
}

impl Settings {
    /// Listens there, with this token for the admin API, everything else by default.
    #[must_use]
    pub fn new(listen: SocketAddr, admin_token: AdminToken) -> Self {
        Self {
            listen,
            public_url: None,
            client_metadata_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            anonymous_agent: None,
            admin_token,
            max_message: 64 << 20,
            event_retention: Duration::from_secs(24 * 3_600),
            event_budget: 1 << 30,
            keep_alive: Duration::from_secs(15),
            input_wait: Duration::from_secs(600),
            hello_wait: Duration::from_secs(5),
            session_idle: Duration::from_secs(7 * 24 * 3_600),
            sessions_in_memory: 2_048,
            audit_retention: Duration::from_secs(365 * 24 * 3_600),
            config_file: ConfigFile::default(),
            metrics: Metrics::default(),
        }
    }
}

/// The admin token. Only its hash is kept, so that it cannot print.
#[derive(Clone)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// Takes the token's text.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether `presented` is the token; takes the same time wherever the two differ.
    pub(crate) fn accepts(&self, presented: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(presented).into();
        self.0.ct_eq(&presented).into()
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// What is known of the configuration file. Whoever applies the file writes it, the admin API shows it.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile(Arc<watch::Sender<ConfigFileStatus>>);

/// `GET /api/v1/config`.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ConfigFileStatus {
    /// The path of the file; null where there is none.
    pub source: Option<String>,
    /// When it was last applied (RFC 3339).
    pub applied_at: Option<String>,
    /// Why the file as it is now was not applied.
    pub error: Option<String>,
}

impl ConfigFile {
    /// Replaces what is known.
    pub fn set(&self, status: ConfigFileStatus) {
        self.0.send_replace(status);
    }

    /// What is known.
    #[must_use]
    pub fn get(&self) -> ConfigFileStatus {
        self.0.borrow().clone()
    }

    /// Tells when it is another one.
    pub(crate) fn changes(&self) -> watch::Receiver<ConfigFileStatus> {
        self.0.subscribe()
    }
}
