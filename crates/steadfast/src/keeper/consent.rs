//! Consent: signing in and out, and what becomes of a connection when its grant changes. It connects with tokens
//! that came in, and waits for a person where nothing else helps.

use std::sync::{Arc, Weak};

use steadfast_core::connection::{Event, State as Connection};
use steadfast_core::grant::State;
use steadfast_core::{Fault, Kind};
use steadfast_store::Error;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::{Inner, Keeper};
use crate::drive::Input;
use crate::grants::{
    BadImport, Callback, Doors, Finished, Import, NotOffered, NotSignedIn, Offer, Owner, SignedOut,
};
use crate::link::{Link, Phase};

impl Keeper {
    /// Takes over a grant from elsewhere for an agent's connection, and connects.
    ///
    /// # Errors
    ///
    /// Where a member of it is wrong or missing, and where the store refuses.
    pub async fn import_grant(&self, link: &Link, import: Import) -> Result<(), BadImport> {
        let owner = (link.agent.clone(), link.server.clone());
        self.inner.grants.import(&owner, import).await
    }

    /// A link with which a person signs in for an agent's connection.
    ///
    /// # Errors
    ///
    /// What discovery or registration met, and where the store refuses.
    pub async fn begin_sign_in(&self, link: &Link, restart: bool) -> Result<Offer, NotOffered> {
        let owner = (link.agent.clone(), link.server.clone());
        let grants = &self.inner.grants;
        grants.begin_sign_in(&owner, restart).await
    }

    /// Where browsers reach this daemon. Without it nobody can be asked to sign in.
    pub fn set_doors(&self, doors: Doors) {
        self.inner.links_of_notices.open(&doors);
        self.inner.grants.set_doors(doors);
    }

    /// Takes the answer that a browser brings from an authorization server, and connects. Goes on when the
    /// browser goes away: the code is spent.
    ///
    /// # Errors
    ///
    /// Why nobody is signed in.
    pub async fn finish_sign_in(&self, callback: Callback) -> Result<Finished, NotSignedIn> {
        let grants = Arc::clone(&self.inner.grants);
        let finish = async move { grants.finish_sign_in(callback).await };
        tokio::spawn(finish)
            .await
            .unwrap_or(Err(NotSignedIn::Unknown))
    }

    /// Revokes the grant of an agent's connection and forgets it.
    ///
    /// # Errors
    ///
    /// Where the store refuses.
    pub async fn sign_out(&self, link: &Link) -> Result<SignedOut, Error> {
        let owner = (link.agent.clone(), link.server.clone());
        let server = self.inner.configured.server_of(&owner);
        match server {
            Some(server) => self.inner.grants.sign_out(&owner, &server).await,
            // It is about to leave, and then its grant is revoked.
            None => Ok(SignedOut::nobody()),
        }
    }
}

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

/// Whether the connection waits for its operator because no token could be had with the configured client: its
/// secret, its key, or what the provider said to them.
fn was_the_clients_fault(link: &Link) -> bool {
    let is_of_client = matches!(
        &link.view.lock().state,
        Connection::Misconfigured { fault }
            if matches!(fault.kind, Kind::ClientRefused | Kind::Misconfigured | Kind::VaultReference)
    );
    let upstream = link.upstream.read();
    is_of_client
        && upstream
            .as_ref()
            .is_some_and(|it| it.check_secrets().is_ok())
}

fn apply(link: &Link) {
    let change = link.credential.take_scope_change();
    if change.narrowed || change.widened {
        link.tell(Input::Scopes(change));
    }
    let held = link.credential.held();
    let is_good = held.is_good();
    let waits = match &link.view.lock().state {
        // The token is as good as before; what is missing is a sign-in for more.
        Connection::AwaitingSignIn { fault } if fault.kind == Kind::ScopeInsufficient => {
            held.step_up.lacking.is_empty()
        }
        Connection::AwaitingSignIn { .. } | Connection::Retrying { .. } => true,
        Connection::Disabled
        | Connection::Misconfigured { .. }
        | Connection::Connecting { .. }
        | Connection::Connected { .. } => false,
    };
    if is_good && waits {
        link.tell(Input::Connection(Event::SignedIn));
    }
    // A secret that was missing when a token was asked for, and came while that was under way, is no fault any more:
    // what became of the next request is.
    let lacks_a_secret = matches!(
        &link.view.lock().state,
        Connection::Misconfigured { fault } if fault.kind == Kind::VaultReference
    );
    if (is_good || lacks_a_secret) && was_the_clients_fault(link) {
        link.tell(Input::Connection(Event::Enable));
    }
    // A refused grant whose access token is still good goes on being used (architecture, grants 5).
    if let State::Refused { fault, .. } = &held.state
        && !is_good
        && let Phase::Ready(route) = &*link.phase.borrow()
    {
        link.lost(route.generation, fault.clone());
    }
    // Somebody signed out. A server that wants no token never had a grant.
    if held.was_removed()
        && let Phase::Ready(route) = &*link.phase.borrow()
    {
        let fault = Fault::new(Kind::SignInRequired, "somebody signed out");
        link.lost(route.generation, fault);
    }
    link.announce();
}
