//! How all servers together are introduced to an agent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use steadfast::Link;
use steadfast_core::merged::{names, offer};
use steadfast_core::replay::Access;
use steadfast_core::wire::splice;
use steadfast_core::{Era, Revision};
use tokio::time::Instant;

use super::Asker;
use crate::Gate;
use crate::agents::{covered, hello};

/// How long servers that were never seen are waited for once another one is known.
const GRACE: Duration = Duration::from_secs(1);

/// The result of `initialize`.
pub(crate) async fn initialize(gate: &Gate, access: &Access, revision: Revision) -> Bytes {
    let asker = Asker {
        agent: &access.agent,
        session: None,
        revision,
        reach: &access.reach,
    };
    let said = introduced(gate, &asker).await;
    let mut members = vec![
        ("protocolVersion", splice::quote(revision.as_str())),
        ("capabilities", said.capabilities),
        ("serverInfo", ourselves()),
    ];
    members.extend(
        said.instructions
            .map(|text| ("instructions", splice::quote(&text))),
    );
    object(&members)
}

/// The result of `server/discover`.
pub(crate) async fn discover(gate: &Gate, asker: &Asker<'_>) -> Bytes {
    let said = introduced(gate, asker).await;
    let meta = format!(
        r#"{{"io.modelcontextprotocol/serverInfo":{}}}"#,
        ourselves()
    );
    let versions = hello::MODERN.map(Revision::as_str);
    let mut members = vec![
        ("resultType", "\"complete\"".to_owned()),
        ("supportedVersions", json!(versions).to_string()),
        ("capabilities", said.capabilities),
        // Stale at once: the next server may be there the next moment.
        ("ttlMs", "0".to_owned()),
        ("cacheScope", "\"private\"".to_owned()),
        ("_meta", meta),
    ];
    members.extend(
        said.instructions
            .map(|text| ("instructions", splice::quote(&text))),
    );
    object(&members)
}

fn ourselves() -> String {
    json!({"name": names::OURS, "version": env!("CARGO_PKG_VERSION")}).to_string()
}

/// Keys and raw values as a JSON object.
fn object(members: &[(&str, String)]) -> Bytes {
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(",")).into()
}

/// What the servers say of themselves.
struct Said {
    capabilities: String,
    instructions: Option<String>,
}

async fn introduced(gate: &Gate, asker: &Asker<'_>) -> Said {
    let mut links = asker.links(gate);
    links.retain(|link| covered::touches(gate, asker.reach, link.server()));
    meet(&links, gate.settings.hello_wait).await;
    let results: Vec<_> = links.iter().map(|link| result(link, asker)).collect();
    let servers: Vec<_> = links
        .iter()
        .zip(&results)
        .map(|(link, result)| offer::Introduced {
            server: link.server(),
            result: result.as_deref(),
        })
        .collect();
    Said {
        capabilities: offer::capabilities(&servers),
        instructions: offer::instructions(&servers),
    }
}

/// What one server says of itself, in the agent's era; `None` where it was never seen.
fn result(link: &Link, asker: &Asker<'_>) -> Option<Bytes> {
    link.hello()?;
    match asker.era() {
        Era::Legacy => Some(hello::initialize(link, asker.revision)),
        Era::Modern => hello::discover(link),
    }
}

/// Waits for servers that were never seen and are being connected for the first time: at most `limit` in all,
/// and not for long once one is known. What a stuck one offers is announced when it is there (OP-04).
async fn meet(links: &[Arc<Link>], limit: Duration) {
    let is_new = |link: &&Arc<Link>| link.hello().is_none() && link.report().fault.is_none();
    let unseen: Vec<_> = links.iter().filter(is_new).collect();
    let mut deadline = Instant::now() + limit;
    if links.iter().any(|link| link.hello().is_some()) {
        deadline = deadline.min(Instant::now() + GRACE);
    }
    let mut meetings: FuturesUnordered<_> = unseen.iter().map(|link| link.settled(limit)).collect();
    while let Ok(Some(is_there)) = tokio::time::timeout_at(deadline, meetings.next()).await {
        if is_there {
            deadline = deadline.min(Instant::now() + GRACE);
        }
    }
}

/// Whether any server offers resources, or may do so.
pub(super) fn offers_resources(links: &[Arc<Link>]) -> bool {
    use steadfast_core::catalog::List;
    links.iter().any(|link| {
        link.hello()
            .is_none_or(|hello| List::Resources.offer(&hello.result).offered)
    })
}
