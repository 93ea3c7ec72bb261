use async_trait::async_trait;
use steadfast_core::Wall;

use super::MemoryRecords;
use crate::documents::{DocumentRecord, Documents};
use crate::error::Error;

#[async_trait]
impl Documents for MemoryRecords {
    async fn put_document(&self, document: &DocumentRecord) -> Result<(), Error> {
        self.with(|state| {
            state
                .documents
                .insert(document.url.clone(), document.clone());
        })
    }

    async fn document(&self, url: &str) -> Result<Option<DocumentRecord>, Error> {
        self.with(|state| state.documents.get(url).cloned())
    }

    async fn remove_document(&self, url: &str) -> Result<bool, Error> {
        self.with(|state| state.documents.remove(url).is_some())
    }

    async fn remove_old_documents(&self, before: Wall) -> Result<u64, Error> {
        self.with(|state| {
            let count = state.documents.len();
            state
                .documents
                .retain(|_, document| document.fetched_at >= before);
            (count - state.documents.len()) as u64
        })
    }
}
