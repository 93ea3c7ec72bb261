//! A consequential call on its way: what the ledger of operations says before it leaves, and what is written down of how
//! it ends. Reads never come here.

use std::sync::Arc;

use steadfast_core::effect::Executed;
use steadfast_core::operation::idempotency;
use steadfast_core::wire::envelope::{self, Envelope};
use steadfast_core::{Effect, Era};

use super::{Job, Policy, Sent, Why, attempts, compose, denied, not_observed};
use crate::call::{Answer, Call, Failure, KeptBack, NotObserved, WhyKeptBack};
use crate::clock;
use crate::config::Idempotency;
use crate::link::Link;
use crate::operations::{Admitted, AfterLoss, AfterRefusal, Asked, Tracked};

impl Policy {
    /// The tool of a call that is put on record.
    fn recorded(&self) -> Option<&str> {
        let is_write = self.effect == Effect::Write;
        self.tool.as_deref().filter(|_| is_write)
    }

    /// Whether it is put on record.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded().is_some()
    }
}

/// Sends a consequential call where it is a further one; else answers from what is on record.
pub(super) async fn run(link: Arc<Link>, mut job: Job) -> Answer {
    if let Some(refused) = denied(&link, &job.policy) {
        return refused;
    }
    let tool = job.policy.recorded().unwrap_or_default().to_owned();
    let upstream = link.upstream.read().clone();
    let idempotency = kept_keys(&link);
    let asked = Asked {
        agent: &link.agent,
        server: &link.server,
        tool: &tool,
        call: &job.call,
        handle: &job.handle,
        policy: upstream.as_ref().and_then(|it| it.config.tools.get(&tool)),
        idempotency: idempotency.as_ref(),
    };
    let counts_on_server = asked.counts_on_server();
    match link.ledger.admit(asked).await {
        Admitted::Go(tracked, message) => {
            job.counts_on_server = counts_on_server;
            if let Some(message) = message.and_then(|message| with_message(&job.call, message)) {
                job.call = message;
            }
            job.tracked = Some(tracked);
            let job = Arc::new(job);
            let answer = attempts(link, Arc::clone(&job), 0).await;
            let answer = concluded(&job, answer).await;
            if let (Some(tracked), Answer::Whole { .. }) = (&job.tracked, &answer) {
                tracked.given();
            }
            answer
        }
        Admitted::Answered(response) => from_record(&link, &job, &response),
        Admitted::KeptBack(why) => kept_back(&link, &tool, *why),
    }
}

/// Where the server advertises that it keeps keys of calls, and the operator counts on it (SEP-3182).
fn kept_keys(link: &Link) -> Option<Idempotency> {
    let upstream = link.upstream.read();
    let setting = upstream.as_ref()?.config.idempotency.clone()?;
    let hello = link.hello()?;
    idempotency::is_advertised(&hello.result).then_some(setting)
}

/// The operation of a call that an earlier process made, and that goes on here: the server knows it by this id.
pub(super) async fn taken_up(link: &Link, job: &Job, rpc_id: i64) -> Option<Arc<Tracked>> {
    let tool = job.policy.recorded()?;
    let upstream = link.upstream.read().clone();
    let asked = Asked {
        agent: &link.agent,
        server: &link.server,
        tool,
        call: &job.call,
        handle: &job.handle,
        policy: upstream.as_ref().and_then(|it| it.config.tools.get(tool)),
        idempotency: None,
    };
    let tracked = link.ledger.take_up(asked, rpc_id).await;
    tracked.unwrap_or_else(|error| {
        tracing::error!(%error, "the operation of a call that goes on cannot be read");
        None
    })
}

/// The same call with another text.
fn with_message(call: &Call, message: bytes::Bytes) -> Option<Call> {
    let envelope = envelope::read(&message).ok()?;
    let params = envelope::read_params(&message, &envelope);
    Some(Call {
        message,
        envelope,
        params,
        origin: call.origin.clone(),
    })
}

pub(super) fn kept_back(link: &Link, tool: &str, why: WhyKeptBack) -> Answer {
    Answer::Failed(Failure::KeptBack(Box::new(KeptBack {
        server: link.server.clone(),
        tool: tool.to_owned(),
        why,
    })))
}

/// A response that was kept, as the answer to this call.
fn from_record(link: &Link, job: &Job, response: &bytes::Bytes) -> Answer {
    let era = link.hello().map_or(Era::Legacy, |hello| hello.era());
    let shaped = envelope::read(response)
        .ok()
        .and_then(|read| compose::answer_for(&job.call, era, &job.policy, response, &read, 0));
    match shaped {
        Some(message) => Answer::Whole {
            status: 200,
            message,
        },
        None => {
            let evidence = "the answer on record is not one that this agent could be given";
            let sent = Sent {
                at: clock::wall(),
                bytes: 0,
                proven_unsent: true,
            };
            let lost = not_observed(link, &job.policy, sent, evidence, None);
            Answer::Failed(Failure::NotObserved(lost))
        }
    }
}

