//! Operations: the ledger of consequential calls. Written before anything leaves, and never rewritten: facts are
//! appended, and fold to the state.

use std::fmt;

use async_trait::async_trait;
use steadfast_core::operation::{Contract, Fact, State};
use steadfast_core::{AgentName, OperationId, ServerName, Wall};
use ulid::Ulid;

use crate::error::Error;
use crate::random;
use crate::swap::{Swap, Version};
use crate::vault::Sealed;

/// A SHA-256 hash.
pub type Digest = [u8; 32];

/// One consequential call.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationRecord {
    /// Its name (`op_…`).
    pub id: OperationId,
    /// Which write this is; in a write, the one that it replaces.
    pub version: Version,
    /// Whose call it is.
    pub agent: AgentName,
    /// To which server.
    pub server: ServerName,
    /// Which tool.
    pub tool: String,
    /// Of tool and arguments, in their canonical form.
    pub digest: Digest,
    /// The same without what the tool's duplicate-prevention contract names as its key: identical calls have the same.
    pub call_digest: Digest,
    /// Of the agent's own key for its intention.
    pub key_hash: Option<Digest>,
    /// Of the `requestState` with which its next leg continues it.
    pub leg_hash: Option<Digest>,
    /// The contracts that were in force when the call was made.
    pub contract: Contract,
    /// What is known of it.
    pub state: State,
    /// Whether its outcome is known, and its agent was not told yet.
    pub undelivered: bool,
    /// The daemon that is at work on it, as it names itself in leases.
    pub driver: Option<String>,
    /// When somebody must look at it again.
    pub wake_at: Option<Wall>,
    /// When it was recorded.
    pub intended_at: Wall,
    /// When the last fact was appended.
    pub changed_at: Wall,
    /// What it says, sealed ([`OperationSecrets`](crate::vault::OperationSecrets)).
    pub sealed: Sealed,
    /// Its answer, sealed, where it is kept.
    pub result: Option<Sealed>,
}

impl OperationRecord {
    /// Whether an identical call must look at it: it is in flight, unresolved, or has something to tell.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.undelivered || self.state.is_in_flight() || self.state.is_unresolved()
    }
}

/// Which operations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationFilter {
    /// Of this agent.
    pub agent: Option<AgentName>,
    /// To this server.
    pub server: Option<ServerName>,
    /// In this state, as the operation object writes it.
    pub state: Option<String>,
    /// Older than this one.
    pub before: Option<OperationId>,
}

/// How many operations of a connection wait for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCount {
    /// Whose.
    pub agent: AgentName,
    /// To which server.
    pub server: ServerName,
    /// How many.
    pub count: u64,
}

/// Makes the name of an operation: in the order of time, and not to be guessed.
///
/// # Errors
/// When the operating system gives no random bytes.
pub fn make_operation_id(now: Wall) -> Result<OperationId, Error> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes)?;
    let at = u64::try_from(now.0).unwrap_or_default();
    let id = Ulid::from_parts(at, u128::from_be_bytes(bytes));
    Ok(OperationId::from(format!("op_{id}").as_str()))
}

/// The ledger. Operations outlive their agents and servers.
#[async_trait]
pub trait Operations: Send + Sync + fmt::Debug {
    /// Records a new operation with its first facts. Loses where its key belongs to another one that may have had
    /// an effect.
    async fn intend(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error>;
    /// Appends facts and writes what they fold to, in place of its `version`. Loses where another version is there.
    /// What was meant never changes: only state, `undelivered`, `driver`, `leg_hash`, `wake_at`, `changed_at` and `result`.
    async fn advance(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error>;
    /// The same for what need not be kept when the power is lost right after, since whoever finds the operation then
    /// concludes the same or less from what is there: it survives a kill of the process, and costs no sync.
    async fn advance_lazily(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error>;
    /// The agents of these have their answers: nothing is left to tell, and nobody drives them any more. One that is not
    /// of this version any more stays as it is. As lazily as [`Operations::advance_lazily`], and without a fact: it is
    /// what everybody expects.
    async fn answers_given(&self, operations: &[(OperationId, Version)]) -> Result<(), Error>;
    /// An operation.
    async fn operation(&self, id: &OperationId) -> Result<Option<OperationRecord>, Error>;
    /// What is on record about it, the oldest first.
    async fn operation_facts(&self, id: &OperationId) -> Result<Vec<Fact>, Error>;
    /// Operations that an identical call must look at, and those with its key, the newest first.
    async fn similar_operations(
        &self,
        agent: &AgentName,
        server: &ServerName,
        call_digest: &Digest,
        key_hash: Option<&Digest>,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error>;
    /// The operation whose next leg continues with this `requestState`.
    async fn operation_of_leg(&self, leg_hash: &Digest) -> Result<Option<OperationRecord>, Error>;
    /// Operations, the newest first.
    async fn operations(
        &self,
        filter: &OperationFilter,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error>;
    /// Operations whose `wake_at` has come, those that wait longest first.
    async fn due_operations(&self, now: Wall, limit: usize) -> Result<Vec<OperationId>, Error>;
    /// The earliest `wake_at` of all.
    async fn next_operation_wake(&self) -> Result<Option<Wall>, Error>;
    /// The daemons that are at work on operations, as they name themselves.
    async fn operation_drivers(&self) -> Result<Vec<String>, Error>;
    /// The operations that a daemon is at work on.
    async fn driven_operations(
        &self,
        driver: &str,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error>;
    /// How many wait for a person, per connection.
    async fn held_operations(&self) -> Result<Vec<HeldCount>, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_time_and_differ() {
        let first = make_operation_id(Wall(1_700_000_000_000)).unwrap();
        let same_time = make_operation_id(Wall(1_700_000_000_000)).unwrap();
        let later = make_operation_id(Wall(1_700_000_000_001)).unwrap();
        assert_eq!(first.as_str().len(), "op_".len() + 26);
        assert!(first.as_str().starts_with("op_01H"));
        assert_ne!(first, same_time);
        assert!(first < later && same_time < later);
    }
}
