//! `steadfast vault`: secrets by name, which the configuration refers to as `${vault:NAME}`.

use std::io::{self, IsTerminal as _, Read as _};

use clap::Subcommand;
use serde_json::{Value, json};
use steadfast_core::code;
use steadfast_core::reference::is_secret_name;

use crate::client::Client;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};

/// `vault set|list|remove|rotate`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Set a secret: the value comes from standard input, or is asked for on a terminal
    Set {
        /// The name of the secret
        name: String,
    },
    /// List the names of the secrets
    List,
    /// Remove a secret
    Remove {
        /// The name of the secret
        name: String,
    },
    /// Change the key that seals the secrets and the grants, and seal them all anew
    Rotate,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, command: Command) -> Result<Exit, Failure> {
    if let Command::Set { name } = &command
        && !is_secret_name(name)
    {
        let message = format!("`{name}` is no name of a secret: 1 to 64 of A-Z a-z 0-9 _ -");
        return Err(Failure::new(code::CONFIG_BAD_VALUE, message).usage());
    }
    let daemon = context.daemon()?;
    let output = context.output;
    match &command {
        Command::Set { name } => set(output, &daemon, name).await,
        Command::List => list(output, &daemon).await,
        Command::Remove { name } => {
            daemon.delete(&["vault", name]).await?;
            tell(
                output,
                &json!({"name": name, "removed": true}),
                &format!("{name} is removed"),
            )
        }
        Command::Rotate => rotate(output, &daemon).await,
    }
}

async fn set(output: Output, daemon: &Client, name: &str) -> Result<Exit, Failure> {
    let value = read_value(output, name)
        .map_err(|error| Failure::new(code::FILE_UNREADABLE, format!("standard input: {error}")))?;
    if value.is_empty() {
        let message = "the secret is empty: give its value on standard input";
        return Err(Failure::new(code::CONFIG_BAD_VALUE, message).usage());
    }
    daemon
        .put(&["vault", name], &json!({"value": value}))
        .await?;
    tell(
        output,
        &json!({"name": name, "set": true}),
        &format!("{name} is set"),
    )
}

/// Never an argument: other users of the machine see arguments, and shells remember them.
fn read_value(output: Output, name: &str) -> io::Result<String> {
    let mut value = String::new();
    let stdin = io::stdin();
    if stdin.is_terminal() {
        output.note(format!("The value of {name}, which is not shown:"));
        let shown = silence(&stdin)?;
        let read = stdin.read_line(&mut value);
        shown.restore(&stdin)?;
        read?;
    } else {
        stdin.lock().read_to_string(&mut value)?;
    }
    // The end of the line is the shell's or the editor's, not the secret's.
    let end = value.trim_end_matches(['\r', '\n']).len();
    value.truncate(end);
    Ok(value)
}

/// How the terminal was.
struct Shown(rustix::termios::Termios);

/// The terminal shows nothing of what is typed.
fn silence(stdin: &io::Stdin) -> io::Result<Shown> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let before = tcgetattr(stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(stdin, OptionalActions::Flush, &silent)?;
    Ok(Shown(before))
}

impl Shown {
    fn restore(self, stdin: &io::Stdin) -> io::Result<()> {
        rustix::termios::tcsetattr(stdin, rustix::termios::OptionalActions::Now, &self.0)?;
        Ok(())
    }
}

async fn list(output: Output, daemon: &Client) -> Result<Exit, Failure> {
    let answer = daemon.get(&["vault"]).await?;
    if output.json {
        output.json(&answer)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["NAME", "SET"]);
    for secret in answer["secrets"].as_array().into_iter().flatten() {
        let text = |key: &str| secret[key].as_str().unwrap_or_default().to_owned();
        table.row(vec![text("name").into(), text("set_at").into()]);
    }
    output.raw(&table.render(output))?;
    Ok(Exit::Done)
}

async fn rotate(output: Output, daemon: &Client) -> Result<Exit, Failure> {
    let answer = daemon.post(&["vault", "key", "rotate"], None).await?;
    let failed = answer["failed"].as_array().map_or(0, Vec::len);
    for failure in answer["failed"].as_array().into_iter().flatten() {
        output.warning(failure.as_str().unwrap_or_default());
    }
    let resealed = &answer["resealed"];
    let ended = format!("the key is changed, and {resealed} values are sealed anew");
    tell(output, &answer, &ended)?;
    Ok(if failed == 0 {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn tell(output: Output, json: &Value, text: &str) -> Result<Exit, Failure> {
    if output.json {
        output.json_line(json)?;
    } else {
        output.line(text)?;
    }
    Ok(Exit::Done)
}
