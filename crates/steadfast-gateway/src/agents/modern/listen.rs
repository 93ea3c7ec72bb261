//! `subscriptions/listen` of modern agents (2026-07-28 basic/patterns/subscriptions): served from the
//! streams that the keeper holds open toward servers of either era, so that a drop there never ends a
//! stream here.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use steadfast::{Link, Subscriber};
use steadfast_core::stream::subscription::{Filter, message};
use steadfast_core::wire::{envelope, json, sse};
use steadfast_core::{AgentName, ServerName};
use tokio::sync::mpsc;

use crate::Gate;
use crate::agents::Connection;
use crate::agents::hello::notification;
use crate::agents::inbound::Inbound;
use crate::agents::stream_body::{self, Source};
use crate::body::Body;
use crate::problem::status_only;

/// How far an agent may fall behind before its stream is ended: it learns from that to fetch anew.
const LONGEST_QUEUE: usize = 256;

/// Whose notifications a subscription hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of one server.
    One(Connection),
    /// Those of all servers of an agent.
    All(AgentName),
}

impl Scope {
    fn agent(&self) -> &AgentName {
        match self {
            Self::One((agent, _)) | Self::All(agent) => agent,
        }
    }

    fn server(&self) -> Option<&ServerName> {
        match self {
            Self::One((_, server)) => Some(server),
            Self::All(_) => None,
        }
    }
}

/// What a server's notification becomes where the agent knows its servers under one address; `None` for
/// one that means nothing there.
pub(crate) type Rewrite = Arc<dyn Fn(&ServerName, &Bytes) -> Option<Bytes> + Send + Sync>;

/// Who hears what.
#[derive(Clone)]
pub(crate) struct Audience {
    pub(crate) scope: Scope,
    pub(crate) rewrite: Option<Rewrite>,
}

impl Audience {
    /// A connection, whose notifications pass as they are.
    pub(crate) fn of(link: &Link) -> Self {
        let connection = (link.agent().clone(), link.server().clone());
        Self {
            scope: Scope::One(connection),
            rewrite: None,
        }
    }

    /// What it hears of a notification.
    fn hears(&self, server: &ServerName, message: &Bytes) -> Option<Bytes> {
        if self.scope.server().is_some_and(|only| only != server) {
            return None;
        }
        match &self.rewrite {
            Some(rewrite) => rewrite(server, message),
            None => Some(message.clone()),
        }
    }
}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scope.fmt(f)
    }
}

/// One stream that is listened on.
#[derive(Debug)]
struct Listener {
    number: u64,
    audience: Audience,
    /// The raw JSON of the request's id, which is the subscription's.
    id: String,
    filter: Filter,
    queue: mpsc::Sender<Bytes>,
}

impl Listener {
    /// Sends on what it wants to hear. Whether it keeps up.
    fn hear(&self, server: &ServerName, message: &Bytes) -> bool {
        match self.audience.hears(server, message) {
            Some(message) => self.send(&message),
            None => true,
        }
    }

    /// Sends on what its filter wants. Whether it keeps up.
    fn send(&self, message: &Bytes) -> bool {
        let Ok(read) = envelope::read(message) else {
            return true;
        };
        let uri = envelope::read_params(message, &read).uri;
        let uri = uri.and_then(|range| json::text(message, range));
        if !self.filter.wants(&read.method(message), uri.as_deref()) {
            return true;
        }
        let tagged = message::tagged(message, &read, &self.id);
        self.queue.try_send(tagged.into()).is_ok()
    }

    /// The server ends the subscription: the agent is told, so that it does not take it for a drop
    /// ("Graceful Closure").
    fn close(self) {
        // One that is so far behind sees its stream end without it.
        let _ = self.queue.try_send(message::closing(&self.id).into());
    }
}

/// All such streams, by agent.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    made: u64,
    by_agent: HashMap<AgentName, Vec<Listener>>,
}

impl Hub {
    /// A notification of the server's own stream.
    pub(crate) fn notify(&self, agent: &AgentName, server: &ServerName, message: &Bytes) {
        let mut streams = self.streams.lock();
        if let Some(those) = streams.by_agent.get_mut(agent) {
            // Whoever is too slow is dropped, which ends its stream.
            those.retain(|it| it.hear(server, message));
        }
    }

    /// Tells those who hear all servers of an agent something of our own.
    pub(crate) fn announce(&self, agent: &AgentName, message: &Bytes) {
        let mut streams = self.streams.lock();
        if let Some(those) = streams.by_agent.get_mut(agent) {
            those.retain(|it| it.audience.scope.server().is_some() || it.send(message));
        }
    }

    /// Whether anybody hears all servers of an agent.
    pub(crate) fn is_heard_by(&self, agent: &AgentName) -> bool {
        let streams = self.streams.lock();
        let those = streams.by_agent.get(agent).map_or(&[][..], Vec::as_slice);
        those.iter().any(|it| it.audience.scope.server().is_none())
    }

    /// Whether anybody listens to this server.
    pub(crate) fn has_listeners(&self, agent: &AgentName, server: &ServerName) -> bool {
        let streams = self.streams.lock();
        let those = streams.by_agent.get(agent);
        let mut scopes = those.into_iter().flatten().map(|it| &it.audience.scope);
        scopes.any(|scope| scope.server().is_none_or(|only| only == server))
    }

    /// The server is there again: every list may have changed.
    pub(crate) fn reopened(&self, agent: &AgentName, server: &ServerName) {
        for method in Filter::all_lists().list_methods() {
            self.notify(agent, server, &notification(method));
        }
    }

