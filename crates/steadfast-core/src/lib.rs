//! Every decision that Steadfast makes, and none of its I/O.
//!
//! There is no clock, no socket, no database and no randomness in here: time and jitter come in as
//! values, and what must happen outside goes out as [`Step::actions`]. Whoever drives the machines
//! (the keeper in `steadfast::drive`) owns the tasks, the sockets and the waiting.
//!
//! # Reading order
//!
//! 1. [`identity`]: the four identities that must never be mixed.
//! 2. [`revision`]: dated protocol revisions and the two eras; every rule asks `since(…)`.
//! 3. [`fault`] and [`code`]: what went wrong, and who must act.
//! 4. [`quirks`]: one table of how servers really say "unknown session" or "not modern".
//! 5. [`step`]: what a machine returns; then [`connection`], [`session`], [`stream`], [`grant`].
//!    [`oauth`]: the rules of finding and choosing that a grant begins with.
//!    [`operation`]: what becomes of a consequential call, and when it may be sent once more.
//! 6. [`catalog`]: how long a list of tools may be used.
//! 7. [`wire`]: pure codecs. [`bridge`]: what a message of one era becomes in the other. [`question`]:
//!    who may be asked what by a server.
//! 8. [`gate`] and [`sleep`]: what concerns a whole fleet of connections.
//! 9. [`merged`]: what the servers of an agent are together.
//! 10. [`mod@reference`]: secrets that the configuration names.
//! 11. [`doctor`]: which fault it is, and who must act.
//! 12. [`replay`]: whether a reader may still see every event that it is owed.
//!
//! # How to drive a machine
//!
//! ```text
//! loop {
//!     let event = next event, or the due event when `deadline` has come;
//!     let step = machine::step(state, event, &context);
//!     record(step.facts);            // history; durable first where the machine says so
//!     for action in step.actions { perform(action) }   // their outcomes come back as events
//!     state = step.state;
//! }
//! ```
//!
//! Folding the recorded facts with `replay` gives the live state again; a property test says so.

pub mod backoff;
pub mod bridge;
pub mod catalog;
pub mod code;
pub mod connection;
pub mod deadline;
pub mod doctor;
pub mod effect;
pub mod fault;
pub mod gate;
pub mod grant;
pub mod identity;
pub mod merged;
pub mod now;
pub mod oauth;
pub mod operation;
pub mod question;
pub mod quirks;
pub mod reference;
pub mod replay;
pub mod revision;
pub mod session;
pub mod sleep;
pub mod step;
pub mod stream;
pub mod wire;

pub use deadline::{Deadline, Reason};
pub use effect::Effect;
pub use fault::{Fault, Kind, Verdict};
pub use identity::{
    AgentName, AttemptId, EventCursor, Generation, GrantGeneration, OperationId, OperationKey,
    RpcId, ServerName, SessionId,
};
pub use now::{Jitter, Millis, Mono, Now, Wall};
pub use revision::{Era, Revision};
pub use step::{Outcome, Step};
