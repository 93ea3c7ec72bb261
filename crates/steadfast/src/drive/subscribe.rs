//! Keeps the subscription of a modern connection: feeds its machine, and reads its streams.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use steadfast_core::identity::{AttemptId, RpcId};
use steadfast_core::quirks::{self, Media};
use steadfast_core::stream::Policy;
use steadfast_core::stream::subscription::{self as machine, Event, Filter, State, message};
use steadfast_core::wire::envelope::{self, Kind as MessageKind};
use steadfast_core::{Deadline, connection};
use tokio::task::JoinHandle;

use super::open::own_meta;
use super::{Driver, Input, recheck};
use crate::clock;
use crate::link::Link;
use crate::perform::ask::{is_unauthorized, media_of, note_scope, retry_after};
use crate::perform::events::{Events, Read};
use crate::perform::exchange::{Reply, Terms};
use crate::route::{MCP_METHOD, Route};
use crate::subscriber::Announced;

/// An answer that is no stream is read this far.
const LARGEST_REFUSAL: usize = 64 << 10;

/// The machine, and the streams that it knows of: while one replaces another there are two.
#[derive(Debug)]
pub(super) struct Kept {
    state: State,
    streams: Vec<(AttemptId, JoinHandle<()>)>,
    /// The lists that are asked for again, and what does it.
    watched: (Filter, Option<JoinHandle<()>>),
}

impl Kept {
    pub(super) fn new() -> Self {
        Self {
            state: State::Off(machine::Memory::default()),
            streams: Vec::new(),
            watched: (Filter::default(), None),
        }
    }

    pub(super) fn deadline(&self, policy: &Policy) -> Option<Deadline> {
        machine::deadline(&self.state, policy)
    }

    /// Whether the server has yet to answer.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening { .. })
    }

    /// Whether the server does not take it for now.
    pub(super) fn is_declined(&self) -> bool {
        matches!(self.state, State::NotOffered(_) | State::Resting { .. })
    }

    fn close(&mut self, attempt: AttemptId) {
        for (_, stream) in self.streams.extract_if(.., |(of, _)| *of == attempt) {
            stream.abort();
        }
    }

    pub(super) fn abort(&mut self) {
        let streams = self.streams.drain(..).map(|(_, stream)| stream);
        for task in streams.chain(self.watched.1.take()) {
            task.abort();
        }
    }

    /// What there is to say about it, where it is not simply open.
    pub(super) fn note(&self) -> Option<String> {
        match &self.state {
            State::Off(_) | State::Idle(_) => None,
            State::Resting { .. } | State::NotOffered(_) => Some("no server stream".to_owned()),
            State::Waiting { .. } => Some("reopening".to_owned()),
            State::Opening { .. } | State::Open { .. } => {
                let (asked, honoured) = self.state.answer()?;
                let missing = asked.without(&honoured);
                (!missing.is_empty())
                    .then(|| format!("server does not announce: {}", missing.in_words()))
            }
        }
    }
}

impl Driver {
    /// What is wanted of a modern server that introduced itself like this.
    pub(super) fn wanted(&self, hello: &[u8]) -> Filter {
        Filter {
            uris: self.link.wishes.uris(),
            ..Filter::declared(hello)
        }
    }

    /// The wishes of agents changed.
    pub(super) async fn want(&mut self) {
        let hello = match &self.pending {
            Some(pending) => Some(pending.opened.hello.result.clone()),
            None => self.link.hello().map(|hello| hello.result.clone()),
        };
        if let Some(hello) = hello {
            let wanted = self.wanted(&hello);
            self.feed_subscription(Event::Wanted(wanted)).await;
        }
    }

    pub(super) async fn feed_subscription(&mut self, event: Event) {
        let step = machine::step(
            self.subscription.state.clone(),
            event,
            &machine::Context {
                now: clock::now(),
                jitter: clock::jitter(),
                attempt: AttemptId(self.attempts + 1),
                policy: &self.shared.stream_policy,
            },
        );
        self.note(step.outcome);
        self.subscription.state = step.state;
        if let Some((asked, honoured)) = self.subscription.state.answer() {
            let announced = Some(Announced { asked, honoured });
            self.link.wishes.announced.send_if_modified(|before| {
                let is_news = *before != announced;
                *before = announced;
                is_news
            });
        }
        self.watch_unannounced();
        for action in step.actions {
            match action {
                machine::Action::Open { attempt, filter } => self.subscribe(attempt, filter),
                machine::Action::Close { attempt } => self.subscription.close(attempt),
                machine::Action::Relist => self.relist(),
                machine::Action::Doubt => {
                    let generation = self.generation;
                    Box::pin(self.feed(connection::Event::Doubt { generation })).await;
                }
            }
        }
        if !self.subscription.is_opening() {
            self.listens_now();
        }
    }

