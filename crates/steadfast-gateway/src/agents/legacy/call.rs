//! One call in a session. While it is under way the agent can cancel it, answer the server's questions,
//! and lose its connection without losing anything.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use steadfast::{Answer, Call, CallHandle, Link, Receipt};
use steadfast_core::replay::{Access, Resource};
use steadfast_core::{Era, OperationId, RpcId};
use url::Url;

use super::{json_answer, origin};
use crate::Gate;
use crate::agents::calling::{About, Calling, Listening, Next, failed};
use crate::agents::events::{self, CallOnRecord, Priming};
use crate::agents::inbound::Inbound;
use crate::agents::session::{Session, UnderWay};
use crate::agents::stream_body;
use crate::body::Body;
use crate::problem::status_only;

/// A call under way: its answer is still to be awaited.
pub(super) struct Begun<F> {
    pub(super) about: About,
    pub(super) listening: Listening,
    pub(super) under_way: UnderWay,
    pub(super) answer: F,
}

/// Prepares the call of a request; `None` for anything else.
fn prepare(
    link: &Link,
    session: &Arc<Session>,
    inbound: Inbound,
) -> Option<(About, UnderWay, Call, CallHandle)> {
    let about = About::of(&inbound, Era::Legacy)?;
    let id = RpcId::from_json(std::str::from_utf8(&about.id).ok()?)?;
    let handle = CallHandle::of(session.key);
    let under_way = session.begin(link.server(), id, handle.clone());
    let call = Call {
        message: inbound.message,
        envelope: inbound.envelope,
        params: inbound.params,
        origin: origin(session),
    };
    Some((about, under_way, call, handle))
}

/// Begins the call of a request. Not async, so that nothing but the future itself is kept while it is
/// awaited: every connection of an agent holds room for it.
pub(super) fn begin(
    link: &Arc<Link>,
    session: &Arc<Session>,
    inbound: Inbound,
) -> Option<Begun<impl Future<Output = Answer> + Send + Unpin + use<>>> {
    let (about, under_way, call, handle) = prepare(link, session, inbound)?;
    Some(Begun {
        about,
        listening: Listening::to(handle.clone()),
        under_way,
        answer: link.call(call, handle),
    })
}

/// Begins a call whose answer streams whatever the server does.
fn begin_streaming(
    link: &Arc<Link>,
    session: &Arc<Session>,
    inbound: Inbound,
) -> Option<SessionCall> {
    let (about, under_way, call, handle) = prepare(link, session, inbound)?;
    let listening = Listening::to(handle.clone());
    let answer = Box::pin(link.call(call, handle));
    let calling = Calling::pending(answer, listening, about, Arc::clone(link));
    Some(SessionCall::new(calling, under_way))
}

/// What a call has come to.
pub(super) enum Outcome {
    /// Its response, or none.
    Whole(Option<Bytes>),
    /// It streams.
    Stream(Box<SessionCall>),
}

impl<F: Future<Output = Answer> + Send + Unpin + 'static> Begun<F> {
    /// Waits for the answer, or for the first message of a stream.
    pub(super) async fn outcome(mut self, link: &Arc<Link>) -> Outcome {
        let calling = match self.listening.first(&mut self.answer).await {
            Some(Answer::Whole { message, .. }) => {
                return Outcome::Whole(Some(self.about.finish(message)));
            }
            Some(Answer::Failed(failure)) => {
                return Outcome::Whole(failed(&self.about, link, &failure));
            }
            Some(Answer::Stream(answer)) => {
                Calling::streaming(answer, self.listening, self.about, Arc::clone(link))
            }
            None => {
                let answer = Box::pin(self.answer);
                Calling::pending(answer, self.listening, self.about, Arc::clone(link))
            }
        };
        Outcome::Stream(Box::new(SessionCall::new(calling, self.under_way)))
    }
}

/// Makes a call and answers as JSON, or as a stream where the server streams or progress was asked for.
pub(super) async fn call(
    gate: &Arc<Gate>,
    link: &Arc<Link>,
    session: &Arc<Session>,
    access: &Access,
    inbound: Box<Inbound>,
) -> Response<Body> {
    if inbound.wants_progress() {
        return match begin_streaming(link, session, *inbound) {
            Some(call) => stream(gate, session, access, call),
            None => status_only(StatusCode::BAD_REQUEST),
        };
    }
    let Some(begun) = begin(link, session, *inbound) else {
        return status_only(StatusCode::BAD_REQUEST);
    };
    match begun.outcome(link).await {
        Outcome::Whole(Some(message)) => json_answer(StatusCode::OK, message),
        Outcome::Whole(None) => status_only(StatusCode::ACCEPTED),
        Outcome::Stream(call) => stream(gate, session, access, *call),
    }
}

fn stream(gate: &Gate, session: &Session, access: &Access, call: SessionCall) -> Response<Body> {
    let priming = Priming::of_answer(session.revision);
    let about = events::About::answering(priming, vec![call.on_record()]);
    let requires = call.requires(&gate.events.public_url);
    let stream = gate.events.begin(session, about, [requires]);
    stream.answers(call);
    stream_body::response(stream.read(access.clone()), gate.settings.keep_alive)
}

/// A call under way in a session.
#[derive(Debug)]
pub(crate) struct SessionCall {
    calling: Calling,
    under_way: UnderWay,
}

/// What comes next on the stream of a call.
#[derive(Debug)]
pub(crate) enum Step {
    /// A message, and more after it.
    Message(Bytes),
    /// The response.
    Last(Bytes),
    /// The end, where there is no response.
    End,
}

impl SessionCall {
    pub(super) fn new(calling: Calling, under_way: UnderWay) -> Self {
        Self { calling, under_way }
    }

    /// What another daemon needs to know of it.
    pub(crate) fn on_record(&self) -> CallOnRecord {
        let about = self.calling.about();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        CallOnRecord {
            id: text(&about.id),
            method: text(about.method()),
            tool: about.tool_name().map(std::borrow::Cow::into_owned),
            server: self.under_way.server().clone(),
            begun_at: self.under_way.begun_at(),
            operation: self.operation(),
        }
    }

    /// What whoever reads its answer must be allowed to use.
    pub(crate) fn requires(&self, public_url: &Url) -> Resource {
        let server = self.under_way.server();
        match self.calling.about().tool_name() {
            Some(tool) => Resource::tool(public_url, server, &tool),
            None => Resource::server(public_url, server),
        }
    }

    /// The operation that it is, once it is on record.
    pub(crate) fn operation(&self) -> Option<OperationId> {
        self.calling.operation()
    }

    /// The agent has gone, and the call goes on without it.
    pub(crate) fn agent_left(&self) -> Option<Receipt> {
        self.calling.agent_left()
    }

    /// What comes next. After `Last` or `End` it is `End`.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            let step = match ready!(self.calling.poll_next(cx)) {
                Next::Message(message) => match self.under_way.translate(message) {
                    Some(message) => Step::Message(message),
                    None => continue,
                },
                Next::Last(message) => Step::Last(message),
                Next::End => Step::End,
                Next::Question(request) => match self.under_way.ask(request) {
                    Some(message) => Step::Message(message),
                    None => continue,
                },
            };
            return Poll::Ready(step);
        }
    }
}
