//! The grant of a connection has other scopes: it goes on as it is, and asks again for what it lacked.

use steadfast_core::grant::SCOPE_NARROWED;
use steadfast_core::stream::{listen as get, subscription};
use steadfast_store::Transition;

use super::Driver;
use crate::clock;
use crate::grants::ScopeChange;
use crate::link::Phase;

impl Driver {
    pub(super) async fn scopes_changed(&mut self, change: ScopeChange) {
        if change.narrowed {
            self.record_narrowed();
        }
        let is_ready = matches!(&*self.link.phase.borrow(), Phase::Ready(_));
        if !change.widened || !is_ready {
            return;
        }
        // Lists and streams that were refused; what was not is left as it is.
        self.link.note_gap();
        if matches!(self.listen, get::State::NotOffered { .. }) {
            self.feed_listen(get::Event::SessionClosed).await;
            self.feed_listen(get::Event::SessionOpened { new: false })
                .await;
        }
        let hello = self.link.hello();
        if let Some(hello) = hello.filter(|_| self.subscription.is_declined()) {
            let wanted = self.wanted(&hello.result);
            self.feed_subscription(subscription::Event::Disconnected)
                .await;
            self.feed_subscription(subscription::Event::Connected { wanted })
                .await;
        }
    }

    /// The connection stays as it is, with less to it (interface, "The connection object").
    fn record_narrowed(&self) {
        let state = self.connection.name();
        self.shared.record(Transition {
            at: clock::wall(),
            agent: self.link.agent.clone(),
            server: self.link.server.clone(),
            from: state.to_owned(),
            to: state.to_owned(),
            fault: None,
            reason: SCOPE_NARROWED.to_owned(),
        });
    }
}
