//! All links, kept in step with the configuration.
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{Error, SharedRecords};
use tokio::sync::broadcast;

use crate::config;
use crate::link::{Link, ServerRequest};
use crate::report::Report;

/// What happened to a connection: feeds the change stream.
#[derive(Clone, Debug)]
pub enum Change {
    /// A connection changed.
    Connection(Arc<Report>),
    /// A connection left the configuration.
    Removed(AgentName, ServerName),
}

/// Who receives what a server sends outside of any call: the gateway.
pub trait Listener: Send + Sync + std::fmt::Debug {
    /// A notification from the server's listening stream.
    fn notification(&self, agent: &AgentName, server: &ServerName, message: Bytes);
    /// A question from the server's listening stream.
    fn request(&self, agent: &AgentName, server: &ServerName, request: ServerRequest);
    /// The connection opened again, so that lists may have changed.
    fn reopened(&self, agent: &AgentName, server: &ServerName);
}

/// All links. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keeper {
}

impl Keeper {
    /// Starts without agents and servers.
    pub async fn start(settings: config::Settings, store: SharedRecords) -> Result<Self, Error> {
        let _ = (settings, store);
        unimplemented!()
    }

    /// Who receives what servers send outside of any call.
    pub fn set_listener(&self, listener: Arc<dyn Listener>) {
        let _ = listener;
        unimplemented!()
    }

    /// Adds or changes an agent (in memory and its links; the records are the caller's business).
    pub async fn put_agent(&self, name: AgentName, agent: config::Agent) -> Result<(), Error> {
        let _ = (name, agent);
        unimplemented!()
    }

    /// Removes an agent and its links.
    pub async fn remove_agent(&self, name: &AgentName) {
        let _ = name;
        unimplemented!()
    }

    /// Adds or changes a server. Its links are reopened only where the change concerns them, and an
    /// upstream stream that still owes an answer is read to its end.
    pub async fn put_server(&self, name: ServerName, server: config::Server) -> Result<(), Error> {
        let _ = (name, server);
        unimplemented!()
    }

    /// Removes a server and its links.
    pub async fn remove_server(&self, name: &ServerName) {
        let _ = name;
        unimplemented!()
    }

    /// One link. On the hot path: one lock-free lookup.
    pub fn link(&self, agent: &AgentName, server: &ServerName) -> Option<Arc<Link>> {
        let _ = (agent, server);
        unimplemented!()
    }

    /// All links, by agent and server.
    pub fn links(&self) -> Vec<Arc<Link>> {
        unimplemented!()
    }

    /// Every change of a connection from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        unimplemented!()
    }

    /// Ends sessions politely and closes, within two seconds whatever the servers do.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
