//! A question of a server to its agent, and where its answer goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use steadfast_core::bridge::questions;
use steadfast_core::question::{self, Refusal};
use steadfast_core::wire::envelope;
use steadfast_core::wire::splice::{self, Edit};
use steadfast_core::{EventCursor, SessionId, Wall};
use tokio::sync::oneshot;

use crate::link::Link;
use crate::route::Route;
use crate::send;

/// Answer it, refuse it, or drop it: then the server is told that the agent is gone, so that nothing
/// hangs.
#[derive(Debug)]
pub struct ServerRequest {
    /// The request, with the server's own id in it.
    pub message: Bytes,
    place: Option<Box<Place>>,
    reply_to: Option<ReplyTo>,
    /// Held as long as the question is open.
    open: Option<Arc<Questions>>,
}

/// What the open questions of one call share.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    left: AtomicBool,
}

/// Who waits for the answer.
#[derive(Debug)]
enum ReplyTo {
    /// A legacy server, which gets it as a POST.
    Server(Arc<Link>, Arc<Route>),
    /// The bridge to a modern server, which makes the second leg of it.
    Bridge(oneshot::Sender<Bytes>),
}

/// Where a call stood when the server asked: what another process needs to go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The session with the server; none where the server uses no session ids.
    pub session: Option<SessionId>,
    /// The RPC id that the server knows the call by.
    pub rpc_id: i64,
    /// The last event of the call's stream; none where its events have no ids.
    pub cursor: Option<EventCursor>,
    /// When the call left.
    pub sent_at: Wall,
    /// How many bytes of its body left.
    pub bytes_sent: u64,
}

/// What became of one question of a legacy server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The server's id of the question, as raw JSON.
    pub id: String,
    /// Its method.
    pub method: String,
    /// The agent's result, as raw JSON; none where it gave no answer.
    pub result: Option<String>,
}

impl Reply {
    /// The response for the server.
    pub(crate) fn message(&self) -> Bytes {
        match &self.result {
            Some(result) => questions::response(&self.id, result.as_bytes()).into(),
            None => self.withdrawn(),
        }
    }

    /// The response that takes the agent's answer back.
    pub(crate) fn withdrawn(&self) -> Bytes {
        Refusal::Gone.response(&self.id, &self.method).into()
    }
}

impl ServerRequest {
    pub(crate) fn new(link: &Arc<Link>, route: &Arc<Route>, message: Bytes) -> Self {
        Self {
            message,
            place: None,
            reply_to: Some(ReplyTo::Server(Arc::clone(link), Arc::clone(route))),
            open: None,
        }
    }

    /// The same on the stream of a call that stands at `place`.
    pub(crate) fn on_stream(mut self, place: Place, open: Arc<Questions>) -> Self {
        self.place = Some(Box::new(place));
        self.open = Some(open);
        self
    }

    /// Of a modern server: the answer goes to whoever makes the second leg.
    pub(crate) fn bridged(message: Bytes, answer: oneshot::Sender<Bytes>) -> Self {
        Self {
            message,
            place: None,
            reply_to: Some(ReplyTo::Bridge(answer)),
            open: None,
        }
    }

    /// Where the call stands that it is about; none outside of any call, and of a modern server.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.place.as_deref()
    }

    /// Its method, decoded.
    #[must_use]
    pub fn method(&self) -> String {
        let read = envelope::read(&self.message);
        read.map(|read| read.method(&self.message).into_owned())
            .unwrap_or_default()
    }

    /// The raw JSON of the server's own id.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        let id = envelope::read(&self.message).ok()?.id?;
        std::str::from_utf8(self.message.get(id)?).ok()
    }

    /// Whether whoever asks gives up by itself, and says so on the stream of the call.
    #[must_use]
    pub fn ends_by_itself(&self) -> bool {
        matches!(self.reply_to, Some(ReplyTo::Bridge(_)))
    }

    /// Whether an agent that declared these capabilities (raw JSON) can be asked it.
    ///
    /// # Errors
    ///
    /// What to refuse it with.
    pub fn check(&self, capabilities: &[u8]) -> Result<(), Refusal> {
        let Ok(read) = envelope::read(&self.message) else {
            return Err(Refusal::Unable);
        };
        let params = read
            .params
            .clone()
            .and_then(|range| self.message.get(range));
        let method = read.method(&self.message);
        question::check(capabilities, &method, params.unwrap_or_default())
    }

    /// Sends the agent's answer: a JSON-RPC response, whose id is replaced by the server's own.
    pub async fn answer(mut self, answer: Bytes) {
        self.open = None;
        match self.reply_to.take() {
            Some(ReplyTo::Bridge(waiting)) => {
                // The call may have ended meanwhile.
                let _ = waiting.send(answer);
            }
            Some(ReplyTo::Server(link, route)) => {
                let (Some(own), Ok(read)) = (self.id(), envelope::read(&answer)) else {
                    return;
                };
                let Some(range) = read.id else {
                    return;
                };
                let with = own.as_bytes();
                let body = splice::apply(&answer, &mut [Edit { range, with }]);
                send::post_quietly(&link, &route, Bytes::from(body)).await;
            }
            None => {}
        }
    }

    /// Tells the server at once that it will not be answered, and why.
    pub fn refuse(mut self, refusal: Refusal) {
        self.refused(refusal);
    }

    /// The server took it back, and expects no answer any more (2025-11-25 cancellation, "Behavior
    /// Requirements": "Not send a response for the cancelled request").
    pub fn withdraw(mut self) {
        self.reply_to = None;
    }

    /// Leaves it, and all others of its call, open at the server: the process ends, and the next one goes
    /// on with the call ([`Link::take_up`]).
    pub fn leave(mut self) {
        if let Some(open) = &self.open {
            open.left.store(true, Ordering::Relaxed);
        }
        self.reply_to = None;
    }

    fn refused(&mut self, refusal: Refusal) {
        let Some(reply_to) = self.reply_to.take() else {
            return;
        };
        let questions = self.open.as_ref();
        if questions.is_some_and(|questions| questions.left.load(Ordering::Relaxed)) {
            return;
        }
        let Some(id) = self.id() else {
            return;
        };
        let response = Bytes::from(refusal.response(id, &self.method()));
        match reply_to {
            ReplyTo::Bridge(waiting) => {
                let _ = waiting.send(response);
            }
            // Without a runtime the process is ending.
            ReplyTo::Server(link, route) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        send::post_quietly(&link, &route, response).await;
                    });
                }
            }
        }
    }
}

impl Drop for ServerRequest {
    fn drop(&mut self) {
        self.refused(Refusal::Gone);
    }
}
