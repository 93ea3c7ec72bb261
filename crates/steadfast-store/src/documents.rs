//! Metadata documents of authorization and resource servers, cached by the rules of HTTP.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::Wall;

use crate::error::Error;

/// A document as it was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRecord {
    /// Its address.
    pub url: String,
    /// What came, byte by byte.
    pub body: Vec<u8>,
    /// Its `ETag`, to ask whether it has changed (RFC 9110 section 8.8.3).
    pub etag: Option<String>,
    /// When it was fetched, or confirmed.
    pub fetched_at: Wall,
    /// Until when it need not be asked for again (RFC 9111 section 4.2).
    pub fresh_until: Wall,
}

/// The documents by their address.
#[async_trait]
pub trait Documents: Send + Sync + fmt::Debug {
    /// Remembers a document, in place of the one before.
    async fn put_document(&self, document: &DocumentRecord) -> Result<(), Error>;
    /// One document, be it fresh or not.
    async fn document(&self, url: &str) -> Result<Option<DocumentRecord>, Error>;
    /// Forgets it. Whether it was there.
    async fn remove_document(&self, url: &str) -> Result<bool, Error>;
    /// Forgets those that were not fetched nor confirmed since `before`. How many.
    async fn remove_old_documents(&self, before: Wall) -> Result<u64, Error>;
}
