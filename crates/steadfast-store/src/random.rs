//! The system's random numbers.

use crate::error::{Error, Problem};

/// Fills a buffer.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| {
        let place = "the system's random numbers";
        Error::new(Problem::Io, place, error.to_string())
    })
}
