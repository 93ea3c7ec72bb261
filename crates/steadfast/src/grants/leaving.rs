//! A connection that left the configuration, or leads elsewhere by now: its grant is given back and forgotten, and
//! nothing of it is used meanwhile.

use std::sync::Arc;

use steadfast_core::oauth::discovery::still_covers;
use steadfast_store::{Error, GrantRecord};
use url::Url;

use super::{Grants, Owner, Want, import};
use crate::config;

/// How many grants are read at a time.
const AT_ONCE: usize = 256;

impl Grants {
    /// Hides what is held for a connection at once; the future gives it back, after a renewal under way has ended, and
    /// forgets it. `server` is the server as it was. `None` where that is being done already.
    pub(crate) fn leave(
        self: &Arc<Self>,
        owner: Owner,
        server: Option<config::Server>,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let is_first = self
            .leaving
            .send_if_modified(|leaving| leaving.insert(owner.clone()));
        if !is_first {
            return None;
        }
        if let Some(slot) = self.slots.read().get(&owner) {
            slot.hide();
        }
        let _ = self.changed.send(owner.clone());
        let grants = Arc::clone(self);
        Some(async move {
            grants.forget(&owner, server).await;
            grants.leaving.send_if_modified(|it| it.remove(&owner));
            // It may have come back meanwhile.
            grants.want(&owner, Want::Missing).await;
            grants.read_again(&owner).await;
        })
    }

    /// Waits until what was held before a connection came back is given back: what comes in now stays.
    pub(super) async fn left(&self, owner: &Owner) {
        let mut leaving = self.leaving.subscribe();
        let _ = leaving.wait_for(|it| !it.contains(owner)).await;
    }

    /// What came in for a connection that left the configuration meanwhile goes with it.
    pub(super) fn leave_if_gone(self: &Arc<Self>, owner: &Owner) {
        if self.configured.has(owner) {
            return;
        }
        if let Some(leaving) = self.leave(owner.clone(), None) {
            tokio::spawn(leaving);
        }
    }

    async fn forget(&self, owner: &Owner, server: Option<config::Server>) {
        if let Err(error) = self.give_back(owner, server).await {
            tracing::warn!(
                %error, agent = %owner.0, server = %owner.1,
                "a grant that nobody needs any more is kept until the next start"
            );
        }
        let removed = self.store.remove_sign_in(&owner.0, &owner.1).await;
        if let Err(error) = removed {
            tracing::warn!(%error, "a sign-in cannot be forgotten");
        }
        self.show_offer(owner, None);
    }

    async fn give_back(&self, owner: &Owner, server: Option<config::Server>) -> Result<(), Error> {
        let found = self.store.grant(&owner.0, &owner.1).await?;
        let Some(record) = found.filter(|record| record.sealed.is_some()) else {
            return Ok(());
        };
        let server = match server.or_else(|| stand_in(&record)) {
            Some(server) => server,
            None => return Ok(()),
        };
        let out = self.sign_out(owner, &server).await?;
        self.forget_client(owner).await?;
        tracing::info!(
            agent = %owner.0, server = %owner.1, revoked = out.revoked.as_str(), said = %out.message,
            "the grant of a connection that is no more is forgotten"
        );
        Ok(())
    }

    /// Nobody signed out: a client that asks for itself begins anew when its connection comes back.
    async fn forget_client(&self, owner: &Owner) -> Result<(), Error> {
        let found = self.store.grant(&owner.0, &owner.1).await?;
        if let Some(mut record) = found.filter(|record| record.sealed.is_none()) {
            record.client = import::blank(owner).client;
            // Whoever was faster begins another one.
            let _ = self.store.swap_grant(&record).await?;
        }
        Ok(())
    }

    /// Whose grants nobody needs any more, and the servers that they are for, where they are configured still: what
    /// changed while no daemon ran.
    ///
    /// # Errors
    ///
    /// Where the store refuses.
    pub(crate) async fn leftovers(&self) -> Result<Vec<(Owner, Option<config::Server>)>, Error> {
        let mut left = Vec::new();
        let mut after: Option<Owner> = None;
        loop {
            let from = after.as_ref().map(|(agent, server)| (agent, server));
            let records = self.store.grants(from, AT_ONCE).await?;
            for record in &records {
                let owner = (record.agent.clone(), record.server.clone());
                if !self.configured.has(&owner) {
                    let server = self.configured.servers.lock().get(&owner.1).cloned();
                    let resource = record.resource.as_deref();
                    let is_same = |it: &config::Server| still_covers(resource, None, &it.url);
                    left.push((owner.clone(), server.filter(is_same)));
                }
                after = Some(owner);
            }
            if records.len() < AT_ONCE {
                return Ok(left);
            }
        }
    }

    /// Whether the grant of a connection is good for its server at this address, too (interface: "only under the
    /// grant's `resource`"). `before` is the address where it was used, if that is known.
    ///
    /// # Errors
    ///
    /// Where the store refuses.
    pub(crate) async fn survives(
        &self,
        owner: &Owner,
        before: Option<&Url>,
        after: &Url,
    ) -> Result<bool, Error> {
        let found = self.store.grant(&owner.0, &owner.1).await?;
        Ok(found.is_none_or(|record| {
            record.sealed.is_none() || still_covers(record.resource.as_deref(), before, after)
        }))
    }
}

/// What stands for a server of which only the grant is left: it leads nobody farther than its issuer does, which was
/// looked at when the grant was issued.
fn stand_in(record: &GrantRecord) -> Option<config::Server> {
    let issuer = record.issuer.parse().ok()?;
    Some(config::Server::at(issuer))
}
