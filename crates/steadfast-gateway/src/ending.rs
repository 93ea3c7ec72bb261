//! Whether the gateway has begun to end, for all who take part in it.

use std::sync::Arc;

use tokio::sync::watch;

/// Set once, by whoever ends the gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Ending(Arc<watch::Sender<bool>>);

impl Default for Ending {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Ending {
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_ending(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it begins.
    pub(crate) async fn begun(&self) {
        // The sender is in `self`: it cannot go while this waits.
        let _ = self.0.subscribe().wait_for(|ending| *ending).await;
    }
}
