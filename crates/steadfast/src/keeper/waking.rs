//! After a sleep: what is due is renewed first, and then everything that was connected comes back.

use std::sync::{Arc, Weak};

use tokio::sync::mpsc;

use super::Inner;
use crate::drive::Input;
use crate::grants::Woke;
use crate::link::Link;

/// Tells of each sleep.
pub(super) async fn follow(keeper: Weak<Inner>, mut woken: mpsc::UnboundedReceiver<Woke>) {
    while let Some(woke) = woken.recv().await {
        match keeper.upgrade() {
            Some(inner) => inner.woke(&woke),
            None => return,
        }
    }
}

impl Inner {
    /// One event for all links, however many there are (OP-01).
    fn woke(&self, woke: &Woke) {
        tracing::info!(slept_ms = woke.slept.length.0, "the machine slept");
        let mut links: Vec<Arc<Link>> = {
            let kept = self.links.read();
            kept.values().map(|kept| Arc::clone(&kept.link)).collect()
        };
        let isolated = self.isolated.lock();
        links.extend(isolated.iter().filter_map(Weak::upgrade));
        drop(isolated);
        for link in links {
            let woke = Input::Woke {
                slept: woke.slept,
                missed: woke.missed.contains(link.credential.owner()),
            };
            if link.credential.held().is_overdue() {
                // An authorization server that does not answer delays nobody for longer than a server may.
                let limit = self.settings.retry.connect_timeout.duration();
                tokio::spawn(async move {
                    link.credential.caught_up(limit).await;
                    link.tell(woke);
                });
            } else {
                link.tell(woke);
            }
        }
    }
}
