//! The database's files as the file system sees them: who may read them, and whether they are ours.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::error::{Error, Problem};
use crate::place::Place;
use crate::private_file::{self, beside};

/// What every SQLite file begins with (sqlite.org/fileformat.html, section 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Whether there is a file to open, and whether what there is can be one of ours.
pub(super) enum Found {
    /// An SQLite file.
    Database,
    /// Nothing at all.
    Nothing,
}

/// Looks at `path` without SQLite, which takes an empty file for a new database.
pub(super) fn look(path: &Path, place: &Place) -> Result<Found, Error> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return no_orphaned_log(path, place).map(|()| Found::Nothing);
        }
        Err(error) => return Err(place.io("it cannot be read", &error)),
    };
    let mut head = Vec::with_capacity(MAGIC.len());
    file.by_ref()
        .take(MAGIC.len() as u64)
        .read_to_end(&mut head)
        .map_err(|error| place.io("it cannot be read", &error))?;
    if head.is_empty() {
        return Err(place.error(
            Problem::Damaged,
            "the file is empty, which we never leave it",
        ));
    }
    if head != MAGIC {
        return Err(place.error(Problem::Foreign, "the file is not an SQLite database"));
    }
    Ok(Found::Database)
}

/// A write-ahead log whose database is gone holds the newest changes, and SQLite would play them into
/// a new database.
fn no_orphaned_log(path: &Path, place: &Place) -> Result<(), Error> {
    match fs::metadata(beside(path, "-wal")) {
        Ok(log) if log.len() > 0 => Err(place.error(
            Problem::Damaged,
            "the file is gone and its -wal file is still there",
        )),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(place.io("its -wal file cannot be read", &error)),
    }
}

/// Takes the right to read our files from everybody else, if somebody gave it to them.
pub(super) fn tighten(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        private_file::tighten(&beside(path, suffix));
    }
}

/// Removes a draft with what SQLite may have left beside it.
pub(super) fn remove_draft(draft: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        private_file::remove(&beside(draft, suffix));
    }
}
