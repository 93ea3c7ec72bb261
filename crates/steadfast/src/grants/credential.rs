//! One connection's part in the grants: what its requests carry, and what it says about how that was taken.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use steadfast_core::grant::Event;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::{AgentName, Fault, ServerName};

use super::slot::ScopeChange;
use super::step_up::Refused;
use super::{Grants, Held, Owner, Slot, Want};

/// The credential of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    grants: Arc<Grants>,
    owner: Owner,
    slot: Arc<Slot>,
}

impl Credential {
    pub(super) fn new(grants: Arc<Grants>, owner: Owner, slot: Arc<Slot>) -> Self {
        Self {
            grants,
            owner,
            slot,
        }
    }

    /// Of nobody: for requests without a grant.
    pub(crate) fn of_nobody(grants: &Arc<Grants>) -> Self {
        let owner = (AgentName::from(""), ServerName::from(""));
        Self::new(Arc::clone(grants), owner, Arc::new(Slot::new()))
    }

    /// Whose it is, and for which server.
    pub(crate) const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The newest access token, as a header for a request that leaves now.
    pub(crate) fn bearer(&self) -> Option<(GrantGeneration, HeaderValue)> {
        self.slot.bearer()
    }

    /// Whether there is an access token, and it is good.
    pub(crate) fn has_good_token(&self) -> bool {
        self.slot.has_good_token()
    }

    /// What is known of the grant.
    pub(crate) fn held(&self) -> Held {
        self.slot.held()
    }

    /// Where a person signs in, while an attempt is open.
    pub(crate) fn sign_in_url(&self) -> Option<String> {
        self.slot.sign_in_url()
    }

    /// Whether a request may leave now.
    pub(crate) fn is_ready(&self) -> bool {
        self.slot.is_ready()
    }

    /// Waits while a renewal without which nothing can be sent is under way.
    ///
    /// # Errors
    ///
    /// Why nothing can be sent.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), Fault> {
        if self.is_ready() {
            return Ok(());
        }
        let any = GrantGeneration::default();
        self.grants
            .await_token(&self.owner, &self.slot, any, limit)
            .await
    }

    /// The server refused a token with 401. Waits for a newer one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(crate) async fn refused(&self, generation: GrantGeneration) -> Result<(), Fault> {
        self.grants
            .refused(&self.owner, generation, &self.slot)
            .await
    }

    /// The server took a token. News only where it had refused the one before.
    pub(crate) fn accepted(&self, generation: GrantGeneration) {
        if self.slot.is_on_probation() {
            let (grants, owner) = (Arc::clone(&self.grants), self.owner.clone());
            tokio::spawn(async move {
                grants
                    .tell(&owner, Event::TokenAccepted { generation })
                    .await;
            });
        }
    }

    /// The server refused a request because the grant is too narrow. Where that may help, a person is asked to sign in for
    /// more; the link is waited for at most `patience`. Whether there is a newer token by now, worth another try.
    pub(crate) async fn lacks_scope(&self, refused: Refused, patience: Duration) -> bool {
        let (grants, owner) = (&self.grants, &self.owner);
        grants
            .lacks_scope(owner, &self.slot, refused, patience)
            .await
    }

    /// Whether any call is refused for its scope, and on record for that.
    pub(crate) fn lacks_any_scope(&self) -> bool {
        self.slot.lacks_any_scope()
    }

    /// The server took a request. News only where it had refused the like of it for its scope.
    pub(crate) fn scope_suffices(&self, operation: impl FnOnce() -> String) {
        if !self.slot.lacks_any_scope() {
            return;
        }
        let operation = operation();
        if self.slot.held().step_up.lacks(&operation) {
            let (grants, owner) = (Arc::clone(&self.grants), self.owner.clone());
            tokio::spawn(async move { grants.scope_suffices(&owner, &operation).await });
        }
    }

    /// How the scopes changed since this was last asked.
    pub(crate) fn take_scope_change(&self) -> ScopeChange {
        self.slot.take_scope_change()
    }

    /// A result says that a token is no good, although the server let the call pass (AU-03). Calls wait from now on
    /// until it is written what follows.
    pub(crate) fn suspected(&self, generation: GrantGeneration) {
        self.slot.doubt(true);
        let credential = self.clone();
        tokio::spawn(async move {
            let event = Event::Suspected { generation };
            credential.grants.tell(&credential.owner, event).await;
            credential.slot.doubt(false);
        });
    }

    /// The configuration of the client changed, or a secret that it proves itself with: what was refused may be taken
    /// now.
    pub(crate) fn client_changed(&self, want: Want) {
        let credential = self.clone();
        tokio::spawn(async move {
            let (grants, owner) = (&credential.grants, &credential.owner);
            grants.want(owner, want).await;
            grants.tell(owner, Event::Reload).await;
        });
    }

    /// Waits until what is due has been renewed, or cannot be now, at most `limit`.
    pub(crate) async fn caught_up(&self, limit: Duration) {
        self.slot.caught_up(limit).await;
    }

    /// A person asks for a renewal now.
    pub(crate) async fn reload(&self, limit: Duration) {
        self.grants.reload(&self.owner, &self.slot, limit).await;
    }
}
