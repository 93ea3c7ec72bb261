//! What can go wrong with a store. Every error names the place and what a person can do about it.

use std::fmt;
use std::sync::Arc;

use steadfast_core::code::{self, Code};

/// Why the store could not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// It cannot be opened, read or written.
    Io,
    /// Another program holds it for longer than we wait.
    Locked,
    /// The disk is full.
    Full,
    /// It can be read and not written.
    ReadOnly,
    /// The file is something else than our database.
    Foreign,
    /// The file is ours and cannot be read to the end, or holds what cannot be understood.
    Damaged,
    /// A newer version of Steadfast made it.
    Newer,
    /// The same key belongs to another agent already.
    Conflict,
    /// The disk did not say whether it keeps a change.
    Unconfirmed,
    /// Somebody else holds a lease for longer than we wait.
    Leased,
    /// It has been closed.
    Closed,
    /// The key of the vault is missing, is not the one that sealed the store, or cannot be read.
    Key,
    /// What is sealed does not open with its key.
    Tampered,
}

impl Problem {
    /// Its entry in the registry.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Io
            | Self::Locked
            | Self::Full
            | Self::ReadOnly
            | Self::Unconfirmed
            | Self::Closed => code::STORE_UNAVAILABLE,
            Self::Foreign | Self::Damaged | Self::Newer | Self::Tampered => code::STORE_DAMAGED,
            Self::Conflict => code::CONFLICT,
            Self::Leased => code::LEASE_HELD,
            Self::Key => code::VAULT_KEY,
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::Io => {
                "Nothing was changed. Check that the file and its folder exist and that you may write to both."
            }
            Self::Locked => {
                "Nothing was changed. Close the other program that holds the file (`fuser` or `lsof` names it) and try again."
            }
            Self::Full => "Nothing was changed. Free space on its disk and try again.",
            Self::ReadOnly => {
                "Nothing was changed. Make the file, its folder and its file system writable for this user."
            }
            Self::Foreign => {
                "Nothing was changed. Name another file, or move this one away to start empty on purpose."
            }
            Self::Damaged => {
                "Nothing was changed. Restore the file from a backup, or move it away, with its -wal file, to start empty on purpose."
            }
            Self::Newer => {
                "Nothing was changed. Use the newer version of Steadfast, or restore the file from a backup of before the upgrade."
            }
            Self::Conflict => "Nothing was changed. Make a new key for one of the two agents.",
            Self::Unconfirmed => {
                "Check the disk. The change may or may not be there after a loss of power."
            }
            Self::Leased => {
                "Nothing was changed. Try again: whoever holds it lets go of it, or it ends by itself."
            }
            Self::Closed => "Steadfast is shutting down; start it again.",
            Self::Key => {
                "Nothing was changed. Bring the key back; without it, what it sealed must be signed in, or set, again."
            }
            Self::Tampered => {
                "Nothing was changed. Restore the file from a backup, or sign in, or set the secret, again."
            }
        }
    }
}

/// Why the store could not do what it was asked, where, and what to do about it.
///
/// Cheap to clone: writes that shared a transaction share its error.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    problem: Problem,
    place: String,
    detail: String,
}

impl Error {
    /// A problem at `place` (a file, or the address of a database without its password);
    /// `detail` says what was seen, without values of the store.
    pub fn new(problem: Problem, place: impl Into<String>, detail: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            problem,
            place: place.into(),
            detail: detail.into(),
        }))
    }

    /// What kind of problem it is.
    #[must_use]
    pub fn problem(&self) -> Problem {
        self.0.problem
    }

    /// Its entry in the registry.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.problem.code()
    }

    /// The file, or the address of the database.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// What was seen.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What a person can do about it.
    #[must_use]
    pub fn fix(&self) -> &'static str {
        self.0.problem.fix()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. {}", self.0.place, self.0.detail, self.fix())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.problem)
    }
}

impl std::error::Error for Error {}
