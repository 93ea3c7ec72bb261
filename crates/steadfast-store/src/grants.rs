//! Grants: what an authorization server gave for one agent and server.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use steadfast_core::grant::State;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{AgentName, ServerName, Wall};

use crate::error::Error;
use crate::swap::{Swap, Version};
use crate::vault::Sealed;

/// A grant. Times in it are absolute, so that a restart does not begin to count anew (EX-01).
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRecord {
    /// Whose grant it is.
    pub agent: AgentName,
    /// For which server.
    pub server: ServerName,
    /// Which write this is; in a write, the one that it replaces.
    pub version: Version,
    /// Which set of tokens it holds.
    pub generation: GrantGeneration,
    /// What the machine knows. `renewing` on disk is the journaled intent of a renewal. Times of the
    /// monotonic clock in it mean nothing after a restart of the machine: `wake_at` does.
    pub state: State,
    /// When somebody must look at it again; `None` where the clock has no say.
    pub wake_at: Option<Wall>,
    /// The issuer in its canonical spelling. A refresh token is only ever sent to it.
    pub issuer: String,
    /// The resource that the tokens are for (RFC 8707), if one was named.
    pub resource: Option<String>,
    /// Where to renew; `None` while it must be discovered again.
    pub token_endpoint: Option<String>,
    /// As which client the tokens were obtained. A refresh token is bound to it (RFC 6749 section 6).
    pub client: GrantClient,
    /// How the last renewal ended.
    pub last_renewal: Option<LastRenewal>,
    /// Which calls want more than is granted, and what the last sign-in asked for.
    pub step_up: StepUp,
    /// The tokens, sealed ([`GrantSecrets`](crate::vault::GrantSecrets)); `None` once it was removed.
    pub sealed: Option<Sealed>,
}

/// The client of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantClient {
    /// Its id.
    pub id: String,
    /// How it proves itself.
    pub auth: Auth,
    /// Where it comes from, and so where its secret is.
    pub origin: ClientOrigin,
    /// Whether it asks for tokens for itself (RFC 6749 section 4.4) instead of for a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_itself: bool,
    /// The issuer identifier exactly as the metadata writes it: whom the client's assertions are meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// When its secret ends (RFC 7591 section 3.2.1), where that is known: from then on nothing can be renewed as this
    /// client (CR-01).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Wall>,
}

impl GrantClient {
    /// A client that asks for a person.
    #[must_use]
    pub const fn new(id: String, auth: Auth, origin: ClientOrigin) -> Self {
        Self {
            id,
            auth,
            origin,
            for_itself: false,
            audience: None,
            expires_at: None,
        }
    }
}

/// Where a client comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ClientOrigin {
    /// The operator configured it; its secret is in the configuration.
    Configured,
    /// Our client-id metadata document; there is no secret.
    MetadataDocument,
    /// Registered for this redirect URI. The grant keeps a copy of the secret, so that it can be renewed
    /// when the callback has another address by now, or when the client was registered anew (CR-03).
    Registered {
        /// The redirect URI at that time.
        redirect_uri: String,
    },
    /// It came with an imported grant, which keeps its secret.
    Imported,
}

/// How a renewal ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRenewal {
    /// When.
    pub at: Wall,
    /// As the connection object writes it: `renewed`, or the kind of the fault.
    pub outcome: String,
}

/// A grant that wants to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueGrant {
    /// Whose.
    pub agent: AgentName,
    /// For which server.
    pub server: ServerName,
    /// At which issuer.
    pub issuer: String,
    /// Since when.
    pub wake_at: Wall,
}

/// Which grants are looked for whose time has come.
#[derive(Clone, Copy, Debug)]
pub struct DueSearch<'s> {
    /// For these servers.
    pub servers: &'s [ServerName],
    /// But not these: whoever looks can do nothing about them now, and they take the places of no others.
    pub except: &'s [(AgentName, ServerName)],
    /// By this time.
    pub now: Wall,
    /// At most so many of each issuer.
    pub per_issuer: usize,
    /// At most so many in all.
    pub limit: usize,
}

/// The grants of all connections.
///
/// A grant that was removed leaves a record without tokens, in the state `none`: version and generation go on
/// from there, so that nobody who slept through the removal takes the next grant for the one before. Agents and
/// servers go without their grants: a grant is removed by [`remove_grant`](Self::remove_grant) alone, after it was
/// revoked.
#[async_trait]
pub trait Grants: Send + Sync + fmt::Debug {
    /// The grant of a connection, or what a removed one left.
    async fn grant(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<GrantRecord>, Error>;
    /// Grants that hold tokens, in the order of agent and server: the first `limit` after the given one.
    async fn grants(
        &self,
        after: Option<(&AgentName, &ServerName)>,
        limit: usize,
    ) -> Result<Vec<GrantRecord>, Error>;
    /// Writes a grant in place of its `version`. Loses where another version is there, and where its generation
    /// is behind: a generation never goes back. What is sealed belongs to its generation: a write within one
    /// generation leaves it as it is, and a set of new tokens replaces the old set at once.
    async fn swap_grant(&self, grant: &GrantRecord) -> Result<Swap<GrantRecord>, Error>;
    /// Removes the tokens of a grant for good: loses where another version is there, such as a new sign-in, which
    /// was not revoked.
    async fn remove_grant(
        &self,
        agent: &AgentName,
        server: &ServerName,
        version: Version,
    ) -> Result<Swap<GrantRecord>, Error>;
    /// The grants whose `wake_at` has come and that nobody holds a [renewal](crate::LeaseKey::Renewal) of; of each issuer
    /// those that wait longest. The first of each issuer come first, then the second of each: no issuer waits for the
    /// many grants of another. The time that it takes does not grow with the grants that are not due.
    async fn due_grants(&self, search: DueSearch<'_>) -> Result<Vec<DueGrant>, Error>;
    /// The earliest `wake_at` of all.
    async fn next_wake(&self) -> Result<Option<Wall>, Error>;
}
