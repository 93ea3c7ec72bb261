//! One call of an agent while its answer is awaited: what comes from the keeper, as messages for the agent.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use steadfast::{
    Answer, AnswerStream, Call, CallHandle, Failure, Link, Message, Receipt, ServerRequest,
};
use steadfast_core::catalog::List;
use steadfast_core::wire::{json, splice};
use steadfast_core::{Era, OperationId};

use super::inbound::Inbound;
use super::merged::After;
use super::{hello, render};

/// What a call is about: what is needed to answer it where the server does not.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// The raw JSON of its id.
    pub(crate) id: Bytes,
    /// The raw JSON of its method.
    method: Bytes,
    /// The raw JSON of the tool's name, for `tools/call`.
    tool: Option<Bytes>,
    /// Whether it asks for a later page of a list.
    pub(crate) has_cursor: bool,
    /// The era of the agent.
    pub(crate) era: Era,
    /// What is still to be done with the response.
    after: Option<Box<After>>,
}

impl About {
    /// `None` for anything but a request.
    pub(crate) fn of(inbound: &Inbound, era: Era) -> Option<Self> {
        let part = |range: &std::ops::Range<usize>| inbound.message.slice(range.clone());
        let mut about = Self {
            id: inbound.id()?,
            method: inbound.envelope.method.as_ref().map(part)?,
            tool: None,
            has_cursor: false,
            era,
            after: inbound.after.clone(),
        };
        if about.method() == b"tools/call" {
            about.tool = inbound.params.name.as_ref().map(part);
        } else if let (b"tools/list", Some(params)) = (about.method(), &inbound.params.whole) {
            let cursor = json::at_path(&inbound.message, params.clone(), &["cursor"]);
            about.has_cursor = cursor.is_some();
        }
        Some(about)
    }

    /// Of a call that another daemon made.
    pub(crate) fn of_record(id: &str, method: &str, tool: Option<&str>) -> Self {
        let quoted = |text| Bytes::from(splice::quote(text));
        Self {
            id: Bytes::copy_from_slice(id.as_bytes()),
            method: quoted(method),
            tool: tool.map(quoted),
            has_cursor: false,
            era: Era::Legacy,
            after: None,
        }
    }

    /// The server's response as the agent gets it.
    pub(crate) fn finish(&self, response: Bytes) -> Bytes {
        match &self.after {
            Some(after) => after.finish(response),
            None => response,
        }
    }

    /// The method, as it is written.
    pub(crate) fn method(&self) -> &[u8] {
        self.method
            .get(1..self.method.len() - 1)
            .unwrap_or_default()
    }

    /// The name of the tool.
    pub(crate) fn tool_name(&self) -> Option<Cow<'_, str>> {
        let tool = self.tool.as_ref()?;
        json::text(tool, 0..tool.len())
    }
}

/// The response to a call that failed; `None` where there must not be one (2025-11-25 cancellation:
/// "Not send a response for the cancelled request").
pub(crate) fn failed(about: &About, link: &Link, failure: &Failure) -> Option<Bytes> {
    match failure {
        Failure::Cancelled => None,
        Failure::NoSuchTool(what) => Some(render::no_such_tool(about, what)),
        Failure::NotObserved(what) => Some(render::not_observed(about, what)),
        Failure::KeptBack(what) => Some(render::kept_back(about, what)),
        Failure::Unavailable(report) => {
            let known = known(about, link);
            Some(about.finish(render::unavailable(about, report, &known)))
        }
    }
}

fn known(about: &About, link: &Link) -> render::Known {
    let listed = link.listed(List::Tools);
    let named = about.tool_name();
    render::Known {
        lacks_tool: listed
            .as_ref()
            .zip(named)
            .is_some_and(|(tools, name)| tools.entry(&name).is_none()),
        tools: listed
            .filter(|_| about.method() == List::Tools.method().as_bytes())
            .map(|tools| tools.to_json()),
        discovered: hello::discover(link),
    }
}

/// Takes what comes for a call elsewhere than on its own stream, as long as this lives.
#[derive(Debug)]
pub(crate) struct Listening(CallHandle);

impl Listening {
    pub(crate) fn to(handle: CallHandle) -> Self {
        handle.listen();
        Self(handle)
    }

