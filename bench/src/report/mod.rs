//! What was measured, for people.

mod ratios;
mod readme;
mod tables;

pub(crate) use self::ratios::{Ratios, ratios};
pub(crate) use self::readme::update as update_readme;
pub(crate) use self::tables::tables;
