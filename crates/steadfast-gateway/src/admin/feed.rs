//! Changes as they are told to all who watch. Each is written once, however many there are: the pages of the console
//! are watchers, too. While nobody watches nothing is written at all.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use steadfast::{Change, Keeper, OperationReport};
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{NoticeRecord, SharedStore};
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::watch;

use super::State;
use super::grants::NoticeReport;
use crate::directory::Configured;
use crate::settings::ConfigFileStatus;

/// A watcher that is this far behind is let go, and begins anew.
const BEHIND: usize = 1_024;

/// What all watchers follow. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    /// While there are watchers.
    running: Arc<Mutex<Option<Sender<Bytes>>>>,
}

impl Feed {
    /// Every change from now on, as events. Ends where some of them were missed.
    pub(crate) fn follow(&self, state: &State) -> Receiver<Bytes> {
        let mut running = self.running.lock();
        if let Some(sender) = &*running {
            return sender.subscribe();
        }
        let sender = Sender::new(BEHIND);
        let receiver = sender.subscribe();
        *running = Some(sender.clone());
        // Subscribed before this returns: what changes from now on is among them.
        let sources = Sources::of(state);
        tokio::spawn(self.clone().run(sources, sender));
        receiver
    }

    /// Until nobody watches, or something was missed: then all watchers begin anew.
    async fn run(self, mut sources: Sources, sender: Sender<Bytes>) {
        while let Some(frame) = sources.next().await {
            if sender.send(frame).is_ok() {
                continue;
            }
            let mut running = self.running.lock();
            // Looked at again: somebody may have come meanwhile.
            if sender.receiver_count() == 0 {
                *running = None;
                return;
            }
        }
        *self.running.lock() = None;
    }
}

/// Where changes come from.
struct Sources {
    keeper: Keeper,
    store: SharedStore,
    connections: Receiver<Change>,
    operations: Receiver<Arc<OperationReport>>,
    notices: Receiver<(AgentName, ServerName)>,
    configuration: Receiver<Configured>,
    file: watch::Receiver<ConfigFileStatus>,
}

impl Sources {
    fn of(state: &State) -> Self {
        Self {
            keeper: state.keeper.clone(),
            store: Arc::clone(&state.store),
            connections: state.keeper.changes(),
            operations: state.keeper.operation_changes(),
            notices: state.keeper.notice_changes(),
            configuration: state.directory.changes(),
            file: state.settings.config_file.changes(),
        }
    }

    /// The next change; none where some were missed.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                change = self.connections.recv() => return Some(connection(&change.ok()?)),
                change = self.operations.recv() => return Some(frame("operation", &*change.ok()?)),
                change = self.configuration.recv() => {
                    return Some(frame("configuration", &change.ok()?));
                }
                change = self.file.changed() => {
                    change.ok()?;
                    let file = self.file.borrow_and_update().clone();
                    let told = json!({"kind": "file", "name": file.source, "change": "put", "error": file.error});
                    return Some(frame("configuration", &told));
                }
                owner = self.notices.recv() => {
                    let (agent, server) = owner.ok()?;
                    // It may be gone again by now; then its connection is, too, which is told.
                    if let Some(frame) = self.notice(&agent, &server).await {
                        return Some(frame);
                    }
                }
            }
        }
    }

    async fn notice(&self, agent: &AgentName, server: &ServerName) -> Option<Bytes> {
        let notices = match self.store.notices().await {
            Ok(notices) => notices,
            Err(error) => {
                tracing::warn!(%error, "a notice cannot be told");
                return None;
            }
        };
        let mut notices = notices.iter();
        let found = notices.find(|it| it.agent == *agent && it.server == *server)?;
        Some(notice(&self.keeper, found))
    }
}

fn connection(change: &Change) -> Bytes {
    match change {
        Change::Connection(report) => frame("connection", &**report),
        Change::Removed(agent, server) => {
            let gone = json!({"agent": agent.as_str(), "server": server.as_str()});
            frame("removed", &gone)
        }
    }
}

/// A notice as an event.
pub(super) fn notice(keeper: &Keeper, notice: &NoticeRecord) -> Bytes {
    let link = keeper.notice_link(notice);
    frame("notice", &NoticeReport::new(notice, link))
}

/// One server-sent event. JSON has no line breaks of its own.
pub(super) fn frame(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {event}\ndata: {data}\n\n").into()
}
