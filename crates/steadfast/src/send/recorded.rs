//! A consequential call on its way: what the ledger of operations says before it leaves, and what is written down of how
//! it ends. Reads never come here.

use std::sync::Arc;

use steadfast_core::effect::Executed;
use steadfast_core::wire::envelope;
use steadfast_core::{Effect, Era};

use super::{Job, Policy, Sent, Why, attempts, compose, denied, not_observed};
use crate::call::{Answer, Call, Failure, KeptBack, NotObserved, WhyKeptBack};
use crate::clock;
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
    let asked = Asked {
        agent: &link.agent,
        server: &link.server,
        tool: &tool,
        call: &job.call,
        handle: &job.handle,
        policy: upstream.as_ref().and_then(|it| it.config.tools.get(&tool)),
    };
    match link.ledger.admit(asked).await {
        Admitted::Go(tracked, message) => {
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
    /// Its agent cancelled it, and nothing more is read of it.
    pub(super) async fn cancelled(&self, link: &Link, sent: Sent) {
        let Some(tracked) = &self.tracked else {
            return;
        };
        tracked.agent_left();
        let evidence = "its agent cancelled it before there was an answer";
        let lost = not_observed(link, &self.policy, sent, evidence, None);
        // Nobody waits for a repeat of it either.
        if let AfterLoss::Again(_) = tracked.lost(lost).await {
            tracked.given_up("its agent cancelled it").await;
        }
    }

    /// What was sent under a duplicate-prevention contract is sent once more after a loss, at its time; for anything
    /// else, what its agent is told.
    pub(super) async fn lost(&self, lost: Box<NotObserved>) -> Result<(), Box<NotObserved>> {
        let Some(tracked) = &self.tracked else {
            return Err(lost);
        };
        match tracked.lost(lost).await {
            AfterLoss::Again(due) => {
                clock::wait_until(Some(due)).await;
                Ok(())
            }
            AfterLoss::Reported(lost) => Err(lost),
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
