//! `steadfast serve`: runs the daemon until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use steadfast_core::code;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{self, schema::parse_address};
use crate::context::Context;
use crate::daemon::{Daemon, Start};
use crate::data_dir::TokenOrigin;
use crate::failure::{Exit, Failure};
use crate::logging;

/// `serve [--config FILE] [--listen ADDR]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The configuration file; noticed when it changes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen, instead of gateway.listen; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<SocketAddr>,
    /// How log lines on standard error are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: logging::Format,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    logging::start(arguments.log_format, "info")?;
    allow_all_files();
    let data = context.data_dir()?;
    let config = arguments
        .config
        .map(|path| config::load(&path, arguments.listen))
        .transpose()?;
    let mut stop = Stop::new()?;
    let daemon = Daemon::start(Start {
        data: &data,
        config,
        listen: arguments.listen,
        token: context.options.token.as_deref(),
    });
    let daemon = tokio::select! {
        started = daemon => started?,
        () = stop.asked() => return Ok(Exit::Done),
    };

    let (token, origin) = &daemon.token;
    let output = context.output;
    if *origin == TokenOrigin::Made {
        output.line(format!(
            "admin token (shown this once, kept in {}): {token}",
            data.path().join("admin.token").display()
        ))?;
    }
    output.line(format!("listening on http://{}", daemon.address()))?;
    tracing::info!(address = %daemon.address(), data = %data.path().display(), "started");

    stop.asked().await;
    tracing::info!("stopping");
    tokio::select! {
        () = daemon.shutdown() => Ok(Exit::Done),
        // Whoever asks a second time does not want to wait.
        () = stop.asked() => Ok(Exit::Failed),
    }
}

/// Every connection is a file, and the usual limit is made for programs that have a few hundred. Raised as far as
/// this process may; what does not work is found out when it is needed.
fn allow_all_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(?maximum, "the limit of open files is raised"),
        Err(error) => tracing::debug!(%error, "the limit of open files stays"),
    }
}

/// SIGTERM and Ctrl-C.
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub(super) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(
                    code::INTERNAL,
                    format!("no signals can be received: {error}"),
                )
            })
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits until somebody asks.
    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
