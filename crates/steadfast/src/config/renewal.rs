//! `[renewal]`.

use serde::{Deserialize, Serialize};
use steadfast_core::grant;

use super::Span;

/// `[renewal]`: when grants are renewed, and what a failed renewal leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Renewal {
    /// How long ahead of expiry; capped to half of the lifetime.
    pub window: Span,
    /// The lifetime where an answer omits `expires_in`.
    pub assumed_lifetime: Span,
    /// How often the clock is looked at.
    pub check_every: Span,
    /// How many renewals at a time at one issuer.
    pub per_issuer_concurrency: u32,
    /// The first delay after a temporary failure.
    pub retry_first: Span,
    /// The longest.
    pub retry_max: Span,
    /// How many spaced structured refusals other than `invalid_grant` make a grant refused.
    pub refused_after: u32,
    /// One more try after a refusal that came while the access token was good.
    pub recheck_at_expiry: bool,
    /// Further spaced tries of a refused token.
    pub probes: u32,
    /// How far apart.
    pub probe_every: Span,
    /// So many fresh tokens refused in a row make a dead grant …
    pub fresh_token_refusals: u32,
    /// … where fresh means issued so recently.
    pub fresh_token_window: Span,
    /// How long a dead daemon's lease is honoured.
    pub lease: Span,
}

impl Default for Renewal {
    fn default() -> Self {
        Self {
            window: Span::mins(20),
            assumed_lifetime: Span::hours(1),
            check_every: Span::secs(30),
            per_issuer_concurrency: 4,
            retry_first: Span::secs(5),
            retry_max: Span::mins(5),
            refused_after: 3,
            recheck_at_expiry: true,
            probes: 0,
            probe_every: Span::mins(10),
            fresh_token_refusals: 2,
            fresh_token_window: Span::secs(60),
            lease: Span::secs(30),
        }
    }
}

impl Renewal {
    /// For the grant machine.
    #[must_use]
    pub fn policy(&self) -> grant::Policy {
        grant::Policy {
            window: self.window.0,
            retry_first: self.retry_first.0,
            retry_max: self.retry_max.0,
            refused_after: self.refused_after,
            recheck_at_expiry: self.recheck_at_expiry,
            probes: self.probes,
            probe_every: self.probe_every.0,
            fresh_token_refusals: self.fresh_token_refusals,
            fresh_token_window: self.fresh_token_window.0,
            // Whoever holds the lease for longer may find that another daemon has taken over.
            attempt_limit: self.lease.0,
        }
    }
}
