//! Sign-ins under way: from the link to the callback.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::{AgentName, ServerName, Wall};

use crate::error::Error;
use crate::grants::GrantClient;
use crate::keys::IdHash;
use crate::vault::Sealed;

/// One attempt to sign in. There is one for a connection at a time, and every daemon shows the same link.
#[derive(Clone, Debug, PartialEq)]
pub struct SignInRecord {
    /// For which agent.
    pub agent: AgentName,
    /// At which server.
    pub server: ServerName,
    /// Its name, as the API shows it.
    pub id: String,
    /// The hash of `state`, by which the callback finds it; `state` itself is not stored in the clear.
    pub state_hash: IdHash,
    /// The issuer, as its metadata writes it: `iss` is compared with it (RFC 9207 section 2.4).
    pub issuer: String,
    /// Where the code is redeemed.
    pub token_endpoint: String,
    /// The redirect URI of the link, to be repeated with the code (RFC 6749 section 4.1.3).
    pub redirect_uri: String,
    /// As which client.
    pub client: GrantClient,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
    /// The resource that is asked for (RFC 8707).
    pub resource: Option<String>,
    /// The PKCE verifier, the link and the client's secret, sealed
    /// ([`SignInSecrets`](crate::vault::SignInSecrets)).
    pub sealed: Sealed,
    /// When it was started.
    pub started_at: Wall,
    /// When it ends.
    pub expires_at: Wall,
}

/// The attempt that a connection has now.
#[derive(Clone, Debug, PartialEq)]
pub enum Started {
    /// The one that was given.
    New,
    /// Another one that is open still. Nothing was changed.
    Open(Box<SignInRecord>),
}

/// The sign-ins of all connections. They go with their agent and their server.
#[async_trait]
pub trait SignIns: Send + Sync + fmt::Debug {
    /// Starts an attempt, unless one is open at `now`; with `restart` in any case. Of several who start one at the
    /// same time, all get the same.
    async fn start_sign_in(
        &self,
        sign_in: &SignInRecord,
        now: Wall,
        restart: bool,
    ) -> Result<Started, Error>;
    /// The attempt of a connection, be it over or not.
    async fn sign_in(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<SignInRecord>, Error>;
    /// Takes the attempt with this hash of its `state`: of several who try, one gets it, and nobody afterwards.
    /// Whether it is over is up to the taker.
    async fn take_sign_in(&self, state_hash: &IdHash) -> Result<Option<SignInRecord>, Error>;
    /// Forgets the attempt of a connection. Whether there was one.
    async fn remove_sign_in(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error>;
    /// Takes all attempts that ended before `before` without a callback.
    async fn take_expired_sign_ins(&self, before: Wall) -> Result<Vec<SignInRecord>, Error>;
}