/// Writes down that a call is not tried again, where it ended without an answer and that is not on record yet. What its
/// agent is told then.
pub(super) async fn concluded(job: &Job, answer: Answer) -> Answer {
    let (Some(tracked), Answer::Failed(failure)) = (&job.tracked, &answer) else {
        return answer;
    };
    let why = match failure {
        Failure::NotObserved(lost) if lost.operation.is_some() => return answer,
        Failure::NotObserved(lost) => lost.evidence.as_str(),
        Failure::Unavailable(_) => "the server is not available",
        Failure::NoSuchTool(_) => "the server does not offer the tool any more",
        Failure::KeptBack(_) => "it could not be put on record that it leaves again",
        Failure::Cancelled => "its agent cancelled it",
    };
    if let Failure::NotObserved(lost) = failure
        && lost.executed == Executed::No
    {
        // Refused for a reason that nothing here can mend, such as a scope.
        tracked.refused(lost.bytes_sent, &lost.evidence).await;
    }
    let given_up = tracked.given_up(why).await;
    match (answer, given_up.lost) {
        // Nobody waits for it.
        (Answer::Failed(Failure::Cancelled), _) => Answer::Failed(Failure::Cancelled),
        // What is sent no more may have been executed before.
        (_, Some(lost)) => Answer::Failed(Failure::NotObserved(lost)),
        (Answer::Failed(Failure::NotObserved(mut lost)), None) => {
            lost.operation = given_up.operation.map(Box::new);
            Answer::Failed(Failure::NotObserved(lost))
        }
        (answer, None) => answer,
    }
}

impl Job {
    /// Whether it may have been executed, and its server does not say any more that it keeps its key.
    pub(super) fn is_uncovered(&self, link: &Link) -> bool {
        let is_repeated = self.tracked.as_ref().is_some_and(|it| it.is_repeated());
        self.counts_on_server && is_repeated && kept_keys(link).is_none()
    }

    /// The answer to such a call.
    pub(super) fn uncovered(&self, link: &Link) -> Answer {
        let sent = Sent {
            at: clock::wall(),
            bytes: 0,
            proven_unsent: false,
        };
        let evidence = "the server does not say any more that it keeps keys";
        let lost = not_observed(link, &self.policy, sent, evidence, None);
        Answer::Failed(Failure::NotObserved(lost))
    }

    /// What an answer to a repeat says that is about its key, and not about the call.
    pub(super) fn about_the_key(&self, message: &[u8], read: &Envelope) -> Option<&'static str> {
        let tracked = self.tracked.as_ref()?;
        let is_concerned = self.counts_on_server && tracked.is_repeated();
        is_concerned.then(|| idempotency::about_the_key(message, read))?
    }

    /// Its agent cancelled it, and nothing more is read of it.
    pub(super) async fn cancelled(&self, link: &Link, sent: Sent) {
        let Some(tracked) = &self.tracked else {
            return;
        };
        tracked.agent_left();
        let evidence = "its agent cancelled it before there was an answer";
        let lost = not_observed(link, &self.policy, sent, evidence, None);
        // Nobody waits for a repeat of it either.
        match tracked.lost(lost).await {
            AfterLoss::Again(_) => {
                tracked.given_up("its agent cancelled it").await;
            }
            AfterLoss::Followed(_) | AfterLoss::Reported(_) => {}
        }
    }

    /// What was sent under a duplicate-prevention contract is sent once more after a loss, at its time; for anything
    /// else, what its agent is told.
    pub(super) async fn lost(&self, link: &Link, lost: Box<NotObserved>) -> Result<(), Answer> {
        let told = |lost| Err(Answer::Failed(Failure::NotObserved(lost)));
        let Some(tracked) = &self.tracked else {
            return told(lost);
        };
        match tracked.lost(lost).await {
            // Whoever cancelled it wants no repeat of it.
            AfterLoss::Again(_) if self.handle.is_cancelled() => {
                tracked.given_up("its agent cancelled it").await;
                Err(Answer::Failed(Failure::Cancelled))
            }
            AfterLoss::Again(due) => {
                clock::wait_until(Some(due)).await;
                Ok(())
            }
            AfterLoss::Followed(lost) => match self.followed(link, tracked).await {
                Some(response) => Err(from_record(link, self, &response)),
                None if self.handle.is_cancelled() => Err(Answer::Failed(Failure::Cancelled)),
                None => told(lost),
            },
            AfterLoss::Reported(lost) => told(lost),
        }
    }

    /// The response that following the task of the call brings, while its agent waits for it.
    async fn followed(&self, link: &Link, tracked: &Tracked) -> Option<bytes::Bytes> {
        if self.handle.is_cancelled() {
            return None;
        }
        let upstream = link.upstream.read().clone();
        let limit = upstream.map(|it| it.retry.call_timeout.duration())?;
        tokio::select! {
            followed = tokio::time::timeout(limit, tracked.followed()) => followed.ok().flatten(),
            () = self.handle.inner.cancelled.notified() => None,
        }
    }
}

/// Writes down that an attempt was not executed, or that nobody knows, where a redirect leads round in circles. Whether
/// it may leave again.
pub(super) async fn refused(tracked: &Tracked, sent: Sent, why: Why) -> bool {
    match tracked.refused(sent.bytes, why.proof()).await {
        AfterRefusal::Again => true,
        AfterRefusal::Later(due) => {
            clock::wait_until(Some(due)).await;
            true
        }
        AfterRefusal::Never => false,
    }
}

impl Why {
    /// What proves that the attempt was not executed.
    const fn proof(self) -> &'static str {
        match self {
            Self::Session => "the server refused its session",
            Self::Unsent => "nothing of its body left",
            Self::Refused => "the server refused it before looking at it",
            Self::Headers => "the server refused its headers",
            Self::Credential => "the server refused its access token",
            Self::Redirect => "the server redirected it to another path, to be sent there",
        }
    }

    /// Whether a request that came back so for the last time was not executed.
    pub(super) const fn executed(self) -> Executed {
        match self {
            Self::Session | Self::Unsent | Self::Refused | Self::Headers | Self::Credential => {
                Executed::No
            }
            // Who redirects has looked at the request.
            Self::Redirect => Executed::Unknown,
        }
    }
}
