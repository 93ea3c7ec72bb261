//! What the sessions of legacy agents want to hear of: `resources/subscribe` and
//! `resources/unsubscribe`. A modern server knows neither; there the keeper's own subscription asks for
//! the resource. Sessions of one agent share its connection, so a server is told that a resource is no
//! longer wanted only when none of them wants it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast::{Link, Subscriber};
use steadfast_core::Era;
use steadfast_core::wire::json;

use crate::Gate;
use crate::agents::inbound::Inbound;
use crate::agents::render;
use crate::agents::session::Session;
use crate::problem::{INVALID_PARAMS, rpc_error};

/// The resources that one session wants to hear of. They are on record with it.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    uris: Mutex<BTreeSet<String>>,
    /// Made when it is first needed, and gone with the session: so are its wishes at the keeper.
    subscriber: OnceLock<Subscriber>,
    /// Whether the keeper knows of them.
    restored: AtomicBool,
}

impl Subscriptions {
    /// Of a record.
    pub(crate) fn of(uris: Vec<String>) -> Self {
        Self {
            uris: Mutex::new(uris.into_iter().collect()),
            ..Self::default()
        }
    }

    /// For the record.
    pub(crate) fn uris(&self) -> Vec<String> {
        self.uris.lock().iter().cloned().collect()
    }

    fn subscriber(&self, link: &Arc<Link>) -> &Subscriber {
        self.subscriber.get_or_init(|| link.subscriber())
    }
}

/// Asks again for what a session wanted before it left the memory, now that its agent listens.
pub(super) fn restore(session: &Arc<Session>, link: &Arc<Link>) {
    if session.subscriptions.restored.swap(true, Ordering::Relaxed) {
        return;
    }
    let wanted = session.subscriptions.uris.lock().clone();
    if wanted.is_empty() {
        return;
    }
    let (session, link) = (Arc::clone(session), Arc::clone(link));
    tokio::spawn(async move {
        let subscriber = session.subscriptions.subscriber(&link);
        if subscriber.subscribe(wanted.clone()).await.is_err() {
            // The server is down: it is asked when it is there again.
            wanted.iter().for_each(|uri| subscriber.joins(uri));
        }
    });
}

/// Answers a request of either kind; `None` where the server does.
pub(super) async fn answer(
    gate: &Gate,
    link: &Arc<Link>,
    session: &Session,
    inbound: &Inbound,
) -> Option<Bytes> {
    let id = inbound.raw_id()?;
    let uri = inbound.params.uri.clone();
    let uri = json::text(&inbound.message, uri?)?.into_owned();
    let modern = link.hello()?.era() == Era::Modern;
    let subscriber = session.subscriptions.subscriber(link);
    let answered = if inbound.method() == "resources/subscribe" {
        if modern {
            let honoured = subscriber.subscribe([uri.clone()].into()).await;
            if !honoured.ok()?.contains(&uri) {
                let text = "the server does not announce changes of this resource";
                return Some(rpc_error(Some(id), INVALID_PARAMS, text, None));
            }
        } else {
            subscriber.joins(&uri);
        }
        session.subscriptions.uris.lock().insert(uri);
        modern
    } else {
        session.subscriptions.uris.lock().remove(&uri);
        if modern {
            subscriber.unsubscribe(&uri).await;
            true
        } else {
            !subscriber.leaves(&uri)
        }
    };
    if let Err(error) = gate.sessions.write_down(session).await {
        tracing::warn!(%error, "the subscriptions of a session could not be kept");
    }
    answered.then(|| render::result(id, b"{}"))
}
