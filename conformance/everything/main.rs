//! The well-behaved MCP server that the official suite and the real peers are run against: both eras on one
//! address, with sessions, replay and server-to-client requests before 2026-07-28, and without any of them from then on.
//!
//! It is built on rmcp, so that the gateway is measured against an implementation that is not ours.

mod catalog;
mod changes;
mod content;
mod event_store;
mod interaction;
mod server;
mod sessions;
mod skills;
mod tasks;
mod tools;
mod waits;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use clap::{Parser, ValueEnum};
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::server::{Everything, Shared};
use crate::sessions::Sessions;

#[derive(Debug, Parser)]
#[command(about = "A well-behaved MCP server of both eras, for the conformance suite")]
struct Args {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Which protocol revisions to speak.
    #[arg(long, value_enum, default_value_t = Era::Dual)]
    era: Era,
    /// Answer a simple 2026-07-28 request with JSON instead of an event stream.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Era {
    Dual,
    /// Up to 2025-11-25.
    Legacy,
    /// 2026-07-28 only.
    Modern,
}

impl Era {
    fn revisions(self) -> Vec<ProtocolVersion> {
        match self {
            Self::Dual => ProtocolVersion::KNOWN_VERSIONS.to_vec(),
            Self::Legacy => ProtocolVersion::KNOWN_VERSIONS
                .iter()
                .filter(|revision| revision.as_str() < ProtocolVersion::V_2026_07_28.as_str())
                .cloned()
                .collect(),
            Self::Modern => vec![ProtocolVersion::V_2026_07_28],
        }
    }
}

/// How soon a client may resume a stream that the server closed.
const RETRY: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let shared = Arc::new(Shared::new(args.era.revisions())?);
    let mut config = StreamableHttpServerConfig::default()
        // The loopback names only: MCP 2025-11-25, Transports, "Security Warning".
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"])
        // Streams are primed by the session layer, with identifiers that can be resumed from.
        .with_sse_retry(None)
        .with_json_response(args.json);
    config.legacy_session_mode = args.era != Era::Modern;
    let service = StreamableHttpService::new(
        move || Ok(Everything::new(Arc::clone(&shared))),
        Arc::new(Sessions::new(RETRY)?),
        config,
    );
    let listener = tokio::net::TcpListener::bind(args.listen).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{}", listener.local_addr()?)?;
    stdout.flush()?;
    let listener = listener.tap_io(|stream| {
        // A small event must leave at once; where the option cannot be set, it only leaves later.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
