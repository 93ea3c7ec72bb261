//! One request on its way to a server. What was lost is sent again only on proof that it was not
//! executed, or where it only reads; everything else ends at once with what is known
//! (architecture, writes 12 to 15).

mod again;
mod cancelling;
mod compose;
mod detached;
mod input;
mod once;
mod policy;
mod progress;
mod recorded;
mod refused;
mod stream;
mod take_up;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use steadfast_core::effect::Executed;
use steadfast_core::now::Millis;
use steadfast_core::wire::envelope;
use steadfast_core::{Era, Fault, Generation, ServerName};
use tokio::sync::mpsc;

use crate::call::{Answer, Call, Failure, Message, NoSuchTool, NotObserved, OnDrop, WhyKeptBack};
use crate::handle::CallHandle;
use crate::levels;
use crate::link::Link;
use crate::measure::Timed;
use crate::operations::Tracked;
use crate::perform::ask::{method_of, note_scope};
use crate::route::Route;
use crate::trace;

use detached::{Detached, Work};
use policy::Policy;

pub(crate) use again::send_again;
pub(crate) use compose::for_leg;
pub(crate) use progress::{Stray, token_of};

/// Runs a call so that it goes on when its caller goes away.
pub(crate) fn detached(link: Arc<Link>, call: Call, handle: CallHandle) -> Detached {
    let upstream = link.upstream.read().clone();
    let policy = Policy::of(&link, &call, upstream.as_deref());
    let names = [link.agent.as_str(), link.server.as_str()];
    let span = trace::open(&call, &policy.method, policy.tool.as_deref(), names);
    let timed = Timed::start(&link.server, span);
    let is_recorded = policy.is_recorded();
    let cancels = policy.cancel_on_drop;
    let listens = (cancels || is_recorded).then(|| handle.clone());
    let job = Job {
        level: levels::take_note(&link, &call),
        call,
        policy,
        handle,
        progress: Mutex::default(),
        leg: 1,
        tracked: None,
        counts_on_server: false,
    };
    let work: Work = if is_recorded {
        Box::pin(recorded::run(link, job))
    } else {
        Box::pin(attempts(link, Arc::new(job), 0))
    };
    Detached::new(work, cancels, listens, Some(timed))
}

/// One call with what is decided about it. Shared, so that neither is copied on the way.
#[derive(Debug)]
pub(crate) struct Job {
    call: Call,
    policy: Policy,
    handle: CallHandle,
    /// The progress that the agent was last told.
    progress: Mutex<Option<f64>>,
    /// The log level that it wants of a legacy server.
    level: Option<levels::InUse>,
    /// Which leg of the call it is: 1 until a modern server asks for input.
    leg: u32,
    /// What is on record of it, for a consequential call.
    tracked: Option<Arc<Tracked>>,
    /// Whether it may be repeated because the server says that it keeps its key (SEP-3182).
    counts_on_server: bool,
}

impl Job {
    /// How the call is ended from outside.
    pub(crate) fn handle(&self) -> &CallHandle {
        &self.handle
    }

    /// What is done where the caller of a streaming answer goes away.
    fn on_drop(&self) -> OnDrop {
        OnDrop {
            cancel: self.policy.cancel_on_drop.then(|| self.handle.clone()),
            tracked: self.tracked.clone(),
        }
    }
}

/// How often what may still happen within one call.
struct Budget {
    /// Sent again after a refusal for its session (SE-01: once).
    session: u32,
    /// Sent again where nothing had left, or where the peer refused it unseen.
    unsent: u32,
    /// Sent again with corrected headers (PV-08: once, and never unchanged).
    headers: u32,
    /// Sent again with a newer access token (AU-02: once).
    credential: u32,
    /// Followed to another path of the origin (307, 308).
    redirects: u32,
    /// Reads asked again after their answer was lost.
    reissues: u32,
}

impl Budget {
    /// Takes one try of this kind, if any is left.
    fn take(&mut self, why: Why) -> bool {
        let left = match why {
            Why::Session => &mut self.session,
            Why::Unsent | Why::Refused => &mut self.unsent,
            Why::Headers => &mut self.headers,
            Why::Credential => &mut self.credential,
            Why::Redirect => &mut self.redirects,
        };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }

    /// Whether a call that was not executed may leave again, which is written down where it is on record.
    async fn may_go_on(&mut self, job: &Job, sent: Sent, why: Why) -> bool {
        let is_left = self.take(why);
        let Some(tracked) = &job.tracked else {
            return is_left;
        };
        if !is_left && why.executed() != Executed::No {
            // Nothing is proven of the last attempt: it is written down as lost.
            return false;
        }
        Box::pin(recorded::refused(tracked, sent, why)).await && is_left
    }
}

