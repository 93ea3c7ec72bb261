//! What changed while clients were watching: told to `subscriptions/listen` streams from 2026-07-28 on, and to every
//! open session before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{
    PromptListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerNotification, ToolListChangedNotification,
};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::broadcast;

use crate::content::WATCHED_RESOURCE;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Tools,
    Prompts,
    WatchedResource,
}

impl Change {
    fn notification(self) -> ServerNotification {
        match self {
            Self::Tools => ServerNotification::ToolListChangedNotification(
                ToolListChangedNotification::default(),
            ),
            Self::Prompts => ServerNotification::PromptListChangedNotification(
                PromptListChangedNotification::default(),
            ),
            Self::WatchedResource => {
                ServerNotification::ResourceUpdatedNotification(ResourceUpdatedNotification::new(
                    ResourceUpdatedNotificationParam::new(WATCHED_RESOURCE),
                ))
            }
        }
    }
}

/// How far a slow watcher may fall behind before it misses changes.
const BACKLOG: usize = 64;

#[derive(Debug)]
pub(crate) struct Changes {
    sender: broadcast::Sender<Change>,
    tools: AtomicU64,
    prompts: AtomicU64,
    watched: AtomicU64,
}

impl Changes {
    pub(crate) fn new() -> Self {
        Self {
            sender: broadcast::channel(BACKLOG).0,
            tools: AtomicU64::new(0),
            prompts: AtomicU64::new(0),
            watched: AtomicU64::new(0),
        }
    }

    fn counter(&self, change: Change) -> &AtomicU64 {
        match change {
            Change::Tools => &self.tools,
            Change::Prompts => &self.prompts,
            Change::WatchedResource => &self.watched,
        }
    }

    /// How often this has changed.
    pub(crate) fn count(&self, change: Change) -> u64 {
        self.counter(change).load(Ordering::SeqCst)
    }

    pub(crate) fn announce(&self, change: Change) {
        self.counter(change).fetch_add(1, Ordering::SeqCst);
        // An error only says that nobody is watching.
        let _ = self.sender.send(change);
    }

    /// Tells a `subscriptions/listen` stream until its client goes; the sink drops what was not asked for.
    pub(crate) async fn follow(&self, subscription: &SubscriptionContext) {
        let mut changes = self.sender.subscribe();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return,
                change = next(&mut changes) => {
                    let Some(change) = change else { return };
                    let _ = subscription.sink().send(change.notification()).await;
                }
            }
        }
    }

    /// Tells one session of an earlier revision until it ends.
    pub(crate) fn tell(&self, peer: Peer<RoleServer>, subscriptions: Arc<Mutex<BTreeSet<String>>>) {
        let mut changes = self.sender.subscribe();
        tokio::spawn(async move {
            while let Some(change) = next(&mut changes).await {
                if matches!(change, Change::WatchedResource)
                    && !subscriptions.lock().contains(WATCHED_RESOURCE)
                {
                    continue;
                }
                if peer.send_notification(change.notification()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The next change; a watcher that fell behind goes on with the oldest that is left.
async fn next(changes: &mut broadcast::Receiver<Change>) -> Option<Change> {
    loop {
        match changes.recv().await {
            Ok(change) => return Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
