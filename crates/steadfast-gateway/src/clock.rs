//! The wall clock, for records. Delays use tokio's clock.

use steadfast_core::Wall;

/// Now, for people.
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Now.
pub(crate) fn wall() -> Wall {
    Wall(jiff::Timestamp::now().as_millisecond())
}
