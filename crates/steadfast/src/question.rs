//! A question of a server to its agent.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::question::Refusal;
use steadfast_core::wire::envelope;
use steadfast_core::wire::splice::{self, Edit};

use crate::link::Link;
use crate::route::Route;
use crate::send;

/// Answer it, refuse it, or drop it: then the server is told that the agent is gone, so that nothing
/// hangs.
#[derive(Debug)]
pub struct ServerRequest {
    /// The request, with the server's own id in it.
    pub message: Bytes,
    reply_to: Option<(Arc<Link>, Arc<Route>)>,
}

impl ServerRequest {
    pub(crate) fn new(link: &Arc<Link>, route: &Arc<Route>, message: Bytes) -> Self {
        Self {
            message,
            reply_to: Some((Arc::clone(link), Arc::clone(route))),
        }
    }

    /// Sends the agent's answer: a JSON-RPC response, whose id is replaced by the server's own.
    pub async fn answer(mut self, answer: Bytes) {
        let Some((link, route)) = self.reply_to.take() else {
            return;
        };
        let Some(own) = raw_id(&self.message) else {
            return;
        };
        let Ok(read) = envelope::read(&answer) else {
            return;
        };
        let Some(range) = read.id else {
            return;
        };
        let edit = Edit {
            range,
            with: own.as_bytes(),
        };
        let body = splice::apply(&answer, &mut [edit]);
        send::post_quietly(&link, &route, Bytes::from(body)).await;
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

    fn refused(&mut self, refusal: Refusal) {
        let Some((link, route)) = self.reply_to.take() else {
            return;
        };
        let Some(id) = raw_id(&self.message) else {
            return;
        };
        let method = envelope::read(&self.message).map(|read| read.method(&self.message));
        let response = refusal.response(id, &method.unwrap_or_default());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                send::post_quietly(&link, &route, Bytes::from(response)).await;
            });
        }
    }
}

/// The raw JSON of the server's id.
fn raw_id(message: &[u8]) -> Option<&str> {
    let id = envelope::read(message).ok()?.id?;
    std::str::from_utf8(message.get(id)?).ok()
}

impl Drop for ServerRequest {
    fn drop(&mut self) {
        self.refused(Refusal::Gone);
    }
}
