//! The file that an error is about.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Problem};

/// The file, as errors name it.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<str>);

impl Place {
    pub(crate) fn of(path: &Path) -> Self {
        Self(path.display().to_string().into())
    }

    pub(crate) fn error(&self, problem: Problem, detail: impl Into<String>) -> Error {
        Error::new(problem, &*self.0, detail)
    }

    pub(crate) fn io(&self, what: &str, error: &std::io::Error) -> Error {
        let problem = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Problem::Full,
            std::io::ErrorKind::ReadOnlyFilesystem => Problem::ReadOnly,
            _ => Problem::Io,
        };
        self.error(problem, format!("{what}: {error}"))
    }
}
