//! A streaming answer. It is read in a task of its own, so that an agent that goes away loses
//! nothing and tells nobody anything; in the legacy era a broken stream is resumed as
//! `core::stream::answer` says.

mod resume;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::identity::AttemptId;
use steadfast_core::stream::{Break, answer};
use steadfast_core::wire::envelope::{self, Envelope, Kind as MessageKind};
use steadfast_core::wire::sse;
use steadfast_core::{EventCursor, Millis, Mono, RpcId, stream};
use tokio::sync::mpsc;

use super::cancelling::AfterCancelling;
use super::input::{self, Asked};
use super::once::{Attempt, Whole};
use super::{Job, Sent, Tried, compose, forward, not_observed, run, token_of};
use crate::call::{Answer, AnswerStream, Failure, Message, NotObserved};
use crate::clock;
use crate::link::Link;
use crate::perform::events::{Events, Read};
use crate::question::{Place, Questions, ServerRequest};
use crate::route::{Busy, Route};

/// Messages that wait for a slow agent; then the upstream is read no further.
pub(super) const BACKLOG: usize = 64;

/// How long the first event is waited for before the rest is read in a task: most answers are a single
/// event that comes at once, and need none.
const FIRST_EVENT: Duration = Duration::from_millis(50);

/// Reads what is there at once; goes on in a task where the response is not yet among it.
pub(super) async fn begin(attempt: &Attempt<'_>, mut events: Events, busy: Busy) -> Tried {
    let mut reader = Reader::new(attempt);
    let mut ready = VecDeque::new();
    let mut first = tokio::select! {
        read = events.next() => Some(read),
        () = tokio::time::sleep(FIRST_EVENT) => None,
        () = attempt.job.handle.inner.cancelled.notified() => match attempt.cancelled() {
            AfterCancelling::ReadOn => None,
            AfterCancelling::Leave => return Tried::Cancelled(attempt.sent),
        },
    };
    while let Some(read) = first.take() {
        match reader.take(read, &mut ready) {
            Taken::More => first = events.ready(),
            Taken::Answered => {
                events.finish();
                return Tried::Done(Answer::Stream(reader.stream(ready, None)));
            }
            Taken::Broken(how) => {
                let (sender, receiver) = mpsc::channel(BACKLOG);
                let answer = reader.stream(ready, Some(receiver));
                tokio::spawn(reader.pump(Source::Broken(how), sender, busy));
                return Tried::Done(Answer::Stream(answer));
            }
            Taken::Asked(asked) => {
                events.finish();
                let stream = input::begin(attempt.link, attempt.job, *asked, ready);
                return Tried::Done(Answer::Stream(stream));
            }
            Taken::Lost(evidence) => {
                events.finish();
                return attempt.lost(evidence, None);
            }
        }
    }
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let answer = reader.stream(ready, Some(receiver));
    tokio::spawn(reader.pump(Source::Open(Box::new(events)), sender, busy));
    Tried::Done(Answer::Stream(answer))
}

/// Where events come from.
pub(super) enum Source {
    Open(Box<Events>),
    Broken(Break),
}

/// What one read came to.
enum Taken {
    More,
    Answered,
    Asked(Box<Asked>),
    Broken(Break),
    Lost(&'static str),
}

/// Turns events of the upstream into messages for the agent.
pub(super) struct Reader {
    link: Arc<Link>,
    route: Arc<Route>,
    job: Arc<Job>,
    reissued: u32,
    id: i64,
    sent: Sent,
    state: answer::State,
    limits: stream::Policy,
    attempts: u64,
    /// Shared with every question that is open: while the agent is asked the server may be silent.
    questions: Arc<Questions>,
    /// The server's ids of questions that an earlier reader of this stream has seen.
    settled: Vec<RpcId>,
}

impl Reader {
    fn new(attempt: &Attempt<'_>) -> Self {
        Self {
            link: Arc::clone(attempt.link),
            route: Arc::clone(attempt.route),
            job: Arc::clone(attempt.job),
            reissued: attempt.reissued,
            id: attempt.id,
            sent: attempt.sent,
            state: answer::State::Reading {
                memory: answer::Memory::default(),
                heard: clock::mono(),
            },
            limits: attempt.route.upstream.retry.stream(),
            attempts: 0,
            questions: Arc::default(),
            settled: Vec::new(),
        }
    }

