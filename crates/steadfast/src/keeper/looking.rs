//! Which agents there are, and their links.

use std::sync::Arc;

use steadfast_core::{AgentName, ServerName};

use super::Keeper;
use crate::link::Link;

impl Keeper {
    /// The names of all agents.
    pub fn agents(&self) -> Vec<AgentName> {
        let agents = self.inner.configured.agents.lock();
        agents.keys().cloned().collect()
    }

    /// Whether there is such an agent.
    pub fn has_agent(&self, agent: &AgentName) -> bool {
        self.inner.configured.agents.lock().contains_key(agent)
    }

    /// Whether an agent's merged tools and prompts are named after their servers; also where it is not
    /// known.
    pub fn prefixes(&self, agent: &AgentName) -> bool {
        let agents = self.inner.configured.agents.lock();
        agents.get(agent).is_none_or(|agent| agent.prefix)
    }

    /// The links of an agent, in the order of their servers' names.
    pub fn links_of(&self, agent: &AgentName) -> Vec<Arc<Link>> {
        let links = self.inner.links.read();
        let from = (agent.clone(), ServerName::from(""));
        links
            .range(from..)
            .take_while(|((owner, _), _)| owner == agent)
            .map(|(_, kept)| Arc::clone(&kept.link))
            .collect()
    }

    /// Those of them whose servers are switched on, whether they are connected or not.
    pub fn enabled_links_of(&self, agent: &AgentName) -> Vec<Arc<Link>> {
        let mut links = self.links_of(agent);
        let servers = self.inner.configured.servers.lock();
        links.retain(|link| servers.get(link.server()).is_some_and(|it| it.enabled));
        links
    }
}
