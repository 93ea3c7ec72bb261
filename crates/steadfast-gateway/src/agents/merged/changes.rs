//! What all servers of an agent announce: each change of a list once, however many servers change at a time.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast::{Keeper, Link, Listing};
use steadfast_core::catalog::List;
use steadfast_core::wire::{envelope, json};
use steadfast_core::{AgentName, ServerName};

use super::{opening, resources, spread, with_text};
use crate::agents::Connection;
use crate::agents::hello::notification;
use crate::agents::modern::Hub;
use crate::agents::session::Session;
use crate::agents::sessions::Sessions;

/// How long changes are collected before agents are told.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The lists whose changes are announced. That of templates is announced with the resources.
const ANNOUNCED: [List; 3] = [List::Tools, List::Prompts, List::Resources];

/// What is to be announced, and to whom.
#[derive(Debug)]
pub(crate) struct Changes {
    keeper: Keeper,
    sessions: Arc<Sessions>,
    hub: Arc<Hub>,
    collected: Mutex<HashMap<AgentName, BTreeSet<List>>>,
    /// What agents have last seen of each server.
    shown: Mutex<HashMap<(Connection, List), Arc<Listing>>>,
}

impl Changes {
    pub(crate) fn new(keeper: Keeper, sessions: Arc<Sessions>, hub: Arc<Hub>) -> Arc<Self> {
        Arc::new(Self {
            keeper,
            sessions,
            hub,
            collected: Mutex::default(),
            shown: Mutex::default(),
        })
    }

    /// Every list of this agent may have changed: a server has come or gone.
    pub(crate) fn all(self: &Arc<Self>, agent: &AgentName) {
        self.collect(agent, ANNOUNCED);
    }

    /// A server was switched off: when it is there again, that is news whatever it lists.
    pub(crate) fn left(self: &Arc<Self>, agent: &AgentName, server: &ServerName) {
        let is_its = |connection: &Connection| connection.0 == *agent && connection.1 == *server;
        let mut shown = self.shown.lock();
        shown.retain(|(connection, _), _| !is_its(connection));
        drop(shown);
        self.all(agent);
    }

    /// An agent gets this list of a server.
    pub(super) fn shown(&self, link: &Link, list: List, listing: &Arc<Listing>) {
        let connection = (link.agent().clone(), link.server().clone());
        let mut shown = self.shown.lock();
        shown.insert((connection, list), Arc::clone(listing));
    }

    /// Forgets what was seen of all connections but some.
    pub(crate) fn retain(&self, still_there: impl Fn(&AgentName, &ServerName) -> bool) {
        let mut shown = self.shown.lock();
        shown.retain(|((agent, server), _), _| still_there(agent, server));
    }

    /// The sessions with all servers that hear this connection.
    fn audience(&self, link: &Link) -> Vec<Arc<Session>> {
        if let Some(key) = link.conversation() {
            let session = self.sessions.in_memory(&key);
            return session
                .filter(|session| session.server.is_none())
                .into_iter()
                .collect();
        }
        let mut all = self.sessions.listeners(link.agent(), None);
        // They hear it on their own connections.
        all.retain(|session| !session.is_isolated(link.server()));
        all
    }

    /// A server is there again, or for the first time.
    pub(crate) fn reopened(self: &Arc<Self>, link: &Arc<Link>) {
        let sessions = self.audience(link);
        let is_heard = link.conversation().is_none() && self.hub.is_heard_by(link.agent());
        if sessions.is_empty() && !is_heard {
            return;
        }
        let (this, link) = (Arc::clone(self), Arc::clone(link));
        tokio::spawn(async move {
            spread::levels(&link, &sessions).await;
            this.compare(&link).await;
        });
    }

    /// Finds out which lists are other than they were when the agent last saw them.
    async fn compare(self: &Arc<Self>, link: &Arc<Link>) {
        for list in List::ALL {
            let Some(hello) = link.hello() else {
                return;
            };
            let key = ((link.agent().clone(), link.server().clone()), list);
            let before = self.shown.lock().get(&key).cloned();
            let is_other = match before {
                // Whether it has one at all may be news.
                None => list.offer(&hello.result).offered,
                Some(before) => {
                    let now = link.list(list).await;
                    now.is_none_or(|now| now.entries != before.entries)
                }
            };
            if is_other {
                let announced = ANNOUNCED.into_iter();
                let announced = announced.filter(|it| it.changed() == list.changed());
                self.collect(link.agent(), announced);
            }
        }
    }

    fn collect(self: &Arc<Self>, agent: &AgentName, lists: impl IntoIterator<Item = List>) {
        let mut collected = self.collected.lock();
        let is_first = !collected.contains_key(agent);
        collected.entry(agent.clone()).or_default().extend(lists);
        drop(collected);
        if is_first {
            let (this, agent) = (Arc::clone(self), agent.clone());
            tokio::spawn(async move {
                tokio::time::sleep(DEBOUNCE).await;
                this.announce(&agent);
            });
        }
    }

    fn announce(&self, agent: &AgentName) {
        let Some(lists) = self.collected.lock().remove(agent) else {
            return;
        };
        let sessions = self.sessions.listeners(agent, None);
        let links = self.keeper.enabled_links_of(agent);
        for list in lists {
            // What no server offers was not declared to the agent either.
            if list == List::Resources && !opening::offers_resources(&links) {
                continue;
            }
            let message = notification(list.changed());
            for session in &sessions {
                tell(session, message.clone());
            }
            self.hub.announce(agent, &message);
        }
    }

    /// A notification of one server's own stream.
    pub(crate) fn notification(self: &Arc<Self>, link: &Link, message: &Bytes) {
        let (agent, server) = (link.agent(), link.server());
        let sessions = self.audience(link);
        if sessions.is_empty() && link.conversation().is_some() {
            return;
        }
        let Ok(read) = envelope::read(message) else {
            return;
        };
        let method = read.method(message);
        let mut changed = List::of_changed(&method).peekable();
        if changed.peek().is_some() {
            return self.collect(agent, changed.filter(|list| ANNOUNCED.contains(list)));
        }
        if sessions.is_empty() {
            return;
        }
        let uri = match &*method {
            "notifications/resources/updated" => envelope::read_params(message, &read).uri,
            _ => None,
        };
        let links = match uri {
            Some(_) => self.keeper.enabled_links_of(agent),
            None => Vec::new(),
        };
        let updated = uri.clone().and_then(|range| json::text(message, range));
        for session in sessions {
            let subscriptions = &session.subscriptions;
            if updated
                .as_ref()
                .is_some_and(|uri| !subscriptions.hears_of(link, uri))
            {
                continue;
            }
            let message = match &uri {
                Some(range) => with_uri(&links, &session, server, message, range.clone()),
                None => message.clone(),
            };
            if let Some(message) = session.translate(server, message)
                && let Some(stream) = session.listening_now()
            {
                stream.append_from(server, message);
            }
        }
    }
}

fn tell(session: &Session, message: Bytes) {
    if let Some(stream) = session.listening_now() {
        stream.append(message);
    }
}

/// The notification with the URI as the agent knows it.
fn with_uri(
    links: &[Arc<Link>],
    session: &Session,
    server: &ServerName,
    message: &Bytes,
    range: Range<usize>,
) -> Bytes {
    let known = json::text(message, range.clone())
        .and_then(|theirs| resources::known_as(links, Some(session), server, &theirs));
    let Some(known) = known else {
        return message.clone();
    };
    with_text(message, range, &known)
}
