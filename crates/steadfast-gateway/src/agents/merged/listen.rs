//! `subscriptions/listen` of a modern agent: what all its servers announce, on one stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, StatusCode};
use steadfast::{Link, Subscriber};
use steadfast_core::ServerName;
use steadfast_core::catalog::List;
use steadfast_core::stream::subscription::Filter;
use steadfast_core::wire::{envelope, json};

use super::{Asker, opening, resources, with_text};
use crate::Gate;
use crate::agents::inbound::Inbound;
use crate::agents::modern::listen::{Audience, Scope, asked};
use crate::body::Body;
use crate::problem::status_only;

/// The URI under which the agent asked for a resource, by its server and the server's own URI.
type Known = HashMap<(ServerName, String), String>;

/// Serves one request. The changes of lists that it hears of are announced by [`super::Changes`].
pub(crate) async fn listen(
    gate: &Arc<Gate>,
    asker: &Asker<'_>,
    inbound: &Inbound,
) -> Response<Body> {
    let Some(id) = inbound.id() else {
        return status_only(StatusCode::BAD_REQUEST);
    };
    let asked = asked(inbound);
    let mut known = Known::new();
    let mut wishes: BTreeMap<ServerName, (Arc<Link>, BTreeSet<String>)> = BTreeMap::new();
    for uri in &asked.uris {
        // What nobody has is not honoured.
        let Ok((link, theirs)) = resources::whose(gate, asker, uri).await else {
            continue;
        };
        let server = link.server().clone();
        known.insert((server.clone(), theirs.clone()), uri.clone());
        let (_, uris) = wishes.entry(server).or_insert((link, BTreeSet::new()));
        uris.insert(theirs);
    }
    let heard = Arc::new(known);
    let known = Arc::clone(&heard);
    let audience = Audience {
        scope: Scope::All(asker.agent.clone()),
        rewrite: Some(Arc::new(move |server, message| {
            rewrite(&known, server, message)
        })),
    };
    // It hears before it is known what is honoured, so that nothing is missed in between.
    let opening = gate.hub.listen(audience, &id, asked.clone());
    let subscribed = join_all(
        wishes
            .into_values()
            .map(|(link, uris)| subscribe(link, uris)),
    )
    .await;
    let mut uris = BTreeSet::new();
    let mut subscribers = Vec::new();
    for (subscriber, server, honoured) in subscribed {
        let as_asked = |theirs: String| heard.get(&(server.clone(), theirs)).cloned();
        uris.extend(honoured.into_iter().filter_map(as_asked));
        subscribers.push(subscriber);
    }
    let honoured = Filter {
        uris,
        resources: asked.resources && opening::offers_resources(&asker.links(gate)),
        ..asked
    };
    opening.acknowledge(gate, &honoured, subscribers)
}

async fn subscribe(
    link: Arc<Link>,
    uris: BTreeSet<String>,
) -> (Subscriber, ServerName, BTreeSet<String>) {
    let subscriber = link.subscriber();
    let honoured = match subscriber.subscribe(uris.clone()).await {
        Ok(honoured) => honoured,
        // A server that is down is asked when it is there again.
        Err(_) => {
            uris.iter().for_each(|uri| subscriber.joins(uri));
            uris
        }
    };
    (subscriber, link.server().clone(), honoured)
}

/// What a notification of one server is among those of all.
fn rewrite(known: &Known, server: &ServerName, message: &Bytes) -> Option<Bytes> {
    let read = envelope::read(message).ok()?;
    let method = read.method(message);
    if List::of_changed(&method).next().is_some() {
        return None;
    }
    if method != "notifications/resources/updated" {
        return Some(message.clone());
    }
    let range = envelope::read_params(message, &read).uri?;
    let theirs = json::text(message, range.clone())?;
    let asked = known.get(&(server.clone(), theirs.into_owned()))?;
    Some(with_text(message, range, asked))
}
