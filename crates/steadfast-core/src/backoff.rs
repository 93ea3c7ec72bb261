//! The delay before the next attempt: doubled after each failure, capped, and jittered so that many
//! machines do not come back in lock step (OP-02).

use crate::now::{Jitter, Millis};

/// The longest `Retry-After` that is honoured. A longer one, a mistake more often than not, counts as
/// this: one attempt per hour burdens nobody, and a connection is not lost for a year over a typing error.
pub const MAX_RETRY_AFTER: Millis = Millis::mins(60);

/// The delay after `tries` failures in a row (1 for the first): between half of the doubled step and
/// all of it, so that a server that is back is found within one step. Never zero, whatever is
/// configured: nothing may become a hot loop.
#[must_use]
pub fn delay(first: Millis, max: Millis, tries: u32, jitter: Jitter) -> Millis {
    let step = doubled(first, max, tries);
    let half = Millis(step.0 / 2);
    Millis(step.0 - half.0 + jitter.of(half).0)
}

/// `first`, doubled for each of the `tries` after the first one, capped at `max`; at least 1 ms.
#[must_use]
pub fn doubled(first: Millis, max: Millis, tries: u32) -> Millis {
    let doublings = tries.saturating_sub(1).min(32);
    let step = first.0.max(1).saturating_mul(1 << doublings);
    Millis(step.min(max.0.max(1)))
}

/// `delay`, but not less than what the peer asked for (RFC 9110 section 10.2.3, Retry-After). Peers
/// tell many clients the same, so what they asked for is spread over `spread`, always later.
#[must_use]
pub fn honour(delay: Millis, asked: Option<Millis>, spread: Millis, jitter: Jitter) -> Millis {
    asked.map_or(delay, |asked| {
        let asked = asked.min(MAX_RETRY_AFTER);
        delay.max(Millis(asked.0.saturating_add(jitter.of(spread).0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Jitter = Jitter(0);
    const MOST: Jitter = Jitter(u32::MAX);

    #[test]
    fn the_step_doubles_up_to_the_cap_and_is_found_within_its_second_half() {
        let (first, max) = (Millis(100), Millis(1_000));
        let range = |tries| {
            (
                delay(first, max, tries, LEAST).0,
                delay(first, max, tries, MOST).0,
            )
        };
        assert_eq!(range(1), (50, 99));
        assert_eq!(range(2), (100, 199));
        assert_eq!(range(4), (400, 799));
        assert_eq!(range(5), (500, 999));
        assert_eq!(range(u32::MAX), (500, 999));
    }

    #[test]
    fn no_configuration_makes_a_delay_of_zero() {
        for first in [Millis::ZERO, Millis(1), Millis(u64::MAX)] {
            for max in [Millis::ZERO, Millis(1), Millis(u64::MAX)] {
                for tries in [0, 1, 7, u32::MAX] {
                    assert!(delay(first, max, tries, LEAST) > Millis::ZERO);
                }
            }
        }
    }

    #[test]
    fn what_the_peer_asked_for_is_a_lower_bound_up_to_a_limit() {
        let honour = |asked| honour(Millis(10), asked, Millis(100), MOST);
        assert_eq!(honour(None), Millis(10));
        assert_eq!(honour(Some(Millis(1))), Millis(100));
        assert_eq!(honour(Some(Millis(500))), Millis(599));
        assert_eq!(
            honour(Some(Millis(u64::MAX))),
            Millis(MAX_RETRY_AFTER.0 + 99)
        );
    }
}
