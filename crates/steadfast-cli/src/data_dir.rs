//! The data directory: the store, the admin token, and which daemon runs on it. Only its owner may read it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use steadfast_core::code;

use crate::failure::Failure;

const TOKEN_FILE: &str = "admin.token";
/// What every admin token that we make begins with, so that people and secret scanners recognise one.
const TOKEN_PREFIX: &str = "sfa_";
const TOKEN_BYTES: usize = 32;
/// How many daemons may run on one data directory.
const DAEMONS: usize = 64;

/// A data directory; it need not exist yet.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
}

/// How the admin token came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenOrigin {
    /// It was there.
    Kept,
    /// It was made just now, by chance.
    Made,
    /// It was set just now, by `STEADFAST_TOKEN`.
    Given,
}

/// What a running daemon writes down about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonEntry {
    /// Where it listens.
    pub(crate) url: String,
    /// Its process.
    pub(crate) pid: u32,
    /// The file of its store.
    pub(crate) store: PathBuf,
}

/// The entry of a running daemon, locked as long as this lives: a daemon that was killed leaves an entry
/// that is not locked, and nobody is sent to an address that another program may have by now.
#[derive(Debug)]
pub(crate) struct DaemonLock {
    _file: File,
}

impl DataDir {
    /// `--data`, which clap also takes from `STEADFAST_DATA`; else the platform's data directory.
    pub(crate) fn find(given: Option<&Path>) -> Result<Self, Failure> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => platform_folder()
                .ok_or_else(|| {
                    Failure::hinted(
                        code::CONFIG_BAD_VALUE,
                        "there is no home directory to keep data in",
                        "Name a folder with --data or STEADFAST_DATA.",
                    )
                })?
                .join("steadfast"),
        };
        let path = std::path::absolute(&path).map_err(|error| unreadable(&path, &error))?;
        Ok(Self { path })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, if it is not there. One that is there keeps its mode: it may be shared on purpose.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        if self.path.is_dir() {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            // Again, since the umask may have taken bits from the owner.
            .and_then(|()| fs::set_permissions(&self.path, Permissions::from_mode(0o700)))
            .map_err(|error| unreadable(&self.path, &error))
    }

    /// The file of the store, from `store.url`.
    pub(crate) fn store_file(&self, url: &str) -> PathBuf {
        let file = url.strip_prefix("sqlite:").unwrap_or(url);
        self.path.join(file.strip_prefix("//").unwrap_or(file))
    }

    /// The file of the store for a command without a daemon and without a configuration file: the one that
    /// the last daemon here used.
    pub(crate) fn last_store_file(&self) -> PathBuf {
        let entries = self.entries().into_iter().map(|(_, entry)| entry);
        let last = entries.max_by_key(|entry| entry.since);
        last.map_or_else(|| self.path.join("steadfast.db"), |last| last.entry.store)
    }

    /// The admin token, if there is one.
    pub(crate) fn token(&self) -> Result<Option<String>, Failure> {
        let path = self.path.join(TOKEN_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => match text.trim() {
                "" => Err(Failure::hinted(
                    code::FILE_UNREADABLE,
                    format!("{} is empty", path.display()),
                    "Remove the file: the next start makes a new token.",
                )),
                token => Ok(Some(token.to_owned())),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// The admin token; at the first start it is `given`, or made.
    pub(crate) fn token_or_make(
        &self,
        given: Option<&str>,
    ) -> Result<(String, TokenOrigin), Failure> {
        if let Some(token) = self.token()? {
            return Ok((token, TokenOrigin::Kept));
        }
        let (token, origin) = match given.map(str::trim) {
            Some(token) if !token.is_empty() => (token.to_owned(), TokenOrigin::Given),
            Some(_) | None => (random_token()?, TokenOrigin::Made),
        };
        let path = self.path.join(TOKEN_FILE);
        if self
            .publish(&path, &token)
            .map_err(|error| unreadable(&path, &error))?
        {
            return Ok((token, origin));
        }
        // Another daemon that starts at the same moment was faster: its token counts.
        let token = self.token()?.ok_or_else(|| {
            Failure::new(
                code::FILE_UNREADABLE,
                format!("{} has vanished", path.display()),
            )
        })?;
        Ok((token, TokenOrigin::Kept))
    }

    /// Writes the whole file under another name first, so that nobody ever reads half of it. Whether it is
    /// ours now: a file that is there is never replaced.
    fn publish(&self, path: &Path, token: &str) -> std::io::Result<bool> {
        let draft = self
            .path
            .join(format!(".{TOKEN_FILE}.{}.new", std::process::id()));
        let mut file = private().truncate(true).open(&draft)?;
        writeln!(file, "{token}")?;
        file.sync_all()?;
        let published = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        match published {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says that a daemon runs here, as long as the lock lives.
    pub(crate) fn announce(&self, entry: &DaemonEntry) -> Result<DaemonLock, Failure> {
        let text = serde_json::to_vec(entry)
            .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
        for number in 1..=DAEMONS {
            let path = self.entry_file(number);
            let written = write_locked(&path, &text).map_err(|error| unreadable(&path, &error))?;
            if let Some(file) = written {
                return Ok(DaemonLock { _file: file });
            }
        }
        let message = format!("{DAEMONS} daemons run on {} already", self.path.display());
        Err(Failure::new(code::CONFLICT, message))
    }

    /// The daemon that runs here; the one that started last, if there are several.
    pub(crate) fn daemon(&self) -> Option<DaemonEntry> {
        let running = self
            .entries()
            .into_iter()
            .filter(|(is_running, _)| *is_running);
        running
            .map(|(_, entry)| entry)
            .max_by_key(|entry| entry.since)
            .map(|entry| entry.entry)
    }

    fn entry_file(&self, number: usize) -> PathBuf {
        match number {
            1 => self.path.join("daemon.json"),
            _ => self.path.join(format!("daemon-{number}.json")),
        }
    }

    /// All entries, and whether their daemons run.
    fn entries(&self) -> Vec<(bool, Dated)> {
        (1..=DAEMONS)
            .map_while(|number| File::open(self.entry_file(number)).ok())
            .filter_map(|file| {
                let is_running = file.try_lock_shared().is_err();
                Some((is_running, Dated::read(file)?))
            })
            .collect()
    }
}

struct Dated {
    since: Option<SystemTime>,
    entry: DaemonEntry,
}

impl Dated {
    fn read(mut file: File) -> Option<Self> {
        let since = file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok();
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let entry = serde_json::from_str(&text).ok()?;
        Some(Self { since, entry })
    }
}

/// `None` where another process holds the file.
fn write_locked(path: &Path, text: &[u8]) -> std::io::Result<Option<File>> {
    let mut file = private().open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    file.set_len(0)?;
    file.write_all(text)?;
    Ok(Some(file))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn random_token() -> Result<String, Failure> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(code::INTERNAL, format!("no random numbers: {error}")))?;
    Ok(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

fn platform_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    // XDG Base Directory Specification: a relative path is to be ignored.
    let xdg = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    if cfg!(target_os = "macos") {
        return Some(PathBuf::from(variable("HOME")?).join("Library/Application Support"));
    }
    xdg.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::hinted(
        code::FILE_UNREADABLE,
        format!("{}: {error}", path.display()),
        "Check that you may read and write there, or name another folder with --data.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (tempfile::TempDir, DataDir) {
        let outer = tempfile::tempdir().unwrap();
        let data = DataDir::find(Some(&outer.path().join("a/data"))).unwrap();
        data.create().unwrap();
        (outer, data)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn entry(pid: u32) -> DaemonEntry {
        DaemonEntry {
            url: format!("http://127.0.0.1:{pid}"),
            pid,
            store: PathBuf::from("/x/steadfast.db"),
        }
    }

    #[test]
    fn only_the_owner_may_read() {
        let (_outer, data) = fresh();
        data.token_or_make(None).unwrap();
        let _lock = data.announce(&entry(1)).unwrap();
        assert_eq!(mode(data.path()), 0o700);
        assert_eq!(mode(&data.path().join("admin.token")), 0o600);
        assert_eq!(mode(&data.path().join("daemon.json")), 0o600);
    }

    #[test]
    fn the_token_is_made_once() {
        let (_outer, data) = fresh();
        assert_eq!(data.token().unwrap(), None);
        let (token, origin) = data.token_or_make(None).unwrap();
        assert_eq!(origin, TokenOrigin::Made);
        assert!(token.starts_with("sfa_") && token.len() == 4 + 43);
        let again = data.token_or_make(Some("other")).unwrap();
        assert_eq!(again, (token.clone(), TokenOrigin::Kept));
        assert_eq!(data.token().unwrap(), Some(token));
        assert_eq!(
            fs::read_dir(data.path()).unwrap().count(),
            1,
            "no draft is left"
        );
    }

    #[test]
    fn the_environment_sets_the_first_token() {
        let (_outer, data) = fresh();
        let token = data.token_or_make(Some(" mine ")).unwrap();
        assert_eq!(token, ("mine".to_owned(), TokenOrigin::Given));
    }

    #[test]
    fn an_empty_token_is_an_error() {
        let (_outer, data) = fresh();
        fs::write(data.path().join("admin.token"), "\n").unwrap();
        assert!(data.token_or_make(None).is_err());
    }

    #[test]
    fn a_daemon_is_there_as_long_as_it_holds_its_lock() {
        let (_outer, data) = fresh();
        assert_eq!(data.daemon(), None);
        let first = data.announce(&entry(1)).unwrap();
        assert_eq!(data.daemon(), Some(entry(1)));
        let second = data.announce(&entry(2)).unwrap();
        drop(first);
        assert_eq!(data.daemon(), Some(entry(2)));
        drop(second);
        assert_eq!(data.daemon(), None);
        assert_eq!(data.last_store_file(), PathBuf::from("/x/steadfast.db"));
    }

    #[test]
    fn the_store_lies_in_the_data_directory_unless_its_path_is_absolute() {
        let (_outer, data) = fresh();
        assert_eq!(data.store_file("sqlite:a.db"), data.path().join("a.db"));
        assert_eq!(data.store_file("sqlite:/b/a.db"), PathBuf::from("/b/a.db"));
        assert_eq!(
            data.store_file("sqlite:///b/a.db"),
            PathBuf::from("/b/a.db")
        );
        assert_eq!(data.store_file("sqlite://a.db"), data.path().join("a.db"));
        assert_eq!(data.last_store_file(), data.path().join("steadfast.db"));
    }
}
