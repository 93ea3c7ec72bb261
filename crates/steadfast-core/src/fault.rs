//! What went wrong with a connection, and its verdict. Faults that look alike get different answers:
//! the verdict, not the symptom, decides what happens next.

use serde::{Deserialize, Serialize};

use crate::code::{self, Code};
use crate::now::Millis;

/// Who or what can mend a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Time mends it: try again, not before the given delay where there is one.
    RetryAfter,
    /// The address is wrong: discover again.
    Rediscover,
    /// Only a person can mend it. Never retried.
    Person,
    /// We did something that we should not.
    OurBug,
}

/// What kind of fault it is: `fault.kind` in the connection object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No answer in time.
    Timeout,
    /// Refused, reset, unreachable, closed.
    Network,
    /// The TLS handshake failed.
    Tls,
    /// A 5xx status.
    ServerError,
    /// A 429 status.
    RateLimited,
    /// The server no longer knows the session.
    SessionLost,
    /// Sessions are lost faster than allowed.
    UnstableSessions,
    /// No common revision, or broken rules.
    ProtocolMismatch,
    /// HTML or something else that is not MCP.
    NotAnMcpAnswer,
    /// A redirect that is not followed.
    Redirected,
    /// 401, or no grant.
    SignInRequired,
    /// 403 with `insufficient_scope`.
    ScopeInsufficient,
    /// Another 403.
    Forbidden,
    /// The configuration cannot work.
    Misconfigured,
    /// The configuration names a secret that the vault does not have.
    VaultReference,
    /// The token endpoint is not where it was.
    TokenEndpointMoved,
    /// A renewal failed for a reason that time mends.
    RenewalDelayed,
    /// A renewal left, and its answer was not observed.
    RenewalOutcomeLost,
    /// The provider refuses the grant.
    GrantRefused,
    /// The server does not accept tokens that were just issued.
    FreshTokenRefused,
    /// The server relies on another authorization server than the one that issued the grant.
    IssuerChanged,
    /// The store cannot be written: what must be on record before it is done is not done.
    StoreUnavailable,
    /// Consequential calls whose outcome nobody knows wait for a person.
    OperationsHeld,
    /// The provider refuses the client that the operator configured, or its credential.
    ClientRefused,
}

impl Kind {
    /// Its entry in the registry.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Timeout => code::TIMEOUT,
            Self::Network => code::NETWORK,
            Self::Tls => code::TLS,
            Self::ServerError => code::SERVER_ERROR,
            Self::RateLimited => code::RATE_LIMITED,
            Self::SessionLost => code::SESSION_LOST,
            Self::UnstableSessions => code::UNSTABLE_SESSIONS,
            Self::ProtocolMismatch => code::PROTOCOL_MISMATCH,
            Self::NotAnMcpAnswer => code::NOT_AN_MCP_ANSWER,
            Self::Redirected => code::REDIRECTED,
            Self::SignInRequired => code::SIGN_IN_REQUIRED,
            Self::ScopeInsufficient => code::SCOPE_INSUFFICIENT,
            Self::Forbidden => code::FORBIDDEN,
            Self::Misconfigured => code::CONFIG_BAD_VALUE,
            Self::VaultReference => code::VAULT_REFERENCE,
            Self::TokenEndpointMoved => code::TOKEN_ENDPOINT_MOVED,
            Self::RenewalDelayed => code::RENEWAL_DELAYED,
            Self::RenewalOutcomeLost => code::RENEWAL_OUTCOME_LOST,
            Self::GrantRefused => code::GRANT_REFUSED,
            Self::FreshTokenRefused => code::FRESH_TOKEN_REFUSED,
            Self::IssuerChanged => code::ISSUER_CHANGED,
            Self::StoreUnavailable => code::STORE_UNAVAILABLE,
            Self::OperationsHeld => code::OPERATIONS_HELD,
            Self::ClientRefused => code::CLIENT_REFUSED,
        }
    }

    /// Whether a person mends it by signing in.
    #[must_use]
    pub const fn asks_to_sign_in(self) -> bool {
        match self {
            Self::SignInRequired
            | Self::ScopeInsufficient
            | Self::GrantRefused
            | Self::FreshTokenRefused
            | Self::IssuerChanged => true,
            Self::Timeout
            | Self::Network
            | Self::Tls
            | Self::ServerError
            | Self::RateLimited
            | Self::SessionLost
            | Self::UnstableSessions
            | Self::ProtocolMismatch
            | Self::NotAnMcpAnswer
            | Self::Redirected
            | Self::Forbidden
            | Self::Misconfigured
            | Self::VaultReference
            | Self::TokenEndpointMoved
            | Self::RenewalDelayed
            | Self::RenewalOutcomeLost
            | Self::StoreUnavailable
            | Self::OperationsHeld
            | Self::ClientRefused => false,
        }
    }

    /// As the connection object writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.code().name
    }
}

/// One fault, as it is shown and recorded. The message never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({})", kind.code())]
pub struct Fault {
    /// What kind.
    pub kind: Kind,
    /// One sentence: what was seen, without secrets and without the peer's raw bytes beyond a short excerpt.
    pub message: String,
    /// What the peer asked for: Retry-After. Honoured as a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Millis>,
}

impl Fault {
    /// A fault without a delay of its own.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
        }
    }

    /// With the delay that the peer asked for.
    #[must_use]
    pub fn after(mut self, delay: Option<Millis>) -> Self {
        self.retry_after = delay;
        self
    }

    /// Its verdict.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.kind.code().verdict
    }

    /// Whether only a person can mend it.
    #[must_use]
    pub fn person_needed(&self) -> bool {
        self.verdict() == Verdict::Person
    }
}
