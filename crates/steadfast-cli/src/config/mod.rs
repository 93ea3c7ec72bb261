//! Reading `steadfast.toml`: what is wrong in it is said with file, line, column and the path of the key.

mod check;
mod locate;
pub(crate) mod schema;
pub(crate) mod watch;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use steadfast::config::Server;
use steadfast_core::code::{self, Code};

use crate::failure::Failure;
use locate::{Place, Tree, place};
use schema::File;

/// A file that has been read and checked.
pub(crate) struct Loaded {
    /// Its absolute path.
    pub(crate) path: PathBuf,
    /// Its bytes, to see that it changed.
    pub(crate) text: String,
    /// What it says.
    pub(crate) file: File,
}

/// What is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    file: String,
    issues: Vec<Issue>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Issue {
    place: Option<Place>,
    code: Code,
    message: String,
}

impl Error {
    fn one(file: &str, issue: Issue) -> Self {
        Self {
            file: file.to_owned(),
            issues: vec![issue],
        }
    }

    /// Its entry in the registry: that of the first thing that is wrong.
    pub(crate) fn code(&self) -> Code {
        self.issues
            .first()
            .map_or(code::CONFIG_BAD_VALUE, |issue| issue.code)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            match issue.place {
                Some(Place { line, column }) => {
                    write!(f, "{}:{line}:{column}: {}", self.file, issue.message)?
                }
                None => write!(f, "{}: {}", self.file, issue.message)?,
            }
        }
        Ok(())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// Reads and checks a file. `listen` is the address that the command line gives instead of the file's.
pub(crate) fn load(path: &Path, listen: Option<SocketAddr>) -> Result<Loaded, Error> {
    let name = path.display().to_string();
    let text = read(path)?;
    let unreadable = |error: std::io::Error| Error::one(&name, unreadable(&error));
    let path = std::path::absolute(path).map_err(unreadable)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let file = parse(&name, &text, folder, listen)?;
    Ok(Loaded { path, text, file })
}

/// Reads the text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map_err(|error| Error::one(&path.display().to_string(), unreadable(&error)))
}

fn unreadable(error: &std::io::Error) -> Issue {
    Issue {
        place: None,
        code: code::FILE_UNREADABLE,
        message: format!("cannot be read: {error}"),
    }
}

/// Reads and checks the text of a file that is called `name` and lies in `folder`.
pub(crate) fn parse(
    name: &str,
    text: &str,
    folder: &Path,
    listen: Option<SocketAddr>,
) -> Result<File, Error> {
    let tree = Tree::parse(text).map_err(|error| Error::one(name, syntax(text, &error)))?;
    let read = toml::Deserializer::parse(text).and_then(File::deserialize);
    let mut file = read.map_err(|error| Error::one(name, explain(text, &tree, &error)))?;
    if let Some(ca_file) = &mut file.network.ca_file {
        *ca_file = folder.join(&ca_file);
    }
    let issues = check::check(&file, &tree, listen);
    if issues.is_empty() {
        Ok(file)
    } else {
        let file = name.to_owned();
        Err(Error { file, issues })
    }
}

/// Checks one server that does not come from a file.
pub(crate) fn check_server(name: &str, server: &Server) -> Result<(), Failure> {
    match check::check_server(name, server).into_iter().next() {
        None => Ok(()),
        Some(issue) => Err(Failure::new(issue.code, issue.message)),
    }
}

/// The tables besides agents and servers in which two files differ: they are read when the daemon starts.
pub(crate) fn different_settings(one: &File, other: &File) -> Vec<&'static str> {
    let tables = [
        ("gateway", one.gateway == other.gateway),
        ("network", one.network == other.network),
        ("limits", one.limits == other.limits),
        ("store", one.store == other.store),
        ("renewal", one.renewal == other.renewal),
        ("retry", one.retry == other.retry),
        ("catalog", one.catalog == other.catalog),
        ("sign_in", one.sign_in == other.sign_in),
        ("repeat", one.repeat == other.repeat),
        ("notify", one.notify == other.notify),
    ];
    tables
        .into_iter()
        .filter(|(_, same)| !same)
        .map(|(table, _)| table)
        .collect()
}

fn syntax(text: &str, error: &toml::de::Error) -> Issue {
    Issue {
        place: error.span().map(|span| place(text, span.start)),
        code: code::FILE_UNREADABLE,
        message: format!("this is not TOML: {}", error.message()),
    }
}

/// Puts what serde says of a value into words for whoever wrote the file.
fn explain(text: &str, tree: &Tree<'_>, error: &toml::de::Error) -> Issue {
    let offset = error.span().map(|span| span.start);
    let path = offset
        .map(|offset| tree.path_at(offset))
        .unwrap_or_default()
        .join(".");
    let said = error.message();
    let place = offset.map(|offset| place(text, offset));
    if let Some(rest) = said.strip_prefix("unknown field ") {
        return Issue {
            place,
            code: code::CONFIG_UNKNOWN_KEY,
            message: unknown_key(&path, rest),
        };
    }
    // serde says of an untagged enum only that nothing matched.
    let said = if said.contains("untagged enum Servers") {
        "write a list of names of servers, or \"*\" for all of them".to_owned()
    } else if said.contains("untagged enum Resolve") {
        "write an IP address, or { address = \"…\", public = true }".to_owned()
    } else if said.contains("relative URL without a base") {
        "a URL begins with https:// or http://".to_owned()
    } else {
        without_value(said)
            .replace("unknown variant", "unknown value")
            .replace("missing field", "missing key")
    };
    let message = if path.is_empty() {
        said
    } else {
        format!("{path}: {said}")
    };
    Issue {
        place,
        code: code::CONFIG_BAD_VALUE,
        message,
    }
}

/// A text of the wrong type or shape is quoted in what is said of it, and it may be a secret (SEC-01).
fn without_value(said: &str) -> String {
    match said.split_once('"').zip(said.rsplit_once('"')) {
        Some(((before, _), (_, after))) => format!("{before}…{after}"),
        None => said.to_owned(),
    }
}

/// `rest` is serde's "`given`, expected one of `a`, `b`" or "`given`, expected `a`".
fn unknown_key(path: &str, rest: &str) -> String {
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let given = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    let path = if path.is_empty() { given } else { path };
    let distance = |key: &&&str| strsim::damerau_levenshtein(given, key);
    match known.iter().min_by_key(distance) {
        None => format!("unknown key `{path}`"),
        Some(nearest) if distance(&nearest) <= given.len() / 3 + 1 => {
            format!("unknown key `{path}`; did you mean `{nearest}`?")
        }
        Some(nearest) => {
            format!(
                "unknown key `{path}`; the nearest known one is `{nearest}`, of {}",
                known.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests;
