//! Finds what is due, by the clock: also when nobody calls, and while servers are down (architecture, grants 2).

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use steadfast_core::grant::Event;
use tokio::task::JoinHandle;

use super::Grants;
use crate::clock;

/// How many grants are taken up at a time; the next ones follow as soon as these have their turn.
const AT_ONCE: usize = 256;
/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause where what is due is not for us: another daemon is at it, or its server is switched off.
const OTHERS: Duration = Duration::from_secs(1);

/// Starts the supervisor. It ends with the grants.
pub(crate) fn start(grants: &Arc<Grants>) -> JoinHandle<()> {
    tokio::spawn(supervise(Arc::downgrade(grants)))
}

async fn supervise(grants: Weak<Grants>) {
    let mut caught_up = Instant::now();
    loop {
        let wait = match grants.upgrade() {
            Some(grants) => {
                if caught_up.elapsed() >= grants.settings.check_every.duration() {
                    grants.catch_up().await;
                    caught_up = Instant::now();
                }
                grants.take_up_what_is_due().await
            }
            None => return,
        };
        let Some(present) = grants.upgrade() else {
            return;
        };
        // No path leads past this: whatever went wrong, the clock is looked at again.
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = present.look.notified() => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Grants {
    /// Takes up what is due. How long until something will be, and no longer than the clock may be trusted for.
    async fn take_up_what_is_due(self: &Arc<Self>) -> Duration {
        self.look_at_clocks();
        self.follow_the_clock().await;
        let longest = self.settings.check_every.duration().max(PAUSE);
        let concurrency = self.settings.per_issuer_concurrency.max(1) as usize;
        let due = self
            .store
            .due_grants(
                &self.configured.enabled(),
                clock::wall(),
                concurrency * 4,
                AT_ONCE,
            )
            .await;
        let due = match due {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "grants that are due cannot be found");
                return longest;
            }
        };
        let mut stood = 0;
        for grant in &due {
            let owner = (grant.agent.clone(), grant.server.clone());
            // Nor is one renewed that is about to be given back.
            if self.in_line.lock().contains_key(&owner) || !self.configured.has(&owner) {
                stood += 1;
                continue;
            }
            self.tell(&owner, Event::Due).await;
        }
        if due.len() > stood {
            return PAUSE;
        }
        match self.store.next_wake().await {
            Ok(Some(at)) if due.is_empty() => {
                let left = at.0.saturating_sub(clock::wall().0).max(0).unsigned_abs();
                let shortest = if left == 0 { OTHERS } else { PAUSE };
                Duration::from_millis(left).clamp(shortest, longest.max(shortest))
            }
            Ok(Some(_) | None) => longest.min(Duration::from_secs(1)),
            Err(_) => longest,
        }
    }
}
