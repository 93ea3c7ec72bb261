//! Finding and replacing what is sealed under a key that is being retired.

use std::fmt;

use async_trait::async_trait;

use crate::error::Error;
use crate::vault::{KeyId, Sealed, Slot, SlotKind};

/// A sealed value under its new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resealed {
    /// Where it is.
    pub slot: Slot,
    /// What was read there.
    pub from: Sealed,
    /// The same under the new key.
    pub to: Sealed,
}

/// What the rotation of the vault's key needs.
#[async_trait]
pub trait Resealing: Send + Sync + fmt::Debug {
    /// Values of this kind that are sealed under another key than `key`, in a fixed order: the first `limit` after
    /// the given one.
    async fn sealed_under_others(
        &self,
        kind: SlotKind,
        key: KeyId,
        after: Option<&Slot>,
        limit: usize,
    ) -> Result<Vec<(Slot, Sealed)>, Error>;
    /// Replaces values, all in one transaction, each only where it is still what was read. Changes no version: the
    /// record says the same as before. How many were replaced.
    async fn reseal(&self, values: &[Resealed]) -> Result<u64, Error>;
}
