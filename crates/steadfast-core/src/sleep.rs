//! Whether the machine slept, or the process was stopped: told from two looks at the clocks. It is one
//! event for all connections, not one surprise for each (OP-01). And whether somebody set the wall clock back meanwhile.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::now::{Millis, Now, Wall};

/// A sleep that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slept {
    /// When we were last seen awake.
    pub from: Wall,
    /// When we noticed.
    pub to: Wall,
    /// How long it was, whatever was done to the wall clock meanwhile.
    pub length: Millis,
}

impl Slept {
    /// Whether this moment passed unseen.
    #[must_use]
    pub const fn covers(&self, at: Wall) -> bool {
        self.from.0 < at.0 && at.0 <= self.to.0
    }
}

impl fmt::Display for Slept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asleep from {} to {}", self.from, self.to)
    }
}

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A pause longer than this was a sleep. A busy machine is late too, but not by so much.
    pub longer_than: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            longer_than: Millis::secs(10),
        }
    }
}

impl Policy {
    /// How often to look at the clocks.
    #[must_use]
    pub const fn every(&self) -> Millis {
        Millis(self.longer_than.0 / 5)
    }
}

/// Compares this look at the clocks with the one before.
#[must_use]
pub fn slept(before: Now, now: Now, policy: &Policy) -> Option<Slept> {
    let length = now.mono.since(before.mono);
    (length > policy.longer_than).then_some(Slept {
        from: before.wall,
        to: now.wall,
        length,
    })
}

/// A clock that is corrected by less than this is slewed, or is as good as right.
const CORRECTED: Millis = Millis::secs(1);

/// How far the wall clock was set back between two looks. One that was set ahead tells of time that passed: also a
/// machine that was paused as a whole wakes up like that.
#[must_use]
pub fn set_back(before: Now, now: Now) -> Option<Millis> {
    let passed = now.mono.since(before.mono);
    let expected = before.wall.0.saturating_add_unsigned(passed.0);
    let by = Millis(expected.saturating_sub(now.wall.0).max(0).unsigned_abs());
    (by >= CORRECTED).then_some(by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::Mono;

    fn at(seconds: u64) -> Now {
        Now {
            mono: Mono(seconds * 1_000),
            wall: Wall(1_700_000_000_000 + seconds as i64 * 1_000),
        }
    }

    #[test]
    fn a_late_look_is_no_sleep_and_a_long_pause_is_one() {
        let policy = Policy::default();
        assert_eq!(policy.every(), Millis::secs(2));
        for (pause, is_sleep) in [(0, false), (2, false), (10, false), (11, true), (600, true)] {
            let seen = slept(at(100), at(100 + pause), &policy);
            assert_eq!(seen.is_some(), is_sleep, "{pause} s");
        }
        assert_eq!(
            slept(at(100), at(700), &policy),
            Some(Slept {
                from: at(100).wall,
                to: at(700).wall,
                length: Millis::mins(10),
            })
        );
    }

    #[test]
    fn a_wall_clock_that_is_set_is_no_sleep() {
        let set = Now {
            wall: Wall(0),
            ..at(101)
        };
        assert_eq!(slept(at(100), set, &Policy::default()), None);
    }

    #[test]
    fn only_a_clock_that_goes_back_was_set_back() {
        let told = |seconds: i64| Now {
            wall: Wall(at(101).wall.0 + seconds * 1_000),
            ..at(101)
        };
        assert_eq!(set_back(at(100), told(-3_600)), Some(Millis::mins(60)));
        assert_eq!(set_back(at(100), told(-1)), Some(Millis::secs(1)));
        for right in [told(0), told(3_600), at(100), at(700)] {
            assert_eq!(set_back(at(100), right), None, "{right:?}");
        }
    }

    #[test]
    fn what_passed_unseen_is_told_in_words() {
        let slept = slept(at(100), at(700), &Policy::default()).unwrap();
        for (seconds, is_covered) in [(100, false), (101, true), (700, true), (701, false)] {
            assert_eq!(slept.covers(at(seconds).wall), is_covered, "{seconds}");
        }
        assert_eq!(
            slept.to_string(),
            "asleep from 2023-11-14T22:15:00.000Z to 2023-11-14T22:25:00.000Z"
        );
    }
}
