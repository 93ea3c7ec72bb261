//! Lists of all servers: in the servers' own bytes, with names that tell them apart, page by page.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use steadfast::{Hello, Link, Listing};
use steadfast_core::catalog::List;
use steadfast_core::merged::{Cursor, Keys, names, resources};
use steadfast_core::now::Millis;
use steadfast_core::oauth::needs::shows;
use steadfast_core::wire::json;
use steadfast_core::wire::splice::{self, Edit};
use steadfast_core::{Era, ServerName};

use super::{Asker, own};
use crate::Gate;
use crate::agents::covered;
use crate::agents::inbound::Inbound;
use crate::agents::render;
use crate::problem::{INVALID_PARAMS, rpc_error};

/// How many entries a page has.
const PAGE: usize = 500;

/// How long a server may take: after that its last list stands for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// `_meta` of a list: the connections that are not there now. What is listed of them is what was there.
const UNAVAILABLE: &str = "dev.steadfast/unavailable";

/// One entry as it is listed.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    /// Its server; nothing for what is ours.
    server: &'a ServerName,
    key: &'a str,
    definition: &'a [u8],
}

/// One server and what it lists.
type Listed = (Arc<Link>, Option<Arc<Listing>>);

/// The response to a request for one page.
pub(super) async fn page(gate: &Gate, asker: &Asker<'_>, list: List, inbound: &Inbound) -> Bytes {
    let Ok(after) = cursor(inbound) else {
        // 2025-11-25 server/utilities/pagination, "Error Handling": invalid params.
        return rpc_error(inbound.raw_id(), INVALID_PARAMS, "Invalid cursor", None);
    };
    let listed = ask_all(asker.links(gate), list).await;
    for (link, listing) in &listed {
        if let Some(listing) = listing {
            gate.changes.shown(link, list, listing);
        }
    }
    let naming = Naming::of(list, gate.keeper.prefixes(asker.agent), &listed);
    let ours = ServerName::from("");
    let entries: Vec<_> = entries(list, &ours, &listed, &naming)
        .into_iter()
        .filter(|entry| is_covered(gate, asker, list, entry))
        .collect();
    // What is said of the servers is said of those that the token is about.
    let is_covered = |(link, _): &Listed| covered::touches(gate, asker.reach, link.server());
    let listed: Vec<_> = listed.iter().filter(|it| is_covered(it)).collect();
    let from = after.map_or(0, |cursor| {
        cursor.resume(entries.iter().map(|entry| (entry.server, entry.key)))
    });
    let rest = entries.get(from..).unwrap_or_default();
    let shown = rest.get(..PAGE).unwrap_or(rest);
    let mut result = Vec::new();
    result.push(b'{');
    if asker.era() == Era::Modern {
        result.extend_from_slice(hints(&listed).as_bytes());
    }
    result.extend_from_slice(format!("\"{}\":[", list.member()).as_bytes());
    for (place, entry) in shown.iter().enumerate() {
        if place > 0 {
            result.push(b',');
        }
        naming.write(list, entry, &mut result);
    }
    result.push(b']');
    if let (Some(last), true) = (shown.last(), rest.len() > shown.len()) {
        let next = splice::quote(&cursor_at(&entries, from + shown.len() - 1, last).to_text());
        result.extend_from_slice(format!(",\"nextCursor\":{next}").as_bytes());
    }
    result.extend_from_slice(unavailable(&listed).as_bytes());
    result.push(b'}');
    render::result(inbound.raw_id().unwrap_or(b"null"), &result)
}

/// A cursor that is none of ours.
struct Garbled;

/// Where the page begins.
fn cursor(inbound: &Inbound) -> Result<Option<Cursor>, Garbled> {
    let params = inbound.params.whole.clone();
    let range = params.and_then(|params| json::at_path(&inbound.message, params, &["cursor"]));
    let Some(range) = range.filter(|range| inbound.part(Some(range)) != Some(b"null")) else {
        return Ok(None);
    };
    let text = json::text(&inbound.message, range).ok_or(Garbled)?;
    Cursor::from_text(&text).map(Some).ok_or(Garbled)
}

