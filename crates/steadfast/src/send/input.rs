//! A legacy agent on a modern server that asks for input: the questions go to the agent as requests on the
//! stream of its call, and the call goes on with a second leg that carries the answers (2026-07-28
//! basic/patterns/mrtr). It stays one call: the second leg is no repeat of the first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::bridge::questions::{self, InputRequired, Kind, Question};
use steadfast_core::question;
use steadfast_core::wire::envelope;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Job, Sent, forward, not_observed, run, stream};
use crate::call::{AnswerStream, Call, Failure, Message};
use crate::link::Link;
use crate::question::ServerRequest;

/// What a leg came to, where the server asks for input.
pub(super) struct Asked {
    pub(super) input: InputRequired,
    pub(super) sent: Sent,
    pub(super) reissued: u32,
}

/// The rest of the call as a stream: what came before the question, the questions, what comes after them.
pub(super) fn begin(
    link: &Arc<Link>,
    job: &Arc<Job>,
    asked: Asked,
    ready: VecDeque<Message>,
) -> AnswerStream {
    let (sender, receiver) = mpsc::channel(stream::BACKLOG);
    let on_drop = job.on_drop();
    let (link, job) = (Arc::clone(link), Arc::clone(job));
    tokio::spawn(converse(link, job, asked, sender));
    AnswerStream::new(ready, Some(receiver), on_drop)
}

/// Asks the agent, sends the second leg, and passes on what becomes of it.
pub(super) async fn converse(
    link: Arc<Link>,
    job: Arc<Job>,
    asked: Asked,
    sender: mpsc::Sender<Message>,
) {
    let answers = tokio::select! {
        answers = answers(&link, &job, &asked.input, &sender) => answers,
        // Nothing is open at the server that it could be told of.
        () = job.handle.inner.cancelled.notified() => {
            let _ = sender.send(Message::Failed(Failure::Cancelled)).await;
            return;
        }
    };
    let next = answers.and_then(|answers| {
        job.next_leg(&asked.input, &answers).ok_or_else(|| {
            "the server asks for input in the middle of what is no request".to_owned()
        })
    });
    match next {
        Ok(next) => forward(run(link, Arc::new(next), asked.reissued).await, &sender).await,
        Err(evidence) => {
            let lost = not_observed(&link, &job.policy, asked.sent, evidence, None);
            let failed = Message::Failed(Failure::NotObserved(lost));
            let _ = sender.send(failed).await;
        }
    }
}

impl Job {
    /// The same call with the answers of the agent in it, to be sent under an id of its own ("The JSON-RPC
    /// id MUST be different"). What it came to is never asked again: the server's state may count once.
    fn next_leg(&self, input: &InputRequired, answers: &[String]) -> Option<Self> {
        let message = Bytes::from(input.second_leg(&self.call.message, answers));
        let envelope = envelope::read(&message).ok()?;
        let params = envelope::read_params(&message, &envelope);
        let mut policy = self.policy.clone();
        policy.reissue = false;
        Some(Self {
            call: Call {
                message,
                envelope,
                params,
                origin: self.call.origin.clone(),
            },
            policy,
            handle: self.handle.clone(),
            // What the agent was told counts on: progress never goes back.
            progress: Mutex::new(*self.progress.lock()),
            level: None,
            leg: self.leg + 1,
            tracked: self.tracked.clone(),
            counts_on_server: self.counts_on_server,
        })
    }
}

/// The answers to all questions, in their order. An error says in one clause why the call cannot go on.
async fn answers(
    link: &Arc<Link>,
    job: &Job,
    input: &InputRequired,
    sender: &mpsc::Sender<Message>,
) -> Result<Vec<String>, String> {
    if job.leg >= questions::MOST_LEGS {
        return Err("the server asks for input again and again".to_owned());
    }
    if input.questions.is_empty() {
        let pause = questions::pause_before(job.leg + 1);
        tokio::time::sleep(pause.duration()).await;
        return Ok(Vec::new());
    }
    let mut waiting = Vec::with_capacity(input.questions.len());
    for question in &input.questions {
        waiting.push(Waiting::ask(link, question, sender).await);
    }
    let patience = link
        .upstream
        .read()
        .as_ref()
        .map_or(Duration::ZERO, |it| it.retry.input_wait.duration());
    let until = Instant::now() + patience;
    let mut answers = Vec::with_capacity(waiting.len());
    for question in waiting {
        answers.push(question.answer(until, sender).await?);
    }
    Ok(answers)
}

/// A question that the agent has been asked.
struct Waiting {
    /// The id that it was asked under.
    id: i64,
    kind: Kind,
    answer: oneshot::Receiver<Bytes>,
}

impl Waiting {
    async fn ask(link: &Link, question: &Question, sender: &mpsc::Sender<Message>) -> Self {
        let id = link.next_id();
        let page = format!("steadfast-{id}");
        let message = question.request(&id.to_string(), &page);
        let (reply, answer) = oneshot::channel();
        let request = ServerRequest::bridged(message.into(), reply);
        // Where nobody listens any more it comes back as unanswered.
        let _ = sender.send(Message::Request(request)).await;
        Self {
            id,
            kind: question.kind,
            answer,
        }
    }

    /// The result that the agent gave, or the one that stands for none.
    async fn answer(
        self,
        until: Instant,
        sender: &mpsc::Sender<Message>,
    ) -> Result<String, String> {
        let failed = match tokio::time::timeout_at(until, self.answer).await {
            Ok(Ok(response)) => match result_of(&response) {
                Ok(result) => return Ok(result),
                Err(said) => said,
            },
            Ok(Err(_)) => "the agent is gone".to_owned(),
            Err(_) => {
                let taken_back = question::taken_back(&self.id.to_string());
                let _ = sender.send(Message::Notification(taken_back.into())).await;
                "no answer in time".to_owned()
            }
        };
        match self.kind.unanswered() {
            Some(result) => Ok(result.to_owned()),
            // mrtr has no errors among its responses: the call cannot go on.
            None => Err(format!(
                "the server asks for {}, which the agent does not answer: {failed}",
                self.kind.method()
            )),
        }
    }
}

/// The raw result of the agent's response, or what its error says.
fn result_of(response: &Bytes) -> Result<String, String> {
    let read = envelope::read(response).map_err(|invalid| invalid.to_string())?;
    if let Some(result) = read.result.clone().and_then(|range| response.get(range)) {
        return String::from_utf8(result.to_vec()).map_err(|_| "not text".to_owned());
    }
    let error = envelope::read_error(response, &read);
    Err(error.map_or_else(
        || "an error".to_owned(),
        |(code, message)| format!("{code}, {:?}", steadfast_core::quirks::sanitise(&message)),
    ))
}