/// What became of one try.
enum Tried {
    /// There is an answer, or it is known that there is none.
    Done(Answer),
    /// Refused or unsent, with proof: send it again on a route newer than this.
    Again {
        after: Option<Generation>,
        why: Why,
        sent: Sent,
    },
    /// Redirected within the origin: send it there.
    Moved { to: PathAndQuery, sent: Sent },
    /// It was sent, and its result was not observed.
    Lost(Box<NotObserved>),
    /// A modern server asks a legacy agent for input.
    Asked(Box<input::Asked>),
    /// It must not leave: what must be on record first is not.
    Kept(Box<WhyKeptBack>),
    /// The agent cancelled it after this much had left.
    Cancelled(Sent),
}

/// Which part of the budget a further try takes.
#[derive(Clone, Copy)]
enum Why {
    Session,
    Unsent,
    Refused,
    Headers,
    Credential,
    Redirect,
}

/// The longest that a read waits for a server's Retry-After before it is asked again.
const PATIENCE: Millis = Millis::secs(5);

/// Sends a call until there is an answer or the budget is used up. `reissued`: how often the read
/// was asked before.
fn run(link: Arc<Link>, job: Arc<Job>, reissued: u32) -> Work {
    if job.tracked.is_none() {
        return Box::pin(attempts(link, job, reissued));
    }
    Box::pin(async move {
        let answer = attempts(link, Arc::clone(&job), reissued).await;
        recorded::concluded(&job, answer).await
    })
}

async fn attempts(link: Arc<Link>, job: Arc<Job>, mut reissued: u32) -> Answer {
    let policy = &job.policy;
    if let Some(refused) = denied(&link, policy) {
        return refused;
    }
    let mut budget = Budget {
        session: 1,
        unsent: 2,
        headers: 1,
        credential: 1,
        redirects: 3,
        reissues: 1u32.saturating_sub(reissued),
    };
    let (mut after, mut moved) = (None, None);
    loop {
        if job.handle.is_cancelled() {
            return Answer::Failed(Failure::Cancelled);
        }
        let route = match link.route_now(after) {
            Some(route) => route,
            None => match Box::pin(wait_for_route(&link, after, &job.handle)).await {
                Ok(route) => route,
                Err(failure) => return Answer::Failed(failure),
            },
        };
        if let Some(tool) = &policy.tool
            && link.may_have_lost_tool(tool)
            && Box::pin(link.has_lost_tool(tool)).await
        {
            return no_such_tool(tool, Some(&link.server));
        }
        if job.is_uncovered(&link) {
            return job.uncovered(&link);
        }
        let to = moved.take();
        match once::once(&link, &route, &job, reissued, to).await {
            Tried::Done(answer) => {
                if policy.is_remembered() {
                    Box::pin(link.keep_remembered()).await;
                }
                if let Some(tracked) = &job.tracked {
                    Box::pin(tracked.on_record()).await;
                }
                return answer;
            }
            Tried::Again {
                after: newer,
                why,
                sent,
            } => {
                if !budget.may_go_on(&job, sent, why).await {
                    return too_often(&link, policy, sent, why);
                }
                after = newer.or(after);
            }
            Tried::Moved { to, sent } => {
                if !budget.may_go_on(&job, sent, Why::Redirect).await {
                    return too_often(&link, policy, sent, Why::Redirect);
                }
                moved = Some(to);
            }
            Tried::Asked(asked) => {
                let stream = input::begin(&link, &job, *asked, VecDeque::new());
                return Answer::Stream(stream);
            }
            Tried::Kept(why) => {
                let tool = policy.tool.as_deref().unwrap_or_default();
                return recorded::kept_back(&link, tool, *why);
            }
            Tried::Cancelled(sent) => {
                Box::pin(job.cancelled(&link, sent)).await;
                return Answer::Failed(Failure::Cancelled);
            }
            Tried::Lost(lost) if job.tracked.is_some() => {
                if let Err(told) = Box::pin(job.lost(&link, lost)).await {
                    return told;
                }
            }
            Tried::Lost(lost) => {
                let wait = lost.fault.as_ref().and_then(|fault| fault.retry_after);
                let may_wait = wait.is_none_or(|wait| wait <= PATIENCE);
                if !policy.reissue || budget.reissues == 0 || !may_wait {
                    return Answer::Failed(Failure::NotObserved(lost));
                }
                budget.reissues -= 1;
                reissued += 1;
                Box::pin(tokio::time::sleep(wait.unwrap_or_default().duration())).await;
            }
        }
    }
}

/// The answer to a call of a tool that the operator denies.
fn denied(link: &Link, policy: &Policy) -> Option<Answer> {
    if policy.method != "tools/call" {
        return None;
    }
    let allowed = match &policy.tool {
        Some(tool) => link.allows_tool(tool),
        // Nobody could say that a name which cannot be read may pass.
        None => link.catalog.access().is_open(),
    };
    let tool = policy.tool.as_deref().unwrap_or_default();
    (!allowed).then(|| no_such_tool(tool, None))
}

