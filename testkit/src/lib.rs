//! A scriptable fake MCP server, and the instruments around it: a durable ledger, a request log, gates, a faulty
//! network, the real binary as a child process, and a bare client to stand for an agent.
//!
//! It knows nothing of Steadfast's own crates: what it says about a run is independent of the code under test.
//!
//! - [`Server`] plays a server of any revision ([`Behaviour`]). A [`script`] of rules is asked before the behaviour;
//!   a rule answers with a [`Reply`], a list of [`Step`]s down to the byte: cuts, resets, drips, black holes.
//! - [`RequestLog`] is what the server saw, with monotonic times; `wait_for` waits for the event instead of sleeping.
//! - [`Ledger`] has one synced line for each run of a tool: the only truth about duplicates.
//! - [`Gates`] let a test decide what happens next.
//! - [`Net`] is a network in front of any address that refuses, swallows, freezes, resets and cuts.
//! - [`Daemon`] runs the real binary, and [`Agent`] talks to it.
//!
//! ```
//! use testkit::{Agent, Behaviour, PATIENCE, Server, reply::json_rpc_error, script::post};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start(Behaviour::legacy("2025-11-25")).await;
//! let lost = json_rpc_error(404, -32001, "Session not found");
//! server.script().on(post("tools/call").session("any").times(1)).reply(lost);
//!
//! let agent = Agent::legacy(server.address(), "/mcp", None);
//! agent.initialize().await?;
//! assert_eq!(agent.call("add_row", serde_json::json!({})).await?.status, 404);
//! assert_eq!(agent.call("add_row", serde_json::json!({})).await?.text(), "done");
//!
//! server.log().wait_for(|log| log.count("tools/call") == 2, PATIENCE).await?;
//! assert_eq!(server.ledger().rows_of("add_row")?.len(), 1);
//! # Ok(())
//! # }
//! ```
#![allow(
    clippy::expect_used,
    reason = "a fixture that cannot do its work must fail its test"
)]

mod agent;
mod behaviour;
pub mod client;
pub mod daemon;
mod exchange;
mod gate;
mod http1;
mod http2;
mod ledger;
mod log;
pub mod net;
mod port;
pub mod reply;
pub mod script;
mod server;
mod session;
mod shared;
pub mod sse;
mod stream;
mod tls;
mod tool;
mod wire;

pub use agent::{Agent, Answer, Pending};
pub use behaviour::{Behaviour, GetStream, Speaks};
pub use daemon::Daemon;
pub use gate::Gates;
pub use ledger::{Ledger, Row};
pub use log::{Ending, Event, NotSeen, Request, RequestLog};
pub use net::Net;
pub use reply::{End, Reply, Step};
pub use rustix::process::Signal;
pub use server::{Builder, Server};
pub use tls::Tls;
pub use tool::{Action, Tool};

/// How long a test waits for what should happen soon, on a machine that is busy.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
