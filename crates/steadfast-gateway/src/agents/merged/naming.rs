//! Tools, prompts and completions: by their names to the server that has them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::Link;
use steadfast_core::catalog::List;
use steadfast_core::merged::names;
use steadfast_core::wire::json as raw;
use steadfast_core::{Era, ServerName, code};

use super::lists::ask_unlisted;
use super::{After, Asker, Placed, own, quoted, resources};
use crate::Gate;
use crate::agents::covered;
use crate::agents::inbound::Inbound;
use crate::problem::{INVALID_PARAMS, code_data};

/// Who has a tool or a prompt.
enum Found {
    /// This server, under this name.
    One(Arc<Link>, String),
    /// Each of these: none is meant more than the other.
    Several(Vec<ServerName>),
    /// Nobody.
    Nobody,
}

fn lists(link: &Link, list: List, name: &str) -> bool {
    link.listed(list)
        .is_some_and(|listing| listing.entry(name).is_some())
}

async fn find(gate: &Gate, asker: &Asker<'_>, list: List, name: &str) -> Found {
    if gate.keeper.prefixes(asker.agent) {
        prefixed(gate, asker, list, name)
    } else {
        bare(gate, asker, list, name).await
    }
}

fn prefixed(gate: &Gate, asker: &Asker<'_>, list: List, name: &str) -> Found {
    let mut parted: Vec<_> = names::part(name)
        .filter_map(|(server, rest)| Some((asker.link(gate, server)?, rest)))
        .collect();
    if parted.len() > 1 {
        // `a___b` may be of `a` or of `a_`: of that which has it.
        parted.sort_by_key(|(link, rest)| !lists(link, list, rest));
    }
    match parted.into_iter().next() {
        // Also where it lists no such thing, or was never seen: it knows best.
        Some((link, rest)) => Found::One(link, rest.to_owned()),
        None => Found::Nobody,
    }
}

async fn bare(gate: &Gate, asker: &Asker<'_>, list: List, name: &str) -> Found {
    let mut links = asker.links(gate);
    // The only server there is knows best.
    if links.len() > 1 {
        // An agent may know a name from before.
        if !links.iter().any(|link| lists(link, list, name)) {
            ask_unlisted(&links, &[list]).await;
        }
        links.retain(|link| lists(link, list, name));
    }
    match links.len() {
        0 | 1 => links
            .pop()
            .map_or(Found::Nobody, |link| Found::One(link, name.to_owned())),
        _ => Found::Several(links.iter().map(|link| link.server().clone()).collect()),
    }
}

/// Several servers have it, and the agent's configuration leaves no way to say which one is meant.
fn ambiguous(inbound: &Inbound, what: &str, name: &str, servers: &[ServerName]) -> Placed {
    let message = format!(
        "Several servers have a {what} named `{name}`: {}. It is not offered as long as the agent's tools \
         and prompts have no prefix",
        quoted(servers)
    );
    let mut data = code_data(code::AMBIGUOUS_NAME);
    if let Some(members) = data.as_object_mut() {
        let servers: Vec<_> = servers.iter().map(ServerName::as_str).collect();
        members.insert("servers".to_owned(), json!(servers));
    }
    Placed::refused(inbound, INVALID_PARAMS, &message, Some(&data))
}

/// `params.name`, and where it stands.
fn named(inbound: &Inbound) -> Option<(Range<usize>, Cow<'_, str>)> {
    let range = inbound.params.name.clone()?;
    Some((range, inbound.text(inbound.params.name.as_ref())?))
}

/// A member of `params.ref`, and where it stands.
fn referred<'m>(inbound: &'m Inbound, key: &str) -> Option<(Range<usize>, Cow<'m, str>)> {
    let params = inbound.params.whole.clone()?;
    let range = raw::at_path(&inbound.message, params, &["ref", key])?;
    Some((range.clone(), raw::text(&inbound.message, range)?))
}

