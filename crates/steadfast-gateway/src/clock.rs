//! The wall clock, for records. Delays use tokio's clock.

use steadfast_core::Wall;

/// Now.
pub(crate) fn wall() -> Wall {
    Wall(jiff::Timestamp::now().as_millisecond())
}
