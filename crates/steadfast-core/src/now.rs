//! Time as a value. Delays use [`Mono`], `expires_at` uses [`Wall`]; nothing here reads a clock.

use std::fmt;
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

impl Wall {
    /// How long it is from `now` until then; nothing where that has passed.
    #[must_use]
    pub const fn until(self, now: Self) -> Millis {
        let left = self.0.saturating_sub(now.0);
        Millis(if left > 0 { left.unsigned_abs() } else { 0 })
    }
}

/// RFC 3339 in UTC, to the millisecond; years that it cannot write are the nearest that it can.
impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FIRST: i64 = -62_167_219_200_000;
        const LAST: i64 = 253_402_300_799_999;
        const DAY: i64 = 86_400_000;
        let millis = self.0.clamp(FIRST, LAST);
        let (year, month, day) = date(millis.div_euclid(DAY));
        let time = millis.rem_euclid(DAY);
        let (hour, minute) = (time / 3_600_000, time / 60_000 % 60);
        let (second, milli) = (time / 1_000 % 60, time % 1_000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
        )
    }
}

/// Year, month and day of the Gregorian calendar, so many days after 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    // Counted in years that begin in March, so that a leap day is the last one, from a March that begins 400 of them.
    const TO_MARCH_OF_YEAR_0: i64 = 719_468;
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days + TO_MARCH_OF_YEAR_0;
    let (cycle, in_cycle) = (
        days.div_euclid(DAYS_OF_400_YEARS),
        days.rem_euclid(DAYS_OF_400_YEARS),
    );
    let begins = |year: i64| 365 * year + year / 4 - year / 100;
    // Never too small, and too large by one at most: 97 leap days are less than a year.
    let mut year = (in_cycle / 365).min(399);
    if begins(year) > in_cycle {
        year -= 1;
    }
    let in_year = in_cycle - begins(year);
    // The months from March on have 31, 30, 31, 30 and 31 days, and begin anew after five.
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year, month + 3)
    } else {
        (year + 1, month - 9)
    };
    (400 * cycle + year, month, day)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_and_programs_read_them() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_001, "2000-03-01T00:00:00.001Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Wall(millis).to_string(), text);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = date(-800_000);
        for days in -799_999..800_000 {
            let (year, month, day) = date(days);
            let follows = if day > 1 {
                (year, month, day - 1) == before
            } else if month > 1 {
                (year, month - 1) == (before.0, before.1) && before.2 >= 28
            } else {
                (before.0 + 1, before.1, before.2) == (year, 12, 31)
            };
            assert!(follows, "{before:?} {:?}", (year, month, day));
            before = (year, month, day);
        }
    }
}
