use async_trait::async_trait;
use steadfast_core::OperationId;

use super::{MemoryRecords, State};
use crate::error::Error;
use crate::operations::OperationRecord;
use crate::resealing::{Resealed, Resealing};
use crate::vault::{KeyId, Sealed, Slot, SlotKind};

impl State {
    /// What is sealed.
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
            SlotKind::Operations => self
                .operations
                .iter()
                .map(|entry| {
                    let id = entry.record.id.clone();
                    (Slot::Operation { id }, entry.record.sealed.clone())
                })
                .collect(),
            SlotKind::OperationResults => self
                .operations
                .iter()
                .filter_map(|entry| {
                    let id = entry.record.id.clone();
                    Some((Slot::OperationResult { id }, entry.record.result.clone()?))
                })
                .collect(),
        }
    }

    fn operation(&mut self, id: &OperationId) -> Option<&mut OperationRecord> {
        let mut entries = self.operations.iter_mut();
        let entry = entries.find(|entry| entry.record.id == *id)?;
        Some(&mut entry.record)
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
            Slot::Operation { id } => self.operation(id).map(|record| &mut record.sealed),
            Slot::OperationResult { id } => self.operation(id)?.result.as_mut(),
            Slot::Notice { .. } | Slot::Check => None,
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
            let mut all = state.sealed(kind);
            all.sort_by(|(one, _), (other, _)| one.key().cmp(&other.key()));
            let all = all.into_iter();
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
