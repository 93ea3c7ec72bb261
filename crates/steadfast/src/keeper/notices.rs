//! One notice for each connection that waits for a person: opened once, cleared by itself when it is connected.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use steadfast_core::connection::State as Connection;
use steadfast_core::grant::State;
use steadfast_store::SharedStore;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::{Change, Inner};
use crate::clock;
use crate::grants::Owner;
use crate::link::Link;

/// Follows every connection that changes.
pub(super) async fn keep(
    keeper: Weak<Inner>,
    store: SharedStore,
    mut changes: broadcast::Receiver<Change>,
    news: watch::Sender<()>,
) {
    // What a daemon before this one has told.
    let mut open: BTreeSet<Owner> = match store.notices().await {
        Ok(notices) => notices
            .into_iter()
            .filter(|notice| notice.cleared_at.is_none())
            .map(|notice| (notice.agent, notice.server))
            .collect(),
        Err(error) => {
            tracing::warn!(%error, "notices cannot be read");
            BTreeSet::new()
        }
    };
    loop {
        let changed = match changes.recv().await {
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
            settle(&store, &link, &mut open).await;
        }
        news.send_replace(());
    }
}

async fn settle(store: &SharedStore, link: &Link, open: &mut BTreeSet<Owner>) {
    let owner = (link.agent.clone(), link.server.clone());
    let state = link.view.lock().state.clone();
    let held = link.credential.held();
    let of_grant = match &held.state {
        State::Refused { fault, .. } => Some(fault),
        _ => held.state.fault().filter(|fault| fault.person_needed()),
    };
    let of_grant = of_grant.cloned().or_else(|| held.step_up.fault());
    let wanted = match state.clone() {
        Connection::AwaitingSignIn { fault } | Connection::Misconfigured { fault } => Some(fault),
        Connection::Disabled
        | Connection::Connecting { .. }
        | Connection::Connected { .. }
        | Connection::Retrying { .. } => of_grant,
    };
    let is_over = matches!(state, Connection::Connected { .. } | Connection::Disabled);
    let outcome = match wanted {
        Some(fault) => {
            open.insert(owner.clone());
            let told = store.open_notice(&owner.0, &owner.1, &fault, clock::wall());
            told.await.map(|_| ())
        }
        None if is_over && open.remove(&owner) => {
            let cleared = store.clear_notice(&owner.0, &owner.1, clock::wall());
            cleared.await.map(|_| ())
        }
        None => Ok(()),
    };
    if let Err(error) = outcome {
        tracing::error!(%error, "a notice cannot be kept");
    }
}
