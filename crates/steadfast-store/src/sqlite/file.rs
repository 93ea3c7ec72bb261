//! The database's files as the file system sees them: who may read them, and whether they are ours.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::fault::Place;
use crate::error::{Error, Problem};

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

/// A path next to `path`, with `suffix` at the end of its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the folder, which only its owner may enter. One that is there is left as it is: it may be
/// shared on purpose.
pub(super) fn make_folder(folder: &Path, place: &Place) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        // Again, since the umask may have taken bits from the owner.
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)));
    made.map_err(|error| place.io("its folder cannot be made", &error))
}

/// Makes an empty file that only its owner may read, before anything is written into it.
/// SQLite gives its -wal and -shm files the mode of the database.
pub(super) fn make_private(path: &Path, place: &Place) -> Result<(), Error> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o600)));
    made.map_err(|error| place.io("it cannot be made", &error))
}

/// Takes the right to read our files from everybody else, if somebody gave it to them.
pub(super) fn tighten(path: &Path) {
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        let Ok(metadata) = fs::metadata(&file) else {
            continue;
        };
        if metadata.permissions().mode() & 0o077 == 0 {
            continue;
        }
        match fs::set_permissions(&file, Permissions::from_mode(0o600)) {
            Ok(()) => {
                tracing::warn!(file = %file.display(), "others could read the file; its mode is 0600 now");
            }
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "others can read the file, and its mode cannot be changed");
            }
        }
    }
}

/// Gives the finished `draft` its real name, unless another process was faster.
pub(super) fn publish(draft: &Path, path: &Path, place: &Place) -> Result<(), Error> {
    // Unlike a rename, a link never replaces a file that is there.
    match fs::hard_link(draft, path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(place.io("it cannot be made", &error)),
    }
    let folder = folder_of(path);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| place.io("its folder cannot be synced", &error))
}

/// Removes a draft with what SQLite may have left beside it.
pub(super) fn remove_draft(draft: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let file = beside(draft, suffix);
        if let Err(error) = fs::remove_file(&file)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(file = %file.display(), %error, "a leftover cannot be removed");
        }
    }
}

/// The folder of an absolute path.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
