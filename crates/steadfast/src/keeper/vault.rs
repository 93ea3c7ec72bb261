//! The operator's secrets by name: what changes them, and what becomes of the connections that need them.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use steadfast_core::connection::{Event, State};
use steadfast_store::{Error, SecretString, VaultEntry, vault::Rotation};

use super::{Inner, Keeper};
use crate::clock;
use crate::drive::Input;
use crate::grants::Want;
use crate::link::Link;

impl Keeper {
    /// Sets a secret, in place of the one before. The next request carries it, and connections that wait for it open.
    ///
    /// # Errors
    ///
    /// Where the store refuses.
    pub async fn set_secret(&self, name: &str, value: &SecretString) -> Result<(), Error> {
        let secrets = &self.inner.secrets;
        let entry = VaultEntry {
            name: name.to_owned(),
            sealed: secrets.vault.seal_entry(name, value)?,
            set_at: clock::wall(),
        };
        secrets.store.put_vault_entry(&entry).await?;
        self.inner.secrets_changed().await
    }

    /// Removes a secret; connections that need it wait for it. Whether it was there.
    ///
    /// # Errors
    ///
    /// Where the store refuses.
    pub async fn remove_secret(&self, name: &str) -> Result<bool, Error> {
        let was_there = self.inner.secrets.store.remove_vault_entry(name).await?;
        self.inner.secrets_changed().await?;
        Ok(was_there)
    }

    /// Changes the key of the vault, and seals everything anew.
    ///
    /// # Errors
    ///
    /// Where the store or the key file refuses; what was sealed anew until then stays.
    pub async fn rotate_vault(&self) -> Result<Rotation, Error> {
        let secrets = &self.inner.secrets;
        secrets.vault.rotate(&*secrets.store).await
    }
}

impl Inner {
    async fn secrets_changed(&self) -> Result<(), Error> {
        let changed = self.secrets.refresh().await?;
        if changed.is_empty() {
            return Ok(());
        }
        let shared: Vec<_> = {
            let links = self.links.read();
            links.values().map(|kept| kept.link.clone()).collect()
        };
        let isolated: Vec<_> = {
            let isolated = self.isolated.lock();
            isolated.iter().filter_map(Weak::upgrade).collect()
        };
        for link in shared.iter().chain(&isolated) {
            bring_in_step(link, &changed);
        }
        Ok(())
    }
}

fn bring_in_step(link: &Link, changed: &BTreeSet<String>) {
    let Some(upstream) = link.upstream.read().clone() else {
        return;
    };
    if !upstream.names_any_of(changed) {
        return;
    }
    if upstream.client_names_any_of(changed) && link.conversation().is_none() {
        link.credential.client_changed(Want::Missing);
    }
    let state = link.view.lock().state.clone();
    let event = match (state, upstream.check_secrets()) {
        (State::Disabled, _) => return,
        (_, Err(fault)) => Event::Misconfigure(fault),
        // Its next request carries the new one.
        (State::Connected { .. }, Ok(())) => return,
        (
            State::Misconfigured { .. }
            | State::Connecting { .. }
            | State::Retrying { .. }
            | State::AwaitingSignIn { .. },
            Ok(()),
        ) => Event::Enable,
    };
    link.tell(Input::Connection(event));
}

/// Looks at times whether another daemon on the same store has changed a secret.
pub(super) async fn follow(keeper: Weak<Inner>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = keeper.upgrade() else {
            return;
        };
        if let Err(error) = inner.secrets_changed().await {
            tracing::warn!(%error, "the secrets cannot be read");
        }
    }
}
