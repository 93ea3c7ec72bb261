//! The only place where the keeper reads a clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use steadfast_core::now::{Jitter, Mono, Now, Wall};

/// Both clocks. The first also runs while the machine sleeps, so that a laptop that wakes finds its
/// delays over.
#[must_use]
pub fn now() -> Now {
    Now {
        mono: mono(),
        wall: wall(),
    }
}

/// Milliseconds since the machine started, sleep included.
#[must_use]
pub fn mono() -> Mono {
    let time = clock_gettime(ClockId::Boottime);
    Mono(time.tv_sec.unsigned_abs() * 1_000 + time.tv_nsec.unsigned_abs() / 1_000_000)
}

/// Milliseconds since 1970.
#[must_use]
pub fn wall() -> Wall {
    let time = clock_gettime(ClockId::Realtime);
    Wall(time.tv_sec * 1_000 + time.tv_nsec / 1_000_000)
}

/// A fresh random number for a machine's step.
#[must_use]
pub fn jitter() -> Jitter {
    Jitter(getrandom::u32().unwrap_or(u32::MAX / 2))
}

/// The longest single wait: the runtime's timers stand still while the machine sleeps, so a long one
/// looks at the clock again this often. (Drivers are told of a sleep and look at once.)
const SLICE: Duration = Duration::from_secs(30);

/// Waits until `due`; for ever where there is none.
pub(crate) async fn wait_until(due: Option<Mono>) {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    loop {
        let left = due.since(mono()).duration();
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(SLICE)).await;
    }
}
