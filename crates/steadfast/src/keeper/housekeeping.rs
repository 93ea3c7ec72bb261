//! What is kept for a while only: notices that were cleared, sign-ins that nobody came back from, old history.

use std::sync::Weak;
use std::time::Duration;

use steadfast_core::{Millis, Wall};
use steadfast_store::{Error, SharedStore};

use crate::clock;
use crate::grants::Grants;

/// How often it is done.
const EVERY: Duration = Duration::from_secs(600);

/// How long a notice that was cleared can be read.
const CLEARED: Millis = Millis::mins(7 * 24 * 60);

/// How many transitions of each connection can be read.
const HISTORY: usize = 1_000;

/// Runs until the grants are no more.
pub(super) async fn run(grants: Weak<Grants>, store: SharedStore) {
    loop {
        let Some(grants) = grants.upgrade() else {
            return;
        };
        if let Err(error) = tidy(&grants, &store, clock::wall()).await {
            tracing::warn!(%error, "what is not needed any more cannot be forgotten");
        }
        drop(grants);
        tokio::time::sleep(EVERY).await;
    }
}

async fn tidy(grants: &Grants, store: &SharedStore, now: Wall) -> Result<(), Error> {
    let before = Wall(now.0.saturating_sub_unsigned(CLEARED.0));
    let notices = store.remove_cleared_notices(before).await?;
    let sign_ins = grants.end_sign_ins(now).await?;
    let transitions = store.trim_history(HISTORY).await?;
    tracing::debug!(notices, sign_ins, transitions, "forgotten");
    Ok(())
}
