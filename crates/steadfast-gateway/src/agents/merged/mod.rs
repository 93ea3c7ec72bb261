//! `/mcp`: all the servers of an agent as if they were one.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`opening`] | `initialize` and `server/discover` |
//! | [`lists`] | lists of all servers, page by page |
//! | [`naming`] | tools, prompts and completions: to the server that has them |
//! | [`resources`] | resources: to the server that has them |
//! | [`tasks`] | tasks: to the server that runs them |
//! | [`listen`] | `subscriptions/listen` |
//! | [`after`] | what is still to be done with the response |
//! | [`own`] | the tool and the prompt that are ours |
//! | [`spread`] | what goes to all servers |
//! | [`changes`] | what comes from all servers |

mod after;
mod changes;
mod listen;
mod lists;
mod naming;
mod opening;
mod own;
mod resources;
mod spread;
mod tasks;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::Link;
use steadfast_core::catalog::List;
use steadfast_core::replay::{Reach, Resource};
use steadfast_core::wire::{json as raw, splice};
use steadfast_core::{AgentName, Era, Revision, ServerName};

use super::inbound::Inbound;
use super::session::Session;
use super::{covered, routing};
use crate::Gate;
use crate::directory::is_name;
use crate::problem::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, rpc_error};

pub(crate) use after::After;
pub(crate) use changes::Changes;
pub(crate) use listen::listen;
pub(crate) use opening::{discover, initialize};
pub(crate) use resources::whose;
pub(crate) use spread::{notify, set_level};
pub(crate) use tasks::Tasks;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) agent: &'a AgentName,
    /// The conversation; an agent of the modern era has none.
    pub(crate) session: Option<&'a Session>,
    pub(crate) revision: Revision,
    /// How far its credential reaches.
    pub(crate) reach: &'a Reach,
}

impl<'a> Asker<'a> {
    /// The agent of a session.
    pub(crate) fn in_session(session: &'a Session, reach: &'a Reach) -> Self {
        Self {
            agent: &session.agent,
            session: Some(session),
            revision: session.revision,
            reach,
        }
    }
}

impl Asker<'_> {
    fn era(&self) -> Era {
        self.revision.era()
    }

    /// The connection with one of the agent's servers.
    fn link(&self, gate: &Gate, server: &str) -> Option<Arc<Link>> {
        if !is_name(server) {
            return None;
        }
        routing::link(gate, self.agent, &ServerName::from(server), self.session)
    }

    /// The connections with all servers of the agent that are switched on, in the order of their names.
    fn links(&self, gate: &Gate) -> Vec<Arc<Link>> {
        routing::links(gate, self.agent, self.session)
    }
}

/// Where a request goes.
#[derive(Debug)]
pub(crate) enum Placed {
    /// Nowhere: this is the response.
    Here(Bytes),
    /// To this server, as this request.
    At(Arc<Link>, Box<Inbound>),
    /// Nowhere: the credential does not reach this.
    Lacking(Resource),
}

impl Placed {
    fn refused(inbound: &Inbound, code: i32, message: &str, data: Option<&Value>) -> Self {
        Self::Here(rpc_error(inbound.raw_id(), code, message, data))
    }

    fn invalid(inbound: &Inbound, message: &str) -> Self {
        Self::refused(inbound, INVALID_PARAMS, message, None)
    }

    /// The request with another name or URI in one place.
    fn renamed(link: Arc<Link>, inbound: &Inbound, range: Range<usize>, text: &str) -> Self {
        match inbound.with_text(range, text) {
            Ok(renamed) => Self::At(link, Box::new(renamed)),
            Err(invalid) => Self::refused(inbound, INTERNAL_ERROR, &invalid.to_string(), None),
        }
    }
}

/// Answers a request for all servers, or finds the one that it is for, if the credential reaches that.
pub(crate) async fn place(gate: &Gate, asker: &Asker<'_>, inbound: Box<Inbound>) -> Placed {
    match found(gate, asker, inbound).await {
        Placed::At(link, inbound) => covered::cover(gate, asker.reach, asker.era(), link, inbound),
        elsewhere @ (Placed::Here(_) | Placed::Lacking(_)) => elsewhere,
    }
}

async fn found(gate: &Gate, asker: &Asker<'_>, inbound: Box<Inbound>) -> Placed {
    let method = inbound.method();
    if let Some(list) = List::of_method(&method) {
        return Placed::Here(lists::page(gate, asker, list, &inbound).await);
    }
    match &*method {
        "tools/call" => naming::tool(gate, asker, &inbound).await,
        "prompts/get" => naming::prompt(gate, asker, &inbound).await,
        "completion/complete" => naming::completion(gate, asker, &inbound).await,
        "resources/read"
        | "resources/subscribe"
        | "resources/unsubscribe"
        // Of the skills extension (SEP-2640).
        | "resources/directory/read" => resources::place(gate, asker, &inbound).await,
        "tasks/get" | "tasks/result" | "tasks/update" | "tasks/cancel" => {
            tasks::place(gate, asker, inbound)
        }
        _ => only(gate, asker, inbound),
    }
}

/// What is not known here goes to the only server that can be meant: the only one there is, or the only one with the
/// extension that the method is named after.
fn only(gate: &Gate, asker: &Asker<'_>, inbound: Box<Inbound>) -> Placed {
    let mut links = asker.links(gate);
    if links.len() > 1 {
        links.retain(|link| extends(link, &inbound.method()));
    }
    match (links.pop(), links.is_empty()) {
        (Some(only), true) => Placed::At(only, inbound),
        _ => {
            let message = format!("Method not found: {}", inbound.method());
            let data = json!({"hint": "At /mcp/{server} every method of that server is served."});
            Placed::refused(&inbound, METHOD_NOT_FOUND, &message, Some(&data))
        }
    }
}

/// Whether a server declares the extension that a method is of: `skills/list` is one of
/// `io.modelcontextprotocol/skills` (SEP-2133 names extensions so).
fn extends(link: &Link, method: &str) -> bool {
    let (Some(hello), Some((family, _))) = (link.hello(), method.split_once('/')) else {
        return false;
    };
    let result = &hello.result;
    let declared = raw::at_path(result, 0..result.len(), &["capabilities", "extensions"]);
    let mut found = false;
    let read = declared.map(|declared| {
        raw::members(result, declared, |extension| {
            let name = raw::text(result, extension.key);
            found |= name.is_some_and(|name| name.rsplit('/').next() == Some(family));
        })
    });
    found && read.is_some_and(|read| read.is_ok())
}

/// A message with another text in one place.
fn with_text(message: &[u8], range: Range<usize>, text: &str) -> Bytes {
    let text = splice::quote(text);
    let mut edits = [splice::Edit {
        range,
        with: text.as_bytes(),
    }];
    splice::apply(message, &mut edits).into()
}

/// Names of servers for people: `a`, `b`.
fn quoted<'a>(servers: impl IntoIterator<Item = &'a ServerName>) -> String {
    let quoted = servers.into_iter().map(|server| format!("`{server}`"));
    quoted.collect::<Vec<_>>().join(", ")
}
