//! The keeper: holds every upstream connection of every agent, and is the only place that talks to
//! MCP servers. A Rust program can use it without the gateway.
//!
//! # Reading order
//!
//! 1. [`config`]: what an operator says about agents, servers and delays.
//! 2. [`keeper`]: all links, kept in step with the configuration.
//! 3. [`link`]: one agent's connection to one server, as callers see it.
//! 4. [`call`]: one request on its way, and everything that can become of it.
//! 5. `catalog`: the lists of a server. [`question`]: what a server asks its agent.
//! 6. `operations`: the ledger of consequential calls.
//! 7. `drive`: the task that moves the machines of one connection.
//! 8. [`doctor`]: what is wrong with a connection, and who must act.
//! 9. `issuers`: whose an access token of an agent is.
//! 10. `perform`: sockets. Dialling, the pool, one HTTP exchange, reading event streams.
//!
//! # Example
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::{Keeper, config};
//!
//! use steadfast_store::{MemoryRecords, Vault};
//!
//! let store = std::sync::Arc::new(MemoryRecords::new());
//! let vault = std::sync::Arc::new(Vault::ephemeral()?);
//! let keeper = Keeper::start(config::Settings::default(), store, vault).await?;
//! keeper.put_server("booking".into(), config::Server::at("http://127.0.0.1:8080/mcp".parse()?)).await?;
//! keeper.put_agent("support".into(), config::Agent::with_servers(["booking"])).await?;
//! let link = keeper.link(&"support".into(), &"booking".into()).ok_or("no such link")?;
//! link.connected(std::time::Duration::from_secs(10)).await;
//! println!("{:?}", link.report().state);
//! keeper.shutdown().await;
//! # Ok(()) }
//! ```

pub mod call;
mod catalog;
pub mod clock;
pub mod config;
mod configured;
mod cookies;
pub mod doctor;
mod drive;
mod fleet;
mod grants;
mod handle;
mod issuers;
pub mod keeper;
mod legacy_sse;
mod levels;
pub mod link;
pub mod measure;
mod operations;
mod own_number;
mod perform;
pub mod question;
pub mod renewals;
pub mod report;
mod route;
mod secrets;
mod send;
mod sleep;
pub mod subscriber;
mod trace;
pub mod wording;

pub use call::{
    Answer, AnswerStream, Call, Failure, KeptBack, Message, NoSuchTool, NotObserved, Origin,
    WhyKeptBack,
};
pub use catalog::{Entry, Listing};
pub use grants::{
    BadImport, Callback, Doors, Finished, Import, NotOffered, NotSignedIn, Offer, Revoked,
    SignedIn, SignedOut,
};
pub use handle::{CallHandle, Notice, Receipt};
pub use issuers::{Issuers, NotAccepted};
pub use keeper::{Change, Isolated, Keeper, Listener, NotExamined, NoticeLink};
pub use link::{Hello, Link};
pub use operations::{EvidenceReport, NotDecided, OperationDetails, OperationReport};
pub use question::{Place, Reply, ServerRequest};
pub use renewals::Renewals;
pub use report::Report;
pub use subscriber::Subscriber;
pub use trace::Traces;
