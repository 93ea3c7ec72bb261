//! Goes on with a call that another process made and that waited for its agent's answer when that process
//! ended: the answer is posted, and the rest of the stream is fetched by GET with Last-Event-ID
//! (2025-11-25 transports, "Resumability and Redelivery"). The call itself is never sent again.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::stream::Break;
use steadfast_core::{Era, RpcId};
use tokio::sync::mpsc;

use super::once::Attempt;
use super::stream::{self, Reader, Source};
use super::{Detached, Job, Policy, Sent, not_observed, post_quietly, recorded, wait_for_route};
use crate::call::{Answer, Call, Failure};
use crate::handle::CallHandle;
use crate::levels;
use crate::link::Link;
use crate::question::{Place, Reply};
use crate::route::Route;

impl Link {
    /// Goes on with a call that stood at `place` when the process that made it ended, waiting for the
    /// answers to the server's questions. Nothing of the call itself is sent again; `call` is its second
    /// leg, whose id and progress token the rest of the answer carries.
    pub fn take_up(
        self: &Arc<Self>,
        call: Call,
        handle: CallHandle,
        place: Place,
        replies: Vec<Reply>,
    ) -> impl Future<Output = Answer> + Send + use<> {
        take_up(Arc::clone(self), call, handle, place, replies)
    }
}

fn take_up(
    link: Arc<Link>,
    call: Call,
    handle: CallHandle,
    place: Place,
    replies: Vec<Reply>,
) -> Detached {
    let upstream = link.upstream.read().clone();
    let mut policy = Policy::of(&link, &call, upstream.as_deref());
    policy.reissue = false;
    let cancels = policy.cancel_on_drop;
    let listens = (cancels || policy.is_recorded()).then(|| handle.clone());
    let job = Job {
        level: levels::take_note(&link, &call),
        call,
        policy,
        handle,
        progress: Mutex::default(),
        leg: 2,
        tracked: None,
        counts_on_server: false,
    };
    let work = Box::pin(go_on(link, job, place, replies));
    Detached::new(work, cancels, listens, None)
}

async fn go_on(link: Arc<Link>, mut job: Job, place: Place, replies: Vec<Reply>) -> Answer {
    job.tracked = recorded::taken_up(&link, &job, place.rpc_id).await;
    let job = Arc::new(job);
    match resumed(Arc::clone(&link), Arc::clone(&job), place, replies).await {
        Answer::Failed(Failure::NotObserved(lost)) => match job.lost(&link, lost.clone()).await {
            Ok(()) => Answer::Failed(Failure::NotObserved(lost)),
            Err(told) => told,
        },
        answer => answer,
    }
}

async fn resumed(link: Arc<Link>, job: Arc<Job>, place: Place, replies: Vec<Reply>) -> Answer {
    let sent = Sent {
        at: place.sent_at,
        bytes: place.bytes_sent,
        proven_unsent: false,
    };
    let lost = |evidence: String| {
        let lost = not_observed(&link, &job.policy, sent, evidence, None);
        Answer::Failed(Failure::NotObserved(lost))
    };
    let route = match wait_for_route(&link, None, &job.handle).await {
        Ok(route) => route,
        Err(Failure::Cancelled) => return Answer::Failed(Failure::Cancelled),
        Err(
            Failure::Unavailable(_)
            | Failure::NotObserved(_)
            | Failure::KeptBack(_)
            | Failure::NoSuchTool(_),
        ) => {
            return lost("the gateway was restarted, and the server is not available".to_owned());
        }
    };
    if route.era() == Era::Modern || route.session != place.session {
        return lost("the gateway was restarted, and the session of the call is gone".to_owned());
    }
    let busy = route.enter(place.rpc_id, &job);
    let attempt = Attempt {
        link: &link,
        route: &route,
        job: &job,
        reissued: 0,
        id: place.rpc_id,
        sent,
        moved: None,
        token: None,
    };
    let settled = replies
        .iter()
        .filter_map(|reply| RpcId::from_json(&reply.id));
    let mut reader = Reader::going_on(&attempt, place.cursor.clone(), settled.collect());
    let resumed = {
        let resuming = pin!(reader.broken(Break::CleanEnd));
        attempt.unless_cancelled(resuming).await
    };
    let Some(resumed) = resumed else {
        return Answer::Failed(Failure::Cancelled);
    };
    // Only where the result can be seen is anything agreed to.
    let events = match resumed {
        Ok(events) => events,
        Err(evidence) => {
            post_all(&link, &route, replies.iter().map(Reply::withdrawn)).await;
            return lost(format!("the gateway was restarted: {evidence}"));
        }
    };
    post_all(&link, &route, replies.iter().map(Reply::message)).await;
    let (sender, receiver) = mpsc::channel(stream::BACKLOG);
    let answer = reader.stream(VecDeque::new(), Some(receiver));
    tokio::spawn(reader.pump(Source::Open(Box::new(events)), sender, busy));
    Answer::Stream(answer)
}

async fn post_all(link: &Link, route: &Route, messages: impl Iterator<Item = bytes::Bytes>) {
    for message in messages {
        post_quietly(link, route, message).await;
    }
}
