//! Clients that were registered at authorization servers (RFC 7591).

use std::fmt;

use async_trait::async_trait;
use steadfast_core::Wall;
use steadfast_core::oauth::client::Auth;

use crate::error::Error;
use crate::swap::{Swap, Version};
use crate::vault::Sealed;

/// A registration. It belongs to the issuer that made it, and is never shown to another (DS-07).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    /// At which issuer, in its canonical spelling.
    pub issuer: String,
    /// For which redirect URI: the provider compares it character by character.
    pub redirect_uri: String,
    /// Which write this is; in a write, the one that it replaces.
    pub version: Version,
    /// The client id.
    pub client_id: String,
    /// The secret, sealed; `None` for a public client.
    pub sealed: Option<Sealed>,
    /// How it proves itself.
    pub auth: Auth,
    /// When the secret ends; `None` for never.
    pub expires_at: Option<Wall>,
    /// When it was registered.
    pub registered_at: Wall,
    /// Whether it must be asked about before it is used for a sign-in: a sign-in with it ended without a
    /// callback (CR-02).
    pub doubtful: bool,
}

/// The registrations at all issuers. Whoever is about to register holds the
/// [lease](crate::LeaseKey::Registration) and has looked again, so that several processes make one.
#[async_trait]
pub trait Clients: Send + Sync + fmt::Debug {
    /// The client that was registered at this issuer for this redirect URI.
    async fn client(&self, issuer: &str, redirect_uri: &str)
    -> Result<Option<ClientRecord>, Error>;
    /// Writes a registration in place of its `version`. Loses where another version is there.
    async fn swap_client(&self, client: &ClientRecord) -> Result<Swap<ClientRecord>, Error>;
    /// Forgets a registration, if it is still this version. Whether it was.
    async fn remove_client(
        &self,
        issuer: &str,
        redirect_uri: &str,
        version: Version,
    ) -> Result<bool, Error>;
}