    /// Of a stream that an earlier process read up to `cursor`.
    pub(super) fn going_on(
        attempt: &Attempt<'_>,
        cursor: Option<EventCursor>,
        settled: Vec<RpcId>,
    ) -> Self {
        let mut reader = Self::new(attempt);
        reader.state = answer::State::Reading {
            memory: answer::Memory {
                cursor,
                ..answer::Memory::default()
            },
            heard: clock::mono(),
        };
        reader.settled = settled;
        reader
    }

    pub(super) fn stream(
        &self,
        ready: VecDeque<Message>,
        rest: Option<mpsc::Receiver<Message>>,
    ) -> AnswerStream {
        AnswerStream::new(ready, rest, self.job.on_drop())
    }

    /// Takes one read; appends what the agent gets.
    fn take(&mut self, read: Read, out: &mut VecDeque<Message>) -> Taken {
        self.link.heard();
        match read {
            Read::Event(event) => self.event(event, out),
            Read::Heard => {
                self.step(answer::Event::Heard);
                Taken::More
            }
            Read::TooLarge => Taken::Lost("the result is larger than limits.max_message"),
            // Labelled as an event stream, and plain JSON (SP-06).
            Read::PlainJson(body) => self.message(body, out).unwrap_or(Taken::Lost(
                "the answer is labelled as an event stream and is none",
            )),
            Read::End(how) => Taken::Broken(how),
        }
    }

    fn event(&mut self, event: sse::Event, out: &mut VecDeque<Message>) -> Taken {
        self.step(answer::Event::Received {
            id: event.id.map(EventCursor::new),
            retry: event.retry.map(Millis),
        });
        match event.data {
            // A priming event: its id is remembered, its empty data is no message (SP-01).
            None => Taken::More,
            Some(data) if data.is_empty() => Taken::More,
            Some(data) => self.message(Bytes::from(data), out).unwrap_or(Taken::More),
        }
    }

    /// One message; `None` where it is not JSON-RPC (a heartbeat: SP-04).
    fn message(&mut self, message: Bytes, out: &mut VecDeque<Message>) -> Option<Taken> {
        let read = match envelope::read(&message) {
            Ok(read) => read,
            Err(_) if self.looks_like_our_answer(&message) => {
                // The answer itself cannot be read (SP-03): the call ends, the stream does not.
                return Some(Taken::Lost("the answer cannot be read"));
            }
            Err(invalid) => {
                tracing::debug!(server = %self.link.server, %invalid, "not JSON-RPC on a stream");
                return None;
            }
        };
        match read.kind {
            MessageKind::Result | MessageKind::Error => {
                let attempt = self.attempt();
                if !attempt.is_our_answer(&read, &message) {
                    self.link.came_late(&read, message);
                    return Some(Taken::More);
                }
                if let Some(evidence) = self.job.about_the_key(&message, &read) {
                    return Some(Taken::Lost(evidence));
                }
                let whole = attempt.whole(200, &message, &read);
                self.step(answer::Event::Answered);
                out.push_back(match whole {
                    Whole::Answer(Answer::Whole { message, .. }) => Message::Response(message),
                    Whole::Answer(Answer::Failed(failure)) => Message::Failed(failure),
                    Whole::Answer(Answer::Stream(_)) => return None,
                    Whole::Asked(asked) => return Some(Taken::Asked(asked)),
                });
                Some(Taken::Answered)
            }
            MessageKind::Notification if read.method(&message) == "notifications/progress" => {
                self.progress(&message, &read, out);
                Some(Taken::More)
            }
            MessageKind::Notification => {
                self.link.note_change(&read.method(&message));
                if let Some(tracked) = &self.job.tracked {
                    tracked.notified(&message, &read);
                }
                if compose::is_for(&self.job.call, &self.route, &message, &read) {
                    out.push_back(Message::Notification(message));
                }
                Some(Taken::More)
            }
            MessageKind::Request if read.method(&message) == "ping" => {
                self.link.answer_ping(&self.route, &message, &read);
                Some(Taken::More)
            }
            MessageKind::Request => {
                let is_settled = read
                    .rpc_id(&message)
                    .is_some_and(|id| self.settled.contains(&id));
                if !is_settled {
                    let request = ServerRequest::new(&self.link, &self.route, message);
                    let request = request.on_stream(self.place(), Arc::clone(&self.questions));
                    out.push_back(Message::Request(request));
                }
                Some(Taken::More)
            }
        }
    }

