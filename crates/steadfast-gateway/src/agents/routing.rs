//! Which upstream connection serves an agent: every request of an agent gets its link here.

use std::sync::Arc;

use steadfast::Link;
use steadfast_core::{AgentName, ServerName};

use super::session::Session;
use crate::Gate;

/// The link that serves `agent` at `server`; `None` where the agent has no such server. `session` is the
/// agent's conversation, where there is one: an agent of the modern era has none.
pub(crate) fn link(
    gate: &Gate,
    agent: &AgentName,
    server: &ServerName,
    session: Option<&Session>,
) -> Option<Arc<Link>> {
    let shared = gate.keeper.link(agent, server)?;
    Some(match session {
        Some(session) => session.link(&gate.keeper, shared),
        None => shared,
    })
}

/// The links that serve `agent` together, at the address of all its servers: those with the servers that are
/// switched on, in the order of their names.
pub(crate) fn links(gate: &Gate, agent: &AgentName, session: Option<&Session>) -> Vec<Arc<Link>> {
    let shared = gate.keeper.enabled_links_of(agent).into_iter();
    let own = |link| match session {
        Some(session) => session.link(&gate.keeper, link),
        None => link,
    };
    shared.map(own).collect()
}
