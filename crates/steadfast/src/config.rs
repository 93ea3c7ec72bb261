//! What an operator says about agents, servers and delays. The shapes are those of `steadfast.toml`
//! and of the admin API; unknown keys are errors.

pub mod check;
mod contract;
mod issuer;
mod notify;
mod oauth;
mod renewal;
mod repeat;
mod sign_in;
mod span;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use steadfast_core::catalog::{self, Access};
use steadfast_core::now::Millis;
use steadfast_core::{Effect, connection, gate, session, sleep, stream};
use url::Url;

pub use contract::{DuplicateKey, Idempotency, Lookup};
pub use issuer::{Introspection, Issuer, Profile};
pub use notify::{Email, Notify, Webhook};
pub use oauth::{AssertionType, GrantType, Identity, Oauth};
pub use renewal::Renewal;
pub use repeat::Repeat;
pub use sign_in::SignIn;
pub use span::Span;

/// What the keeper needs to know besides agents and servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `[retry]`.
    pub retry: Retry,
    /// `[catalog]`.
    pub catalog: Catalog,
    /// `[renewal]`.
    pub renewal: Renewal,
    /// `[sign_in]`.
    pub sign_in: SignIn,
    /// `[repeat]`.
    pub repeat: Repeat,
    /// `[network]`.
    pub network: Network,
    /// `[notify]`.
    pub notify: Notify,
    /// Where traces go, if anywhere.
    pub traces: Option<crate::trace::Traces>,
    /// `[[gateway.issuers]]`.
    pub issuers: Vec<Issuer>,
    /// `limits.max_message`, in bytes.
    pub max_message: MaxMessage,
}

/// `limits.max_message`: the largest message that passes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxMessage(pub usize);

impl Default for MaxMessage {
    fn default() -> Self {
        Self(64 << 20)
    }
}

/// `[retry]`: the delays and limits of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// The first delay after a failure.
    pub first: Span,
    /// The longest delay.
    pub max: Span,
    /// How long a TCP and TLS connection may take to open.
    pub connect_timeout: Span,
    /// How long the headers of an answer may take.
    pub request_timeout: Span,
    /// How long a streaming answer may be silent.
    pub silence_timeout: Span,
    /// How long a whole call may take, progress or not.
    pub call_timeout: Span,
    /// How many connections may be opened at a time.
    pub concurrent_reconnects: u32,
    /// How many lost sessions are mended at once per window.
    pub session_rebuilds: u32,
    /// The window.
    pub session_rebuild_window: Span,
    /// Fruitless resumes before a pending call is not observed.
    pub resume_attempts: u32,
    /// How long the GET stream may take to open.
    pub stream_open_timeout: Span,
    /// How long until a refused GET stream is asked for again.
    pub stream_recheck: Span,
    /// A consequential call never goes out on a connection idle for longer.
    pub connection_max_idle: Span,
    /// How often per hour a server may change its era.
    pub era_switches: u32,
    /// How long a server's question may wait for its agent.
    pub input_wait: Span,
    /// How long nothing may be heard before the server is asked; `0` for never.
    pub health_every: Span,
    /// A pause of the whole process longer than this was a sleep of the machine.
    pub asleep_after: Span,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first: Span::secs(1),
            max: Span::mins(5),
            connect_timeout: Span::secs(10),
            request_timeout: Span::secs(60),
            silence_timeout: Span::mins(5),
            call_timeout: Span::hours(1),
            concurrent_reconnects: 8,
            session_rebuilds: 5,
            session_rebuild_window: Span::mins(1),
            resume_attempts: 5,
            stream_open_timeout: Span::secs(10),
            stream_recheck: Span::mins(10),
            connection_max_idle: Span::secs(5),
            era_switches: 4,
            input_wait: Span::mins(10),
            health_every: Span::secs(60),
            asleep_after: Span::secs(10),
        }
    }
}

impl Retry {
    /// For the connection machine.
    #[must_use]
    pub fn connection(&self) -> connection::Policy {
        connection::Policy {
            first: self.first.0,
            max: self.max.0,
            // A handshake asks at most three questions after it has dialled.
            attempt_limit: Millis(self.connect_timeout.0.0 + 3 * self.request_timeout.0.0),
            health_every: self.health_every.0,
            stable_after: Millis((10 * self.first.0.0).max(1_000)),
        }
    }

    /// For the gate of the fleet.
    #[must_use]
    pub fn gate(&self) -> gate::Policy {
        gate::Policy::new(self.first.0, self.concurrent_reconnects as usize)
    }

    /// For the watch over sleep.
    #[must_use]
    pub const fn sleep(&self) -> sleep::Policy {
        sleep::Policy {
            longer_than: self.asleep_after.0,
        }
    }

    /// For the session machine.
    #[must_use]
    pub fn session(&self) -> session::Policy {
        session::Policy {
            rebuilds: self.session_rebuilds,
            window: self.session_rebuild_window.0,
        }
    }

    /// For the stream machines.
    #[must_use]
    pub fn stream(&self) -> stream::Policy {
        stream::Policy {
            first: self.first.0,
            max: self.max.0,
            silence: self.silence_timeout.0,
            resume_attempts: self.resume_attempts,
            open_timeout: self.stream_open_timeout.0,
            recheck: self.stream_recheck.0,
        }
    }
}

/// `[catalog]`: the lists of servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Catalog {
    /// How long a list that lost over half of its entries unannounced is not believed.
    pub shrink_hold: Span,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            shrink_hold: Span::mins(1),
        }
    }
}

