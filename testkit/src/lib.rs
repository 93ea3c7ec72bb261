//! A scriptable fake MCP server and a scriptable authorization server, and the instruments around them: a durable
//! ledger, a request log, gates, a faulty network, the real binary as a child process, a bare client to stand for an
//! agent, and a browser to stand for a person.
//!
//! It knows nothing of Steadfast's own crates: what it says about a run is independent of the code under test.
//!
//! - [`Server`] plays a server of any revision ([`Behaviour`]). A [`script`] of rules is asked before the behaviour;
//!   a rule answers with a [`Reply`], a list of [`Step`]s down to the byte: cuts, resets, drips, black holes.
//! - [`Issuer`] plays an OAuth authorization server, whose [`issuer::Policy`] can be changed while it runs; scripts,
//!   log and gates are those of [`Server`]. [`Protection`] makes a server want its tokens.
//! - [`MailServer`] takes e-mails.
//! - [`Browser`] follows an authorization link to where it leads, and presses buttons.
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
//!
//! # Grants
//!
//! Tokens are readable: `AT1`, `RT1`, then `AT2`, `RT2`; clients are `C1`, codes `code1`. Every lifetime is real time,
//! so a test of renewal gives tokens a second or two, or ends them all at once. A test that is about a grant that is
//! there already begins with [`Issuer::issue`] instead of a sign-in.
//!
//! ```
//! use std::time::Duration;
//!
//! use testkit::issuer::{Client, Kind, policy::Rotation};
//! use testkit::{Agent, Behaviour, Browser, Issuer, Protection, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let issuer = Issuer::builder().path("/t1").start().await;
//! issuer.change(|policy| policy.tokens.lifetime = Some(Duration::from_secs(2)));
//! let protection = Protection::by(&issuer).tool("add_row", &["write"]);
//! let server = Server::start(Behaviour::legacy("2025-11-25").protected(protection)).await;
//!
//! // A grant that is there already, for the product's `PUT …/grant` as `issued.import()`.
//! let issued = issuer.issue(Client::public("app"), &["write"], Some(&server.url()));
//! let agent = Agent::legacy(server.address(), "/mcp", Some(&issued.access_token));
//! agent.initialize().await?;
//! assert_eq!(agent.call("add_row", serde_json::json!({})).await?.status, 200);
//!
//! // What the next renewals get, and what the server says to a token that is over.
//! issuer.change(|policy| policy.tokens.rotation = Rotation::Omits);
//! issuer.expire(Kind::Access);
//! assert_eq!(agent.call("add_row", serde_json::json!({})).await?.status, 401);
//! assert_eq!((issuer.live(Kind::Refresh), issuer.counts().reuses), (1, 0));
//!
//! // A link that leads nowhere good: the person sees a page with this status.
//! let link = issuer.url("/authorize?client_id=stranger");
//! assert_eq!(Browser::new().open(&link).await?.status, 400);
//! # Ok(())
//! # }
//! ```
#![allow(
    clippy::expect_used,
    reason = "a fixture that cannot do its work must fail its test"
)]

mod agent;
mod behaviour;
mod browser;
pub mod client;
pub mod daemon;
mod document;
mod exchange;
mod gate;
mod host;
mod html;
mod http1;
mod http2;
pub mod issuer;
mod ledger;
mod log;
mod mail;
pub mod net;
mod port;
mod protection;
mod questions;
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
pub use browser::{Browser, Page};
pub use daemon::Daemon;
pub use document::Document;
pub use gate::Gates;
pub use issuer::Issuer;
pub use ledger::{Ledger, Row};
pub use log::{Ending, Event, NotSeen, Parameters, Request, RequestLog};
pub use mail::{Mail, MailServer};
pub use net::Net;
pub use protection::Protection;
pub use questions::Question;
pub use reply::{End, Reply, Step};
pub use rustix::process::Signal;
pub use server::{Builder, Server};
pub use tls::Tls;
pub use tool::{Action, Tool};

/// How long a test waits for what should happen soon, on a machine that is busy.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
