//! Time as a value. Delays use [`Mono`], `expires_at` uses [`Wall`]; nothing here reads a clock.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// A length of time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Whole seconds.
    #[must_use]
    pub const fn secs(seconds: u64) -> Self {
        Self(seconds * 1_000)
    }

    /// Whole minutes.
    #[must_use]
    pub const fn mins(minutes: u64) -> Self {
        Self::secs(minutes * 60)
    }

    /// As the standard library's type.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

/// Milliseconds on a clock that only moves forward and also runs while the machine sleeps
/// (CLOCK_BOOTTIME on Linux).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(pub u64);

impl Mono {
    /// How long ago `earlier` was; zero where it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Millis> for Mono {
    type Output = Self;
    fn add(self, delay: Millis) -> Self {
        Self(self.0.saturating_add(delay.0))
    }
}

impl Sub<Millis> for Mono {
    type Output = Self;
    fn sub(self, delay: Millis) -> Self {
        Self(self.0.saturating_sub(delay.0))
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z, as people and tokens count them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Wall(pub i64);

/// Both clocks, read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For delays.
    pub mono: Mono,
    /// For `expires_at` and for people.
    pub wall: Wall,
}

/// A number that the driver draws for each step, so that many machines do not move in lock step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter(pub u32);

impl Jitter {
    /// A share of `span` between nothing (inclusive) and all of it (exclusive).
    #[must_use]
    pub fn of(self, span: Millis) -> Millis {
        Millis(((u128::from(span.0) * u128::from(self.0)) >> 32) as u64)
    }
}
