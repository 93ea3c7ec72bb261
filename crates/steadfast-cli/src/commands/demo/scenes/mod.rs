//! The scenes, in the order in which they are played.

mod eras;
mod outages;
mod sessions;
mod streams;
mod writes;

use super::scene::Scene;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Scene> {
    [
        sessions::SCENES,
        streams::SCENES,
        writes::SCENES,
        outages::SCENES,
        eras::SCENES,
    ]
    .into_iter()
    .flatten()
}
