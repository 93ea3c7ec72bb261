//! What can be asked for on the command line.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use steadfast_core::code;

use crate::commands::{
    agent, apply, audit, call, connect, demo, doctor, explain, grant, import, notices, operations,
    reload, serve, server, sign_in, status, vault,
};
use crate::context::{Context, Options};
use crate::failure::{Exit, Failure};
use crate::{logging, output};

/// Keeps agents connected to their remote MCP servers, and never silently repeats a consequential write.
#[derive(Parser)]
#[command(
    name = "steadfast",
    version,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a person must act."
)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon: gateway, keeper and admin API
    Serve(serve::Arguments),
    /// Play every fault against scripted servers, with nothing to configure
    #[command(hide = !demo::BUILT)]
    Demo(demo::Arguments),
    /// Take servers over from another client's configuration
    Import(import::Arguments),
    /// Bring agents and servers in step with a file
    Apply(apply::Arguments),
    /// Add, list and remove agents, and make their keys
    #[command(subcommand)]
    Agent(agent::Command),
    /// Add, list, show, remove, enable and disable servers
    #[command(subcommand)]
    Server(server::Command),
    /// Show every connection: its state, what is wrong, what happens next
    Status(status::Arguments),
    /// Connect now, whatever the schedule says
    Reload(reload::Arguments),
    /// Call one tool of a server, as an agent
    Call(call::Arguments),
    /// Show what waits for a person, and what did
    Notices,
    /// Find out which fault it is, and who must act
    Doctor(doctor::Arguments),
    /// Set, list and remove secrets, and change the key that seals them
    #[command(subcommand)]
    Vault(vault::Command),
    /// Sign in at a server for an agent: opens or prints a link, and waits
    SignIn(sign_in::Arguments),
    /// Take a sign-in back: the provider revokes the grant, and it is forgotten here
    SignOut(sign_in::Whose),
    /// Show what an agent holds for a server, and take over tokens from elsewhere
    #[command(subcommand)]
    Grant(grant::Command),
    /// Show what became of consequential calls, and decide what nobody else can know
    #[command(subcommand)]
    Operations(operations::Command),
    /// Show who changed what, and when
    Audit(audit::Arguments),
    /// Explain an error code
    Explain(explain::Arguments),
    /// Be an MCP server on standard input and output, for clients that speak nothing else
    Connect(connect::Arguments),
}

/// Runs the command that was asked for.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to be told that the terminal is gone.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            }
            .into();
        }
    };
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(Failure::OutputClosed) => Exit::Done.into(),
        Err(Failure::Said(said)) => {
            output::report(&said);
            said.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let is_daemon = matches!(cli.command, Command::Serve(_) | Command::Demo(_));
    let mut builder = if is_daemon {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build().map_err(|error| {
        Failure::new(code::INTERNAL, format!("the runtime cannot start: {error}"))
    })?;
    if !is_daemon {
        logging::start(logging::Format::Text, "warn")?;
    }
    let ended = runtime.block_on(dispatch(cli));
    // What still runs has nothing left to say: a connection to a server that does not answer, a lookup of
    // a name that hangs.
    runtime.shutdown_background();
    ended
}

async fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let context = Context::new(cli.options);
    match cli.command {
        Command::Serve(arguments) => serve::run(&context, arguments).await,
        Command::Demo(arguments) => demo::run(&context, arguments).await,
        Command::Import(arguments) => import::run(&context, arguments).await,
        Command::Apply(arguments) => apply::run(&context, arguments).await,
        Command::Agent(command) => agent::run(&context, command).await,
        Command::Server(command) => server::run(&context, command).await,
        Command::Status(arguments) => status::run(&context, arguments).await,
        Command::Reload(arguments) => reload::run(&context, arguments).await,
        Command::Call(arguments) => call::run(&context, arguments).await,
        Command::Notices => notices::run(&context).await,
        Command::Doctor(arguments) => doctor::run(&context, arguments).await,
        Command::Vault(command) => vault::run(&context, command).await,
        Command::Explain(arguments) => explain::run(&context, &arguments),
        Command::SignIn(arguments) => sign_in::run(&context, arguments).await,
        Command::SignOut(arguments) => sign_in::run_out(&context, arguments).await,
        Command::Grant(command) => grant::run(&context, command).await,
        Command::Operations(command) => operations::run(&context, command).await,
        Command::Audit(arguments) => audit::run(&context, arguments).await,
        Command::Connect(arguments) => connect::run(&context, arguments).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_lists_what_is_built_and_nothing_else() {
        let help = Cli::command().render_help().to_string();
        for built in [
            "serve",
            "import",
            "apply",
            "agent",
            "server",
            "status",
            "reload",
            "call",
            "vault",
            "sign-in",
            "sign-out",
            "grant",
            "operations",
            "audit",
            "doctor",
            "explain",
            "connect",
        ] {
            assert!(help.contains(&format!("\n  {built}")), "{built}: {help}");
        }
    }
}