    /// The answer, or `None` where something else for the agent comes first: then it streams.
    pub(crate) async fn first(
        &self,
        answer: &mut (impl Future<Output = Answer> + Unpin),
    ) -> Option<Answer> {
        std::future::poll_fn(|cx| match Pin::new(&mut *answer).poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.0.poll_has_aside(cx).map(|()| None),
        })
        .await
    }

    /// The notifications that are there.
    pub(crate) fn notifications(&self) -> impl Iterator<Item = Bytes> {
        let cx = Context::from_waker(std::task::Waker::noop());
        std::iter::from_fn(move || match self.poll_next(&cx) {
            Poll::Ready(Next::Message(message)) => Some(message),
            Poll::Ready(Next::Question(_) | Next::Last(_) | Next::End) | Poll::Pending => None,
        })
    }

    fn poll_next(&self, cx: &Context<'_>) -> Poll<Next> {
        match ready!(self.0.poll_aside(cx)) {
            Message::Notification(message) => Poll::Ready(Next::Message(message)),
            Message::Request(question) => Poll::Ready(Next::Question(question)),
            // Nobody answers a call on a stream that is not its own.
            Message::Response(_) | Message::Failed(_) => Poll::Pending,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.hang_up();
    }
}

/// A future answer.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

enum Phase {
    /// The server has not answered yet.
    Calling(Pending),
    /// It streams.
    Streaming(AnswerStream),
    /// There is nothing more.
    Done,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// A message, and more after it.
    Message(Bytes),
    /// The server asks the agent something.
    Question(ServerRequest),
    /// The response.
    Last(Bytes),
    /// The end, where there is no response.
    End,
}

/// A call on its way.
pub(crate) struct Calling {
    phase: Phase,
    listening: Listening,
    about: About,
    link: Arc<Link>,
    /// The leg that reads on, where it is not the first.
    leg: Option<Box<Call>>,
}

impl std::fmt::Debug for Calling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calling").finish_non_exhaustive()
    }
}

impl Calling {
    /// The server has not answered yet.
    pub(crate) fn pending(
        answer: Pending,
        listening: Listening,
        about: About,
        link: Arc<Link>,
    ) -> Self {
        Self {
            phase: Phase::Calling(answer),
            listening,
            about,
            link,
            leg: None,
        }
    }

    /// The server streams.
    pub(crate) fn streaming(
        stream: AnswerStream,
        listening: Listening,
        about: About,
        link: Arc<Link>,
    ) -> Self {
        Self {
            phase: Phase::Streaming(stream),
            listening,
            about,
            link,
            leg: None,
        }
    }

    /// A later leg of the call reads on.
    pub(crate) fn continue_as(&mut self, about: About, leg: Call) {
        self.about = about;
        self.leg = Some(Box::new(leg));
    }

    /// What it is about.
    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// The operation that it is, once it is on record.
    pub(crate) fn operation(&self) -> Option<OperationId> {
        self.listening.0.operation()
    }

    /// The agent has gone, and the call goes on without it.
    pub(crate) fn agent_left(&self) -> Option<Receipt> {
        self.listening.0.agent_left()
    }

    /// Lets go of it without telling the server anything: the next process goes on with the call.
    pub(crate) fn leave(self) {
        match self.phase {
            Phase::Streaming(stream) => stream.leave(),
            Phase::Calling(_) | Phase::Done => {}
        }
    }

    /// What comes next. After `Last` or `End` it is `End`.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            let next = ready!(self.poll_any(cx));
            let Some(leg) = &self.leg else {
                return Poll::Ready(next);
            };
            let of_leg = match next {
                Next::Message(message) => leg.readdress(message).map(Next::Message),
                Next::Last(message) => leg.readdress(message).map(Next::Last),
                Next::Question(_) | Next::End => Some(next),
            };
            if let Some(next) = of_leg {
                return Poll::Ready(next);
            }
        }
    }

    /// The same, as the first leg of the call gets it.
    fn poll_any(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        // First, so that no progress comes after the response.
        if !matches!(self.phase, Phase::Done)
            && let Poll::Ready(aside) = self.listening.poll_next(cx)
        {
            return Poll::Ready(aside);
        }
        loop {
            let last = match &mut self.phase {
                Phase::Done => return Poll::Ready(Next::End),
                Phase::Calling(answer) => match ready!(answer.as_mut().poll(cx)) {
                    Answer::Whole { message, .. } => Some(self.about.finish(message)),
                    Answer::Failed(failure) => failed(&self.about, &self.link, &failure),
                    Answer::Stream(stream) => {
                        self.phase = Phase::Streaming(stream);
                        continue;
                    }
                },
                Phase::Streaming(stream) => match ready!(stream.poll_next(cx)) {
                    Some(Message::Notification(message)) => {
                        return Poll::Ready(Next::Message(message));
                    }
                    Some(Message::Request(question)) => {
                        return Poll::Ready(Next::Question(question));
                    }
                    Some(Message::Response(message)) => Some(self.about.finish(message)),
                    Some(Message::Failed(failure)) => failed(&self.about, &self.link, &failure),
                    None => None,
                },
            };
            self.phase = Phase::Done;
            return Poll::Ready(last.map_or(Next::End, Next::Last));
        }
    }
}
