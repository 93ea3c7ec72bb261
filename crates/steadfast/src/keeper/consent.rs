//! What becomes of a connection when its grant changes: it connects with tokens that came in, and waits for a person
//! where nothing else helps.

use std::sync::Weak;

use steadfast_core::connection::{Event, State as Connection};
use steadfast_core::grant::State;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Inner;
use crate::clock;
use crate::drive::Input;
use crate::grants::Owner;
use crate::link::{Link, Phase};

/// Follows every grant that changes.
pub(super) async fn follow(keeper: Weak<Inner>, mut changed: broadcast::Receiver<Owner>) {
    loop {
        let owner = match changed.recv().await {
            Ok(owner) => Some(owner),
            // Too many at once: then all are looked at.
            Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => return,
        };
        let Some(inner) = keeper.upgrade() else {
            return;
        };
        let links = inner.links.read();
        match owner {
            Some(owner) => links
                .get(&owner)
                .into_iter()
                .for_each(|kept| apply(&kept.link)),
            None => links.values().for_each(|kept| apply(&kept.link)),
        }
    }
}

fn apply(link: &Link) {
    let held = link.credential.held();
    let is_good = held
        .state
        .tokens()
        .is_some_and(|tokens| tokens.good(clock::wall()));
    let waits = matches!(
        link.view.lock().state,
        Connection::AwaitingSignIn { .. } | Connection::Retrying { .. }
    );
    if is_good && waits {
        link.tell(Input::Connection(Event::SignedIn));
    }
    // A refused grant whose access token is still good goes on being used (architecture, grants 5).
    if let State::Refused { fault, .. } = &held.state
        && !is_good
        && let Phase::Ready(route) = &*link.phase.borrow()
    {
        link.lost(route.generation, fault.clone());
    }
    link.announce();
}
