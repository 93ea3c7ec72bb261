use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::SqliteRecords;
use crate::error::Error;
use crate::presence::{Presence, Present};
use crate::private_file::{self, beside};

/// A file next to the database, locked as long as this lives: the lock ends with the process.
#[derive(Debug)]
struct Locked {
    path: PathBuf,
    _file: File,
}

impl Drop for Locked {
    fn drop(&mut self) {
        private_file::remove(&self.path);
    }
}

const SUFFIX: &str = ".daemon";

impl SqliteRecords {
    fn file_of(&self, daemon: &str) -> PathBuf {
        beside(&self.path, &format!(".{daemon}{SUFFIX}"))
    }

    /// Removes what daemons left that were killed.
    fn sweep(&self) {
        let own = self.path.file_name().unwrap_or_default();
        let entries = std::fs::read_dir(private_file::folder_of(&self.path));
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let (name, own) = (name.to_string_lossy(), own.to_string_lossy());
            let is_one = name.starts_with(&*own) && name.ends_with(SUFFIX);
            if is_one && matches!(is_locked(&entry.path()), Ok(Some(false))) {
                private_file::remove(&entry.path());
            }
        }
    }
}

/// Whether another process, or this one, holds the file; `None` where there is none.
fn is_locked(path: &Path) -> std::io::Result<Option<bool>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(false)),
        Err(TryLockError::WouldBlock) => Ok(Some(true)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[async_trait]
impl Presence for SqliteRecords {
    async fn appear(&self, daemon: &str) -> Result<Present, Error> {
        self.sweep();
        let path = self.file_of(daemon);
        // Locked before it has its name: nobody ever sees it without the lock.
        let draft = private_file::draft_of(&path, &self.place)?;
        private_file::make_private(&draft, &self.place)?;
        let failed = |error: &std::io::Error| {
            let what = "the file that says that we are here cannot be kept";
            self.place.io(what, error)
        };
        let file = File::open(&draft).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(failed(&ErrorKind::WouldBlock.into())),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        std::fs::rename(&draft, &path).map_err(|error| failed(&error))?;
        Ok(Present::new(Locked { path, _file: file }))
    }

    async fn is_present(&self, daemon: &str) -> Result<bool, Error> {
        let locked = is_locked(&self.file_of(daemon)).map_err(|error| {
            let what = "whether a daemon is here cannot be found out";
            self.place.io(what, &error)
        })?;
        Ok(locked == Some(true))
    }
}