impl Catalog {
    /// For the machine of a list.
    #[must_use]
    pub fn policy(&self) -> catalog::Policy {
        catalog::Policy {
            shrink_hold: self.shrink_hold.0,
        }
    }
}

/// `[network]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Further trusted roots, as a PEM file. The path is absolute once the configuration is loaded.
    pub ca_file: Option<PathBuf>,
    /// An HTTP proxy for everything that is not on loopback; else the usual environment variables.
    pub proxy: Option<Url>,
    /// Fixed addresses for names.
    pub resolve: BTreeMap<String, Resolve>,
}

/// A fixed address for a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Resolve {
    /// Explicitly trusted.
    Trusted(std::net::IpAddr),
    /// Judged as a public name where `public` is set.
    Judged {
        /// The address.
        address: std::net::IpAddr,
        /// Whether discovery treats it as a public name.
        #[serde(default)]
        public: bool,
    },
}

impl Resolve {
    /// The address.
    #[must_use]
    pub const fn address(&self) -> std::net::IpAddr {
        match self {
            Self::Trusted(address) | Self::Judged { address, .. } => *address,
        }
    }
}

/// `[agents.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// The servers of this agent.
    pub servers: Servers,
    /// Whether merged tools are named `server__tool`.
    pub prefix: bool,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            servers: Servers::Some(Vec::new()),
            prefix: true,
        }
    }
}

impl Agent {
    /// An agent with these servers.
    pub fn with_servers<'a>(servers: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            servers: Servers::Some(servers.into_iter().map(str::to_owned).collect()),
            ..Self::default()
        }
    }
}

/// Which servers an agent has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ServersOfAgent))]
#[serde(untagged)]
pub enum Servers {
    /// `"*"`: every server.
    All(Star),
    /// These.
    Some(Vec<String>),
}

impl Servers {
    /// Whether `server` is one of them.
    #[must_use]
    pub fn include(&self, server: &str) -> bool {
        match self {
            Self::All(_) => true,
            Self::Some(names) => names.iter().any(|name| name == server),
        }
    }
}

/// The text `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Star {
    /// `*`.
    #[serde(rename = "*")]
    Star,
}

/// `[servers.NAME]`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The MCP endpoint.
    pub url: Url,
    /// Headers on every request; values may hold `${vault:NAME}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether it is used at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether the server's own annotations decide what a tool's effect is.
    #[serde(default)]
    pub trust_annotations: bool,
    /// Patterns of tools that agents may see.
    #[serde(default = "everything")]
    pub tools_allow: Vec<String>,
    /// Patterns of tools that they may not; wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_deny: Vec<String>,
    /// One upstream session per agent conversation.
    #[serde(default)]
    pub isolate_sessions: bool,
    /// Whether a load balancer's cookies are returned.
    #[serde(default)]
    pub cookies: bool,
    /// Whether discovery may lead to private addresses or plain http.
    #[serde(default)]
    pub allow_private_network: bool,
    /// The OAuth client, where it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<Oauth>,
    /// That the server keeps keys of calls by itself, where it advertises that (SEP-3182); off unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,
    /// Policies of single tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Tool>,
}

/// Headers, the query of the URL and the client's secret may be credentials: they do not print.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("origin", &self.url.origin().ascii_serialization())
            .field("headers", &self.headers.keys())
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

const fn yes() -> bool {
    true
}

fn everything() -> Vec<String> {
    vec!["*".into()]
}

impl Server {
    /// A server at this address, everything else by default.
    #[must_use]
    pub fn at(url: Url) -> Self {
        Self {
            url,
            headers: BTreeMap::new(),
            enabled: true,
            trust_annotations: false,
            tools_allow: everything(),
            tools_deny: Vec::new(),
            isolate_sessions: false,
            cookies: false,
            allow_private_network: false,
            oauth: None,
            idempotency: None,
            tools: BTreeMap::new(),
        }
    }

    /// Which tools agents may see and call.
    #[must_use]
    pub fn access(&self) -> Access {
        Access::new(&self.tools_allow, &self.tools_deny)
    }

    /// The client that asks for tokens for itself, where one is configured.
    #[must_use]
    pub fn machine(&self) -> Option<&Oauth> {
        self.oauth.as_ref().filter(|oauth| oauth.asks_for_itself())
    }

    /// What a call of `tool` may do. A write unless the operator says otherwise (architecture, writes 13).
    #[must_use]
    pub fn effect(&self, tool: &str) -> Effect {
        self.tools
            .get(tool)
            .map_or(Effect::Write, |policy| policy.effect)
    }
}

/// `[servers.NAME.tools.TOOL]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Tool {
    /// Whether the tool can change anything.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub effect: Effect,
    /// Whether a lost read is asked again; `None` is yes.
    pub reissue: Option<bool>,
    /// What the upstream is told when a modern agent goes away.
    pub on_disconnect: Option<OnDisconnect>,
    /// `send`: no possible-repeat holding for this tool.
    pub repeat: Option<OnRepeat>,
    /// How the provider documents that a repeat is safe.
    pub duplicate_key: Option<DuplicateKey>,
    /// How the original operation can be looked up.
    pub lookup: Option<Lookup>,
}

/// What the upstream is told when a modern agent goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// Nothing: the call is read to its end, so that its outcome is known.
    Observe,
    /// That the call is cancelled.
    Cancel,
}

/// Whether possible repeats of a tool are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnRepeat {
    /// Held until the first one is settled.
    Hold,
    /// Sent.
    Send,
}
