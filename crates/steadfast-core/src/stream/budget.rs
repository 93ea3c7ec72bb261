//! How often a stream may be asked for: whatever a server does, it is never a hot loop (ST-04).

use serde::{Deserialize, Serialize};

use crate::now::{Millis, Mono};

/// At most this many openings …
pub const BURST: usize = 8;
/// … within this long (ST-04: at most 10 in 3 s in all cases).
pub const BURST_WINDOW: Millis = Millis::secs(3);
/// Openings within an hour above which the stream counts as not offered until the recheck: one every
/// three seconds, so that a server that polls by closing (2025-11-25 transports) stays below it.
pub const HOURLY: u32 = 1_200;

/// The hour of [`HOURLY`].
pub(super) const HOUR: Millis = Millis::mins(60);

/// The openings of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// The last openings, oldest first: at most [`BURST`] within [`BURST_WINDOW`].
    pub openings: Vec<Mono>,
    /// When the present hour began, and the openings within it.
    pub hour: (Mono, u32),
}

/// Which limit is reached, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spent {
    /// [`BURST`].
    Burst(Mono),
    /// [`HOURLY`].
    Hour(Mono),
}

impl Budget {
    /// Whether the stream may not be asked for now.
    pub(super) fn spent(&mut self, now: Mono) -> Option<Spent> {
        self.openings.retain(|at| now.since(*at) < BURST_WINDOW);
        if now.since(self.hour.0) >= HOUR {
            self.hour = (now, 0);
        }
        if self.hour.1 >= HOURLY {
            return Some(Spent::Hour(self.hour.0 + HOUR));
        }
        let oldest = self.openings.first()?;
        (self.openings.len() >= BURST).then(|| Spent::Burst(*oldest + BURST_WINDOW))
    }

    /// The stream is asked for now.
    pub(super) fn take(&mut self, now: Mono) {
        self.openings.push(now);
        self.hour.1 += 1;
    }
}
