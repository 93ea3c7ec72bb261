//! One try of one call: sends it once, and says what came of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use steadfast_core::bridge::questions;
use steadfast_core::catalog::{List, without};
use steadfast_core::identity::{GrantGeneration, RpcId};
use steadfast_core::quirks::{self, Media};
use steadfast_core::wire::envelope::{self, Kind as MessageKind};
use steadfast_core::{Era, Fault, Kind, connection};

use super::compose::{self, Composed};
use super::input::Asked;
use super::{Job, Sent, Tried, Why, not_observed, stream};
use crate::call::{Answer, Failure, Origin};
use crate::clock;
use crate::drive::Input;
use crate::levels;
use crate::link::Link;
use crate::perform::ask::{media_of, scope_needed};
use crate::perform::events::Events;
use crate::perform::exchange::{Cut, Reply, Terms, Unanswered};
use crate::route::Route;

/// Everything that belongs to one try.
pub(super) struct Attempt<'a> {
    pub(super) link: &'a Arc<Link>,
    pub(super) route: &'a Arc<Route>,
    pub(super) job: &'a Arc<Job>,
    pub(super) reissued: u32,
    pub(super) id: i64,
    pub(super) sent: Sent,
    /// Where the server redirected to: learned once something there answers as an MCP server.
    pub(super) moved: Option<PathAndQuery>,
    /// The access token that it carries.
    pub(super) token: Option<GrantGeneration>,
}

/// What a response says.
pub(super) enum Whole {
    /// It is the answer.
    Answer(Answer),
    /// The server asks for input first.
    Asked(Box<Asked>),
}

/// Sends the call once on this route, to the path that it was redirected to if it was.
pub(super) async fn once(
    link: &Arc<Link>,
    route: &Arc<Route>,
    job: &Arc<Job>,
    reissued: u32,
    moved: Option<PathAndQuery>,
) -> Tried {
    if let Some(level) = &job.level {
        Box::pin(level.tell(route)).await;
    }
    // Boxed, as everything rare on the way of a call is: nearly always there is nothing to wait for.
    if !route.upstream.is_ready()
        && let Err(fault) = Box::pin(route.upstream.ready()).await
    {
        // Nothing goes out without a token that can be sent: the connection says why.
        link.lost(route.generation, fault);
        return Tried::Done(Answer::Failed(Failure::Unavailable(Box::new(
            link.report(),
        ))));
    }
    let id = link.next_id();
    let busy = route.enter(id, job);
    let Composed { headers, body } = compose::compose(link, route, &job.call, &job.policy, id);
    let mut attempt = Attempt {
        link,
        route,
        job,
        reissued,
        id,
        sent: Sent {
            at: clock::wall(),
            bytes: 0,
            proven_unsent: true,
        },
        moved,
        token: None,
    };
    if let Some(tracked) = &job.tracked {
        // On record before the first byte leaves (architecture, writes).
        if let Err(why) = Box::pin(tracked.leave(id)).await {
            return Tried::Kept(Box::new(why));
        }
        attempt.sent.at = clock::wall();
    }
    if route.endpoint.is_some() {
        return Box::pin(attempt.over_http_sse(headers, body)).await;
    }
    let terms = Terms {
        // A write never goes out on a connection that may have died unnoticed (WR-04 b).
        max_idle: (job.policy.effect == steadfast_core::Effect::Write)
            .then(|| route.upstream.retry.connection_max_idle.duration()),
        headers_within: if job.policy.endless {
            Duration::from_secs(u64::from(u32::MAX))
        } else {
            route.upstream.retry.request_timeout.duration()
        },
    };
    let mut request = route.post(headers, body);
    attempt.token = request.token;
    if let Some(path) = &attempt.moved {
        request.path = path.clone();
    }
    // Boxed: it is large, and over before the answer is read.
    let mut exchange = Box::pin(route.upstream.exchange(request, terms));
    let outcome = attempt.unless_cancelled(exchange.as_mut()).await;
    drop(exchange);
    let Some(outcome) = outcome else {
        // What left is not known: everything may have.
        attempt.sent.proven_unsent = false;
        return Tried::Cancelled(attempt.sent);
    };
    match outcome {
        Ok(reply) => {
            attempt.sent.bytes = reply.bytes_sent;
            attempt.sent.proven_unsent = false;
            attempt.answered(reply, busy).await
        }
        Err(unanswered) => attempt.unanswered(unanswered),
    }
}

