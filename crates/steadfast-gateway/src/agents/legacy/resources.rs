//! What the sessions of legacy agents want to hear of: `resources/subscribe` and
//! `resources/unsubscribe`. A modern server knows neither; there the keeper's own subscription asks for
//! the resource. Sessions of one agent share its connection, so a server is told that a resource is no
//! longer wanted only when none of them wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast::{Link, Subscriber};
use steadfast_core::replay::Reach;
use steadfast_core::wire::{envelope, json};
use steadfast_core::{Era, ServerName};

use crate::Gate;
use crate::agents::endpoint::Caller;
use crate::agents::inbound::Inbound;
use crate::agents::merged::{self, Asker, Placed};
use crate::agents::render;
use crate::agents::session::Session;
use crate::problem::{INVALID_PARAMS, rpc_error};

/// The most resources that an agent may know by URIs of its own.
const MOST_KNOWN: usize = 1_000;

/// The resources that one session wants to hear of. They are on record with it.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// As the agent asked for them.
    uris: Mutex<BTreeSet<String>>,
    /// Made when they are first needed, and gone with the session: so are its wishes at the keeper.
    subscribers: Mutex<BTreeMap<ServerName, Arc<Subscriber>>>,
    /// As the agent asked for them, by server and the server's own URI, where these are different.
    known: Mutex<BTreeMap<(ServerName, String), String>>,
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

    /// The URI under which the agent asked for the resource `theirs` of a server, where it is another one.
    pub(crate) fn known_as(&self, server: &ServerName, theirs: &str) -> Option<String> {
        let known = self.known.lock();
        known.get(&(server.clone(), theirs.to_owned())).cloned()
    }

    /// Whether the session hears of a change of the resource `theirs` of a server. What somebody asked for is for
    /// those who did, and for no other conversation of the agent; what a server says unasked is for all.
    pub(crate) fn hears_of(&self, link: &Link, theirs: &str) -> bool {
        let subscribers = self.subscribers.lock();
        let subscriber = subscribers.get(link.server());
        subscriber.is_some_and(|subscriber| subscriber.wants(theirs)) || !link.is_wanted(theirs)
    }

    fn knows_as(&self, server: &ServerName, theirs: &str, asked: &str) {
        let mut known = self.known.lock();
        if theirs != asked && known.len() < MOST_KNOWN {
            known.insert((server.clone(), theirs.to_owned()), asked.to_owned());
        }
    }

    fn subscriber(&self, link: &Arc<Link>) -> Arc<Subscriber> {
        let mut subscribers = self.subscribers.lock();
        let subscriber = subscribers
            .entry(link.server().clone())
            .or_insert_with(|| Arc::new(link.subscriber()));
        Arc::clone(subscriber)
    }
}

/// Asks again for what a session wanted before it left the memory, now that its agent listens.
pub(super) fn restore(gate: &Arc<Gate>, caller: &Caller, session: &Arc<Session>) {
    if session.subscriptions.restored.swap(true, Ordering::Relaxed) {
        return;
    }
    let wanted = session.subscriptions.uris();
    if wanted.is_empty() {
        return;
    }
    let (gate, session, link) = (Arc::clone(gate), Arc::clone(session), caller.link.clone());
    tokio::spawn(async move {
        let mut by_server: BTreeMap<ServerName, (Arc<Link>, BTreeSet<String>)> = BTreeMap::new();
        for asked in wanted {
            let owner = match &link {
                Some(link) => Ok((Arc::clone(link), asked.clone())),
                None => {
                    merged::whose(&gate, &Asker::in_session(&session, &Reach::All), &asked).await
                }
            };
            if let Ok((link, theirs)) = owner {
                let server = link.server().clone();
                session.subscriptions.knows_as(&server, &theirs, &asked);
                let (_, uris) = by_server.entry(server).or_insert((link, BTreeSet::new()));
                uris.insert(theirs);
            }
        }
        for (link, uris) in by_server.into_values() {
            let subscriber = session.subscriptions.subscriber(&link);
            if subscriber.subscribe(uris.clone()).await.is_err() {
                // The server is down: it is asked when it is there again.
                uris.iter().for_each(|uri| subscriber.joins(uri));
            }
        }
    });
}

/// The URI that `notifications/resources/updated` is about; `None` for any other message.
pub(crate) fn updated(message: &[u8]) -> Option<String> {
    let read = envelope::read(message).ok()?;
    if read.method(message) != "notifications/resources/updated" {
        return None;
    }
    let uri = envelope::read_params(message, &read).uri?;
    json::text(message, uri).map(std::borrow::Cow::into_owned)
}

/// Whether a request subscribes to a resource, or gives it up.
pub(super) fn is_subscription(inbound: &Inbound) -> bool {
    matches!(
        &*inbound.method(),
        "resources/subscribe" | "resources/unsubscribe"
    )
}

/// Answers a request of either kind, or leaves that to the server.
pub(super) async fn place(
    gate: &Gate,
    link: Arc<Link>,
    session: &Session,
    inbound: Box<Inbound>,
) -> Placed {
    match answer(gate, &link, session, &inbound).await {
        Some(response) => Placed::Here(response),
        None => Placed::At(link, inbound),
    }
}

async fn answer(
    gate: &Gate,
    link: &Arc<Link>,
    session: &Session,
    inbound: &Inbound,
) -> Option<Bytes> {
    let id = inbound.raw_id()?;
    let uri = inbound.params.uri.clone();
    let uri = json::text(&inbound.message, uri?)?.into_owned();
    let asked = inbound.asked_uri().unwrap_or(&uri).to_owned();
    let modern = link.hello()?.era() == Era::Modern;
    let subscriber = session.subscriptions.subscriber(link);
    let answered = if inbound.method() == "resources/subscribe" {
        session.subscriptions.knows_as(link.server(), &uri, &asked);
        if modern {
            let honoured = subscriber.subscribe([uri.clone()].into()).await;
            if !honoured.ok()?.contains(&uri) {
                let text = "the server does not announce changes of this resource";
                return Some(rpc_error(Some(id), INVALID_PARAMS, text, None));
            }
        } else {
            subscriber.joins(&uri);
        }
        session.subscriptions.uris.lock().insert(asked);
        modern
    } else {
        session.subscriptions.uris.lock().remove(&asked);
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
