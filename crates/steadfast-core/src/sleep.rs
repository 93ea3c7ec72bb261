//! Whether the machine slept, or the process was stopped: told from two looks at the clocks. It is one
//! event for all connections, not one surprise for each (OP-01).

use crate::now::{Millis, Now, Wall};

/// A sleep that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slept {
    /// When we were last seen awake.
    pub from: Wall,
    /// When we noticed.
    pub to: Wall,
    /// How long it was, whatever was done to the wall clock meanwhile.
    pub length: Millis,
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
}
