//! One request on its way to a server, and everything that can become of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use steadfast_core::bridge;
use steadfast_core::effect::Executed;
use steadfast_core::now::Wall;
use steadfast_core::wire::envelope::{Envelope, Params};
use steadfast_core::{Fault, Revision, ServerName};
use tokio::sync::mpsc;

use crate::handle::CallHandle;
use crate::measure::Timed;
use crate::operations::{OperationReport, Tracked};
use crate::question::ServerRequest;
use crate::report::Report;
use crate::send;

/// One request of an agent.
#[derive(Clone, Debug)]
pub struct Call {
    /// One valid JSON-RPC request, as the agent sent it.
    pub message: Bytes,
    /// Its parts.
    pub envelope: Envelope,
    /// The parts of its params.
    pub params: Params,
    /// Who asks, and in which era.
    pub origin: Origin,
}

impl Call {
    /// A message of an earlier leg of the same call as one of this leg: with its own id, and its own
    /// progress token. `None` for progress that this leg did not ask for.
    #[must_use]
    pub fn readdress(&self, message: Bytes) -> Option<Bytes> {
        send::for_leg(self, message)
    }
}

/// Who asks, and in which era. The keeper translates where the server speaks the other one.
#[derive(Clone, Debug)]
pub enum Origin {
    /// An agent with a legacy session.
    Legacy {
        /// The revision of that session.
        revision: Revision,
        /// What it said of itself in `initialize`, and the log level it set.
        client: Arc<bridge::Client>,
    },
    /// An agent whose request carries its metadata.
    Modern {
        /// The revision of the request.
        revision: Revision,
    },
}

/// What became of a request.
#[derive(Debug)]
pub enum Answer {
    /// The response in one piece: in the agent's era, with the agent's own id.
    Whole {
        /// The status to answer with: 200, or what the server said with a JSON-RPC error (400, 404).
        status: u16,
        /// One JSON-RPC response.
        message: Bytes,
    },
    /// The server streams: messages as they come, the response last.
    Stream(AnswerStream),
    /// There is no response.
    Failed(Failure),
}

/// Messages as they come. The stream ends after `Response` or `Failed`, never without one of them.
/// Dropping it tells the upstream what the policy of the call says (nothing, for a legacy agent).
#[derive(Debug)]
pub struct AnswerStream {
    ready: VecDeque<Message>,
    rest: Option<mpsc::Receiver<Message>>,
    on_drop: OnDrop,
    /// How long it takes, where that is measured.
    timed: Option<Box<Timed>>,
}

/// What is done where the caller goes away before the last message.
#[derive(Debug, Default)]
pub(crate) struct OnDrop {
    /// The call is cancelled.
    pub(crate) cancel: Option<CallHandle>,
    /// The operation goes on without its agent.
    pub(crate) tracked: Option<Arc<Tracked>>,
}

impl AnswerStream {
    pub(crate) fn new(
        ready: VecDeque<Message>,
        rest: Option<mpsc::Receiver<Message>>,
        on_drop: OnDrop,
    ) -> Self {
        Self {
            ready,
            rest,
            on_drop,
            timed: None,
        }
    }

    pub(crate) fn time(&mut self, timed: Timed) {
        self.timed = Some(Box::new(timed));
    }

    /// Lets go of it without telling the upstream anything: the process ends, and the next one goes on
    /// with the call.
    pub fn leave(mut self) {
        self.on_drop = OnDrop::default();
    }

    /// The next message; `None` after the last one. Safe to drop while waiting.
    pub async fn next(&mut self) -> Option<Message> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, for a caller that polls.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let message = match (self.ready.pop_front(), &mut self.rest) {
            (Some(message), _) => Some(message),
            (None, Some(rest)) => std::task::ready!(rest.poll_recv(cx)),
            (None, None) => None,
        };
        if let (Some(timed), Some(message)) = (&mut self.timed, &message) {
            timed.message(message);
        }
        if matches!(message, Some(Message::Response(_) | Message::Failed(_))) {
            let OnDrop { tracked, .. } = std::mem::take(&mut self.on_drop);
            if let (Some(tracked), Some(Message::Response(_))) = (tracked, &message) {
                tracked.given();
            }
        }
        Poll::Ready(message)
    }

    /// Whether the response is there, and nobody has taken it.
    fn has_response(&mut self) -> bool {
        let is_response = |message: &Message| matches!(message, Message::Response(_));
        let rest = self.rest.as_mut();
        self.ready.iter().any(is_response)
            || rest.is_some_and(|rest| {
                rest.close();
                std::iter::from_fn(|| rest.try_recv().ok()).any(|message| is_response(&message))
            })
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        if let Some(handle) = &self.on_drop.cancel {
            handle.cancel(None);
        }
        if let Some(tracked) = self.on_drop.tracked.take() {
            tracked.agent_left();
            if self.has_response() {
                tracked.not_taken();
            }
        }
    }
}

/// One message of a streaming answer.
#[derive(Debug)]
pub enum Message {
    /// A notification, with the agent's own progress token.
    Notification(Bytes),
    /// The server asks the agent something.
    Request(ServerRequest),
    /// The response: in the agent's era, with the agent's own id. The last message.
    Response(Bytes),
    /// There will be no response. The last message.
    Failed(Failure),
}

/// Why there is no response.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The server is not available; nothing was sent.
    Unavailable(Box<Report>),
    /// There is no such tool for this agent; nothing was sent.
    NoSuchTool(Box<NoSuchTool>),
    /// It was sent, and its result was not observed; or it was refused for a proven reason
    /// (`executed: no`).
    NotObserved(Box<NotObserved>),
    /// The ledger of operations keeps it back; nothing was sent.
    KeptBack(Box<KeptBack>),
    /// The agent cancelled it.
    Cancelled,
}

/// A tool that cannot be called: the operator denies it, or the server does not list it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchTool {
    /// Its name.
    pub tool: String,
    /// The server that once listed it; `None` where the operator denies it, which is nobody else's business.
    pub gone_from: Option<ServerName>,
}

/// A consequential call that was not sent, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBack {
    /// The server.
    pub server: ServerName,
    /// The tool.
    pub tool: String,
    /// Why.
    pub why: WhyKeptBack,
}

/// Why a consequential call was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyKeptBack {
    /// It may be a repeat of this operation, which is unresolved or in flight.
    PossibleRepeat(OperationReport),
    /// It is this operation, whose outcome is known; there is no response that could be given in its place.
    Settled(OperationReport),
    /// Its operation key belongs to this operation, of another tool or with other arguments.
    KeyTaken(OperationReport),
    /// Its operation key is not a string.
    KeyNotText,
    /// It could not be put on record: nothing leaves that is not.
    StoreUnavailable(Fault),
}

/// What is known of a request whose result was not observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotObserved {
    /// The server.
    pub server: String,
    /// The tool, for `tools/call`.
    pub tool: Option<String>,
    /// The method.
    pub method: String,
    /// Whether it ran, as far as it is known.
    pub executed: Executed,
    /// When it left; `None` where it never did.
    pub sent_at: Option<Wall>,
    /// How many bytes of its body left.
    pub bytes_sent: u64,
    /// What was seen, in one clause.
    pub evidence: String,
    /// The fault behind it, where there is one.
    pub fault: Option<Fault>,
    /// How its operation stands, where it is on record: that of every consequential call that left.
    #[serde(default)]
    pub operation: Option<Box<OperationReport>>,
    /// The connection, where it says what a person must do before the like of it can succeed.
    #[serde(default)]
    pub connection: Option<Box<Report>>,
}
