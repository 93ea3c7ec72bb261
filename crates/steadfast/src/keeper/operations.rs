//! The ledger of operations, as people and the admin API see it.

use std::sync::Arc;

use steadfast_core::OperationId;
use steadfast_core::operation::Verdict;
use steadfast_store::{Error, OperationFilter};
use tokio::sync::broadcast;

use super::Keeper;
use crate::operations::{NotDecided, OperationDetails, OperationReport};

impl Keeper {
    /// Operations, the newest first.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub async fn operations(
        &self,
        filter: &OperationFilter,
        limit: usize,
    ) -> Result<Vec<OperationReport>, Error> {
        self.inner.ledger.list(filter, limit).await
    }

    /// Everything on record of one operation.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub async fn operation(&self, id: &OperationId) -> Result<Option<OperationDetails>, Error> {
        self.inner.ledger.details(id).await
    }

    /// Looks an operation up at the provider now, whatever the schedule says, for the person `name`. How it stands then.
    ///
    /// # Errors
    ///
    /// Why it is not looked up.
    pub async fn reconcile_operation(
        &self,
        id: &OperationId,
        name: &str,
    ) -> Result<OperationReport, NotDecided> {
        let fed = self.inner.ledger.reconcile(id, name).await?;
        Ok(OperationReport::from(&fed.record))
    }

    /// What the person `name` decides about an operation whose outcome is not known. Where they want it sent again it
    /// is, as the same operation; its result is kept for the agent.
    ///
    /// # Errors
    ///
    /// Why it cannot be decided.
    pub async fn settle_operation(
        &self,
        id: &OperationId,
        verdict: Verdict,
        name: &str,
        note: Option<String>,
    ) -> Result<OperationReport, NotDecided> {
        let fed = self.inner.ledger.settle(id, verdict, name, note).await?;
        Ok(OperationReport::from(&fed.record))
    }

    /// Every operation that changes from now on.
    pub fn operation_changes(&self) -> broadcast::Receiver<Arc<OperationReport>> {
        self.inner.ledger.changes()
    }
}
