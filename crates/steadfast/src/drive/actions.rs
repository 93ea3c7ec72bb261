//! What the machines of a connection ask for, performed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::gate::Claim;
use steadfast_core::identity::{AttemptId, EventCursor, Generation};
use steadfast_core::stream::{listen as get, subscription};
use steadfast_core::{Era, Fault, Kind, Millis, SessionId, connection, quirks, session};
use steadfast_store::SessionRecord;
use tokio::sync::oneshot;

use super::open::{self, Opened};
use super::{Driver, Input, Pending, listen, settle};
use crate::clock;
use crate::link::Link;
use crate::perform::ask::{ask, post_for_stream};
use crate::route::{MCP_METHOD, Route};

impl Driver {
    pub(super) async fn perform(&mut self, action: connection::Action) {
        match action {
            connection::Action::Open { attempt, claim } => self.open(attempt, claim).await,
            connection::Action::Abandon { attempt } => self.abandon(attempt).await,
            connection::Action::Close { generation } => self.close(generation).await,
            connection::Action::CheckHealth { generation, after } => {
                self.check_health(generation, after);
            }
        }
    }

    async fn open(&mut self, attempt: AttemptId, claim: Claim) {
        self.attempts = self.attempts.max(attempt.0);
        let Some(upstream) = self.link.upstream.read().clone() else {
            let fault = Fault::new(Kind::Misconfigured, "there is no usable configuration");
            self.link.tell(Input::Opened {
                attempt,
                outcome: Err(fault),
            });
            return;
        };
        let mut place = match upstream.member.ask(claim) {
            Ok(place) => place,
            Err(until) => {
                let held = connection::Event::Held { attempt, until };
                return Box::pin(self.feed(held)).await;
            }
        };
        self.generation = self.generation.next();
        let generation = self.generation;
        let (link, shared) = (Arc::clone(&self.link), Arc::clone(&self.shared));
        let record = self.record.clone();
        let task = tokio::spawn(async move {
            place.admitted().await;
            let outcome = open::open(&link, &upstream, generation, record, &shared.store).await;
            drop(place);
            link.tell(Input::Opened {
                attempt,
                outcome: outcome.map(Box::new),
            });
        });
        if let Some(before) = self.opening.replace(task) {
            before.abort();
        }
    }