fn cursor_at(entries: &[Entry<'_>], index: usize, last: &Entry<'_>) -> Cursor {
    let before = entries.get(..index).unwrap_or_default().iter().rev();
    Cursor {
        server: last.server.clone(),
        at: before.take_while(|it| it.server == last.server).count(),
        key: last.key.to_owned(),
    }
}

/// Asks all servers together. Those that take too long answer the next time.
async fn ask_all(links: Vec<Arc<Link>>, list: List) -> Vec<Listed> {
    let ask = async |link: Arc<Link>| {
        let asked = tokio::time::timeout(PATIENCE, link.list(list)).await;
        let listing = asked.unwrap_or_else(|_| link.listed(list));
        (link, listing)
    };
    join_all(links.into_iter().map(ask)).await
}

/// Asks those servers for their lists that nobody has asked yet.
pub(super) async fn ask_unlisted(links: &[Arc<Link>], lists: &[List]) {
    let unlisted = |link: &Link, list: List| {
        let offers = |hello: &Hello| list.offer(&hello.result).offered;
        link.listed(list).is_none() && link.hello().is_some_and(|hello| offers(&hello))
    };
    let wanted = links.iter().flat_map(|link| {
        let lists = lists.iter().filter(|list| unlisted(link, **list));
        lists.map(|list| link.list(*list))
    });
    // Who takes longer is known the next time.
    let _ = tokio::time::timeout(PATIENCE, join_all(wanted)).await;
}

/// Whether the credential reaches an entry: what is ours is about all servers.
fn is_covered(gate: &Gate, asker: &Asker<'_>, list: List, entry: &Entry<'_>) -> bool {
    if entry.server.as_str().is_empty() {
        return covered::everything(gate, asker.reach).is_ok();
    }
    let public_url = &gate.protected.public_url;
    shows(asker.reach, public_url, entry.server, list, entry.key)
}

fn entries<'a>(
    list: List,
    ours: &'a ServerName,
    listed: &'a [Listed],
    naming: &Naming,
) -> Vec<Entry<'a>> {
    let own = own::entries(list).iter().map(|(key, definition)| Entry {
        server: ours,
        key,
        definition: definition.as_bytes(),
    });
    let theirs = listed.iter().flat_map(|(link, listing)| {
        let entries = listing.iter().flat_map(|listing| &listing.entries);
        entries.map(|entry| Entry {
            server: link.server(),
            key: &entry.key,
            definition: &entry.definition,
        })
    });
    let theirs = theirs.filter(|entry| naming.lists(list, entry.key));
    own.chain(theirs).collect()
}

/// How entries are told apart.
enum Naming {
    /// All of them by a prefix.
    Prefixed,
    /// Not at all: what several servers have is not listed.
    Bare(Keys),
    /// Those that several servers have, by a URI of ours.
    Uris(Keys),
}

impl Naming {
    fn of(list: List, prefixes: bool, listed: &[Listed]) -> Self {
        let keys = || {
            let mut keys = Keys::default();
            for (link, listing) in listed {
                for entry in listing.iter().flat_map(|listing| &listing.entries) {
                    keys.add(link.server(), &entry.key);
                }
            }
            keys
        };
        match list {
            List::Tools | List::Prompts if prefixes => Self::Prefixed,
            List::Tools | List::Prompts => Self::Bare(keys()),
            List::Resources | List::Templates => Self::Uris(keys()),
        }
    }

    fn lists(&self, list: List, key: &str) -> bool {
        match self {
            Self::Prefixed | Self::Uris(_) => true,
            Self::Bare(keys) => {
                let is_ours = own::entries(list).iter().any(|(ours, _)| *ours == key);
                !is_ours && !keys.is_shared(key)
            }
        }
    }

    /// The definition with its name among all.
    fn write(&self, list: List, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let Entry {
            server,
            key,
            definition,
        } = *entry;
        let is_ours = server.as_str().is_empty();
        let name = match self {
            Self::Prefixed if !is_ours => names::join(server, key),
            Self::Uris(keys) if keys.is_shared(key) => resources::own_uri(server, key),
            Self::Prefixed | Self::Uris(_) | Self::Bare(_) => {
                return out.extend_from_slice(definition);
            }
        };
        let place = json::at_path(definition, 0..definition.len(), &[list.key()]);
        let name = splice::quote(&name);
        let mut edits: Vec<_> = place
            .map(|range| Edit {
                range,
                with: name.as_bytes(),
            })
            .into_iter()
            .collect();
        out.extend_from_slice(&splice::apply(definition, &mut edits));
    }
}

/// 2026-07-28 server/utilities/caching: as fresh as the first server's that goes stale, and for this agent
/// only, for it is about its servers.
fn hints(listed: &[&Listed]) -> String {
    let ttl = listed.iter().map(|it| match &it.1 {
        Some(listing) => listing.hints.ttl,
        None => Millis::ZERO,
    });
    let ttl = ttl.min().unwrap_or_default().0;
    format!(r#""resultType":"complete","ttlMs":{ttl},"cacheScope":"private","#)
}

/// A server that is down keeps its entries listed (architecture, connections 11), and the list says so (SE-06).
fn unavailable(listed: &[&Listed]) -> String {
    let away = listed.iter().filter(|it| !it.0.is_connected());
    let reports: Vec<_> = away.map(|it| it.0.report()).collect();
    if reports.is_empty() {
        return String::new();
    }
    let meta = serde_json::json!({ UNAVAILABLE: reports });
    format!(",\"_meta\":{meta}")
}
