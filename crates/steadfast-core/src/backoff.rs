//! The delay before the next attempt: doubled after each failure, capped, and jittered so that many
//! machines do not come back in lock step (OP-02).

use crate::now::{Jitter, Millis};

/// The delay after `tries` failures in a row (1 for the first): between half of the doubled step and
/// all of it, so that a server that is back is found within one step.
#[must_use]
pub fn delay(first: Millis, max: Millis, tries: u32, jitter: Jitter) -> Millis {
    let doublings = tries.saturating_sub(1).min(32);
    let step = Millis(first.0.saturating_mul(1 << doublings).min(max.0));
    let half = Millis(step.0 / 2);
    Millis(step.0 - half.0 + jitter.of(half).0)
}
