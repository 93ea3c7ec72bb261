//! A call that a person wants sent again: the same operation, with the same words, under a new RPC id. Nobody waits for
//! it, so that its answer is kept.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::wire::envelope;
use steadfast_core::{Revision, bridge};
use steadfast_store::{ExposeSecret as _, SecretString};

use super::{Job, Policy, attempts, denied, recorded};
use crate::call::{Answer, AnswerStream, Call, Message, Origin};
use crate::drive::open::OWN_INFO;
use crate::handle::CallHandle;
use crate::link::Link;
use crate::operations::Tracked;

/// Sends it, and reads its answer to the end.
pub(crate) async fn send_again(link: Arc<Link>, params: &SecretString, tracked: Arc<Tracked>) {
    tracked.agent_left();
    let Some(call) = call_of(params) else {
        tracked.given_up("the call on record cannot be read").await;
        return;
    };
    let upstream = link.upstream.read().clone();
    let policy = Policy::of(&link, &call, upstream.as_deref());
    let job = Arc::new(Job {
        call,
        policy,
        handle: CallHandle::new(),
        progress: Mutex::default(),
        level: None,
        leg: 1,
        tracked: Some(tracked),
        counts_on_server: false,
    });
    let answer = match denied(&link, &job.policy) {
        Some(denied) => denied,
        None => attempts(link, Arc::clone(&job), 0).await,
    };
    if let Answer::Stream(stream) = recorded::concluded(&job, answer).await {
        read_to_end(stream).await;
    }
}

/// Nobody answers the server's questions: they end as unanswered.
async fn read_to_end(mut stream: AnswerStream) {
    while let Some(message) = stream.next().await {
        if let Message::Response(_) | Message::Failed(_) = message {
            return;
        }
    }
}

/// The call as its agent made it, in its era.
fn call_of(params: &SecretString) -> Option<Call> {
    let params = params.expose_secret();
    let message = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{params}}}"#);
    let message = Bytes::from(message);
    let envelope = envelope::read(&message).ok()?;
    let params = envelope::read_params(&message, &envelope);
    let origin = match params.protocol_version {
        Some(_) => Origin::Modern {
            revision: Revision::LATEST_MODERN,
        },
        None => Origin::Legacy {
            revision: Revision::LATEST_LEGACY,
            client: Arc::new(bridge::Client {
                info: OWN_INFO.to_owned(),
                capabilities: "{}".to_owned(),
                log_level: None,
            }),
        },
    };
    Some(Call {
        message,
        envelope,
        params,
        origin,
    })
}