    /// The streams that are open have not survived, although they look as if they had.
    pub(super) async fn break_subscription(&mut self) {
        let streams = std::mem::take(&mut self.subscription.streams);
        for (attempt, stream) in streams {
            stream.abort();
            self.feed_subscription(Event::Broken { attempt }).await;
        }
    }

    fn subscribe(&mut self, attempt: AttemptId, filter: Filter) {
        self.attempts = self.attempts.max(attempt.0);
        let Some(route) = self.routes.last().cloned() else {
            return;
        };
        let policy = self.shared.stream_policy;
        let task = listen(Arc::clone(&self.link), route, attempt, filter, policy);
        let streams = &mut self.subscription.streams;
        streams.retain(|(_, stream)| !stream.is_finished());
        streams.push((attempt, tokio::spawn(task)));
    }

    /// What the server does not announce is looked after.
    fn watch_unannounced(&mut self) {
        let lists = machine::unannounced(&self.subscription.state);
        let (watched, task) = &mut self.subscription.watched;
        if *watched == lists {
            return;
        }
        if let Some(task) = task.take() {
            task.abort();
        }
        if !lists.is_empty() {
            let policy = self.shared.stream_policy;
            let watching = recheck::watch(Arc::clone(&self.link), lists.clone(), policy);
            *task = Some(tokio::spawn(watching));
        }
        *watched = lists;
    }

    /// Something may have changed while nobody was told.
    fn relist(&mut self) {
        if self.fetches_lists_next() {
            return;
        }
        self.link.note_gap();
        if let Some(listener) = self.link.listener.read().clone() {
            listener.reopened(&self.link);
        }
    }
}

/// Sends one `subscriptions/listen` and reads its stream. Its owner aborts the task to close it.
async fn listen(
    link: Arc<Link>,
    route: Arc<Route>,
    attempt: AttemptId,
    filter: Filter,
    policy: Policy,
) {
    let tell = |event| link.tell(Input::Subscription(event));
    let id = link.next_id();
    let (meta, filter) = (own_meta(route.known.revision), filter.to_json());
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"_meta":{meta},"notifications":{filter}}}}}"#
    );
    let mut headers = route.headers.clone();
    headers.insert(MCP_METHOD, HeaderValue::from_static("subscriptions/listen"));
    let upstream = &route.upstream;
    let terms = Terms {
        max_idle: None,
        headers_within: upstream.retry.stream_open_timeout.duration(),
    };
    let failed = Event::Failed {
        attempt,
        retry_after: None,
    };
    if upstream.ready().await.is_err() {
        return tell(failed);
    }
    let request = route.post(headers, Bytes::from(body));
    let token = request.token;
    let Ok(reply) = upstream.exchange(request, terms).await else {
        return tell(failed);
    };
    let operation = || "subscriptions/listen".to_owned();
    let is_newer = note_scope(upstream, token, operation, &reply).await;
    if is_newer || (is_unauthorized(&reply) && route.renewed_for_stream(token).await) {
        return tell(failed);
    }
    if !reply.status.is_success() || media_of(&reply.headers) != Media::EventStream {
        return tell(declined(&link, &route, reply, attempt).await);
    }
    route.stream_accepted();
    let mut stream = Stream {
        events: Events::new(reply.body, upstream.max_message),
        link: &link,
        route: &route,
        attempt,
        id: RpcId::Integer(id),
        acknowledged: false,
        fruitful: false,
    };
    let end = stream.read(&policy).await;
    if matches!(end, Event::Ended { .. }) {
        stream.events.finish();
    }
    tell(end);
}

