//! Logs: to standard error, as text or JSON, at the levels of `STEADFAST_LOG`, else of `RUST_LOG`. Lines that repeat
//! themselves are bounded.

mod cap;

use std::io::IsTerminal as _;

use clap::ValueEnum;
use steadfast_core::code;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::cap::CapLayer;
use crate::failure::Failure;

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Libraries whose debug lines hold whole headers, messages and rows: keys and tokens among them.
const TALKATIVE: [&str; 6] = [
    "h2",
    "hyper",
    "hyper_util",
    "rustls",
    "sqlx",
    "tokio_rustls",
];

/// Whether a line can be written: whatever the environment asks for, secrets do not print.
fn keeps_secrets(line: &Metadata<'_>) -> bool {
    let library = line.target().split("::").next().unwrap_or_default();
    *line.level() <= Level::INFO || !TALKATIVE.contains(&library)
}

/// Starts logging. `default` are the levels where the environment sets none.
pub(crate) fn start(format: Format, default: &str) -> Result<(), Failure> {
    let set = ["STEADFAST_LOG", "RUST_LOG"].into_iter().find_map(|name| {
        Some((
            name,
            std::env::var(name).ok().filter(|value| !value.is_empty())?,
        ))
    });
    let (name, levels) = set.unwrap_or(("", default.to_owned()));
    let filter = EnvFilter::try_new(&levels).map_err(|error| {
        Failure::hinted(
            code::CONFIG_BAD_VALUE,
            format!("{name}: `{levels}` cannot be read: {error}"),
            "Write a level such as `info`, or levels of parts such as `warn,steadfast=debug`.",
        )
    })?;
    let colour = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour);
    let safe = filter_fn(keeps_secrets);
    let cap = CapLayer::new();
    let sum_up = cap.clone().sum_up();
    let started = match format {
        Format::Text => builder.finish().with(safe).with(cap).try_init(),
        Format::Json => builder
            .json()
            .flatten_event(true)
            .finish()
            .with(safe)
            .with(cap)
            .try_init(),
    };
    started
        .map_err(|error| Failure::new(code::INTERNAL, format!("logging cannot start: {error}")))?;
    // A command that runs for a moment has nothing to sum up.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(sum_up);
    }
    Ok(())
}
