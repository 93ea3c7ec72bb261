//! Leases: who may do what only one may do at a time, across tasks and processes.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::{AgentName, ServerName, Wall};

use crate::error::Error;
use crate::random;

/// What only one may do at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseKey {
    /// Renew, replace or remove the grant of a connection.
    Renewal {
        /// Whose.
        agent: AgentName,
        /// For which server.
        server: ServerName,
    },
    /// Register a client.
    Registration {
        /// At which issuer.
        issuer: String,
        /// For which redirect URI.
        redirect_uri: String,
    },
}

/// A lease that was taken. Every taking has its own number: one that was taken over meanwhile cannot be renewed,
/// nor released, with the number of before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Of what.
    pub key: LeaseKey,
    /// Which taking this is: random.
    pub number: u64,
}

/// Whether a lease was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was.
    Yes(Lease),
    /// Somebody else has it, or another task of the same daemon.
    No {
        /// The daemon.
        holder: String,
        /// When it ends, unless it is renewed.
        until: Wall,
    },
}

/// Leases of all kinds. A lease says who should act. That nobody acted on what is stale is up to
/// [`Swap`](crate::Swap): a holder may sleep beyond the end of its lease and wake up.
#[async_trait]
pub trait Leases: Send + Sync + fmt::Debug {
    /// Takes a lease until `until`, if nobody has it or its time is over at `now`.
    async fn take_lease(
        &self,
        key: &LeaseKey,
        holder: &str,
        now: Wall,
        until: Wall,
    ) -> Result<Taken, Error>;
    /// Moves its end; also after its end, as long as nobody else took it. Whether it is still ours.
    async fn renew_lease(&self, lease: &Lease, until: Wall) -> Result<bool, Error>;
    /// Lets go of it. Whether it was still ours.
    async fn release_lease(&self, lease: &Lease) -> Result<bool, Error>;
    /// Who has it, and until when, be it over or not.
    async fn lease_holder(&self, key: &LeaseKey) -> Result<Option<(String, Wall)>, Error>;
}

/// A number for a new lease.
pub(crate) fn draw() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes)?;
    // Databases count with 64 bits and a sign.
    Ok(u64::from_le_bytes(bytes) >> 1)
}
