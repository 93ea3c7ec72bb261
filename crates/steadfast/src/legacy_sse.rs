//! The deprecated HTTP+SSE transport of 2024-11-05: a GET stream names the endpoint for POSTs, and
//! carries all answers. Used only where a first contact proved it (HT-03).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use steadfast_core::identity::RpcId;
use steadfast_core::quirks::{self, Media};
use steadfast_core::wire::envelope::Envelope;
use steadfast_core::{Fault, Kind};
use tokio::sync::oneshot;

use crate::link::Link;
use crate::perform::ask::{media_of, note_scope, scope_needed};
use crate::perform::events::{Events, Read};
use crate::route::{Route, Upstream, redirect};

/// Who waits for an answer on the stream, by RPC id.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<BTreeMap<i64, oneshot::Sender<Bytes>>>);

impl Waiting {
    /// Waits for the answer to a request that is about to be sent. Dropping the receiver is enough to
    /// stop waiting.
    pub(crate) fn register(&self, id: i64) -> oneshot::Receiver<Bytes> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock();
        waiting.retain(|_, sender| !sender.is_closed());
        waiting.insert(id, sender);
        receiver
    }

    /// An answer came. One that nobody waits for comes back.
    pub(crate) fn answered(&self, read: Envelope, message: Bytes) -> Option<(Envelope, Bytes)> {
        let sender = match read.rpc_id(&message) {
            Some(RpcId::Integer(id)) => self.0.lock().remove(&id),
            Some(RpcId::Raw(_)) | None => None,
        };
        match sender {
            Some(sender) => sender.send(message).err().map(|message| (read, message)),
            None => Some((read, message)),
        }
    }

    /// The stream is gone: nobody will be answered.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Why there is no stream of the old transport.
#[derive(Debug)]
pub(crate) enum NoStream {
    /// The server does not offer it.
    NotOffered,
    /// It could not be found out.
    Fault(Fault),
}

/// Opens the stream and reads its first event, which must name the endpoint.
pub(crate) async fn open(upstream: &Upstream) -> Result<(Events, PathAndQuery), NoStream> {
    let limit = upstream.retry.stream_open_timeout.duration();
    let opening = async {
        upstream.ready().await.map_err(NoStream::Fault)?;
        let request = upstream.get(None, None, None);
        let token = request.token;
        let reply = upstream
            .exchange(request, upstream.terms())
            .await
            .map_err(|unanswered| NoStream::Fault(unanswered.fault))?;
        note_scope(upstream, token, || "GET".to_owned(), &reply).await;
        if let Some(needed) = scope_needed(reply.status, &reply.headers) {
            let fault = quirks::scope_insufficient(reply.status.as_u16(), &needed);
            return Err(NoStream::Fault(fault));
        }
        let status = reply.status.as_u16();
        if matches!(status, 401 | 403) || quirks::is_temporary(status) {
            let message = format!("the server answered a GET with {status}");
            let kind = if status < 408 {
                Kind::Forbidden
            } else {
                Kind::ServerError
            };
            return Err(NoStream::Fault(Fault::new(kind, message)));
        }
        if !reply.status.is_success() || media_of(&reply.headers) != Media::EventStream {
            return Err(NoStream::NotOffered);
        }
        let mut events = Events::new(reply.body, upstream.max_message);
        loop {
            match events.next().await {
                Read::Event(event) if event.name == "endpoint" => {
                    let data = event.data.unwrap_or_default();
                    let location = http::HeaderValue::from_bytes(&data).ok();
                    // The endpoint must be of the same origin, like a redirect that we follow.
                    let endpoint =
                        redirect(upstream, location.as_ref()).map_err(NoStream::Fault)?;
                    return Ok((events, endpoint));
                }
                Read::Heard => {}
                Read::Event(_) | Read::TooLarge | Read::PlainJson(_) | Read::End(_) => {
                    return Err(NoStream::NotOffered);
                }
            }
        }
    };
    tokio::time::timeout(limit, opening)
        .await
        .unwrap_or(Err(NoStream::NotOffered))
}

/// Reads the stream for as long as its route lives, and says when it ends by itself.
pub(crate) fn read(link: &Arc<Link>, route: &Arc<Route>, mut events: Events) {
    let link = Arc::clone(link);
    // Weak: the task belongs to the route and must not keep it alive.
    let weak = Arc::downgrade(route);
    route.carry(async move {
        let how = loop {
            let read = events.next().await;
            let Some(route) = weak.upgrade() else {
                return;
            };
            match read {
                Read::Event(event) => {
                    if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                        link.aside(&route, Bytes::from(data));
                    }
                }
                Read::Heard | Read::TooLarge | Read::PlainJson(_) => {}
                Read::End(how) => break how,
            }
        };
        if let Some(route) = weak.upgrade() {
            route.waiting.clear();
            let fault = Fault::new(Kind::Network, format!("HTTP+SSE: {}", how.evidence()));
            link.lost(route.generation, fault);
        }
    });
}
