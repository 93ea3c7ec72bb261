use async_trait::async_trait;

use super::MemoryRecords;
use crate::error::Error;
use crate::issuers::{IssuerRecord, Issuers};

#[async_trait]
impl Issuers for MemoryRecords {
    async fn put_issuer(&self, issuer: &IssuerRecord) -> Result<(), Error> {
        self.with(|state| {
            state.issuers.insert(issuer.issuer.clone(), issuer.clone());
        })
    }

    async fn issuer(&self, issuer: &str) -> Result<Option<IssuerRecord>, Error> {
        self.with(|state| state.issuers.get(issuer).cloned())
    }
}
