use async_trait::async_trait;
use steadfast_core::Wall;

use super::MemoryRecords;
use crate::error::Error;
use crate::leases::{self, Lease, LeaseKey, Leases, Taken};

#[derive(Debug)]
pub(super) struct Held {
    number: u64,
    holder: String,
    pub(super) until: Wall,
}

#[async_trait]
impl Leases for MemoryRecords {
    async fn take_lease(
        &self,
        key: &LeaseKey,
        holder: &str,
        now: Wall,
        until: Wall,
    ) -> Result<Taken, Error> {
        let number = leases::draw()?;
        self.with(|state| {
            if let Some(held) = state.leases.get(key)
                && held.until > now
            {
                return Taken::No {
                    holder: held.holder.clone(),
                    until: held.until,
                };
            }
            let held = Held {
                number,
                holder: holder.to_owned(),
                until,
            };
            state.leases.insert(key.clone(), held);
            Taken::Yes(Lease {
                key: key.clone(),
                number,
            })
        })
    }

    async fn renew_lease(&self, lease: &Lease, until: Wall) -> Result<bool, Error> {
        self.with(|state| match state.leases.get_mut(&lease.key) {
            Some(held) if held.number == lease.number => {
                held.until = until;
                true
            }
            Some(_) | None => false,
        })
    }

    async fn release_lease(&self, lease: &Lease) -> Result<bool, Error> {
        self.with(|state| {
            let ours = |held: &Held| held.number == lease.number;
            let is_ours = state.leases.get(&lease.key).is_some_and(ours);
            if is_ours {
                state.leases.remove(&lease.key);
            }
            is_ours
        })
    }

    async fn lease_holder(&self, key: &LeaseKey) -> Result<Option<(String, Wall)>, Error> {
        self.with(|state| {
            let held = state.leases.get(key);
            held.map(|held| (held.holder.clone(), held.until))
        })
    }
}
