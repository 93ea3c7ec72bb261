//! What was learned about authorization servers, so that it is not found out at each sign-in.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::Wall;

use crate::error::Error;

/// One authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerRecord {
    /// In its canonical spelling.
    pub issuer: String,
    /// Whether it refused the scope `offline_access`, although its metadata offers it (SC-03).
    pub no_offline_access: bool,
    /// When that was learned.
    pub learned_at: Wall,
}

/// The authorization servers by their issuer identifier.
#[async_trait]
pub trait Issuers: Send + Sync + fmt::Debug {
    /// Remembers what was learned, in place of what was known before.
    async fn put_issuer(&self, issuer: &IssuerRecord) -> Result<(), Error>;
    /// What is known of one.
    async fn issuer(&self, issuer: &str) -> Result<Option<IssuerRecord>, Error>;
}