impl Attempt<'_> {
    /// No HTTP answer came.
    fn unanswered(&mut self, unanswered: Unanswered) -> Tried {
        let Unanswered {
            fault,
            bytes_sent,
            proven_unsent,
            refused,
        } = unanswered;
        self.sent.bytes = bytes_sent;
        self.sent.proven_unsent = proven_unsent;
        let generation = self.route.generation;
        if refused {
            return Tried::Again {
                after: None,
                why: Why::Refused,
                sent: self.sent,
            };
        }
        if proven_unsent {
            // Nothing left: the connection is gone, and the call may go out on the next one.
            self.link.lost(generation, fault);
            return Tried::Again {
                after: Some(generation),
                why: Why::Unsent,
                sent: self.sent,
            };
        }
        if fault.kind == Kind::Timeout {
            // One late answer condemns nothing (OP-07), but the server is told to stop
            // (2025-11-25 lifecycle, "Timeouts": SHOULD issue a cancellation).
            self.route.upstream.pool.discard_idle();
            self.tell_given_up();
        }
        self.link.doubt(generation);
        let evidence = fault.message.clone();
        self.lost(evidence, Some(fault))
    }

    /// An HTTP answer came; its body is still to be read.
    async fn answered(&mut self, reply: Reply, busy: crate::route::Busy) -> Tried {
        let status = reply.status;
        if status.is_redirection() {
            return self.redirected(&reply);
        }
        if let Some(token) = self.token.filter(|_| status.is_success()) {
            let credential = self.route.upstream.credential();
            credential.accepted(token);
            credential.scope_suffices(|| self.operation());
        }
        let media = media_of(&reply.headers);
        if status.is_success() && media == Media::EventStream {
            self.learn_path();
            let events = Events::new(reply.body, self.route.upstream.max_message);
            return Box::pin(stream::begin(self, events, busy)).await;
        }
        let (status, headers) = (status.as_u16(), reply.headers);
        let limit = self.route.upstream.retry.silence_timeout.duration();
        let collected = {
            let max_message = self.route.upstream.max_message;
            let collecting = pin!(tokio::time::timeout(limit, reply.body.collect(max_message)));
            match self.unless_cancelled(collecting).await {
                Some(collected) => collected,
                None => return Tried::Cancelled(self.sent),
            }
        };
        let body = match collected {
            Ok(Ok(body)) => body,
            Ok(Err(Cut::TooLarge)) => {
                return self.lost("the result is larger than limits.max_message", None);
            }
            Ok(Err(Cut::Broken(how))) => {
                self.link.doubt(self.route.generation);
                return self.lost(how.evidence(), None);
            }
            Err(_) => {
                self.tell_given_up();
                return self.lost("the answer stopped in the middle", None);
            }
        };
        if (200..300).contains(&status) {
            return self.success(status, media, &body);
        }
        Box::pin(self.refused(status, media, &headers, &body)).await
    }

    /// 2xx with a body that should be the JSON-RPC response.
    fn success(&mut self, status: u16, media: Media, body: &Bytes) -> Tried {
        match envelope::read(body) {
            Ok(read) if self.is_our_answer(&read, body) => self.observed(200, body, &read),
            Ok(_) => self.lost("the answer carries another request's id", None),
            Err(invalid) if media == Media::Json && !body.is_empty() => {
                self.lost(format!("the answer cannot be read: {invalid}"), None)
            }
            Err(_) => {
                // A sign-in page, an empty body: never an invented success (HT-04, SP-06).
                let answer = quirks::Answer {
                    status,
                    media,
                    body: &body[..body.len().min(64 << 10)],
                    challenge: None,
                    retry_after: None,
                    session_attached: self.route.session.is_some(),
                    era: self.route.era(),
                };
                let fault = quirks::fault_of(&answer);
                self.link.doubt(self.route.generation);
                self.lost(fault.message.clone(), Some(fault))
            }
        }
    }

    /// An answer that carries the request's id is observed, whatever it says.
    pub(super) fn observed(
        &mut self,
        status: u16,
        body: &Bytes,
        read: &envelope::Envelope,
    ) -> Tried {
        self.link.heard();
        self.learn_path();
        if let Some(evidence) = self.job.about_the_key(body, read) {
            return self.lost(evidence, None);
        }
        match self.whole(status, body, read) {
            Whole::Answer(answer) => Tried::Done(answer),
            Whole::Asked(asked) => Tried::Asked(asked),
        }
    }

    /// A sign-in page is never an address to remember (HT-04).
    fn learn_path(&mut self) {
        if let Some(path) = self.moved.take() {
            self.route.upstream.learn_path(path);
        }
    }

    pub(super) fn whole(&self, status: u16, body: &Bytes, read: &envelope::Envelope) -> Whole {
        self.remember(read);
        self.suspect(body);
        if let Some(tracked) = &self.job.tracked {
            let gives = matches!(self.job.call.origin, Origin::Modern { .. });
            tracked.answered(body, read, gives);
        }
        let shaped = compose::answer_for(
            &self.job.call,
            self.route.era(),
            &self.job.policy,
            body,
            read,
            self.reissued,
        );
        if let Some(message) = shaped {
            let message = self.allowed_only(message);
            return Whole::Answer(Answer::Whole { status, message });
        }
        let evidence = match questions::input_required(body) {
            Some(Ok(input)) => {
                return Whole::Asked(Box::new(Asked {
                    input,
                    sent: self.sent,
                    reissued: self.reissued,
                }));
            }
            Some(Err(why)) => why,
            None => "the answer is not one that this agent could be given",
        };
        if let Some(tracked) = &self.job.tracked {
            // Nor could it be when it asks again.
            tracked.given();
        }
        let lost = not_observed(self.link, &self.job.policy, self.sent, evidence, None);
        Whole::Answer(Answer::Failed(Failure::NotObserved(lost)))
    }

    /// A result that says that the token is no good is delivered as it is and never sent again: the tool ran. The token
    /// is renewed ahead of the next call (AU-03).
    fn suspect(&self, body: &[u8]) {
        if let Some(token) = self.token
            && self.job.policy.tool.is_some()
            && quirks::blames_token(body)
        {
            self.route.upstream.credential().suspected(token);
        }
    }

    /// A page of tools, without those that the operator denies.
    fn allowed_only(&self, message: Bytes) -> Bytes {
        if self.job.policy.method != List::Tools.method() {
            return message;
        }
        let access = self.link.catalog.access();
        if access.is_open() {
            return message;
        }
        without(&message, List::Tools, |tool| access.allows(tool)).map_or(message, Bytes::from)
    }

    pub(super) fn is_our_answer(&self, read: &envelope::Envelope, body: &[u8]) -> bool {
        match read.kind {
            MessageKind::Result => self.is_own_id(read, body),
            MessageKind::Error => read.id.is_none() || self.is_own_id(read, body),
            MessageKind::Request | MessageKind::Notification => false,
        }
    }

    pub(super) fn is_own_id(&self, read: &envelope::Envelope, body: &[u8]) -> bool {
        read.rpc_id(body) == Some(RpcId::Integer(self.id))
    }

    /// Takes note of what the session is to remember.
    fn remember(&self, read: &envelope::Envelope) {
        let is_done = read.kind == MessageKind::Result && self.route.era() == Era::Legacy;
        if !is_done || !self.job.policy.is_remembered() {
            return;
        }
        let source = &self.job.call.message;
        let mut remembered = self.link.remembered.lock();
        let raw = |range: &Option<std::ops::Range<usize>>| {
            let range = range.clone()?;
            Some(String::from_utf8_lossy(&source[range]).into_owned())
        };
        let uri = raw(&self.job.call.params.uri);
        match self.job.policy.method.as_str() {
            "logging/setLevel" => {
                remembered.log_level = raw(&self.job.call.params.whole);
                if let Some(params) = &remembered.log_level {
                    levels::was_set(self.link, self.route.generation, params);
                }
            }
            "resources/subscribe" => remembered.subscriptions.extend(uri),
            _ => {
                if let Some(uri) = uri {
                    remembered.subscriptions.remove(&uri);
                }
            }
        }
    }

    pub(super) fn lost(&self, evidence: impl Into<String>, fault: Option<Fault>) -> Tried {
        Tried::Lost(not_observed(
            self.link,
            &self.job.policy,
            self.sent,
            evidence,
            fault,
        ))
    }

    /// The old transport: the POST is acknowledged, the answer comes on the GET stream.
    async fn over_http_sse(&mut self, headers: http::HeaderMap, body: Bytes) -> Tried {
        let answer = self.route.waiting.register(self.id);
        let upstream = &self.route.upstream;
        let request = self.route.post(headers, body);
        self.token = request.token;
        let reply = match upstream.exchange(request, upstream.terms()).await {
            Ok(reply) => reply,
            Err(unanswered) => return self.unanswered(unanswered),
        };
        self.sent.bytes = reply.bytes_sent;
        self.sent.proven_unsent = false;
        if !reply.status.is_success() {
            let status = reply.status;
            if let Some(needed) = scope_needed(status, &reply.headers) {
                return self.scope_refused(status.as_u16(), needed).await;
            }
            self.link.tell(Input::Connection(connection::Event::Doubt {
                generation: self.route.generation,
            }));
            return self.lost(format!("status {status}"), None);
        }
        reply.body.drain(Duration::from_secs(2));
        let limit = upstream.retry.call_timeout.duration();
        let answer = pin!(tokio::time::timeout(limit, answer));
        let Some(answered) = self.unless_cancelled(answer).await else {
            return Tried::Cancelled(self.sent);
        };
        match answered {
            Ok(Ok(message)) => match envelope::read(&message) {
                Ok(read) => self.observed(200, &message, &read),
                Err(invalid) => self.lost(format!("the answer cannot be read: {invalid}"), None),
            },
            Ok(Err(_)) => self.lost("the stream ended before the response", None),
            Err(_) => {
                self.tell_given_up();
                self.lost("no answer within the call timeout", None)
            }
        }
    }
}
