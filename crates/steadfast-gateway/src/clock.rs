//! The wall clock, for records; the other one, for what is good for a while. Delays use tokio's clock.

use steadfast_core::{Mono, Wall};

/// Now, on the clock that nobody sets.
pub(crate) fn mono() -> Mono {
    steadfast::clock::mono()
}

/// Now, for people.
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Now.
pub(crate) fn wall() -> Wall {
    Wall(jiff::Timestamp::now().as_millisecond())
}
