//! Watches for sleep of the machine, or of this process.

use std::sync::Weak;
use std::time::Duration;

use crate::grants::Grants;

/// Looks at the clocks often enough to tell a sleep from a busy machine, until the grants are no more.
pub(crate) async fn watch(grants: Weak<Grants>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        match grants.upgrade() {
            Some(grants) => grants.look_at_clocks(),
            None => return,
        };
    }
}
