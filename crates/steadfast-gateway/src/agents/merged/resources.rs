//! Resources: by their URIs to the server that has them.

use std::ops::Range;
use std::sync::Arc;

use serde_json::json;
use steadfast::{Link, Listing};
use steadfast_core::catalog::List;
use steadfast_core::merged::{Owner, resources};
use steadfast_core::{Era, ServerName, code};

use super::lists::ask_unlisted;
use super::naming::with_after;
use super::{After, Asker, Placed, quoted};
use crate::Gate;
use crate::agents::inbound::Inbound;
use crate::agents::session::Session;
use crate::problem::{INVALID_PARAMS, code_data};

/// "Resource not found" until 2025-11-25 (server/resources, "Error Handling").
const LEGACY_NOT_FOUND: i32 = -32002;

/// What one server lists.
struct Shelf {
    link: Arc<Link>,
    resources: Option<Arc<Listing>>,
    templates: Option<Arc<Listing>>,
}

impl Shelf {
    fn of(link: &Arc<Link>) -> Self {
        Self {
            resources: link.listed(List::Resources),
            templates: link.listed(List::Templates),
            link: Arc::clone(link),
        }
    }

    fn keys(listing: Option<&Arc<Listing>>) -> impl Iterator<Item = &str> {
        let entries = listing.into_iter().flat_map(|listing| &listing.entries);
        entries.map(|entry| &*entry.key)
    }
}

impl resources::Shelf for Shelf {
    fn offers(&self) -> bool {
        self.link
            .hello()
            .is_none_or(|hello| List::Resources.offer(&hello.result).offered)
    }

    fn lists(&self, uri: &str) -> bool {
        // A template is asked for by itself, for its completions.
        [&self.resources, &self.templates]
            .into_iter()
            .flatten()
            .any(|listing| listing.entry(uri).is_some())
    }

    fn uris(&self) -> impl Iterator<Item = &str> {
        Self::keys(self.resources.as_ref())
    }

    fn templates(&self) -> impl Iterator<Item = &str> {
        Self::keys(self.templates.as_ref())
    }
}

/// `resources/read`, `resources/subscribe` and `resources/unsubscribe`.
pub(super) async fn place(gate: &Gate, asker: &Asker<'_>, inbound: &Inbound) -> Placed {
    let range = inbound.params.uri.clone();
    let (Some(range), Some(uri)) = (range, inbound.text(inbound.params.uri.as_ref())) else {
        return Placed::invalid(inbound, "there is no uri");
    };
    let placed = to_owner(gate, asker, inbound, range, &uri).await;
    let Placed::At(_, sent) = &placed else {
        return placed;
    };
    let theirs = sent.text(sent.params.uri.as_ref()).unwrap_or_default();
    if theirs == uri {
        return placed;
    }
    let after = After::Uri {
        theirs: (&*theirs).into(),
        asked: (&*uri).into(),
    };
    with_after(placed, Some(after))
}

/// Places a request by the URI, or the template, at `range`.
pub(super) async fn to_owner(
    gate: &Gate,
    asker: &Asker<'_>,
    inbound: &Inbound,
    range: Range<usize>,
    uri: &str,
) -> Placed {
    match whose(gate, asker, uri).await {
        Ok((link, theirs)) if theirs == uri => Placed::At(link, Box::new(inbound.clone())),
        Ok((link, theirs)) => Placed::renamed(link, inbound, range, &theirs),
        Err(several) if several.is_empty() => not_found(asker, inbound, uri),
        Err(several) => ambiguous(inbound, uri, &several),
    }
}

/// The server that has a resource, and its URI there; or the servers that may have it, which may be none.
pub(crate) async fn whose(
    gate: &Gate,
    asker: &Asker<'_>,
    uri: &str,
) -> Result<(Arc<Link>, String), Vec<ServerName>> {
    let named =
        resources::part(uri).find_map(|(server, theirs)| Some((asker.link(gate, server)?, theirs)));
    if let Some((link, theirs)) = named {
        return Ok((link, theirs.to_owned()));
    }
    let links = asker.links(gate);
    if !links.iter().any(|link| lists(link, uri)) {
        // A URI may come from somewhere else.
        ask_unlisted(&links, &[List::Resources, List::Templates]).await;
    }
    owner(&links, uri).map(|link| (link, uri.to_owned()))
}

fn lists(link: &Link, uri: &str) -> bool {
    link.listed(List::Resources)
        .is_some_and(|listing| listing.entry(uri).is_some())
}

/// The server that has it, or those that may have it.
fn owner(links: &[Arc<Link>], uri: &str) -> Result<Arc<Link>, Vec<ServerName>> {
    let shelves: Vec<_> = links.iter().map(Shelf::of).collect();
    match resources::owner(&shelves, uri) {
        Owner::One(place) => links.get(place).cloned().ok_or_else(Vec::new),
        Owner::Several(places) => {
            let servers = places.into_iter().filter_map(|place| links.get(place));
            Err(servers.map(|link| link.server().clone()).collect())
        }
        Owner::Nobody => Err(Vec::new()),
    }
}

/// How the agent knows a resource of which `server` tells something: as it asked for it, else as it is
/// listed.
pub(super) fn known_as(
    links: &[Arc<Link>],
    session: Option<&Session>,
    server: &ServerName,
    theirs: &str,
) -> Option<String> {
    if let Some(asked) = session.and_then(|session| session.subscriptions.known_as(server, theirs))
    {
        return Some(asked);
    }
    let listing = links.iter().filter(|link| lists(link, theirs));
    let is_shared = listing.count() > 1;
    is_shared.then(|| resources::own_uri(server, theirs))
}

fn ambiguous(inbound: &Inbound, uri: &str, servers: &[ServerName]) -> Placed {
    let uris: Vec<_> = servers
        .iter()
        .map(|server| resources::own_uri(server, uri))
        .collect();
    let message = format!(
        "Several servers have the resource {uri}: {}. Ask for one of {}",
        quoted(servers),
        uris.join(", ")
    );
    let mut data = code_data(code::AMBIGUOUS_NAME);
    if let Some(members) = data.as_object_mut() {
        members.insert("uris".to_owned(), json!(uris));
    }
    Placed::refused(inbound, INVALID_PARAMS, &message, Some(&data))
}

fn not_found(asker: &Asker<'_>, inbound: &Inbound, uri: &str) -> Placed {
    let data = json!({
        "uri": uri,
        "hint": "No server lists it. Where you know whose it is, ask for steadfast://{server}/{uri}.",
    });
    // 2026-07-28 server/resources, "Error Handling": from then on it is invalid params.
    let code = match asker.era() {
        Era::Legacy => LEGACY_NOT_FOUND,
        Era::Modern => INVALID_PARAMS,
    };
    Placed::refused(inbound, code, "Resource not found", Some(&data))
}
