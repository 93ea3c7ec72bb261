//! When a token is renewed. The window is capped to half of the lifetime, so that a token whose life is
//! shorter than the window is used for half of it instead of being renewed in a loop (EX-04).

use super::{Policy, Tokens};
use crate::now::{Jitter, Millis, Wall};

/// The lifetime that the answer meant.
#[must_use]
pub fn lifetime(tokens: &Tokens) -> Millis {
    Millis(
        tokens
            .expires_at
            .0
            .saturating_sub(tokens.issued_at.0)
            .max(0)
            .unsigned_abs(),
    )
}

/// How long ahead of its expiry a token is renewed.
#[must_use]
pub fn window(tokens: &Tokens, policy: &Policy) -> Millis {
    policy.window.min(Millis(lifetime(tokens).0 / 2))
}

/// When to renew: within the first tenth of the window, spread so that grants of one sign-in day do not
/// come back in lock step. Never before half of the lifetime has passed.
#[must_use]
pub fn renew_at(tokens: &Tokens, policy: &Policy, jitter: Jitter) -> Wall {
    let window = window(tokens, policy);
    let spread = jitter.of(Millis(window.0 / 10));
    let ahead = window.0 - spread.0;
    Wall(tokens.expires_at.0.saturating_sub_unsigned(ahead))
}

/// When an access token expires whose answer came at `issued_at`. What is omitted, zero, negative or no
/// number inherits nothing from the token before (EX-02).
#[must_use]
pub fn expires_at(issued_at: Wall, expires_in: Option<i64>, assumed: Millis) -> Wall {
    let lifetime = expires_in
        .filter(|seconds| *seconds > 0)
        .map_or(assumed, |seconds| {
            Millis::secs(seconds.unsigned_abs().min(MAX_LIFETIME_S))
        });
    Wall(issued_at.0.saturating_add_unsigned(lifetime.0))
}

/// A longer lifetime is a mistake, or a number that overflows: ten years.
const MAX_LIFETIME_S: u64 = 10 * 365 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::GrantGeneration;

    fn tokens(lifetime: i64) -> Tokens {
        Tokens {
            generation: GrantGeneration(1),
            issued_at: Wall(1_000),
            expires_at: Wall(1_000 + lifetime),
            renewable: true,
            scopes: Vec::new(),
        }
    }

    #[test]
    fn a_long_lived_token_is_renewed_about_twenty_minutes_ahead() {
        let hour = tokens(3_600_000);
        let at = |jitter| renew_at(&hour, &Policy::default(), Jitter(jitter)).0 - 1_000;
        assert_eq!(at(0), 2_400_000);
        assert_eq!(at(u32::MAX), 2_400_000 + 119_999);
    }

    #[test]
    fn ex_04_a_short_lived_token_is_used_for_half_of_its_life() {
        for lifetime in [0, 1, 2, 30_000, 60_000, 1_200_000] {
            let short = tokens(lifetime);
            for jitter in [0, u32::MAX] {
                let used = renew_at(&short, &Policy::default(), Jitter(jitter)).0 - 1_000;
                assert!(used >= lifetime / 2, "{lifetime}: {used}");
                assert!(used <= lifetime);
            }
        }
    }

    #[test]
    fn ex_02_an_omitted_or_odd_lifetime_is_the_assumed_one() {
        let at = |expires_in| expires_at(Wall(5), expires_in, Millis(7)).0;
        assert_eq!(at(Some(2)), 2_005);
        for odd in [None, Some(0), Some(-1), Some(i64::MIN)] {
            assert_eq!(at(odd), 12, "{odd:?}");
        }
        assert!(at(Some(i64::MAX)) > 0);
    }
}