    async fn abandon(&mut self, attempt: AttemptId) {
        if let Some(task) = self.opening.take() {
            task.abort();
        }
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.attempt == attempt)
            && let Some(pending) = self.pending.take()
        {
            self.stop_listening().await;
            self.close_session(pending.opened.route.generation, true)
                .await;
        }
    }

    /// An attempt has ended. What a stale one opened is closed again.
    pub(super) async fn opened(&mut self, attempt: AttemptId, outcome: Result<Box<Opened>, Fault>) {
        let is_awaited = matches!(
            self.connection,
            connection::State::Connecting { attempt: awaited, .. } if awaited == attempt
        );
        let opened = match outcome {
            Ok(opened) if is_awaited => opened,
            Ok(stale) => {
                if let Some(session) = stale.route.session.clone() {
                    let route = Arc::clone(&stale.route);
                    tokio::spawn(async move { open::delete(&route, &session).await });
                }
                return;
            }
            Err(fault) => {
                return self
                    .feed(connection::Event::Failed { attempt, fault })
                    .await;
            }
        };
        if opened.era_changed && self.era_changes_too_often() {
            let fault = Fault::new(
                Kind::ProtocolMismatch,
                "the server keeps changing between the eras of the protocol",
            );
            return self
                .feed(connection::Event::Failed { attempt, fault })
                .await;
        }
        self.settle(attempt, opened).await;
    }

    fn era_changes_too_often(&mut self) -> bool {
        let now = clock::mono();
        self.era_switches
            .retain(|at| now.since(*at) < steadfast_core::Millis::mins(60));
        self.era_switches.push(now);
        self.era_switches.len() > self.shared.retry.era_switches as usize
    }

    /// Session, GET stream, what the session is to remember, and the lists: in this order on the wire.
    async fn settle(&mut self, attempt: AttemptId, opened: Box<Opened>) {
        let route = Arc::clone(&opened.route);
        let (resumed, hello) = (opened.resumed, opened.hello.result.clone());
        if let Some(rule) = opened.refused {
            let generation = match &self.session {
                session::State::Open { generation, .. } => *generation,
                session::State::None { .. }
                | session::State::Rebuilding { .. }
                | session::State::Unstable { .. } => Generation::default(),
            };
            tracing::info!(
                agent = %self.link.agent, server = %self.link.server, rule,
                "the session on record is gone; a new one was opened"
            );
            // The loss is already mended; it only counts for the limit.
            self.note_lost_session(generation, rule);
        }
        if let Some(before) = self.routes.last() {
            self.close_http_sse(before.generation);
        }
        self.routes.push(Arc::clone(&route));
        if self.routes.len() > 2 {
            self.routes.remove(0);
        }
        let catalog = &self.link.catalog;
        catalog.reopened(route.generation, &opened.hello.result);
        // The old transport has one stream for everything.
        catalog.set_hears(route.endpoint.is_some());
        let (listening, asked_for) = oneshot::channel();
        self.pending = Some(Pending {
            attempt,
            opened,
            listening: Some(listening),
        });
        let id = route.session.clone();
        let generation = route.generation;
        self.feed_session(session::Event::Opened { generation, id })
            .await;
        match route.era() {
            Era::Legacy if route.endpoint.is_none() => {
                self.feed_listen(get::Event::SessionOpened { new: !resumed })
                    .await;
            }
            // The old transport has its stream already.
            Era::Legacy => self.listens_now(),
            Era::Modern => {
                let wanted = self.wanted(&hello);
                self.feed_subscription(subscription::Event::Connected { wanted })
                    .await;
            }
        }
        let link = Arc::clone(&self.link);
        tokio::spawn(async move {
            let outcome = settle::settle(&link, &route, resumed, asked_for).await;
            link.tell(Input::Settled { attempt, outcome });
        });
    }

    fn note_lost_session(&mut self, generation: Generation, rule: &'static str) {
        let step = session::step(
            self.session.clone(),
            session::Event::Refused { generation, rule },
            &session::Context {
                now: self.now(),
                policy: &self.shared.session_policy,
            },
        );
        self.session = step.state;
    }

    pub(super) async fn settled(&mut self, attempt: AttemptId, outcome: Result<(), Fault>) {
        let is_ours = self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.attempt == attempt);
        if !is_ours {
            return;
        }
        let Some(pending) = self.pending.take() else {
            return;
        };
        let route = &pending.opened.route;
        if let Err(fault) = outcome {
            self.stop_listening().await;
            if pending.opened.resumed && fault.kind == Kind::SessionLost {
                return self.ended_meanwhile(attempt, route.generation).await;
            }
            let reachable = fault.kind != Kind::SessionLost;
            self.close_session(route.generation, reachable).await;
            return self
                .feed(connection::Event::Failed { attempt, fault })
                .await;
        }
        *self.link.hello.write() = Some(Arc::new(pending.opened.hello.clone()));
        self.keep_session(&pending.opened).await;
        let generation = route.generation;
        self.feed(connection::Event::Opened {
            attempt,
            generation,
        })
        .await;
        if let Some(listener) = self.link.listener.read().clone() {
            listener.reopened(&self.link);
        }
    }

    /// The session on record was still known, and then it was not: another process on the same record has
    /// ended it. As where it was gone before, the attempt goes on with a new one.
    async fn ended_meanwhile(&mut self, attempt: AttemptId, generation: Generation) {
        self.note_lost_session(generation, "ended while it was taken up");
        self.close_session(generation, false).await;
        self.open(attempt, Claim::Again).await;
    }

    /// Session id and revision go on record, so that a restarted keeper goes on with the session.
    async fn keep_session(&mut self, opened: &Opened) {
        let route = &opened.route;
        self.link.view.lock().session_since = (route.era() == Era::Legacy).then(clock::mono);
        if self.link.private.is_some() {
            // The record is that of the shared connection.
            return;
        }
        if route.era() == Era::Modern || route.session.is_none() {
            return self.forget_session().await;
        }
        let remembered = self.link.remembered.lock().clone();
        let record = SessionRecord {
            agent: self.link.agent.clone(),
            server: self.link.server.clone(),
            address: route.upstream.address().to_owned(),
            id: route.session.clone(),
            revision: route.known.revision,
            initialize_result: String::from_utf8_lossy(&opened.hello.result).into_owned(),
            opened_at: clock::wall(),
            state: serde_json::to_value(remembered).unwrap_or_default(),
        };
        self.write_session(&record).await;
        self.record = Some(record);
    }

    async fn write_session(&self, record: &SessionRecord) {
        if let Err(error) = self.shared.store.put_session(record).await {
            tracing::warn!(%error, "the session cannot be kept");
        }
    }

    /// What the session was asked to remember goes on record with it.
    pub(super) async fn keep_remembered(&mut self) {
        let Some(mut record) = self.record.take() else {
            return;
        };
        let remembered = self.link.remembered.lock().clone();
        record.state = serde_json::to_value(remembered).unwrap_or_default();
        self.write_session(&record).await;
        self.record = Some(record);
    }

    pub(super) async fn forget_session(&mut self) {
        if self.record.take().is_some()
            && let Err(error) = self
                .shared
                .store
                .remove_session(&self.link.agent, &self.link.server)
                .await
        {
            tracing::warn!(%error, "the session cannot be forgotten");
        }
    }

    async fn close(&mut self, generation: Generation) {
        self.close_session(generation, true).await;
        self.close_http_sse(generation);
        self.stop_listening().await;
    }

    /// Nothing is listened to without a connection.
    pub(super) async fn stop_listening(&mut self) {
        self.feed_listen(get::Event::SessionClosed).await;
        self.feed_subscription(subscription::Event::Disconnected)
            .await;
    }

    /// Closes the stream of the old transport, but not while it owes an answer.
    fn close_http_sse(&self, generation: Generation) {
        let route = self
            .routes
            .iter()
            .find(|route| route.generation == generation && route.endpoint.is_some());
        let Some(route) = route.cloned() else {
            return;
        };
        let patience = self.patience();
        self.shared.farewells.spawn(async move {
            route.drained(patience).await;
            route.close();
        });
    }

    /// How long an answer that is still owed may delay the end of its session.
    fn patience(&self) -> Duration {
        if self.shared.is_stopping() {
            Duration::ZERO
        } else {
            self.shared.retry.call_timeout.duration()
        }
    }

    async fn close_session(&mut self, generation: Generation, reachable: bool) {
        if self.shared.is_stopping() && self.is_waited_for().await {
            // Both stay, the session and its record: the next process goes on with them.
            return;
        }
        self.forget_session().await;
        let closed = session::Event::Closed {
            generation,
            reachable,
        };
        Box::pin(self.feed_session(closed)).await;
    }

    /// Whether a call on record waits in the session for its agent's answer.
    async fn is_waited_for(&self) -> bool {
        let record = self.record.as_ref();
        let Some(session) = record.and_then(|record| record.id.as_ref()) else {
            return false;
        };
        let (agent, server) = (&self.link.agent, &self.link.server);
        let store = &self.shared.store;
        let found = store.is_waited_for(agent, server, session, clock::wall());
        found.await.unwrap_or_else(|error| {
            tracing::warn!(%agent, %server, %error, "the session is left open: calls may wait in it");
            true
        })
    }

    /// Tells the server that a session ends, but not while it owes an answer in it.
    pub(super) async fn delete_session(&mut self, id: &SessionId) {
        let Some(route) = self.route_of(id) else {
            return;
        };
        let id = id.clone();
        let patience = self.patience();
        let task = async move {
            route.drained(patience).await;
            open::delete(&route, &id).await;
        };
        self.shared.farewells.spawn(task);
    }

    pub(super) fn open_stream(&mut self, attempt: AttemptId, cursor: Option<EventCursor>) {
        let Some(route) = self.routes.last().cloned() else {
            return;
        };
        let task = listen::listen(Arc::clone(&self.link), route, attempt, cursor);
        if let Some(before) = self.stream.replace(tokio::spawn(task)) {
            before.abort();
        }
    }

    fn check_health(&self, generation: Generation, after: Millis) {
        let Some(route) = self.routes.last().cloned() else {
            return;
        };
        if route.generation != generation {
            return;
        }
        route.upstream.pool.prune();
        let (link, store) = (Arc::clone(&self.link), Arc::clone(&self.shared.store));
        tokio::spawn(async move {
            tokio::time::sleep(after.duration()).await;
            match check(&link, &route).await {
                Ok(Health::Alive) => {}
                Ok(Health::NoPing) => {
                    let mut known = route.known.clone();
                    known.no_ping = true;
                    let _ = store.put_era(route.upstream.address(), &known).await;
                    link.no_ping();
                }
                Ok(Health::SessionRefused(rule)) => {
                    link.tell(Input::Session(session::Event::Refused { generation, rule }));
                }
                Err(fault) => link.lost(generation, fault),
            }
        });
    }
}

