use async_trait::async_trait;

use super::MemoryRecords;
use crate::clients::{ClientRecord, Clients};
use crate::error::Error;
use crate::swap::{Swap, Version};

#[async_trait]
impl Clients for MemoryRecords {
    async fn client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<ClientRecord>, Error> {
        let key = (issuer.to_owned(), redirect_uri.to_owned());
        self.with(|state| state.clients.get(&key).cloned())
    }

    async fn swap_client(&self, client: &ClientRecord) -> Result<Swap<ClientRecord>, Error> {
        let key = (client.issuer.clone(), client.redirect_uri.clone());
        self.with(|state| {
            let present = state.clients.get(&key);
            let version = present.map_or(Version::NONE, |present| present.version);
            if version != client.version {
                return Swap::Lost(present.cloned().map(Box::new));
            }
            let mut next = client.clone();
            next.version = version.next();
            state.clients.insert(key, next);
            Swap::Stored(version.next())
        })
    }

    async fn remove_client(
        &self,
        issuer: &str,
        redirect_uri: &str,
        version: Version,
    ) -> Result<bool, Error> {
        let key = (issuer.to_owned(), redirect_uri.to_owned());
        self.with(|state| {
            let there = state.clients.get(&key);
            let is_same = there.is_some_and(|client| client.version == version);
            if is_same {
                state.clients.remove(&key);
            }
            is_same
        })
    }
}
