//! `[sign_in]`.

use serde::{Deserialize, Serialize};
use steadfast_core::oauth::step_up;

use super::Span;

/// `[sign_in]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SignIn {
    /// How long a person may take.
    pub attempt_lifetime: Span,
    /// How often a person may be asked to sign in again for further scopes, for one connection, within …
    pub step_ups: u32,
    /// … this long.
    pub step_up_window: Span,
}

impl Default for SignIn {
    fn default() -> Self {
        Self {
            attempt_lifetime: Span::mins(10),
            step_ups: 5,
            step_up_window: Span::hours(1),
        }
    }
}

impl SignIn {
    /// The limits of step-ups.
    #[must_use]
    pub fn step_ups(&self) -> step_up::Policy {
        step_up::Policy {
            step_ups: self.step_ups,
            window: self.step_up_window.0,
        }
    }
}
