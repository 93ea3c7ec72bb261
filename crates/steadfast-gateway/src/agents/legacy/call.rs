//! One call in a session. While it is under way the agent can cancel it, answer the server's questions,
//! and lose its connection without losing anything.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use steadfast::{Answer, Call, CallHandle, Link};
use steadfast_core::{Era, RpcId};

use super::{json_answer, origin};
use crate::Gate;
use crate::agents::calling::{About, Calling, Next, failed};
use crate::agents::events::Priming;
use crate::agents::inbound::Inbound;
use crate::agents::session::{Session, UnderWay};
use crate::agents::stream_body;
use crate::body::Body;
use crate::problem::status_only;

/// A call under way: its answer is still to be awaited.
pub(super) struct Begun<F> {
    pub(super) about: About,
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
    let handle = CallHandle::new();
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
) -> Option<Begun<impl Future<Output = Answer> + Send + use<>>> {
    let (about, under_way, call, handle) = prepare(link, session, inbound)?;
    Some(Begun {
        about,
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
    let answer = Box::pin(link.call(call, handle));
    let calling = Calling::pending(answer, about, Arc::clone(link));
    Some(SessionCall::new(calling, under_way))
}

/// Makes a call and answers as JSON, or as a stream where the server streams or progress was asked for.
pub(super) async fn call(
    gate: &Arc<Gate>,
    link: &Arc<Link>,
    session: &Arc<Session>,
    inbound: Box<Inbound>,
) -> Response<Body> {
    if inbound.wants_progress() {
        return match begin_streaming(link, session, *inbound) {
            Some(call) => stream(gate, session, call),
            None => status_only(StatusCode::BAD_REQUEST),
        };
    }
    let Some(begun) = begin(link, session, *inbound) else {
        return status_only(StatusCode::BAD_REQUEST);
    };
    match begun.answer.await {
        Answer::Whole { message, .. } => json_answer(StatusCode::OK, message),
        Answer::Failed(failure) => failed(&begun.about, link, &failure).map_or_else(
            || status_only(StatusCode::ACCEPTED),
            |message| json_answer(StatusCode::OK, message),
        ),
        Answer::Stream(answer) => {
            let calling = Calling::streaming(answer, begun.about, Arc::clone(link));
            stream(gate, session, SessionCall::new(calling, begun.under_way))
        }
    }
}

fn stream(gate: &Gate, session: &Session, call: SessionCall) -> Response<Body> {
    let priming = Priming::of_answer(session.revision);
    let stream = gate.events.open(session.key, priming, Some(call));
    stream_body::response(stream.read(), gate.settings.keep_alive)
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

    /// What comes next. After `Last` or `End` it is `End`.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            let step = match ready!(self.calling.poll_next(cx)) {
                Next::Message(message) => Step::Message(self.under_way.translate(message)),
                Next::Last(message) => Step::Last(message),
                Next::End => Step::End,
                Next::Question(request) => match self.under_way.ask(request) {
                    Ok(message) => Step::Message(message),
                    // Dropping it tells the server that nobody answers.
                    Err(_) => continue,
                },
            };
            return Poll::Ready(step);
        }
    }
}
