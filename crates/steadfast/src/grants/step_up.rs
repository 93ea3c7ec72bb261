//! Calls that a server refuses because the grant is too narrow: put on record, and a link for a person to sign in
//! with for more. Never a renewal, which cannot widen anything (SC-02).

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::step_up::{Refusal, Verdict};
use steadfast_core::wire::challenge::ScopeNeeded;
use steadfast_store::{Error, GrantRecord, Swap};

use super::{Grants, Owner, SWAPS, Slot, import};
use crate::clock;
use crate::perform::discovery::resource_metadata;

/// How much of a name that an agent gave goes on record.
const LONGEST: usize = 256;

/// A call that was refused for its scope.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The tokens that it carried.
    pub(crate) generation: GrantGeneration,
    /// What was called.
    pub(crate) operation: String,
    /// What the server wants.
    pub(crate) needed: ScopeNeeded,
}

/// How an operation is named on record: the method, and the tool, prompt or resource where there is one.
pub(crate) fn operation(method: &str, target: Option<&str>) -> String {
    let name = match target {
        Some(target) => format!("{method} {target}"),
        None => method.to_owned(),
    };
    name.chars().take(LONGEST).collect()
}

impl Grants {
    /// Puts a refusal on record, and sees to the link where a person is asked; waits for that one at most `patience`.
    /// Whether there is a newer token by now: then it is worth another try.
    pub(super) async fn lacks_scope(
        self: &Arc<Self>,
        owner: &Owner,
        slot: &Arc<Slot>,
        refused: Refused,
        patience: Duration,
    ) -> bool {
        // Somebody may have signed in at another daemon.
        self.read_again(owner).await;
        if slot.generation() > refused.generation {
            return true;
        }
        match self.note_refusal(owner, refused).await {
            Ok(Some(Verdict::Ask)) => {
                let (grants, owner, slot) = (Arc::clone(self), owner.clone(), Arc::clone(slot));
                let asking = tokio::spawn(async move { grants.ask_for_more(&owner, &slot).await });
                // It goes on when nobody waits any longer.
                let _ = tokio::time::timeout(patience, asking).await;
            }
            Ok(Some(Verdict::NothingNew | Verdict::TooOften) | None) => {}
            Err(error) => tracing::warn!(%error, "a missing scope cannot be put on record"),
        }
        false
    }

    /// Many calls may be refused at once: one begins the sign-in, and the others find it.
    async fn ask_for_more(self: &Arc<Self>, owner: &Owner, slot: &Slot) {
        let _one = slot.asking.lock().await;
        if let Err(error) = self.begin_sign_in(owner, false).await {
            tracing::warn!(%error, agent = %owner.0, server = %owner.1, "there is no link to sign in with for more");
        }
    }

    /// What follows for the operation; `None` where the grant is another one by now.
    async fn note_refusal(
        &self,
        owner: &Owner,
        refused: Refused,
    ) -> Result<Option<Verdict>, Error> {
        let refusal = Refusal {
            supported: self.supported(owner, &refused).await?,
            operation: refused.operation,
            named: refused.needed.scopes,
        };
        let (now, policy) = (clock::wall(), self.step_ups);
        let change = |record: &mut GrantRecord| {
            let tokens = record.state.tokens();
            let granted = tokens.filter(|it| it.generation <= refused.generation)?;
            let granted = granted.scopes.clone();
            let refusal = refusal.clone();
            Some(record.step_up.refused(refusal, &granted, now, &policy))
        };
        Ok(self.amend(owner, change).await?.flatten())
    }

    /// The scopes that the resource's metadata names, where the challenge names none (SC-04). Once a person is asked for
    /// them they are not looked up again.
    async fn supported(&self, owner: &Owner, refused: &Refused) -> Result<Vec<String>, Error> {
        if refused.needed.scopes.is_some() {
            return Ok(Vec::new());
        }
        let record = self.store.grant(&owner.0, &owner.1).await?;
        let lacking = record.and_then(|mut it| it.step_up.lacking.remove(&refused.operation));
        if let Some(lacking) = lacking.filter(|it| it.verdict == Verdict::Ask) {
            return Ok(lacking.scopes);
        }
        let Some(server) = self.server(owner) else {
            return Ok(Vec::new());
        };
        let fetcher = self.fetcher(&server);
        let named = refused.needed.resource_metadata.as_deref();
        let found = resource_metadata(&fetcher, &server.url, named, &mut Vec::new()).await;
        let found = found.ok().flatten().and_then(|it| it.scopes_supported);
        Ok(found.unwrap_or_default())
    }

    /// The server takes an operation that it had refused.
    pub(super) async fn scope_suffices(&self, owner: &Owner, operation: &str) {
        let change = |record: &mut GrantRecord| record.step_up.works(operation);
        if let Err(error) = self.amend(owner, change).await {
            tracing::warn!(%error, "that a scope is missing no more cannot be put on record");
        }
    }

    /// Changes what a record holds besides the state of its machine. What `change` returns; `None` where there is no
    /// record.
    async fn amend<T>(
        &self,
        owner: &Owner,
        mut change: impl FnMut(&mut GrantRecord) -> T,
    ) -> Result<Option<T>, Error> {
        let mut found = self.store.grant(&owner.0, &owner.1).await?;
        for _ in 0..SWAPS {
            let Some(before) = found else {
                return Ok(None);
            };
            let mut record = before.clone();
            let outcome = change(&mut record);
            if record == before {
                return Ok(Some(outcome));
            }
            match self.store.swap_grant(&record).await? {
                Swap::Stored(version) => {
                    record.version = version;
                    self.publish(&record);
                    return Ok(Some(outcome));
                }
                Swap::Lost(present) => found = present.map(|present| *present),
            }
        }
        Err(import::contended(owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_named_by_method_and_target() {
        assert_eq!(operation("tools/list", None), "tools/list");
        assert_eq!(operation("tools/call", Some("book")), "tools/call book");
        let long = operation("tools/call", Some(&"ä".repeat(500)));
        assert_eq!(long.chars().count(), LONGEST);
    }
}