enum Health {
    Alive,
    /// It answers, but does not know ping: not asked that way again (OP-05).
    NoPing,
    SessionRefused(&'static str),
}

/// Asks the server a harmless question. Any JSON-RPC answer is life.
async fn check(link: &Arc<Link>, route: &Arc<Route>) -> Result<Health, Fault> {
    let id = link.next_id();
    let mut headers = route.headers.clone();
    let question = match route.era() {
        // 2026-07-28 has no ping; every server must know server/discover.
        Era::Modern => {
            headers.insert(
                MCP_METHOD,
                http::HeaderValue::from_static("server/discover"),
            );
            Bytes::from(open::discover(id, route.known.revision))
        }
        Era::Legacy => open::harmless(link, id),
    };
    if route.endpoint.is_some() {
        return check_http_sse(route, id, question).await;
    }
    let aside = |message, _| link.aside(route, message);
    let asked = ask(&route.upstream, headers, (id, question), &aside).await?;
    let answer = asked.answer(route.session.is_some(), route.era());
    if let Some(rule) = quirks::unknown_session(&answer) {
        return Ok(Health::SessionRefused(rule.name));
    }
    let unknown = quirks::method_unknown(&answer).is_some();
    // Every modern server must know server/discover.
    let modern_no_more = unknown && route.era() == Era::Modern;
    if modern_no_more || quirks::other_era(&answer).is_some() {
        let message = "the server speaks another era or revision now";
        return Err(Fault::new(Kind::SessionLost, message));
    }
    let refuses = asked.status >= 500 || matches!(asked.status, 401 | 403 | 429);
    let is_json_rpc = steadfast_core::wire::envelope::read(&asked.body).is_ok();
    let is_alive = unknown || (is_json_rpc && !refuses);
    if !is_alive {
        let fault = quirks::fault_of(&answer);
        // What is missing is on record. The server lives, and may serve what the grant is enough for.
        let is_known = route.upstream.credential().lacks_any_scope();
        if fault.kind != Kind::ScopeInsufficient || !is_known {
            return Err(fault);
        }
    }
    link.heard();
    if unknown && route.era() == Era::Legacy && !link.knows_no_ping() {
        return Ok(Health::NoPing);
    }
    Ok(Health::Alive)
}

async fn check_http_sse(route: &Arc<Route>, id: i64, question: Bytes) -> Result<Health, Fault> {
    let answer = route.waiting.register(id);
    let upstream = &route.upstream;
    upstream.ready().await?;
    post_for_stream(route, route.headers.clone(), question).await?;
    let limit = upstream.retry.request_timeout.duration();
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(_)) => Ok(Health::Alive),
        Ok(Err(_)) | Err(_) => Err(Fault::new(Kind::Timeout, "no answer to ping on the stream")),
    }
}
