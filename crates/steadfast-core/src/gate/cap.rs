//! How often something may happen: so many times in a row, then once per interval. Who comes too soon
//! is given a time of its own, so that nobody has to ask twice and all come in the order in which they
//! asked.

use crate::now::{Millis, Mono};

/// A token bucket that also lends: it is enough to remember when it is full again. (The generic cell
/// rate algorithm, ITU-T I.371 annex A, with the theoretical arrival time as the only state.)
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cap {
    full_at: Mono,
}

impl Cap {
    /// Whether nothing was taken of late.
    pub(super) fn is_full(self, now: Mono) -> bool {
        self.full_at <= now
    }

    /// Takes one; when it may be used. A time that lies ahead is nobody else's.
    pub(super) fn take(&mut self, now: Mono, burst: u64, interval: Millis) -> Mono {
        let at = self.available_at(now, burst, interval);
        self.full_at = self.full_at.max(now) + interval;
        at
    }

    /// Takes one if there is one now.
    pub(super) fn take_if_left(&mut self, now: Mono, burst: u64, interval: Millis) {
        if self.available_at(now, burst, interval) == now {
            self.take(now, burst, interval);
        }
    }

    fn available_at(self, now: Mono, burst: u64, interval: Millis) -> Mono {
        let lent = Millis(interval.0.saturating_mul(burst.saturating_sub(1)));
        now.max(self.full_at - lent)
    }
}
