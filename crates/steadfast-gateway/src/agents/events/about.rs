//! What another daemon needs to know of a stream, to go on with it.

use serde::{Deserialize, Serialize};
use steadfast_core::{OperationId, ServerName, Wall};

use super::Priming;

/// A stream on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) priming: Priming,
    /// Whether it is the one that the session listens on.
    #[serde(default)]
    pub(crate) listening: bool,
    /// The calls whose answers it brings, but those that have been answered.
    #[serde(default)]
    pub(crate) calls: Vec<CallOnRecord>,
}

/// A call on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallOnRecord {
    /// The agent's id of it, as raw JSON.
    pub(crate) id: String,
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) tool: Option<String>,
    pub(crate) server: ServerName,
    pub(crate) begun_at: Wall,
    /// Once it is on record in the ledger.
    #[serde(default)]
    pub(crate) operation: Option<OperationId>,
}

impl About {
    /// Of the stream that a session listens on.
    pub(crate) fn listening(priming: Priming) -> Self {
        Self {
            priming,
            listening: true,
            calls: Vec::new(),
        }
    }

    /// Of the answer to some calls.
    pub(crate) fn answering(priming: Priming, calls: Vec<CallOnRecord>) -> Self {
        Self {
            priming,
            listening: false,
            calls,
        }
    }

    /// As it is stored.
    pub(super) fn to_json(&self) -> String {
        // Made of texts and numbers, which JSON has room for.
        serde_json::to_string(self).unwrap_or_default()
    }
}