fn no_such_tool(tool: &str, gone_from: Option<&ServerName>) -> Answer {
    Answer::Failed(Failure::NoSuchTool(Box::new(NoSuchTool {
        tool: tool.to_owned(),
        gone_from: gone_from.cloned(),
    })))
}

/// Passes on whatever a further try of a streaming call comes to.
async fn forward(answer: Answer, sender: &mpsc::Sender<Message>) {
    let last = match answer {
        Answer::Whole { message, .. } => Message::Response(message),
        Answer::Failed(failure) => Message::Failed(failure),
        Answer::Stream(mut stream) => {
            while let Some(message) = stream.next().await {
                // Nobody listens any more: read on all the same, to learn the outcome.
                let _ = sender.send(message).await;
            }
            return;
        }
    };
    let _ = sender.send(last).await;
}

/// Waits for an opening that is under way, and no longer than it may take to connect.
async fn wait_for_route(
    link: &Link,
    after: Option<Generation>,
    handle: &CallHandle,
) -> Result<Arc<Route>, Failure> {
    let patience = link.patience();
    tokio::select! {
        route = link.route(after, patience) => {
            route.ok_or_else(|| Failure::Unavailable(Box::new(link.report())))
        }
        () = handle.inner.cancelled.notified() => Err(Failure::Cancelled),
    }
}

/// What is known of a request without an answer.
fn not_observed(
    link: &Link,
    policy: &Policy,
    sent: Sent,
    evidence: impl Into<String>,
    fault: Option<Fault>,
) -> Box<NotObserved> {
    Box::new(NotObserved {
        server: link.server.as_str().to_owned(),
        tool: policy.tool.clone(),
        method: policy.method.clone(),
        executed: if sent.proven_unsent {
            Executed::No
        } else {
            Executed::Unknown
        },
        sent_at: (!sent.proven_unsent).then_some(sent.at),
        bytes_sent: sent.bytes,
        evidence: evidence.into(),
        fault,
        operation: None,
        connection: None,
    })
}

/// What is known of a request that came back each time it was sent.
fn too_often(link: &Link, policy: &Policy, sent: Sent, why: Why) -> Answer {
    let evidence = match why {
        Why::Session => "the server refused its session, and then the new one",
        Why::Unsent => "the connection was lost each time before anything was sent",
        Why::Refused => "the server refused it each time before looking at it",
        Why::Headers => "the server refused its headers, and then the corrected ones",
        Why::Credential => "the server refused its access token, and then a new one",
        Why::Redirect => "the server redirects too often",
    };
    let mut refused = not_observed(link, policy, sent, evidence, None);
    refused.executed = why.executed();
    Answer::Failed(Failure::NotObserved(refused))
}

/// When and how much of a request left.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: steadfast_core::Wall,
    bytes: u64,
    proven_unsent: bool,
}

/// Posts something that needs no answer: a notification, or an answer to the server's own question.
pub(crate) async fn post_quietly(link: &Link, route: &Route, message: Bytes) {
    let upstream = &route.upstream;
    if let Err(fault) = upstream.ready().await {
        tracing::debug!(server = %link.server, fault = %fault.message, "not posted");
        return;
    }
    let request = route.post(headers_for(route, &message), message.clone());
    let token = request.token;
    match upstream.exchange(request, upstream.terms()).await {
        Ok(reply) => {
            let status = reply.status;
            note_scope(upstream, token, || method_of(&message), &reply).await;
            if status.is_client_error() || status.is_server_error() {
                tracing::debug!(server = %link.server, %status, "a notification was refused");
            }
            if status == http::StatusCode::NOT_FOUND && route.session.is_some() {
                // Nothing is sent again, but the next request need not find out (SE-01).
                link.doubt(route.generation);
            }
            reply.body.drain(Duration::from_secs(2));
        }
        Err(unanswered) => {
            tracing::debug!(server = %link.server, fault = %unanswered.fault.message, "not posted");
        }
    }
}

fn headers_for(route: &Route, message: &[u8]) -> http::HeaderMap {
    let mut headers = route.headers.clone();
    if route.era() == Era::Modern
        && let Ok(read) = envelope::read(message)
    {
        let method = read.method(message);
        compose::insert(&mut headers, crate::route::MCP_METHOD, &method);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F>(_: impl Fn(Arc<Link>, Arc<Job>, u32) -> F) -> usize {
        size_of::<F>()
    }

    /// Each call allocates and fills this much: what is rare on its way is boxed apart.
    #[test]
    fn a_call_on_its_way_is_small() {
        let size = size(attempts);
        assert!(size <= 2_560, "{size} bytes");
    }
}
