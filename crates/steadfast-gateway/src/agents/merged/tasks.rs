//! Tasks: a call that goes on for long is asked about by its task's id, which says nothing about the server
//! that runs it. What servers said is remembered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast::Link;
use steadfast_core::wire::json;
use steadfast_core::{AgentName, ServerName};

use super::{Asker, Placed};
use crate::Gate;
use crate::agents::inbound::Inbound;

/// How many tasks are remembered for one agent; the oldest are forgotten first.
const MOST: usize = 1_000;

/// A response with a task's id is not larger.
const LARGEST: usize = 64 << 10;

/// Which server runs which task.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    by_agent: Mutex<HashMap<AgentName, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    servers: HashMap<Box<str>, ServerName>,
    /// The ids, oldest first.
    order: VecDeque<Box<str>>,
}

impl Tasks {
    /// A server has begun a task.
    pub(super) fn note(&self, agent: &AgentName, id: &str, server: &ServerName) {
        let mut by_agent = self.by_agent.lock();
        let known = by_agent.entry(agent.clone()).or_default();
        if known.servers.insert(id.into(), server.clone()).is_some() {
            return;
        }
        known.order.push_back(id.into());
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.servers.remove(&oldest);
        }
    }

    fn server(&self, agent: &AgentName, id: &str) -> Option<ServerName> {
        self.by_agent.lock().get(agent)?.servers.get(id).cloned()
    }

    /// Forgets the tasks of all agents but some.
    pub(crate) fn retain(&self, still_there: impl Fn(&AgentName) -> bool) {
        self.by_agent.lock().retain(|agent, _| still_there(agent));
    }
}

/// The id of the task that a response is about, if it is: in `task` (2025-11-25 `CreateTaskResult`), or in
/// the result itself (SEP-2663).
pub(super) fn named(response: &[u8]) -> Option<String> {
    if response.len() > LARGEST {
        return None;
    }
    let result = json::at_path(response, 0..response.len(), &["result"])?;
    let id = json::at_path(response, result.clone(), &["task", "taskId"])
        .or_else(|| json::at_path(response, result, &["taskId"]))?;
    json::text(response, id).map(|id| id.into_owned())
}

/// A request about one task.
pub(super) fn place(gate: &Gate, asker: &Asker<'_>, inbound: Box<Inbound>) -> Placed {
    let id = inbound
        .params
        .whole
        .clone()
        .and_then(|params| json::at_path(&inbound.message, params, &["taskId"]))
        .and_then(|range| json::text(&inbound.message, range));
    let Some(id) = id else {
        return Placed::invalid(&inbound, "there is no taskId");
    };
    let server = gate.tasks.server(asker.agent, &id);
    let link = match server {
        Some(server) => asker.link(gate, server.as_str()),
        None => only_one_with_tasks(asker.links(gate)),
    };
    match link {
        Some(link) => Placed::At(link, inbound),
        None => Placed::invalid(&inbound, "No server is known to run this task"),
    }
}

fn only_one_with_tasks(links: Vec<Arc<Link>>) -> Option<Arc<Link>> {
    let paths: [&[&str]; 2] = [
        &["capabilities", "tasks"],
        &[
            "capabilities",
            "extensions",
            "io.modelcontextprotocol/tasks",
        ],
    ];
    let has_tasks = |link: &Arc<Link>| {
        link.hello().is_some_and(|hello| {
            let said = &hello.result;
            let declares = |path: &&[&str]| json::at_path(said, 0..said.len(), path).is_some();
            paths.iter().any(declares)
        })
    };
    let mut those = links.into_iter().filter(has_tasks);
    those.next().filter(|_| those.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_names_its_task_in_either_era() {
        let legacy = br#"{"result":{"task":{"taskId":"t1","status":"working"}}}"#;
        let modern = br#"{"result":{"resultType":"task","taskId":"t2"}}"#;
        assert_eq!(named(legacy).as_deref(), Some("t1"));
        assert_eq!(named(modern).as_deref(), Some("t2"));
        assert_eq!(named(br#"{"result":{"content":[]}}"#), None);
        assert_eq!(named(br#"{"error":{"data":{"taskId":"t"}}}"#), None);
    }

    #[test]
    fn the_oldest_tasks_are_forgotten_and_those_of_other_agents_are_not_known() {
        let tasks = Tasks::default();
        let [a, b] = ["a", "b"].map(AgentName::from);
        let server = ServerName::from("s");
        for number in 0..=MOST {
            tasks.note(&a, &number.to_string(), &server);
            tasks.note(&a, &number.to_string(), &server);
        }
        assert_eq!(tasks.server(&a, "0"), None);
        assert_eq!(tasks.server(&a, "1"), Some(server.clone()));
        assert_eq!(tasks.server(&b, "1"), None);
        tasks.retain(|agent| *agent == b);
        assert_eq!(tasks.server(&a, "1"), None);
    }
}
