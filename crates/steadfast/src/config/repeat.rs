//! `[repeat]`.

use serde::{Deserialize, Serialize};
use steadfast_core::operation;

use super::Span;

/// `[repeat]`: when a call is suspected to be a repeat, and how the outcome of a lost one is found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repeat {
    /// An identical call this long after one still in flight is a possible repeat.
    pub suspicion: Span,
    /// The delay before a lost call is sent once more under a duplicate-prevention contract; doubled after each try.
    pub again_first: Span,
    /// How often it is sent once more by itself.
    pub again_limit: u32,
    /// The delay after the first lookup that proved nothing; doubled after each further one.
    pub lookup_first: Span,
    /// The longest delay between lookups.
    pub lookup_max: Span,
    /// How many lookups there are before a person is asked.
    pub lookup_tries: u32,
    /// How long one lookup may take.
    pub lookup_limit: Span,
}

impl Default for Repeat {
    fn default() -> Self {
        let policy = operation::Policy::default();
        Self {
            suspicion: Span::secs(10),
            again_first: Span(policy.again_first),
            again_limit: policy.again_limit,
            lookup_first: Span(policy.lookup_first),
            lookup_max: Span(policy.lookup_max),
            lookup_tries: policy.lookup_tries,
            lookup_limit: Span(policy.lookup_limit),
        }
    }
}

impl Repeat {
    /// For the machine of operations.
    #[must_use]
    pub const fn policy(&self) -> operation::Policy {
        operation::Policy {
            again_first: self.again_first.0,
            again_limit: self.again_limit,
            lookup_first: self.lookup_first.0,
            lookup_max: self.lookup_max.0,
            lookup_tries: self.lookup_tries,
            lookup_limit: self.lookup_limit.0,
        }
    }
}
