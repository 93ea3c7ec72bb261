//! Records in an SQLite file: for one machine. Several processes may use one file at the same time.

mod audit;
mod clients;
mod documents;
mod events;
mod fault;
mod file;
mod grants;
mod issuers;
mod leases;
mod notices;
mod open;
mod operations;
mod presence;
mod records;
mod resealing;
mod rows;
mod sign_ins;
mod statement;
mod vault_entries;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::SqlitePool;

use crate::error::Error;
use crate::place::Place;
pub use events::SqliteEvents;
use writer::Writer;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How long to wait for another process that holds the file.
    pub busy_timeout: Duration,
    /// How many reads may run at the same time.
    pub readers: u32,
    /// How long the check for damage at opening may take. A file that is too large for it is opened
    /// with what was checked until then.
    pub check_time: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            check_time: Duration::from_secs(2),
        }
    }
}

/// Records in an SQLite file.
#[derive(Debug)]
pub struct SqliteRecords {
    writer: Writer,
    readers: SqlitePool,
    place: Place,
    path: PathBuf,
}

impl SqliteRecords {
    /// Opens the file, or makes it, with its folder, where it does not exist. Files have mode 0600 and
    /// a folder made here has 0700, whatever the umask says.
    ///
    /// # Errors
    /// When the file cannot be used as it is. Nothing is changed then: a file that cannot be read is
    /// never replaced by an empty one.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, Error> {
        let open::Opened {
            writer,
            readers,
            place,
            path,
        } = open::open(path.as_ref(), options, open::RECORDS).await?;
        Ok(Self {
            writer,
            readers,
            place,
            path,
        })
    }

    /// How many transactions this process has committed: fewer than writes when they come together.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }
}
