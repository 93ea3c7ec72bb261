//! One notice for each connection that waits for a person: opened once, cleared by itself when it is connected. Where
//! operations of it wait as well, it stays open for them until they are settled.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use steadfast_core::connection::State as Connection;
use steadfast_core::grant::State;
use steadfast_core::{AgentName, Fault, Kind, ServerName};
use steadfast_store::{Opening, SharedStore};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::{Change, Inner, Keeper};
use crate::clock;
use crate::grants::Owner;
use crate::link::Link;
use crate::operations::Ledger;

/// Follows every connection that changes.
pub(super) async fn keep(
    keeper: Weak<Inner>,
    store: SharedStore,
    ledger: Arc<Ledger>,
    mut changes: broadcast::Receiver<Change>,
    told: Told,
) {
    // What a daemon before this one has told.
    let mut open = open_notices(&store).await.unwrap_or_default();
    let mut held = held_operations(&store).await;
    loop {
        let changed = tokio::select! {
            changed = changes.recv() => changed,
            () = ledger.held_changed() => {
                // It may have been another daemon that told of them.
                open = open_notices(&store).await.unwrap_or(open);
                held = held_operations(&store).await;
                Err(RecvError::Lagged(0))
            }
        };
        if !held.is_empty() {
            // They may have been settled at another daemon.
            held = held_operations(&store).await;
        }
        let changed = match changed {
            Ok(Change::Connection(report)) => {
                Some((report.agent.as_str().into(), report.server.as_str().into()))
            }
            // It goes with its connection; by the hand that opened it, so that none is opened behind.
            Ok(Change::Removed(agent, server)) => {
                if let Err(error) = store.remove_notice(&agent, &server).await {
                    tracing::error!(%error, "a notice cannot be forgotten");
                }
                open.remove(&(agent, server));
                continue;
            }
            Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => return,
        };
        let links: Vec<Arc<Link>> = {
            let Some(inner) = keeper.upgrade() else {
                return;
            };
            let links = inner.links.read();
            let shown = |kept: &super::Kept| Arc::clone(&kept.link);
            match &changed {
                Some(owner) => links.get(owner).map(shown).into_iter().collect(),
                None => links.values().map(shown).collect(),
            }
        };
        for link in links {
            if settle(&store, &link, &held, &mut open).await {
                let owner = (link.agent.clone(), link.server.clone());
                let _ = told.changes.send(owner);
            }
        }
        told.news.send_replace(());
    }
}

/// Who is told of notices.
pub(super) struct Told {
    /// Those who write messages, that there may be something to write.
    pub(super) news: watch::Sender<()>,
    /// Those who watch, whose notice is another one.
    pub(super) changes: broadcast::Sender<Owner>,
}

impl Keeper {
    /// Whose notices are opened, changed or cleared from now on.
    pub fn notice_changes(&self) -> broadcast::Receiver<(AgentName, ServerName)> {
        self.inner.notice_changes.subscribe()
    }
}

/// The notices that are open, and why.
type Open = BTreeMap<Owner, Kind>;

/// As they are stored; `None` where they cannot be read.
async fn open_notices(store: &SharedStore) -> Option<Open> {
    match store.notices().await {
        Ok(notices) => {
            let open = notices.into_iter().filter(|it| it.cleared_at.is_none());
            let kinds = open.map(|it| ((it.agent, it.server), it.fault.kind));
            Some(kinds.collect())
        }
        Err(error) => {
            tracing::warn!(%error, "notices cannot be read");
            None
        }
    }
}

/// How many operations of each connection wait for a person.
async fn held_operations(store: &SharedStore) -> BTreeMap<Owner, u64> {
    match store.held_operations().await {
        Ok(counts) => counts
            .into_iter()
            .map(|held| ((held.agent, held.server), held.count))
            .collect(),
        Err(error) => {
            tracing::warn!(%error, "operations that wait for a person cannot be counted");
            BTreeMap::new()
        }
    }
}

fn of_operations(count: u64) -> Fault {
    let calls = match count {
        1 => "1 call waits".to_owned(),
        several => format!("{several} calls wait"),
    };
    let message = format!("{calls} for a person: nobody knows whether they had their effect");
    Fault::new(Kind::OperationsHeld, message)
}

/// What is shown where there is one row for both. What keeps the connection from working goes first: it must be mended
/// before anything can be looked up; the other is said behind it, so that neither is hidden.
fn both(connection: Option<Fault>, operations: Option<Fault>) -> Option<Fault> {
    match (connection, operations) {
        (Some(mut fault), Some(operations)) => {
            let first = fault.message.trim_end_matches('.');
            fault.message = format!("{first}. Besides, {}", operations.message);
            Some(fault)
        }
        (fault, operations) => fault.or(operations),
    }
}

/// Opens, changes or clears the notice of a connection. Whether it is another one then.
async fn settle(
    store: &SharedStore,
    link: &Link,
    waiting: &BTreeMap<Owner, u64>,
    open: &mut Open,
) -> bool {
    let owner = (link.agent.clone(), link.server.clone());
    let state = link.view.lock().state.clone();
    let held = link.credential.held();
    let of_grant = match &held.state {
        State::Refused { fault, .. } => Some(fault),
        _ => held.state.fault().filter(|fault| fault.person_needed()),
    };
    let of_grant = of_grant.cloned().or_else(|| held.step_up.fault());
    let is_settled = matches!(state, Connection::Connected { .. } | Connection::Disabled);
    let wanted = match state {
        Connection::AwaitingSignIn { fault } | Connection::Misconfigured { fault } => Some(fault),
        Connection::Disabled
        | Connection::Connecting { .. }
        | Connection::Connected { .. }
        | Connection::Retrying { .. } => of_grant,
    };
    let of_operations = waiting.get(&owner).map(|count| of_operations(*count));
    let is_of_operations = open.get(&owner) == Some(&Kind::OperationsHeld);
    let is_over = is_settled || is_of_operations;
    if wanted.is_none() && !is_over && open.contains_key(&owner) {
        // Somebody has acted, and whether that mended it is not known yet.
        return false;
    }
    let shown = both(wanted, of_operations);
    let outcome = match &shown {
        Some(fault) => {
            let was_open = open.insert(owner.clone(), fault.kind).is_some();
            let is_other = is_of_operations != (fault.kind == Kind::OperationsHeld);
            if was_open
                && is_other
                && let Err(error) = store.clear_notice(&owner.0, &owner.1, clock::wall()).await
            {
                // It is another matter, which people are told anew.
                tracing::error!(%error, "a notice cannot be cleared");
            }
            let told = store.open_notice(&owner.0, &owner.1, fault, clock::wall());
            told.await.map(|opening| opening != Opening::Unchanged)
        }
        None if is_over && open.remove(&owner).is_some() => {
            let cleared = store.clear_notice(&owner.0, &owner.1, clock::wall());
            cleared.await
        }
        None => Ok(false),
    };
    outcome.unwrap_or_else(|error| {
        tracing::error!(%error, "a notice cannot be kept");
        false
    })
}
