//! Where the keys of the vault come from.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::key::{Key, KeyRing};
use crate::error::{Error, Problem};
use crate::place::Place;
use crate::private_file;

/// The name of the key file in the data directory.
pub const KEY_FILE: &str = "vault.key";
/// The environment variable that holds keys.
pub const KEY_VARIABLE: &str = "STEADFAST_KEY";

const HEADER: &str = "# The keys of Steadfast's vault: the first one seals, the others open what is older.\n\
     # Whoever has them and the store has every secret in it. Keep them apart from its backups.\n";

/// Where the keys come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// The environment: one or several keys, separated by commas; the first one seals.
    Environment(SecretString),
    /// A file of mode 0600, made at the first start.
    File(PathBuf),
    /// Nowhere: they were drawn for this process alone.
    Nowhere,
}

/// As errors name it.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(_) => f.write_str(KEY_VARIABLE),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Nowhere => f.write_str("this process"),
        }
    }
}

impl KeySource {
    /// The value of [`KEY_VARIABLE`] where there is one, else the key file in the data directory.
    #[must_use]
    pub fn choose(variable: Option<SecretString>, data: &Path) -> Self {
        match variable {
            Some(keys) => Self::Environment(keys),
            None => Self::File(data.join(KEY_FILE)),
        }
    }

    /// Reads the keys; `None` where there are none yet.
    pub(super) fn load(&self) -> Result<Option<KeyRing>, Error> {
        match self {
            Self::Environment(keys) => self.parse(keys.expose_secret().split(',')).map(Some),
            Self::File(path) => self.read(path),
            Self::Nowhere => Ok(None),
        }
    }

    fn read(&self, path: &Path) -> Result<Option<KeyRing>, Error> {
        let text = match fs::read_to_string(path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(self.unreadable("it is not text"));
            }
            Err(error) => return Err(Place::of(path).io("it cannot be read", &error)),
        };
        private_file::tighten(path);
        let lines = text.lines().map(str::trim);
        self.parse(lines.filter(|line| !line.is_empty() && !line.starts_with('#')))
            .map(Some)
    }

    fn parse<'a>(&self, texts: impl Iterator<Item = &'a str>) -> Result<KeyRing, Error> {
        let mut keys = Vec::new();
        for (index, text) in texts.enumerate() {
            let key = Key::parse(text).ok_or_else(|| {
                let number = index + 1;
                self.unreadable(&format!(
                    "key {number} is not 32 bytes in hexadecimal digits or base64"
                ))
            })?;
            keys.push(key);
        }
        KeyRing::from_keys(keys).ok_or_else(|| self.unreadable("there is no key in it"))
    }

    fn unreadable(&self, why: &str) -> Error {
        Error::new(Problem::Key, self.to_string(), why)
    }

    pub(super) fn missing(&self) -> Error {
        self.unreadable("it is gone, and the store holds what was sealed with it")
    }

    /// Makes the key file. Where another process was faster, its key counts.
    pub(super) fn make(&self) -> Result<KeyRing, Error> {
        let Self::File(path) = self else {
            return Err(self.missing());
        };
        let place = Place::of(path);
        private_file::make_folder(private_file::folder_of(path), &place)?;
        let draft = private_file::draft_of(path, &place)?;
        let made = write(&draft, &KeyRing::of(Key::draw()?), &place)
            .and_then(|()| private_file::publish(&draft, path, &place));
        private_file::remove(&draft);
        made?;
        self.read(path)?.ok_or_else(|| self.missing())
    }

    /// Replaces the keys in the file, at once.
    pub(super) fn replace(&self, ring: &KeyRing) -> Result<(), Error> {
        let Self::File(path) = self else {
            return Ok(());
        };
        let place = Place::of(path);
        let draft = private_file::draft_of(path, &place)?;
        let replaced = write(&draft, ring, &place).and_then(|()| {
            fs::rename(&draft, path).map_err(|error| place.io("it cannot be replaced", &error))?;
            private_file::sync_folder(path, &place)
        });
        if replaced.is_err() {
            private_file::remove(&draft);
        }
        replaced
    }

    /// Keeps other processes from replacing the keys for as long as the result lives: two who add a key at the
    /// same time would lose one, with all that is sealed under it.
    pub(super) fn lock(&self) -> Result<Option<File>, Error> {
        let Self::File(path) = self else {
            return Ok(None);
        };
        // Beside the file, which is another one after each change.
        let path = private_file::beside(path, ".lock");
        let place = Place::of(&path);
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| place.io("it cannot be made", &error))?;
        private_file::tighten(&path);
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => {
                Err(place.error(Problem::Locked, "another process changes the keys"))
            }
            Err(TryLockError::Error(error)) => Err(place.io("it cannot be locked", &error)),
        }
    }
}

fn write(draft: &Path, ring: &KeyRing, place: &Place) -> Result<(), Error> {
    private_file::make_private(draft, place)?;
    let written = File::options()
        .write(true)
        .open(draft)
        .and_then(|mut file| {
            file.write_all(HEADER.as_bytes())?;
            for key in ring.keys() {
                file.write_all(key.to_hex().as_bytes())?;
                file.write_all(b"\n")?;
            }
            file.sync_all()
        });
    written.map_err(|error| place.io("it cannot be written", &error))
}
