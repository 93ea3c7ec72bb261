//! Running other programs, one named step after another.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Why a command of the workshop stopped: one or more lines for a person.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// A command that runs at the root of the repository, without standard input.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::null());
    command
}

/// The cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    command(&program, arguments)
}

/// Runs one step: prints its name, what it prints itself, and how long it took.
pub(crate) fn step(name: &str, command: &mut Command) -> Outcome {
    timed(name, command, |command| {
        command
            .status()
            .map(|status| status.success())
            .map_err(|error| error.to_string())
    })
}

/// Like [`step`], and shows every line of standard output to `each` as well as to the terminal.
pub(crate) fn step_with_lines(
    name: &str,
    command: &mut Command,
    mut each: impl FnMut(&str),
) -> Outcome {
    timed(name, command, |command| {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).split(b'\n') {
                let line = line.map_err(|error| error.to_string())?;
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                each(&line);
            }
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        Ok(status.success())
    })
}

fn timed(
    name: &str,
    command: &mut Command,
    run: impl FnOnce(&mut Command) -> Result<bool, String>,
) -> Outcome {
    println!("── {name}");
    let start = Instant::now();
    let outcome = run(command);
    let seconds = start.elapsed().as_secs_f64();
    let shown = shown(command);
    match outcome {
        Ok(true) => {
            println!("── {name}: done in {seconds:.1} s");
            Ok(())
        }
        Ok(false) => Err(Failure::new(format!(
            "{name} failed after {seconds:.1} s; to repeat it:\n  {shown}"
        ))),
        Err(error) => Err(Failure::new(format!(
            "{name} could not be run: {error}\n  {shown}"
        ))),
    }
}

/// What a command prints, or `None` where it cannot be run or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where a program is, in PATH and in the places where Debian keeps programs for root.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// A command as one would type it at the root of the repository.
fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    if let Some(folder) = command.get_current_dir()
        && let Ok(below) = folder.strip_prefix(root())
        && below != Path::new("")
    {
        words.push(format!("cd {} &&", below.display()));
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!(
                "{}={}",
                name.display(),
                quoted(&value.to_string_lossy())
            ));
        }
    }
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let bare = name == "cargo" || program.starts_with("/usr");
    let program = if bare { name } else { program.as_os_str() };
    words.push(quoted(&program.to_string_lossy()));
    words.extend(
        command
            .get_args()
            .map(|word| quoted(&word.to_string_lossy())),
    );
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_says_how_to_repeat_it() {
        let mut failing = command("false", &["a b", "--plain"]);
        failing.env("RUSTDOCFLAGS", "-D warnings");
        let message = step("try", &mut failing).unwrap_err().to_string();
        assert!(
            message.ends_with("RUSTDOCFLAGS='-D warnings' false 'a b' --plain"),
            "{message}"
        );
    }

    #[test]
    fn lines_are_shown_to_the_caller() {
        let mut seen = Vec::new();
        let mut printing = command("printf", &["one\\ntwo\\n"]);
        step_with_lines("try", &mut printing, |line| seen.push(line.to_owned())).unwrap();
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn a_missing_program_is_a_failure_that_names_it() {
        let message = step("try", &mut command("no-such-program", &[]))
            .unwrap_err()
            .to_string();
        assert!(message.contains("no-such-program"), "{message}");
    }
}
