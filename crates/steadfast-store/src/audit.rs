//! Who changed what, and when.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::Wall;

use crate::error::Error;

/// By which way a change came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The admin API, by something else than our own command line and console.
    Api,
    /// The command line, through the daemon.
    Cli,
    /// The command line, in the store of a daemon that does not run.
    Offline,
    /// The console.
    Console,
    /// The configuration file.
    File,
    /// A browser that came back from an authorization server.
    Browser,
}

impl Via {
    /// Every way.
    pub const ALL: [Self; 6] = [
        Self::Api,
        Self::Cli,
        Self::Offline,
        Self::Console,
        Self::File,
        Self::Browser,
    ];

    /// As it is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Cli => "cli",
            Self::Offline => "offline",
            Self::Console => "console",
            Self::File => "file",
            Self::Browser => "browser",
        }
    }

    pub(crate) fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.as_str() == text)
    }
}

/// One change. Nothing in it is the value of a secret: what was changed is named, not quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// When.
    pub at: Wall,
    /// Who.
    pub who: String,
    /// By which way.
    pub via: Via,
    /// What was done, such as `put_server`.
    pub action: String,
    /// To what: names, apart by `/`.
    pub target: String,
    /// What of it was changed, in few words; may be empty.
    pub detail: String,
}

/// One change on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number: grows from one to the next.
    pub number: u64,
    /// The change.
    pub record: AuditRecord,
}

/// The changes, append-only.
#[async_trait]
pub trait Audit: Send + Sync + fmt::Debug {
    /// Puts a change on record.
    async fn append_audit(&self, record: &AuditRecord) -> Result<(), Error>;
    /// The newest first; only those before the one with the number `before`, where it is named.
    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>, Error>;
    /// Forgets those from before `before`. How many. Numbers go on.
    async fn remove_old_audit(&self, before: Wall) -> Result<u64, Error>;
}
