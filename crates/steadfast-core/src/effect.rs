//! Whether a request can change anything at the provider.

use serde::{Deserialize, Serialize};

/// What a call may do. `tools/call` is a write unless the operator says otherwise
/// (architecture, writes 13); a server's own annotations are only hints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Repeating it is harmless; a repeat is a new observation.
    Read,
    /// It may change something; it is never repeated by itself.
    #[default]
    Write,
}

impl Effect {
    /// The effect of a request by its method, before any tool policy: everything but `tools/call`
    /// only reads. An unknown method counts as a write: we cannot know.
    #[must_use]
    pub fn of_method(method: &str) -> Self {
        match method {
            "initialize"
            | "ping"
            | "server/discover"
            | "tools/list"
            | "prompts/list"
            | "prompts/get"
            | "resources/list"
            | "resources/read"
            | "resources/templates/list"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "completion/complete"
            | "logging/setLevel"
            | "subscriptions/listen"
            | "tasks/get"
            | "tasks/list"
            | "tasks/result" => Self::Read,
            _ => Self::Write,
        }
    }
}

/// Whether a request reached the tool, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executed {
    /// Proven not: no body byte left, or the peer refused before executing (architecture, writes 12).
    No,
    /// Anything else that was not observed.
    Unknown,
    /// An answer was observed.
    Yes,
}
