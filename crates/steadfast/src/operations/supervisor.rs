//! Looks after operations that nobody waits for: what is due, by the clock, and what a daemon left behind that is no
//! more. Lookups only read; nothing is sent again here.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use steadfast_core::operation::{Action, Event, State};
use steadfast_core::wire::envelope;
use steadfast_core::{AgentName, OperationId, ServerName};
use steadfast_store::{Error, OperationRecord};

use super::lookup::Found;
use super::{Along, Fed, Ledger};
use crate::clock;
use crate::link::Link;

/// How many operations are taken up at a time; the next ones follow as soon as these have had their turn.
const AT_ONCE: usize = 64;
/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The connections of this daemon.
pub(crate) trait Links: Send + Sync + 'static {
    /// That of an agent to a server.
    fn link(&self, agent: &AgentName, server: &ServerName) -> Option<Arc<Link>>;
}

/// Runs for as long as the ledger is there. `every`: how often what others left behind is looked for.
pub(crate) async fn supervise(ledger: Weak<Ledger>, links: Arc<dyn Links>, every: Duration) {
    let mut looked: Option<Instant> = None;
    while let Some(ledger) = ledger.upgrade() {
        if looked.is_none_or(|at| at.elapsed() >= every) {
            if let Err(error) = ledger.take_over().await {
                tracing::warn!(%error, "what other daemons left behind cannot be found");
            }
            looked = Some(Instant::now());
        }
        let wait = ledger.take_up_what_is_due(&links).await;
        tokio::select! {
            () = tokio::time::sleep(wait.min(every).max(PAUSE)) => {}
            () = ledger.news.notified() => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Ledger {
    /// Writes down of the operations of daemons that are gone that nobody drives them any more. Nothing is sent.
    async fn take_over(&self) -> Result<(), Error> {
        for driver in self.store.operation_drivers().await? {
            if driver == self.name || self.store.is_present(&driver).await? {
                continue;
            }
            let mut left = self.store.driven_operations(&driver, AT_ONCE).await?;
            while !left.is_empty() {
                for record in left {
                    self.interrupted(record).await?;
                }
                left = self.store.driven_operations(&driver, AT_ONCE).await?;
            }
        }
        Ok(())
    }

    /// How long until something is due.
    async fn take_up_what_is_due(self: &Arc<Self>, links: &Arc<dyn Links>) -> Duration {
        let longest = Duration::from_secs(30);
        let due = match self.store.due_operations(clock::wall(), AT_ONCE).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "operations that are due cannot be found");
                return longest;
            }
        };
        for id in &due {
            if let Err(error) = self.take_up_due(id, links).await {
                tracing::warn!(%id, %error, "an operation that is due cannot be taken up");
            }
        }
        match self.store.next_operation_wake().await {
            Ok(Some(at)) => {
                let left = at.0.saturating_sub(clock::wall().0).max(0).unsigned_abs();
                Duration::from_millis(left)
            }
            Ok(None) | Err(_) => longest,
        }
    }

    async fn take_up_due(
        self: &Arc<Self>,
        id: &OperationId,
        links: &Arc<dyn Links>,
    ) -> Result<(), Error> {
        let Some(record) = self.store.operation(id).await? else {
            return Ok(());
        };
        let fed = self.feed(record, &Event::Due, clock::now(), |_| {}).await?;
        if fed
            .actions
            .iter()
            .any(|it| matches!(it, Action::LookUp { .. }))
        {
            let link = links.link(&fed.record.agent, &fed.record.server);
            let ledger = Arc::clone(self);
            // Each by itself: a slow server holds up nobody else's lookup.
            tokio::spawn(async move { ledger.look(link, fed).await });
        }
        Ok(())
    }

    /// Asks the provider as a step wants it, and writes down what was found. The operation as it stands then.
    pub(crate) async fn look(&self, link: Option<Arc<Link>>, fed: Fed) -> OperationRecord {
        let Fed {
            record, actions, ..
        } = fed;
        let tries = actions.iter().find_map(|action| match action {
            Action::LookUp { tries } => Some(*tries),
            Action::Send { .. } | Action::Repeat | Action::Tell | Action::Settled => None,
        });
        let Some(tries) = tries else {
            return record;
        };
        let found = match link {
            Some(link) => {
                let limit = self.policy.lookup_limit.duration();
                let asked = tokio::time::timeout(limit, self.ask(&link, &record)).await;
                asked.unwrap_or_else(|_| Found::unclear("the lookup took too long"))
            }
            None => Found::unclear("the connection is not configured any more"),
        };
        let before = record.clone();
        self.found(record, tries, found)
            .await
            .unwrap_or_else(|error| {
                tracing::error!(%error, "what a lookup found cannot be written");
                before
            })
    }

    async fn found(
        &self,
        record: OperationRecord,
        tries: u32,
        found: Found,
    ) -> Result<OperationRecord, Error> {
        let Found {
            finding,
            response,
            record: of_provider,
        } = found;
        let read = response
            .as_ref()
            .and_then(|response| envelope::read(response).ok());
        let event = match (&response, &read) {
            // It is the call's own answer, which came late.
            (Some(response), Some(read)) => Event::Answered {
                said: super::answer::said(response, read),
                awaited: false,
            },
            _ => Event::LookedUp { tries, finding },
        };
        let along = Along {
            response,
            is_awaited: false,
            undelivered: true,
            leg_hash: None,
        };
        let fed = self
            .feed(record, &event, clock::now(), |record| {
                self.put_along(record, &along);
                if let State::Confirmed { .. } = record.state {
                    // Its agent was told that nobody knows.
                    record.undelivered = true;
                    if let Some(found) = &of_provider {
                        self.put_record(record, found);
                    }
                }
            })
            .await?;
        Ok(fed.record)
    }

    /// Keeps the provider's record for people.
    fn put_record(&self, record: &mut OperationRecord, found: &str) {
        let kept = format!(r#"{{"result":{{"record":{found}}}}}"#);
        match self.vault.seal_result(&record.id, kept.as_bytes()) {
            Ok(sealed) => record.result = Some(sealed),
            Err(error) => tracing::error!(%error, "a provider's record cannot be kept"),
        }
    }
}
