//! The operation object: what `_meta`, the admin API and `operations show` say of one consequential call.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::effect::Executed;
use steadfast_core::operation::{Evidence, Fact, State};
use steadfast_store::OperationRecord;

use crate::report::rfc3339;

/// One operation, as people and agents see it. What the call says is not in it, only its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationReport {
    /// `op_…`.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// `intended`, `sent`, `observed`, `not_observed`, `reconciling`, `confirmed`, `no_effect`, `held`, `abandoned`.
    pub state: String,
    /// Whether it ran, as far as it is known.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub executed: Executed,
    /// When it was recorded (RFC 3339).
    pub intended_at: String,
    /// When it last left; null where it never did.
    pub sent_at: Option<String>,
    /// When the last fact was appended.
    pub changed_at: String,
    /// How many bytes of the last attempt's body left.
    pub bytes_sent: u64,
    /// How often it was sent, or was about to be.
    pub attempts: u32,
    /// What happens next; null where nothing is planned, or only a person can act.
    pub next: Option<String>,
    /// When.
    pub next_at: Option<String>,
    /// Whether an identical call is held because of it.
    pub held: bool,
    /// Why nothing more can be found out, where that is so.
    pub why: Option<String>,
    /// Whether its outcome is known, and its agent was not told yet.
    pub undelivered: bool,
    /// SHA-256 of tool and arguments in their canonical form, in hexadecimal digits.
    pub arguments_digest: String,
}

/// Everything on record of one operation, for somebody who was not there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationDetails {
    /// The operation.
    #[serde(flatten)]
    pub operation: OperationReport,
    /// The RPC id of the last attempt, as the server knew it.
    pub rpc_id: Option<Value>,
    /// What was concluded last, and why.
    pub decision: Option<String>,
    /// What happened, the oldest first.
    pub evidence: Vec<EvidenceReport>,
    /// The contracts that were in force when the call was made.
    pub policy: Value,
    /// The server's response (`result` or `error` of it), where it is kept.
    pub result: Option<Value>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EvidenceReport {
    /// When (RFC 3339).
    pub at: String,
    /// What, with its own members.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub what: Value,
    /// The state that was entered.
    pub state: String,
    /// What was concluded, and why, in one clause.
    pub decision: String,
}

impl From<&OperationRecord> for OperationReport {
    fn from(record: &OperationRecord) -> Self {
        let trail = record.state.trail();
        Self {
            id: record.id.as_str().to_owned(),
            agent: record.agent.as_str().to_owned(),
            server: record.server.as_str().to_owned(),
            tool: record.tool.clone(),
            state: record.state.name().to_owned(),
            executed: record.state.executed(),
            intended_at: rfc3339(record.intended_at),
            sent_at: trail.last_sent.map(rfc3339),
            changed_at: rfc3339(record.changed_at),
            bytes_sent: trail.bytes_sent,
            attempts: trail.attempts,
            next: next(&record.state).map(str::to_owned),
            next_at: record.wake_at.map(rfc3339),
            held: record.state.is_unresolved(),
            why: match &record.state {
                State::Held { why, .. } => Some(why.clone()),
                State::Intended { .. }
                | State::Sent { .. }
                | State::Observed { .. }
                | State::NotObserved { .. }
                | State::Reconciling { .. }
                | State::Confirmed { .. }
                | State::NoEffect { .. }
                | State::Abandoned { .. } => None,
            },
            // While a daemon is giving it, its agent is there.
            undelivered: record.undelivered && record.driver.is_none(),
            arguments_digest: hex(&record.digest),
        }
    }
}

impl OperationDetails {
    /// Of a record, all that was appended to it, and its response.
    pub(super) fn new(record: &OperationRecord, facts: &[Fact], response: Option<&[u8]>) -> Self {
        let rpc_id = facts.iter().rev().find_map(|fact| match &fact.evidence {
            Evidence::Leaving { rpc_id, .. } => serde_json::from_str(rpc_id).ok(),
            _ => None,
        });
        Self {
            operation: OperationReport::from(record),
            rpc_id,
            decision: facts.last().map(|fact| fact.decision.clone()),
            evidence: facts.iter().map(EvidenceReport::from).collect(),
            policy: serde_json::to_value(&record.contract).unwrap_or_default(),
            result: response.and_then(outcome_of),
        }
    }
}

impl From<&Fact> for EvidenceReport {
    fn from(fact: &Fact) -> Self {
        Self {
            at: rfc3339(fact.at),
            what: serde_json::to_value(&fact.evidence).unwrap_or_default(),
            state: fact.state.name().to_owned(),
            decision: fact.decision.clone(),
        }
    }
}

/// What a response says, without the id that only its request knows.
fn outcome_of(response: &[u8]) -> Option<Value> {
    let mut response: Value = serde_json::from_slice(response).ok()?;
    let said = ["result", "error"].map(|key| response.get_mut(key).map(Value::take));
    said.into_iter().flatten().next()
}

/// What happens next by itself.
fn next(state: &State) -> Option<&'static str> {
    match state {
        State::NotObserved { .. } => Some("sending it once more with the same key"),
        State::Reconciling { trail, .. } if trail.task.is_some() => {
            Some("following its task at the server")
        }
        State::Reconciling { .. } => Some("looking it up at the provider"),
        State::NoEffect { repeat: true, .. } => Some("sending it again, as a person wants"),
        State::Intended { .. }
        | State::Sent { .. }
        | State::Observed { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => None,
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