    /// To the agent where it is of this call; servers that mix up their streams get it to the right one.
    fn progress(&self, message: &Bytes, read: &Envelope, out: &mut VecDeque<Message>) {
        if token_of(message, read) != Some(self.id) {
            return self.link.progress(&self.route, message, read);
        }
        match self.job.progress(self.id, message, read) {
            Some(message) => out.push_back(Message::Notification(message)),
            None => self.link.stray_progress(),
        }
    }

    /// Where the call stands.
    fn place(&self) -> Place {
        let cursor = match &self.state {
            answer::State::Reading { memory, .. } => memory.cursor.clone(),
            answer::State::Waiting { .. }
            | answer::State::Resuming { .. }
            | answer::State::Answered
            | answer::State::NotObserved { .. } => None,
        };
        Place {
            session: self.route.session.clone(),
            rpc_id: self.id,
            cursor,
            sent_at: self.sent.at,
            bytes_sent: self.sent.bytes,
        }
    }

    /// Whether bytes that are not valid JSON were meant as the answer to this call.
    fn looks_like_our_answer(&self, message: &[u8]) -> bool {
        let id = format!("\"id\":{}", self.id);
        let compact: Vec<u8> = message
            .iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        memchr::memmem::find(&compact, id.as_bytes()).is_some()
    }

    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            link: &self.link,
            route: &self.route,
            job: &self.job,
            reissued: self.reissued,
            id: self.id,
            sent: self.sent,
            moved: None,
            token: None,
        }
    }

    fn step(&mut self, event: answer::Event) -> Vec<answer::Action> {
        let step = answer::step(
            self.state.clone(),
            event,
            &answer::Context {
                now: clock::now(),
                jitter: clock::jitter(),
                attempt: AttemptId(self.attempts + 1),
                policy: &self.limits,
            },
        );
        self.state = step.state;
        step.actions
    }

    /// When the machine wants to be woken: never for a stream without limits of time.
    fn deadline(&self) -> Option<Mono> {
        if self.job.policy.endless {
            return None;
        }
        answer::deadline(&self.state, &self.limits).map(|deadline| deadline.at)
    }

    /// Waits until nothing was heard for too long. A server that waits for the agent's answer is not
    /// silent for a reason of its own.
    async fn silence(&mut self) {
        loop {
            clock::wait_until(self.deadline()).await;
            if Arc::strong_count(&self.questions) == 1 {
                return;
            }
            self.step(answer::Event::Heard);
        }
    }

    /// Reads to the end of the call.
    pub(super) async fn pump(mut self, source: Source, sender: mpsc::Sender<Message>, busy: Busy) {
        let limit = self.route.upstream.retry.call_timeout.duration();
        let endless = self.job.policy.endless;
        let whole_call = async {
            if endless {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(limit).await;
        };
        let last = self.until_cancelled(source, &sender, whole_call).await;
        drop(busy);
        let message = match last {
            Last::Answered => return,
            Last::Asked(asked) => {
                return input::converse(self.link, self.job, *asked, sender).await;
            }
            Last::Cancelled => {
                self.job.cancelled(&self.link, self.sent).await;
                Message::Failed(Failure::Cancelled)
            }
            Last::TimedOut => {
                self.attempt().tell_given_up();
                let evidence = "no answer within the call timeout";
                let lost = not_observed(&self.link, &self.job.policy, self.sent, evidence, None);
                return self.after_loss(lost, sender).await;
            }
            Last::Lost(evidence) => {
                let lost = not_observed(&self.link, &self.job.policy, self.sent, evidence, None);
                return self.after_loss(lost, sender).await;
            }
        };
        let _ = sender.send(message).await;
    }

    /// Reads to the end of the call, to its cancellation where nothing is read after that, or to the end of its time.
    async fn until_cancelled(
        &mut self,
        source: Source,
        sender: &mpsc::Sender<Message>,
        whole_call: impl Future<Output = ()>,
    ) -> Last {
        let (link, route, job) = (
            Arc::clone(&self.link),
            Arc::clone(&self.route),
            Arc::clone(&self.job),
        );
        let attempt = Attempt {
            link: &link,
            route: &route,
            job: &job,
            reissued: self.reissued,
            id: self.id,
            sent: self.sent,
            moved: None,
            token: None,
        };
        let mut reading = pin!(self.read_on(source, sender));
        let mut whole_call = pin!(whole_call);
        loop {
            tokio::select! {
                last = reading.as_mut() => return last,
                () = job.handle.inner.cancelled.notified() => match attempt.cancelled() {
                    AfterCancelling::ReadOn => {
                        let sender = sender.clone();
                        let end = Message::Failed(Failure::Cancelled);
                        // Not here: reading goes on while a slow agent takes what came before.
                        tokio::spawn(async move { sender.send(end).await });
                    }
                    AfterCancelling::Leave => return Last::Cancelled,
                },
                () = whole_call.as_mut() => return Last::TimedOut,
            }
        }
    }

    async fn read_on(&mut self, mut source: Source, sender: &mpsc::Sender<Message>) -> Last {
        let mut out = VecDeque::new();
        loop {
            let taken = match &mut source {
                Source::Broken(how) => Taken::Broken(*how),
                Source::Open(events) => {
                    let read = tokio::select! {
                        read = events.next() => Some(read),
                        () = self.silence() => None,
                    };
                    match read {
                        Some(read) => self.take(read, &mut out),
                        None => Taken::Broken(Break::Silence),
                    }
                }
            };
            if matches!(taken, Taken::Answered) && self.job.policy.is_remembered() {
                self.link.keep_remembered().await;
            }
            if let (Taken::Answered, Some(tracked)) = (&taken, &self.job.tracked) {
                tracked.on_record().await;
            }
            for message in out.drain(..) {
                // Whoever cancelled the call gets nothing more of it. Where nobody listens it is read on all the same, to
                // learn the outcome.
                if !self.job.handle.is_released() {
                    let _ = sender.send(message).await;
                }
            }
            match taken {
                Taken::More => {}
                Taken::Answered => {
                    if let Source::Open(events) = source {
                        events.finish();
                    }
                    return Last::Answered;
                }
                Taken::Asked(asked) => {
                    if let Source::Open(events) = source {
                        events.finish();
                    }
                    return Last::Asked(asked);
                }
                Taken::Lost(evidence) => return Last::Lost(evidence.to_owned()),
                Taken::Broken(how) => match self.broken(how).await {
                    Ok(events) => source = Source::Open(Box::new(events)),
                    Err(evidence) => {
                        if how == Break::Silence {
                            // It is we who give up: the server is told, as for any late answer.
                            self.attempt().tell_given_up();
                        }
                        return Last::Lost(evidence);
                    }
                },
            }
        }
    }

    /// A read whose stream was lost is asked again, and what is sent under a duplicate-prevention contract once more;
    /// anything else ends with what is known.
    async fn after_loss(self, lost: Box<NotObserved>, sender: mpsc::Sender<Message>) {
        let answer = match self.job.lost(&self.link, lost).await {
            Ok(()) => run(self.link, self.job, self.reissued).await,
            Err(told) if !self.job.policy.reissue || self.reissued > 0 => told,
            Err(_) => run(self.link, self.job, self.reissued + 1).await,
        };
        forward(answer, &sender).await;
    }
}

/// How reading ended.
enum Last {
    Answered,
    Asked(Box<Asked>),
    Cancelled,
    TimedOut,
    Lost(String),
}
