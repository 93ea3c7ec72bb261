//! What Steadfast keeps on disk: agents and servers, what was learned about addresses, legacy sessions
//! in both directions, the history of connections, their grants with all that keeps them alive, and the ledger of operations.
//!
//! A [`Store`] is all of it. Its parts, [`Records`], [`Grants`], [`Leases`], [`Clients`], [`SignIns`], [`Notices`], [`Operations`], [`Presence`],
//! [`VaultEntries`], [`Audit`], [`Documents`], [`Issuers`] and [`Resealing`], say what a backend can do and what it promises; every
//! backend passes the same suite (`suite`). A write that has returned `Ok` survives a kill of the process and a loss
//! of power.
//!
//! | backend | for |
//! | --- | --- |
//! | [`SqliteRecords`] | one machine; several processes may share a data directory |
//! | [`MemoryRecords`] | tests |
//!
//! The [`events`] of agents' streams are kept apart from all of that, in a file of their own: an [`EventLog`], which is
//! [`SqliteEvents`] or [`MemoryEvents`], with a suite of its own (`instantiate_events!`).
//!
//! Secrets are sealed by the [`vault`] before they reach a backend. `schema.md` in this crate describes the tables.

pub mod audit;
pub mod clients;
pub mod documents;
pub mod error;
pub mod events;
pub mod grants;
pub mod issuers;
pub mod keys;
pub mod leases;
pub mod memory;
pub mod model;
pub mod notices;
pub mod operations;
mod place;
pub mod presence;
mod private_file;
mod random;
pub mod records;
pub mod resealing;
pub mod sign_ins;
pub mod sqlite;
pub mod store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
pub mod swap;
pub mod vault;
pub mod vault_entries;
mod versioned;

pub use audit::{Audit, AuditEntry, AuditRecord, Via};
pub use clients::{ClientRecord, Clients};
pub use documents::{DocumentRecord, Documents};
pub use error::{Error, Problem};
pub use events::{EventLog, EventStream, EventStreamRecord, EventWrite, SharedEvents, StreamName};
pub use grants::{
    ClientOrigin, DueGrant, DueSearch, GrantClient, GrantRecord, Grants, LastRenewal,
};
pub use issuers::{IssuerRecord, Issuers};
pub use keys::{AgentKey, IdHash, KEY_PREFIX, KeyHash, hash_id, hash_state, make_key};
pub use leases::{Lease, LeaseKey, Leases, Taken};
pub use memory::{MemoryEvents, MemoryRecords};
pub use model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ParkedQuestion, ServerRecord, SessionRecord,
    Source, Transition,
};
pub use notices::{Moment, NoticeRecord, Notices, Opening, Telling};
pub use operations::{
    Digest, HeldCount, OperationFilter, OperationRecord, Operations, make_operation_id,
};
pub use presence::{Presence, Present};
pub use records::{Records, SharedRecords};
pub use resealing::{Resealed, Resealing};
/// The type of secrets, which do not print.
pub use secrecy::{ExposeSecret, SecretString};
pub use sign_ins::{SignInRecord, SignIns, Started};
pub use sqlite::{SqliteEvents, SqliteOptions, SqliteRecords};
pub use store::{SharedStore, Store};
pub use swap::{Swap, Version};
pub use vault::{GrantSecrets, KeySource, OperationSecrets, SignInSecrets, Vault};
pub use vault_entries::{VaultEntries, VaultEntry};
