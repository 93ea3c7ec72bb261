//! `[sign_in]`.

use serde::{Deserialize, Serialize};

use super::Span;

/// `[sign_in]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SignIn {
    /// How long a person may take.
    pub attempt_lifetime: Span,
}

impl Default for SignIn {
    fn default() -> Self {
        Self {
            attempt_lifetime: Span::mins(10),
        }
    }
}
