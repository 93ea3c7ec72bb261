//! What people see of operations, ask for, and decide.

use std::sync::Arc;

use steadfast_core::OperationId;
use steadfast_core::operation::{Event, State, Verdict};
use steadfast_core::step::Outcome;
use steadfast_store::{Error, OperationFilter, OperationRecord, SecretString};
use thiserror::Error as ThisError;

use super::{Fed, Ledger, OperationDetails, OperationReport, Tracked};
use crate::clock;

/// Why nothing was decided.
#[derive(Clone, Debug, ThisError)]
pub enum NotDecided {
    /// There is no such operation.
    #[error("there is no such operation")]
    Unknown,
    /// It stands so that this cannot be decided, or not be found out; in one clause.
    #[error("{0}")]
    Refused(&'static str),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Ledger {
    /// Operations, the newest first.
    pub(crate) async fn list(
        &self,
        filter: &OperationFilter,
        limit: usize,
    ) -> Result<Vec<OperationReport>, Error> {
        let records = self.store.operations(filter, limit).await?;
        Ok(records.iter().map(OperationReport::from).collect())
    }

    /// Everything on record of one.
    pub(crate) async fn details(
        &self,
        id: &OperationId,
    ) -> Result<Option<OperationDetails>, Error> {
        let Some(record) = self.store.operation(id).await? else {
            return Ok(None);
        };
        let facts = self.store.operation_facts(id).await?;
        let response = self.vault.open_result(&record)?;
        let response = response.as_ref().map(|response| &response[..]);
        Ok(Some(OperationDetails::new(&record, &facts, response)))
    }

    /// A person asks to look it up now.
    pub(crate) async fn reconcile(
        self: &Arc<Self>,
        id: &OperationId,
        name: &str,
    ) -> Result<Fed, NotDecided> {
        let name = name.to_owned();
        self.decide(id, Event::Reconcile { name }, |_| {}).await
    }

    /// A person decides.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        id: &OperationId,
        verdict: Verdict,
        name: &str,
        note: Option<String>,
    ) -> Result<Fed, NotDecided> {
        let event = Event::Settle {
            verdict,
            name: name.to_owned(),
            note,
        };
        // Its agent was told that nobody knows: the identical call that asks again is told what is known now.
        let told = |record: &mut OperationRecord| {
            record.undelivered = matches!(record.state, State::Confirmed { .. });
        };
        self.decide(id, event, told).await
    }

    /// What of an operation is needed to send it again, as a person wants: its params, and what writes it down.
    pub(crate) fn again(
        self: &Arc<Self>,
        record: OperationRecord,
    ) -> Result<(SecretString, Arc<Tracked>), Error> {
        let secrets = self.vault.open_operation(&record)?;
        Ok((secrets.params, Tracked::go_on(self, record)))
    }

    /// It is not sent again after all.
    pub(crate) async fn not_again(&self, record: OperationRecord, why: &str) -> Result<(), Error> {
        let why = why.to_owned();
        self.feed(record, &Event::GivenUp { why }, clock::now(), |_| {})
            .await?;
        Ok(())
    }

    async fn decide(
        &self,
        id: &OperationId,
        event: Event,
        along: impl FnMut(&mut OperationRecord) + Send,
    ) -> Result<Fed, NotDecided> {
        let record = self.store.operation(id).await?;
        let record = record.ok_or(NotDecided::Unknown)?;
        let fed = self.feed(record, &event, clock::now(), along).await?;
        match fed.outcome {
            Outcome::Used => Ok(fed),
            Outcome::Ignored { why } | Outcome::Violation { why } => Err(NotDecided::Refused(why)),
        }
    }
}
