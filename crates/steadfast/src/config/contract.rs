//! What an operator has read in a provider's documentation, as it is written in the configuration of a tool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_core::operation::{Contract, KeyContract, LookupContract};

use super::{Span, Tool};

impl Tool {
    /// The contracts of a call that carries the provider's key, or none.
    #[must_use]
    pub fn contract(&self, has_key: bool) -> Contract {
        Contract {
            duplicate_key: self.duplicate_key.as_ref().map(|key| KeyContract {
                present: has_key,
                retention: key.retention.0,
                atomic: key.atomic,
                payload_bound: key.payload_bound,
                // Whatever else a key is scoped to, another account's calls might count.
                account_scoped: key.scope.as_deref() == Some("account"),
                propagated: key.propagated,
            }),
            lookup: self.lookup.as_ref().map(Lookup::contract),
        }
    }
}

impl Lookup {
    /// For the core.
    #[must_use]
    pub fn contract(&self) -> LookupContract {
        LookupContract {
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            accepted: self.accepted.clone(),
            must_equal: self.must_equal.clone(),
            absent_is_definitive: self.absent_is_definitive,
            settle_after: self.settle_after.unwrap_or_default().0,
        }
    }
}

/// That a server's `idempotencyKey` parameter is used, where the server advertises it (`tools.idempotency`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Idempotency {
    /// How long the server remembers a key.
    #[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^([0-9]+ ?(ms|s|m|h|d)|0)$"))]
    pub retention: Span,
}

impl Idempotency {
    /// What SEP-3182 promises: a key that is in use is refused, one that comes with other arguments too, and a call that
    /// was answered is answered again before its tool runs, so that nobody behind the server sees it twice.
    #[must_use]
    pub const fn contract(&self) -> KeyContract {
        KeyContract {
            present: true,
            retention: self.retention.0,
            atomic: true,
            payload_bound: true,
            account_scoped: true,
            propagated: true,
        }
    }
}

/// How the provider documents that a repeat is safe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DuplicateKey {
    /// Where the key stands in the arguments (JSONPath).
    pub argument: String,
    /// How long the provider remembers it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^([0-9]+ ?(ms|s|m|h|d)|0)$"))]
    pub retention: Span,
    /// What the key is scoped to.
    #[serde(default)]
    pub scope: Option<String>,
    /// Whether concurrent repeats are handled as one.
    #[serde(default)]
    pub atomic: bool,
    /// Whether the key is bound to the payload.
    #[serde(default)]
    pub payload_bound: bool,
    /// Whether the key reaches the provider that acts.
    #[serde(default)]
    pub propagated: bool,
    /// Whether we may make a key where the agent gave none.
    #[serde(default)]
    pub inject: bool,
}

/// How the original operation can be looked up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// A tool with `effect = "read"`.
    pub tool: String,
    /// Its arguments, from the record.
    #[serde(default)]
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// What selects the accepted record (JSONPath).
    pub accepted: String,
    /// What must be equal in it.
    #[serde(default)]
    pub must_equal: BTreeMap<String, String>,
    /// Whether the absence of a record proves that nothing happened …
    #[serde(default)]
    pub absent_is_definitive: bool,
    /// … and after how long.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^([0-9]+ ?(ms|s|m|h|d)|0)$"))]
    pub settle_after: Option<Span>,
}
