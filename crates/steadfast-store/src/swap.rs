//! Writing by compare-and-swap: a write names the version that it replaces.

use serde::{Deserialize, Serialize};

/// Which write of a record: grows by one at each.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// What a record replaces that has never been written before.
    pub const NONE: Self = Self(0);

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What became of a write that named a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap<T> {
    /// It is stored, and this is its version.
    Stored(Version),
    /// Somebody else was faster. Nothing was changed; this is what is there, if anything is.
    Lost(Option<Box<T>>),
}

impl<T> Swap<T> {
    /// Whether it is stored.
    #[must_use]
    pub const fn is_stored(&self) -> bool {
        matches!(self, Self::Stored(_))
    }
}
