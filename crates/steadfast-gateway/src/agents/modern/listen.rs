//! `subscriptions/listen` of a modern agent on a legacy server: what the server sends on its own
//! stream, as far as the agent asked for it (2026-07-28 basic/patterns/subscriptions).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::{Answer, Call, CallHandle, Link, Origin};
use steadfast_core::wire::splice::{self, Edit};
use steadfast_core::wire::{envelope, json as raw, sse};
use steadfast_core::{AgentName, ServerName, bridge};
use tokio::sync::mpsc;

use crate::Gate;
use crate::agents::Connection;
use crate::agents::hello::{Announces, notification};
use crate::agents::inbound::Inbound;
use crate::agents::stream_body::{self, Source};
use crate::body::Body;
use crate::problem::status_only;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// How far an agent may fall behind before its stream is ended: it learns from that to fetch anew.
const LONGEST_QUEUE: usize = 256;

/// What an agent wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: HashSet<String>,
}

impl Filter {
    /// As the request asks, as far as the server offers it.
    fn read(inbound: &Inbound, offered: Announces) -> Self {
        let asked = inbound
            .params
            .whole
            .clone()
            .and_then(|params| raw::at_path(&inbound.message, params, &["notifications"]))
            .and_then(|range| serde_json::from_slice(inbound.message.get(range)?).ok())
            .unwrap_or(Value::Null);
        let wants = |key: &str| asked[key] == Value::Bool(true);
        let uris = asked["resourceSubscriptions"].as_array();
        let uris = uris.into_iter().flatten().filter_map(Value::as_str);
        Self {
            tools: wants("toolsListChanged") && offered.tools,
            prompts: wants("promptsListChanged") && offered.prompts,
            resources: wants("resourcesListChanged") && offered.resources,
            uris: uris
                .filter(|_| offered.subscriptions)
                .map(str::to_owned)
                .collect(),
        }
    }

    fn wants(&self, method: &str, uri: Option<&str>) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resources,
            "notifications/resources/updated" => uri.is_some_and(|uri| self.uris.contains(uri)),
            _ => false,
        }
    }

    /// What is honoured, for the acknowledgement; what is not is left out.
    fn honoured(&self) -> Value {
        let mut honoured = serde_json::Map::new();
        for (key, on) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if on {
                honoured.insert(key.to_owned(), Value::Bool(true));
            }
        }
        if !self.uris.is_empty() {
            let mut uris: Vec<_> = self.uris.iter().collect();
            uris.sort();
            honoured.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        Value::Object(honoured)
    }
}

/// One stream that is listened on.
#[derive(Debug)]
struct Subscriber {
    number: u64,
    /// The raw JSON of the request's id, which is the subscription's.
    id: Bytes,
    filter: Filter,
    queue: mpsc::Sender<Bytes>,
}

/// All such streams, by connection.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    subscribers: Mutex<Subscribers>,
}

#[derive(Debug, Default)]
struct Subscribers {
    made: u64,
    by_connection: HashMap<Connection, Vec<Subscriber>>,
}

impl Hub {
    /// A notification of the server's own stream.
    pub(crate) fn notify(&self, agent: &AgentName, server: &ServerName, message: &Bytes) {
        let mut subscribers = self.subscribers.lock();
        let Some(those) = subscribers
            .by_connection
            .get_mut(&(agent.clone(), server.clone()))
        else {
            return;
        };
        let Ok(read) = envelope::read(message) else {
            return;
        };
        let method = read.method(message);
        let uri = envelope::read_params(message, &read).uri;
        let uri = uri.and_then(|range| raw::text(message, range));
        // Whoever is too slow is dropped, which ends its stream.
        those.retain(|it| {
            !it.filter.wants(&method, uri.as_deref())
                || it.queue.try_send(tagged(message, &read, &it.id)).is_ok()
        });
    }

    fn add(&self, link: &Link, id: Bytes, filter: Filter) -> (u64, mpsc::Receiver<Bytes>) {
        let (queue, receiver) = mpsc::channel(LONGEST_QUEUE);
        let mut subscribers = self.subscribers.lock();
        subscribers.made += 1;
        let number = subscribers.made;
        let connection = (link.agent().clone(), link.server().clone());
        subscribers
            .by_connection
            .entry(connection)
            .or_default()
            .push(Subscriber {
                number,
                id,
                filter,
                queue,
            });
        (number, receiver)
    }

    fn remove(&self, link: &Link, number: u64) {
        let connection = (link.agent().clone(), link.server().clone());
        let mut subscribers = self.subscribers.lock();
        if let Some(those) = subscribers.by_connection.get_mut(&connection) {
            those.retain(|it| it.number != number);
            if those.is_empty() {
                subscribers.by_connection.remove(&connection);
            }
        }
    }

