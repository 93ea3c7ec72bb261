//! Which agents and servers are configured now: the keeper writes it, and the grants look whose they are.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use steadfast_core::{AgentName, ServerName};

use crate::config;
use crate::grants::Owner;

/// The agents and servers as they are configured now. Where both are locked, agents come first.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    pub(crate) agents: Mutex<BTreeMap<AgentName, config::Agent>>,
    pub(crate) servers: Mutex<BTreeMap<ServerName, config::Server>>,
}

impl Configured {
    /// Whether the agent is to have a connection to the server, be it switched on or off.
    pub(crate) fn has(&self, (agent, server): &Owner) -> bool {
        let agents = self.agents.lock();
        let agent = agents.get(agent);
        agent.is_some_and(|agent| agent.servers.include(server.as_str()))
            && self.servers.lock().contains_key(server)
    }

    /// The server of such a connection.
    pub(crate) fn server_of(&self, owner: &Owner) -> Option<config::Server> {
        let server = self.servers.lock().get(&owner.1).cloned();
        server.filter(|_| self.has(owner))
    }

    /// The servers that are switched on.
    pub(crate) fn enabled(&self) -> Vec<ServerName> {
        let servers = self.servers.lock();
        let enabled = servers.iter().filter(|(_, server)| server.enabled);
        enabled.map(|(name, _)| name.clone()).collect()
    }
}