    /// Ends all streams but some, each with its response.
    pub(crate) fn retain(&self, stays: impl Fn(&AgentName, Option<&ServerName>) -> bool) {
        let mut ended = Vec::new();
        let mut streams = self.streams.lock();
        for those in streams.by_agent.values_mut() {
            ended.extend(those.extract_if(.., |it| {
                !stays(it.audience.scope.agent(), it.audience.scope.server())
            }));
        }
        streams.by_agent.retain(|_, those| !those.is_empty());
        drop(streams);
        for listener in ended {
            listener.close();
        }
    }

    /// Hears from now on. `id` is the raw JSON of the request's.
    pub(crate) fn listen(
        self: &Arc<Self>,
        audience: Audience,
        id: &[u8],
        filter: Filter,
    ) -> Opening {
        let (queue, receiver) = mpsc::channel(LONGEST_QUEUE);
        let id = String::from_utf8_lossy(id).into_owned();
        let agent = audience.scope.agent().clone();
        let mut streams = self.streams.lock();
        streams.made += 1;
        let number = streams.made;
        streams
            .by_agent
            .entry(agent.clone())
            .or_default()
            .push(Listener {
                number,
                audience,
                id: id.clone(),
                filter,
                queue,
            });
        drop(streams);
        Opening {
            id,
            receiver,
            place: Place {
                agent,
                number,
                hub: Arc::clone(self),
            },
        }
    }

    fn change(&self, place: &Place, filter: Filter) {
        let mut streams = self.streams.lock();
        let those = streams.by_agent.get_mut(&place.agent);
        let mut those = those.into_iter().flatten();
        if let Some(listener) = those.find(|it| it.number == place.number) {
            listener.filter = filter;
        }
    }

    fn remove(&self, place: &Place) {
        let mut streams = self.streams.lock();
        if let Some(those) = streams.by_agent.get_mut(&place.agent) {
            those.retain(|it| it.number != place.number);
            if those.is_empty() {
                streams.by_agent.remove(&place.agent);
            }
        }
    }
}

/// A listener's place in the hub, given up when this is dropped.
#[derive(Debug)]
struct Place {
    agent: AgentName,
    number: u64,
    hub: Arc<Hub>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let hub = Arc::clone(&self.hub);
        hub.remove(self);
    }
}

/// A subscription that hears already and is yet to be acknowledged.
#[derive(Debug)]
pub(crate) struct Opening {
    id: String,
    receiver: mpsc::Receiver<Bytes>,
    place: Place,
}

impl Opening {
    /// The stream, which begins with what is honoured. The wishes of `subscribers` last as long as it.
    pub(crate) fn acknowledge(
        self,
        gate: &Gate,
        honoured: &Filter,
        subscribers: Vec<Subscriber>,
    ) -> Response<Body> {
        self.place.hub.change(&self.place, honoured.clone());
        let source = Listening {
            first: Some(message::acknowledgment(&self.id, honoured).into()),
            receiver: self.receiver,
            _place: self.place,
            _subscribers: subscribers,
        };
        stream_body::response(source, gate.settings.keep_alive)
    }
}

/// What a `subscriptions/listen` asks for.
pub(crate) fn asked(inbound: &Inbound) -> Filter {
    let source = &inbound.message;
    let params = inbound.params.whole.clone();
    let object = params.and_then(|params| json::at_path(source, params, &["notifications"]));
    object.map_or_else(Filter::default, |object| Filter::read(source, object))
}

/// Whether a filter asks for kinds of notifications that only an extension knows: such a request goes to
/// a modern server as it is.
pub(super) fn is_of_extension(inbound: &Inbound) -> bool {
    const KNOWN: [&str; 4] = [
        "toolsListChanged",
        "promptsListChanged",
        "resourcesListChanged",
        "resourceSubscriptions",
    ];
    let source = &inbound.message;
    let params = inbound.params.whole.clone();
    let object = params.and_then(|params| json::at_path(source, params, &["notifications"]));
    let mut is_other = false;
    object.is_some_and(|object| {
        let read = json::members(source, object, |member| {
            let known = |key: &&str| json::is_text(source, member.key.clone(), key);
            is_other |= !KNOWN.iter().any(known);
        });
        read.is_ok() && is_other
    })
}

/// Serves one `subscriptions/listen` for one server.
pub(super) async fn serve(gate: &Arc<Gate>, link: &Arc<Link>, inbound: &Inbound) -> Response<Body> {
    let Some(id) = inbound.id() else {
        return status_only(StatusCode::BAD_REQUEST);
    };
    let asked = asked(inbound);
    // It hears before it is known what is honoured, so that nothing is missed in between.
    let opening = gate.hub.listen(Audience::of(link), &id, asked.clone());
    let subscriber = link.subscriber();
    let uris = match subscriber.subscribe(asked.uris.clone()).await {
        Ok(honoured) => honoured,
        // A server that is down is asked when it is there again.
        Err(_) => {
            asked.uris.iter().for_each(|uri| subscriber.joins(uri));
            asked.uris.clone()
        }
    };
    let honoured = Filter {
        uris,
        ..asked.and(&link.honoured())
    };
    opening.acknowledge(gate, &honoured, vec![subscriber])
}

/// The stream of one subscription.
struct Listening {
    first: Option<Bytes>,
    receiver: mpsc::Receiver<Bytes>,
    _place: Place,
    _subscribers: Vec<Subscriber>,
}

impl Source for Listening {
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => ready!(self.receiver.poll_recv(cx)),
        };
        if let Some(message) = &next {
            sse::encode(out, None, None, message);
        }
        Poll::Ready(next.is_some())
    }
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
