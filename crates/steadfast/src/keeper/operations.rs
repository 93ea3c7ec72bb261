//! The ledger of operations, as people and the admin API see it.

use std::sync::{Arc, Weak};

use steadfast_core::operation::{Action, Verdict};
use steadfast_core::{AgentName, OperationId, ServerName};
use steadfast_store::{Error, OperationFilter};
use tokio::sync::broadcast;

use super::{Inner, Keeper};
use crate::link::Link;
use crate::operations::{Links, NotDecided, OperationDetails, OperationReport};
use crate::send::send_again;

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
        let ledger = &self.inner.ledger;
        let fed = ledger.reconcile(id, name).await?;
        let link = self.link(&fed.record.agent, &fed.record.server);
        let ledger = Arc::clone(ledger);
        // Goes on when whoever asked goes away.
        let looked = tokio::spawn(async move { ledger.look(link, fed).await });
        match looked.await {
            Ok(record) => Ok(OperationReport::from(&record)),
            Err(_) => Err(NotDecided::Refused("the lookup was given up")),
        }
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
        let ledger = &self.inner.ledger;
        let fed = ledger.settle(id, verdict, name, note).await?;
        let report = OperationReport::from(&fed.record);
        if fed.actions.contains(&Action::Repeat) {
            match self.link(&fed.record.agent, &fed.record.server) {
                Some(link) => {
                    let (params, tracked) = ledger.again(fed.record)?;
                    tokio::spawn(async move { send_again(link, &params, tracked).await });
                }
                None => {
                    let why = "the connection is not configured any more";
                    ledger.not_again(fed.record, why).await?;
                }
            }
        }
        Ok(report)
    }

    /// Every operation that changes from now on.
    pub fn operation_changes(&self) -> broadcast::Receiver<Arc<OperationReport>> {
        self.inner.ledger.changes()
    }
}

/// The connections of a keeper, for as long as it is there.
#[derive(Debug)]
pub(super) struct Connections(pub(super) Weak<Inner>);

impl Links for Connections {
    fn link(&self, agent: &AgentName, server: &ServerName) -> Option<Arc<Link>> {
        let inner = self.0.upgrade()?;
        let links = inner.links.read();
        let kept = links.get(&(agent.clone(), server.clone()))?;
        Some(Arc::clone(&kept.link))
    }
}
