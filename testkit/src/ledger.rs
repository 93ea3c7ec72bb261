//! The durable row ledger: one line each time a tool really runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the tool that ran.
    pub tool: String,
    /// What the run was about: the argument `key`, else all arguments as JSON.
    pub key: String,
    /// The RPC id of the request that made it run; null where it is not known.
    #[serde(default)]
    pub rpc_id: Value,
}

/// A file to which every run of a tool adds one line, synced before the tool answers.
///
/// It is the only truth about duplicates: a test that asks "did it run twice?" counts rows, never answers or requests.
/// Several servers, also in several processes, may share one file.
#[derive(Clone, Debug)]
pub struct Ledger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: Mutex<File>,
    /// Keeps a ledger without a path of its own alive, and removes it afterwards.
    _directory: Option<TempDir>,
}

impl Ledger {
    /// A ledger in a temporary directory, removed with the last handle.
    pub fn temporary() -> io::Result<Self> {
        let directory = TempDir::new()?;
        let path = directory.path().join("ledger.jsonl");
        Self::open(path, Some(directory))
    }

    /// A ledger in the given file, kept. Rows that it already has are kept too.
    pub fn at(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open(path.as_ref().to_owned(), None)
    }

    fn open(path: PathBuf, directory: Option<TempDir>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(Self {
            inner: Arc::new(Inner {
                path,
                file: Mutex::new(file),
                _directory: directory,
            }),
        })
    }

    /// Adds one row and returns once it is on disk.
    pub fn row(&self, tool: &str, key: &str) -> io::Result<()> {
        self.add(&Row {
            tool: tool.to_owned(),
            key: key.to_owned(),
            rpc_id: Value::Null,
        })
    }

    /// The same with all that is known of it.
    pub fn add(&self, row: &Row) -> io::Result<()> {
        let mut line = serde_json::to_vec(row)?;
        line.push(b'\n');
        let mut file = self.inner.file.lock();
        // One write: appends of several processes do not mix within a line.
        file.write_all(&line)?;
        file.sync_data()
    }

    /// All rows, read back from the file.
    pub fn rows(&self) -> io::Result<Vec<Row>> {
        let text = std::fs::read_to_string(&self.inner.path)?;
        text.lines()
            .map(|line| serde_json::from_str(line).map_err(io::Error::from))
            .collect()
    }

    /// The rows of one tool.
    pub fn rows_of(&self, tool: &str) -> io::Result<Vec<Row>> {
        Ok(self
            .rows()?
            .into_iter()
            .filter(|row| row.tool == tool)
            .collect())
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_the_file_once_row_returns_and_outlives_the_handle() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("rows");
        let ledger = Ledger::at(&path).unwrap();
        ledger.row("book", "room 1").unwrap();
        drop(ledger);
        let again = Ledger::at(&path).unwrap();
        again.row("book", "line\nbreak").unwrap();
        again.row("other", "x").unwrap();
        let keys: Vec<_> = again
            .rows_of("book")
            .unwrap()
            .into_iter()
            .map(|row| row.key)
            .collect();
        assert_eq!(keys, ["room 1", "line\nbreak"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    }
}