/// What an answer means that is no event stream.
async fn declined(link: &Link, route: &Route, reply: Reply, attempt: AttemptId) -> Event {
    let status = reply.status.as_u16();
    let retry_after = retry_after(&reply.headers);
    if quirks::is_temporary(status) {
        return Event::Failed {
            attempt,
            retry_after,
        };
    }
    let media = media_of(&reply.headers);
    let Ok(body) = reply.body.collect(LARGEST_REFUSAL).await else {
        return Event::Failed {
            attempt,
            retry_after,
        };
    };
    let answer = quirks::Answer {
        status,
        media,
        body: &body,
        challenge: None,
        retry_after,
        session_attached: false,
        era: route.era(),
    };
    if quirks::other_era(&answer).is_some() {
        link.doubt(route.generation);
    }
    let is_result = envelope::read(&body).is_ok_and(|read| read.kind == MessageKind::Result);
    if (200..300).contains(&status) && is_result {
        return Event::Ended { attempt };
    }
    let unknown = matches!(status, 404 | 405) || quirks::method_unknown(&answer).is_some();
    Event::Refused { attempt, unknown }
}

/// An open stream.
struct Stream<'a> {
    events: Events,
    link: &'a Arc<Link>,
    route: &'a Arc<Route>,
    attempt: AttemptId,
    id: RpcId,
    acknowledged: bool,
    fruitful: bool,
}

impl Stream<'_> {
    /// Reads to the end; how it ended.
    async fn read(&mut self, policy: &Policy) -> Event {
        let attempt = self.attempt;
        loop {
            let limit = machine::silence_limit(self.events.kept_alive(), policy);
            let read = match limit {
                Some(limit) => tokio::time::timeout(limit.duration(), self.events.next()).await,
                None => Ok(self.events.next().await),
            };
            let Ok(read) = read else {
                return Event::Broken { attempt };
            };
            match read {
                Read::Event(event) => {
                    let data = event.data.filter(|data| !data.is_empty());
                    if let Some(end) = data.and_then(|data| self.message(&Bytes::from(data))) {
                        return end;
                    }
                }
                Read::Heard => self.link.heard(),
                Read::TooLarge => {
                    tracing::warn!(server = %self.link.server, "an event above limits.max_message was dropped");
                }
                Read::PlainJson(message) => {
                    return self.message(&message).unwrap_or(Event::Broken { attempt });
                }
                Read::End(_) => return Event::Broken { attempt },
            }
        }
    }

    /// One message. How the stream ends, if it does with this.
    fn message(&mut self, message: &Bytes) -> Option<Event> {
        self.link.heard();
        let attempt = self.attempt;
        let drop = |why: &str| {
            tracing::debug!(server = %self.link.server, why, "a message on the subscription is dropped");
            None
        };
        let Ok(read) = envelope::read(message) else {
            return drop("it is not JSON-RPC");
        };
        match read.kind {
            MessageKind::Notification => {}
            // "The server MUST NOT send independent JSON-RPC requests on this stream"
            // (streamable-http, "Receiving Messages").
            MessageKind::Request => return drop("it is a request"),
            MessageKind::Result | MessageKind::Error
                if read.rpc_id(message).is_some_and(|id| id != self.id) =>
            {
                return drop("it answers something else");
            }
            MessageKind::Result => return Some(Event::Ended { attempt }),
            MessageKind::Error if self.acknowledged => return Some(Event::Broken { attempt }),
            MessageKind::Error => {
                let code = envelope::read_error(message, &read).map(|(code, _)| code);
                let unknown = code == Some(METHOD_NOT_FOUND);
                return Some(Event::Refused { attempt, unknown });
            }
        }
        if message::id_of(message, &read).as_ref() != Some(&self.id) {
            return drop("it belongs to no subscription of ours");
        }
        if read.method(message) == message::ACKNOWLEDGED {
            self.acknowledged = true;
            let honoured = message::honoured(message, &read);
            self.tell(Event::Acknowledged { attempt, honoured });
        } else if !self.acknowledged {
            // "MUST NOT send any notification on the subscription before it" ("Acknowledgment").
            return drop("it comes before the acknowledgment");
        } else {
            if !std::mem::replace(&mut self.fruitful, true) {
                self.tell(Event::Received { attempt });
            }
            let plain = message::untagged(message, &read);
            self.link.aside(self.route, Bytes::from(plain));
        }
        None
    }

    fn tell(&self, event: Event) {
        self.link.tell(Input::Subscription(event));
    }
}

/// JSON-RPC 2.0 section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;
