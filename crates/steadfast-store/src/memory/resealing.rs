use async_trait::async_trait;

use super::{MemoryRecords, State};
use crate::error::Error;
use crate::resealing::{Resealed, Resealing};
use crate::vault::{KeyId, Sealed, Slot, SlotKind};

impl State {
    /// What is sealed, in the order of the keys.
    fn sealed(&self, kind: SlotKind) -> Vec<(Slot, Sealed)> {
        match kind {
            SlotKind::Grants => self
                .grants
                .values()
                .filter_map(|grant| Some((Slot::of_grant(grant), grant.sealed.clone()?)))
                .collect(),
            SlotKind::Clients => self
                .clients
                .values()
                .filter_map(|client| Some((Slot::of_client(client), client.sealed.clone()?)))
                .collect(),
            SlotKind::SignIns => self
                .sign_ins
                .values()
                .map(|sign_in| (Slot::of_sign_in(sign_in), sign_in.sealed.clone()))
                .collect(),
            SlotKind::Entries => self
                .vault_entries
                .values()
                .map(|entry| {
                    let name = entry.name.clone();
                    (Slot::Entry { name }, entry.sealed.clone())
                })
                .collect(),
        }
    }

    /// The sealed value of a place, if the place is still there.
    fn slot(&mut self, slot: &Slot) -> Option<&mut Sealed> {
        match slot {
            Slot::Grant { agent, server, .. } => {
                let connection = (agent.clone(), server.clone());
                self.grants.get_mut(&connection)?.sealed.as_mut()
            }
            Slot::Client {
                issuer,
                redirect_uri,
            } => {
                let key = (issuer.clone(), redirect_uri.clone());
                self.clients.get_mut(&key)?.sealed.as_mut()
            }
            Slot::SignIn { agent, server, .. } => {
                let connection = (agent.clone(), server.clone());
                Some(&mut self.sign_ins.get_mut(&connection)?.sealed)
            }
            Slot::Entry { name } => Some(&mut self.vault_entries.get_mut(name)?.sealed),
            Slot::Check => None,
        }
    }
}

#[async_trait]
impl Resealing for MemoryRecords {
    async fn sealed_under_others(
        &self,
        kind: SlotKind,
        key: KeyId,
        after: Option<&Slot>,
        limit: usize,
    ) -> Result<Vec<(Slot, Sealed)>, Error> {
        let head = Sealed::head(key);
        self.with(|state| {
            let all = state.sealed(kind).into_iter();
            let rest = all.filter(|(slot, _)| after.is_none_or(|after| slot.key() > after.key()));
            rest.filter(|(_, sealed)| !sealed.as_bytes().starts_with(&head))
                .take(limit)
                .collect()
        })
    }

    async fn reseal(&self, values: &[Resealed]) -> Result<u64, Error> {
        self.with(|state| {
            let mut replaced = 0;
            for value in values {
                if let Some(sealed) = state.slot(&value.slot)
                    && *sealed == value.from
                {
                    *sealed = value.to.clone();
                    replaced += 1;
                }
            }
            replaced
        })
    }
}
