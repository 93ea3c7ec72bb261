//! What becomes of the grants of connections that are no more, or that lead elsewhere by now.

use steadfast_core::ServerName;
use steadfast_store::Error;

use super::{Inner, Keeper};
use crate::config;
use crate::grants::Owner;

impl Inner {
    /// Gives the grant of a connection back and forgets it; `server` is what it was for. Waited for within limits when
    /// the keeper stops, and done at the next start where it was cut short.
    pub(super) fn leave(&self, owner: Owner, server: Option<config::Server>) {
        if let Some(leaving) = self.grants.leave(owner, server) {
            self.shared.farewells.spawn(leaving);
        }
    }
}

impl Keeper {
    /// Says that every agent and server that is configured has been put. What the store still holds for others was
    /// removed while no keeper ran: such grants are given back and forgotten, and nobody is asked for anything there.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub async fn forget_leftovers(&self) -> Result<(), Error> {
        let _configuring = self.inner.configuring.lock().await;
        let inner = &self.inner;
        for (owner, server) in inner.grants.leftovers().await? {
            inner.leave(owner, server);
        }
        let store = &inner.secrets.store;
        for notice in store.notices().await? {
            let owner = (notice.agent, notice.server);
            if !inner.configured.has(&owner) {
                store.remove_notice(&owner.0, &owner.1).await?;
                store.remove_sign_in(&owner.0, &owner.1).await?;
            }
        }
        Ok(())
    }

    /// Whose grants are not good for a server whose address changes.
    pub(super) async fn grants_that_stay_behind(
        &self,
        name: &ServerName,
        before: &config::Server,
        after: &config::Server,
    ) -> Result<Vec<Owner>, Error> {
        let mut behind = Vec::new();
        if before.url == after.url {
            return Ok(behind);
        }
        for link in self.links().iter().filter(|link| link.server() == name) {
            let owner = link.credential.owner();
            let survives = self
                .inner
                .grants
                .survives(owner, Some(&before.url), &after.url)
                .await?;
            if !survives {
                behind.push(owner.clone());
            }
        }
        Ok(behind)
    }
}
