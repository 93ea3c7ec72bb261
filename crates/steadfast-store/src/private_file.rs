//! Files that only their owner may read.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Problem};
use crate::place::Place;

/// A path next to `path`, with `suffix` at the end of its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the folder, which only its owner may enter. One that is there is left as it is: it may be
/// shared on purpose.
pub(crate) fn make_folder(folder: &Path, place: &Place) -> Result<(), Error> {
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
pub(crate) fn make_private(path: &Path, place: &Place) -> Result<(), Error> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o600)));
    made.map_err(|error| place.io("it cannot be made", &error))
}

/// Gives the finished `draft` its real name, unless another process was faster.
pub(crate) fn publish(draft: &Path, path: &Path, place: &Place) -> Result<(), Error> {
    // Unlike a rename, a link never replaces a file that is there.
    match fs::hard_link(draft, path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(place.io("it cannot be made", &error)),
    }
    sync_folder(path, place)
}

/// Takes the right to read a file from everybody else, if somebody gave it to them.
pub(crate) fn tighten(file: &Path) {
    let Ok(metadata) = fs::metadata(file) else {
        return;
    };
    if metadata.permissions().mode() & 0o077 == 0 {
        return;
    }
    match fs::set_permissions(file, Permissions::from_mode(0o600)) {
        Ok(()) => {
            tracing::warn!(file = %file.display(), "others could read the file; its mode is 0600 now");
        }
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "others can read the file, and its mode cannot be changed");
        }
    }
}

/// A name for a draft of the file, which nobody else uses.
pub(crate) fn draft_of(path: &Path, place: &Place) -> Result<PathBuf, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| place.error(Problem::Io, format!("no random numbers: {error}")))?;
    Ok(beside(
        path,
        &format!(".{:016x}.new", u64::from_le_bytes(random)),
    ))
}

/// Removes a leftover, if it is there.
pub(crate) fn remove(file: &Path) {
    if let Err(error) = fs::remove_file(file)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(file = %file.display(), %error, "a leftover cannot be removed");
    }
}

/// Makes the names in the folder of `path` durable.
pub(crate) fn sync_folder(path: &Path, place: &Place) -> Result<(), Error> {
    File::open(folder_of(path))
        .and_then(|folder| folder.sync_all())
        .map_err(|error| place.io("its folder cannot be synced", &error))
}

/// The folder of an absolute path.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
