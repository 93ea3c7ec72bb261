//! What Steadfast keeps on disk: agents and servers, what was learned about addresses, legacy sessions
//! in both directions, and the history of connections.
//!
//! [`Records`] says what a backend can do and what it promises; every backend passes the same
//! suite (`suite`). A write that has returned `Ok` survives a kill of the process and a loss
//! of power.
//!
//! | backend | for |
//! | --- | --- |
//! | [`SqliteRecords`] | one machine; several processes may share a data directory |
//! | [`MemoryRecords`] | tests |
//!
//! `schema.md` in this crate describes the tables.

pub mod error;
pub mod keys;
pub mod memory;
pub mod model;
pub mod records;
pub mod sqlite;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod versioned;

pub use error::{Error, Problem};
pub use keys::{AgentKey, IdHash, KeyHash, hash_id, hash_state, make_key};
pub use memory::MemoryRecords;
pub use model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ParkedQuestion, ServerRecord, SessionRecord,
    Source, Transition,
};
pub use records::{Records, SharedRecords};
pub use sqlite::{SqliteOptions, SqliteRecords};
