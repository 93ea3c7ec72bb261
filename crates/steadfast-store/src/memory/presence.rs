use std::sync::{Arc, Weak};

use async_trait::async_trait;

use super::MemoryRecords;
use crate::error::Error;
use crate::presence::{Presence, Present};

#[async_trait]
impl Presence for MemoryRecords {
    async fn appear(&self, daemon: &str) -> Result<Present, Error> {
        let here = Arc::new(());
        self.with(|state| {
            let present = Arc::downgrade(&here);
            state.present.insert(daemon.to_owned(), present);
        })?;
        Ok(Present::new(here))
    }

    async fn is_present(&self, daemon: &str) -> Result<bool, Error> {
        self.with(|state| {
            let present = state.present.get(daemon);
            present.and_then(Weak::upgrade).is_some()
        })
    }
}
