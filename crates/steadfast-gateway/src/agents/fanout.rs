//! What servers send outside of any call, on its way to the agents that own the connection.

use std::sync::Arc;

use bytes::Bytes;
use steadfast::{Keeper, Listener, ServerRequest};
use steadfast_core::{AgentName, ServerName};

use super::legacy;
use super::modern::Hub;
use super::sessions::Sessions;

/// Receives from the keeper.
#[derive(Debug)]
pub(crate) struct Fanout {
    pub(crate) keeper: Keeper,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) hub: Arc<Hub>,
}

impl Listener for Fanout {
    fn notification(&self, agent: &AgentName, server: &ServerName, message: Bytes) {
        for session in self.sessions.listeners(agent, Some(server)) {
            if let Some(stream) = session.listening_now() {
                stream.append(session.translate(server, message.clone()));
            }
        }
        self.hub.notify(agent, server, &message);
    }

    fn request(&self, agent: &AgentName, server: &ServerName, mut request: ServerRequest) {
        for session in self.sessions.listeners(agent, Some(server)) {
            let Some(stream) = session
                .listening_now()
                .filter(|stream| stream.is_attached())
            else {
                continue;
            };
            match session.ask(server, request, None) {
                Ok(message) => return stream.append(message),
                Err(not_able) => request = not_able,
            }
        }
        // Nobody can answer: dropping it tells the server so at once.
    }

    fn reopened(&self, agent: &AgentName, server: &ServerName) {
        let Some(link) = self.keeper.link(agent, server) else {
            return;
        };
        for session in self.sessions.listeners(agent, Some(server)) {
            legacy::reopened(&session, &link);
        }
        self.hub.reopened(agent, server);
    }
}
