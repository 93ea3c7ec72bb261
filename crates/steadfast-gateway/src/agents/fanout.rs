//! What servers send outside of any call, on its way to the agents that own the connection.

use std::sync::Arc;

use bytes::Bytes;
use steadfast::{CallHandle, Link, Listener, Message, ServerRequest};
use steadfast_core::question::{self, Addressee, Refusal};
use steadfast_core::{AgentName, ServerName};

use super::legacy;
use super::merged::Changes;
use super::modern::Hub;
use super::session::Session;
use super::sessions::Sessions;

/// Receives from the keeper.
#[derive(Debug)]
pub(crate) struct Fanout {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) hub: Arc<Hub>,
    /// For those who hear all servers of an agent.
    pub(crate) changes: Arc<Changes>,
}

impl Listener for Fanout {
    fn notification(&self, link: &Arc<Link>, message: Bytes) {
        let server = link.server();
        let updated = legacy::updated(&message);
        for session in self.audience(link) {
            let subscriptions = &session.subscriptions;
            if let Some(stream) = session.listening_now()
                && session.wants(&message)
                && updated
                    .as_ref()
                    .is_none_or(|uri| subscriptions.hears_of(link, uri))
                && let Some(message) = session.translate(server, message.clone())
            {
                stream.append_from(server, message);
            }
        }
        if link.conversation().is_none() {
            self.hub.notify(link.agent(), server, &message);
        }
        self.changes.notification(link, &message);
    }

    fn request(&self, link: &Arc<Link>, request: ServerRequest, in_flight: &[CallHandle]) {
        let conversations: Vec<_> = in_flight.iter().map(CallHandle::conversation).collect();
        let present = self.present(link);
        match question::addressee(&conversations, present.len()) {
            Addressee::Call(at) => self.ask_caller(link.server(), request, &in_flight[..=at]),
            Addressee::Only => match present.first() {
                Some(session) => ask(session, link.server(), request),
                None => request.refuse(Refusal::Unable),
            },
            Addressee::Nobody(why) => {
                tracing::debug!(
                    agent = %link.agent(), server = %link.server(), why,
                    "a question of the server does not say whose it is and is refused; \
                     isolate_sessions would tell"
                );
                request.refuse(Refusal::Unable);
            }
        }
    }

    fn is_listened_to(&self, link: &Link) -> bool {
        let (agent, server) = (link.agent(), link.server());
        let in_session = |server| {
            let sessions = self.sessions.listeners(agent, server);
            sessions.iter().any(|session| session.listens())
        };
        in_session(Some(server)) || in_session(None) || self.hub.has_listeners(agent, server)
    }

    fn reopened(&self, link: &Arc<Link>) {
        for session in self.audience(link) {
            legacy::reopened(&session, link);
        }
        if link.conversation().is_none() {
            self.hub.reopened(link.agent(), link.server());
        }
        self.changes.reopened(link);
    }

    fn renamed(&self, agent: &AgentName) {
        self.changes.all(agent);
    }
}

impl Fanout {
    /// The sessions with this server that listen to what its connection brings. Those with all servers of
    /// the agent are the business of [`Changes`].
    fn audience(&self, link: &Link) -> Vec<Arc<Session>> {
        match link.conversation() {
            Some(key) => {
                let session = self.sessions.in_memory(&key);
                let session = session.filter(|session| session.server.is_some());
                session.into_iter().collect()
            }
            None => {
                let mut all = self.sessions.listeners(link.agent(), Some(link.server()));
                // They hear it on their own connections.
                all.retain(|session| !session.is_isolated(link.server()));
                all
            }
        }
    }

    /// The conversations that this connection serves.
    fn present(&self, link: &Link) -> Vec<Arc<Session>> {
        match link.conversation() {
            Some(key) => self.sessions.in_memory(&key).into_iter().collect(),
            None => {
                let mut all = self.sessions.of(link.agent(), link.server());
                all.retain(|session| !session.is_isolated(link.server()));
                all
            }
        }
    }

    /// Asks the conversation of the newest of these calls: on the stream that it listens on, as the
    /// server chose, else on that of the call.
    fn ask_caller(&self, server: &ServerName, request: ServerRequest, in_flight: &[CallHandle]) {
        let conversation = in_flight.last().and_then(CallHandle::conversation);
        let Some(session) = conversation.and_then(|key| self.sessions.in_memory(&key)) else {
            return request.refuse(Refusal::Unable);
        };
        if session.listens() {
            return ask(&session, server, request);
        }
        let mut question = Message::Request(request);
        for call in in_flight.iter().rev() {
            match call.aside(question) {
                Ok(()) => return,
                Err(not_taken) => question = not_taken,
            }
        }
        // Nobody takes it: dropping it tells the server that the agent is gone.
    }
}

/// Asks on the stream that the session listens on.
fn ask(session: &Arc<Session>, server: &ServerName, request: ServerRequest) {
    match session
        .listening_now()
        .filter(|stream| stream.is_attached())
    {
        Some(stream) => {
            if let Some(message) = session.ask(server, request, None) {
                stream.append_from(server, message);
            }
        }
        None => request.refuse(Refusal::Gone),
    }
}
