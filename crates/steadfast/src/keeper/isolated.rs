//! Connections of one conversation's own (`isolate_sessions`): what a server keeps in a session is then
//! the conversation's alone, and what it says on its own stream names whose it is.

use std::sync::Arc;

use steadfast_core::bridge::Client;
use steadfast_store::IdHash;
use tokio::sync::{mpsc, oneshot};

use super::Keeper;
use crate::catalog::Catalog;
use crate::drive::{self, Input};
use crate::link::{Link, Phase, Private};

/// A connection of a conversation's own. Dropping it ends it, and its session at the server.
#[derive(Debug)]
pub struct Isolated(Arc<Link>);

impl Isolated {
    /// The connection.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.0
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        self.0.tell(Input::Stop(done));
    }
}

impl Keeper {
    /// Opens a connection for one conversation of the agent of `shared`, with what that conversation's
    /// client declared. `None` where conversations share theirs ([`Link::isolates`]), and while the keeper
    /// stops.
    ///
    /// It is in no list and in no history, and nothing of it is kept on record: after a restart the
    /// conversation gets a new session, as after any loss of one.
    pub fn isolated(
        &self,
        shared: &Link,
        conversation: IdHash,
        client: Arc<Client>,
    ) -> Option<Isolated> {
        let inner = &self.inner;
        if !shared.isolates() || inner.shared.is_stopping() {
            return None;
        }
        let server = inner
            .configured
            .servers
            .lock()
            .get(&shared.server)
            .cloned()?;
        let (inbox, input) = mpsc::unbounded_channel();
        let link = Link::new(
            shared.credential.clone(),
            inbox,
            Arc::clone(&inner.listener),
            inner.changes.clone(),
            Arc::clone(&inner.ids),
            Arc::clone(&inner.ledger),
            Catalog::new(inner.settings.catalog.policy(), server.access()),
        );
        let link = Arc::new(link.private_to(Private {
            conversation,
            client,
        }));
        // What the agent was told of the server stays true until its own session says otherwise, and a
        // call that comes at once waits for the opening.
        link.inherit(shared);
        link.phase.send_replace(Phase::Opening);
        drop(drive::start(
            Arc::clone(&link),
            Arc::clone(&inner.shared),
            input,
            None,
        ));
        link.tell(Input::Configure(
            self.upstream(&server, shared.credential.clone()),
        ));
        let mut isolated = inner.isolated.lock();
        isolated.retain(|other| other.strong_count() > 0);
        isolated.push(Arc::downgrade(&link));
        drop(isolated);
        Some(Isolated(link))
    }

    /// All of them that have not ended.
    pub(super) fn isolated_links(&self) -> Vec<Arc<Link>> {
        let isolated = self.inner.isolated.lock();
        isolated
            .iter()
            .filter_map(std::sync::Weak::upgrade)
            .collect()
    }
}