    /// The server is there again: every list may have changed.
    pub(crate) fn reopened(&self, agent: &AgentName, server: &ServerName) {
        for method in Announces::LISTS.methods() {
            self.notify(agent, server, &notification(method));
        }
    }

    /// Ends the streams of all connections but some.
    pub(crate) fn retain(&self, still_there: impl Fn(&AgentName, &ServerName) -> bool) {
        let mut subscribers = self.subscribers.lock();
        let those = &mut subscribers.by_connection;
        those.retain(|(agent, server), _| still_there(agent, server));
    }
}

/// Serves one `subscriptions/listen`.
pub(super) async fn serve(gate: &Arc<Gate>, link: &Arc<Link>, inbound: &Inbound) -> Response<Body> {
    let (Some(id), Some(hello)) = (inbound.id(), link.hello()) else {
        return status_only(StatusCode::BAD_REQUEST);
    };
    let mut filter = Filter::read(inbound, Announces::of(&hello));
    let mut refused = Vec::new();
    for uri in &filter.uris {
        if !subscribe(link, inbound, uri).await {
            refused.push(uri.clone());
        }
    }
    filter.uris.retain(|uri| !refused.contains(uri));
    let acknowledged = json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": filter.honoured()},
    });
    let acknowledged = Bytes::from(acknowledged.to_string());
    let first = envelope::read(&acknowledged).map(|read| tagged(&acknowledged, &read, &id));
    let (number, receiver) = gate.hub.add(link, id, filter);
    let source = Listening {
        first: first.ok(),
        receiver,
        number,
        link: Arc::clone(link),
        hub: Arc::clone(&gate.hub),
    };
    stream_body::response(source, gate.settings.keep_alive)
}

/// Subscribes at the server. It stays subscribed: others of this connection may have asked as well,
/// and a notification too many is filtered here.
async fn subscribe(link: &Arc<Link>, inbound: &Inbound, uri: &str) -> bool {
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri},
    });
    let Ok(request) = Inbound::read(message.to_string().into()) else {
        return false;
    };
    let Some(hello) = link.hello() else {
        return false;
    };
    let text = |range| {
        let part = inbound.part(range).unwrap_or(b"{}");
        String::from_utf8_lossy(part).into_owned()
    };
    let call = Call {
        message: request.message,
        envelope: request.envelope,
        params: request.params,
        origin: Origin::Legacy {
            revision: hello.revision,
            client: Arc::new(bridge::Client {
                info: text(inbound.params.client_info.as_ref()),
                capabilities: text(inbound.params.client_capabilities.as_ref()),
                log_level: None,
            }),
        },
    };
    match link.call(call, CallHandle::new()).await {
        Answer::Whole { message, .. } => {
            envelope::read(&message).is_ok_and(|read| read.kind == envelope::Kind::Result)
        }
        // A stream ends with the response sooner or later; the subscription is as good as made.
        Answer::Stream(mut stream) => {
            tokio::spawn(async move { while stream.next().await.is_some() {} });
            true
        }
        Answer::Failed(_) => false,
    }
}

/// The notification with the subscription's id in `params._meta` ("Receiving Notifications").
fn tagged(message: &Bytes, read: &envelope::Envelope, id: &[u8]) -> Bytes {
    let id = String::from_utf8_lossy(id);
    let quoted = splice::quote(SUBSCRIPTION_ID);
    let params = envelope::read_params(message, read);
    let (at, text) = match (params.meta, read.params.clone()) {
        (Some(meta), _) => splice::insert_member(message, meta, SUBSCRIPTION_ID, &id),
        (None, Some(params)) => {
            splice::insert_member(message, params, "_meta", &format!("{{{quoted}:{id}}}"))
        }
        (None, None) => {
            let params = format!("{{\"_meta\":{{{quoted}:{id}}}}}");
            splice::insert_member(message, 0..message.len(), "params", &params)
        }
    };
    let mut edits = [Edit {
        range: at..at,
        with: text.as_bytes(),
    }];
    splice::apply(message, &mut edits).into()
}

/// The stream of one subscription.
struct Listening {
    first: Option<Bytes>,
    receiver: mpsc::Receiver<Bytes>,
    number: u64,
    link: Arc<Link>,
    hub: Arc<Hub>,
}

impl Source for Listening {
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => ready!(self.receiver.poll_recv(cx)),
        };
        if let Some(message) = &next {
            sse::encode(out, None, None, message);
        }
        Poll::Ready(next.is_some())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hub.remove(&self.link, self.number);
    }
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