/// `tools/call`.
pub(super) async fn tool(gate: &Gate, asker: &Asker<'_>, inbound: &Inbound) -> Placed {
    let Some((range, name)) = named(inbound) else {
        return Placed::invalid(inbound, "tools/call names no tool");
    };
    if matches!(&*name, own::CONNECTIONS | own::OPERATION)
        && let Err(missing) = covered::everything(gate, asker.reach)
    {
        return Placed::Lacking(missing);
    }
    if name == own::CONNECTIONS {
        return Placed::Here(own::connections(gate, asker, inbound));
    }
    if name == own::OPERATION {
        return Placed::Here(own::operation(gate, asker, inbound).await);
    }
    match find(gate, asker, List::Tools, &name).await {
        Found::One(link, theirs) => {
            let task = may_be_task(asker, inbound).then(|| After::Task {
                tasks: Arc::clone(&gate.tasks),
                agent: asker.agent.clone(),
                server: link.server().clone(),
            });
            let placed = placed(link, inbound, range, &name, &theirs);
            with_after(placed, task)
        }
        Found::Several(servers) => ambiguous(inbound, "tool", &name, &servers),
        Found::Nobody => unknown(inbound, "tool", &name),
    }
}

/// Whether the call may be answered with a task: a legacy agent asks for one (2025-11-25
/// basic/utilities/tasks, "Task-Augmented Requests"), a modern one says that it can handle them (SEP-2663).
fn may_be_task(asker: &Asker<'_>, inbound: &Inbound) -> bool {
    const TASKS: &str = "io.modelcontextprotocol/tasks";
    match asker.era() {
        Era::Legacy => inbound.params.task.is_some(),
        Era::Modern => inbound
            .params
            .client_capabilities
            .clone()
            .and_then(|can| raw::at_path(&inbound.message, can, &["extensions", TASKS]))
            .is_some(),
    }
}

/// `prompts/get`.
pub(super) async fn prompt(gate: &Gate, asker: &Asker<'_>, inbound: &Inbound) -> Placed {
    let Some((range, name)) = named(inbound) else {
        return Placed::invalid(inbound, "prompts/get names no prompt");
    };
    if name == own::MCPS {
        if let Err(missing) = covered::everything(gate, asker.reach) {
            return Placed::Lacking(missing);
        }
        return Placed::Here(own::mcps(gate, asker, inbound));
    }
    match find(gate, asker, List::Prompts, &name).await {
        Found::One(link, theirs) => placed(link, inbound, range, &name, &theirs),
        Found::Several(servers) => ambiguous(inbound, "prompt", &name, &servers),
        Found::Nobody => unknown(inbound, "prompt", &name),
    }
}

/// `completion/complete`, of a prompt's or a template's argument.
pub(super) async fn completion(gate: &Gate, asker: &Asker<'_>, inbound: &Inbound) -> Placed {
    if let Some((range, uri)) = referred(inbound, "uri") {
        return resources::to_owner(gate, asker, inbound, range, &uri).await;
    }
    let Some((range, name)) = referred(inbound, "name") else {
        return Placed::invalid(
            inbound,
            "completion/complete names neither prompt nor template",
        );
    };
    if name == own::MCPS {
        return Placed::Here(own::no_completions(asker, inbound));
    }
    match find(gate, asker, List::Prompts, &name).await {
        Found::One(link, theirs) => placed(link, inbound, range, &name, &theirs),
        Found::Several(servers) => ambiguous(inbound, "prompt", &name, &servers),
        Found::Nobody => unknown(inbound, "prompt", &name),
    }
}

fn placed(
    link: Arc<Link>,
    inbound: &Inbound,
    range: Range<usize>,
    name: &str,
    theirs: &str,
) -> Placed {
    if name == theirs {
        return Placed::At(link, Box::new(inbound.clone()));
    }
    Placed::renamed(link, inbound, range, theirs)
}

/// The same with something to do afterwards.
pub(super) fn with_after(placed: Placed, after: Option<After>) -> Placed {
    match placed {
        Placed::At(link, mut inbound) => {
            inbound.after = after.map(Box::new);
            Placed::At(link, inbound)
        }
        elsewhere @ (Placed::Here(_) | Placed::Lacking(_)) => elsewhere,
    }
}

fn unknown(inbound: &Inbound, what: &str, name: &str) -> Placed {
    let data: Value = json!({
        "hint": format!("The list of {what}s says what there is; the tool {} says which servers are missing.", own::CONNECTIONS),
    });
    let message = format!("Unknown {what}: {name}");
    Placed::refused(inbound, INVALID_PARAMS, &message, Some(&data))
}
