//! The scenes, in the order in which they are played.

mod eras;
mod grants;
mod outages;
mod sessions;
mod settled;
mod streams;
mod writes;

use super::scene::Scene;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Scene> {
    [
        grants::RENEWALS,
        sessions::SCENES,
        streams::SCENES,
        settled::SCENES,
        writes::SCENES,
        outages::SCENES,
        eras::SCENES,
        grants::REFUSAL,
    ]
    .into_iter()
    .flatten()
}
