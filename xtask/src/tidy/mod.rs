//! `cargo xtask tidy`: the project's own rules, those that no other tool knows. Every finding says why
//! the rule is there.

mod docs;
mod layers;
mod length;
mod mask;
mod private;
mod source;

use std::fmt;
use std::time::Instant;

use crate::shell::{Failure, Outcome, command, output, root};

/// One text file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path from the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    fn is_markdown(&self) -> bool {
        has_extension(&self.path, "md")
    }

    /// Whether the whole file is for tests only. `suite` is the one that every store backend instantiates.
    fn is_test(&self) -> bool {
        self.path.split('/').any(|part| {
            let name = part.strip_suffix(".rs").unwrap_or(part);
            name == "tests" || name == "suite" || name.ends_with("_tests")
        })
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, last)| last == extension)
}

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1; 0 where it is about the whole file.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Checks the whole repository.
pub(crate) fn run() -> Outcome {
    println!("── tidy");
    let start = Instant::now();
    let files = files()?;
    let mut findings = layers::check(&layers::metadata()?);
    findings.extend(length::check(&files));
    findings.extend(source::check(&files));
    findings.extend(private::check(&files, &private::of_this_machine()));
    findings.extend(docs::check(&files, &|path| root().join(path).exists()));
    if !findings.is_empty() {
        let lines: Vec<String> = findings
            .iter()
            .map(|finding| format!("  {finding}"))
            .collect();
        return Err(Failure::new(format!(
            "tidy found:\n{}\nto repeat it:\n  cargo xtask tidy",
            lines.join("\n")
        )));
    }
    println!(
        "── tidy: {} files, done in {:.1} s",
        files.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// All text files that are committed or could be: tracked, or new and not ignored.
fn files() -> Outcome<Vec<File>> {
    let listing = output(&mut command(
        "git",
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    ))
    .ok_or_else(|| Failure::new("git cannot list the files of the repository"))?;
    let mut files: Vec<File> = listing
        .split('\0')
        .filter(|path| !path.is_empty())
        // A tracked file may be deleted in the work tree, and a binary one has no text to check.
        .filter_map(|path| {
            let text = std::fs::read_to_string(root().join(path)).ok()?;
            Some(File {
                path: path.to_owned(),
                text,
            })
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File {
        path: path.into(),
        text: text.into(),
    }
}
