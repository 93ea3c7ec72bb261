//! PV-09: the stream on which a modern server announces changes, and what agents of both eras hear.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::EventStream;
use testkit::reply::{event_stream, json_rpc_error, status};
use testkit::script::post;
use testkit::{
    Action, Agent, Behaviour, Daemon, Event, Pending, Reply, Request, RequestLog, Server, Tool,
};

use crate::common::{LIMIT, never};
use crate::rig::{Era, PAIRINGS, Rig, agent_of, seen};

const LISTEN: &str = "subscriptions/listen";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
const TOOLS: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";
const NOTE: &str = "test://note";

fn list_changed(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn updated(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}})
}

/// A message of the subscription with this id.
fn tagged(mut message: Value, id: &Value) -> Value {
    message["params"]["_meta"][SUBSCRIPTION_ID] = id.clone();
    message
}

fn acknowledgment(id: &Value, honoured: Value) -> Value {
    let params = json!({"notifications": honoured});
    let method = "notifications/subscriptions/acknowledged";
    tagged(
        json!({"jsonrpc": "2.0", "method": method, "params": params}),
        id,
    )
}

/// The next message of a stream that is one of `method`; what comes before it is passed over. Where the
/// server's own id was all that was in `params`, they are left empty.
async fn next(stream: &mut EventStream, method: &str) -> Value {
    loop {
        let message = stream.message().await.unwrap();
        let mut message = message.expect("the stream must not end");
        if message["method"] != *method {
            continue;
        }
        if message.get("params") == Some(&json!({})) {
            message.as_object_mut().unwrap().remove("params");
        }
        return message;
    }
}

async fn listen(agent: &Agent, filter: Value) -> (Pending, Value) {
    let asked = agent.start(LISTEN, json!({"notifications": filter})).await;
    let mut listening = asked.unwrap();
    let first = listening.message().await.unwrap().unwrap();
    (listening, first)
}

async fn next_of(listening: &mut Pending, method: &str) -> Value {
    next(listening.stream().await.unwrap(), method).await
}

/// Waits until the one subscription that is open asks for these resources.
async fn listening_to(server: &Server, uris: &[&str]) {
    let uris = if uris.is_empty() {
        Value::Null
    } else {
        json!(uris)
    };
    seen(server, |log| {
        let (asked, events) = (log.posts(LISTEN), log.events());
        let is_open = |asked: &&Arc<Request>| {
            let connection = asked.connection;
            let closed = |(_, event): &(_, Event)| *event == Event::Closed { connection };
            log.ending(asked.index).is_none() && !events.iter().any(closed)
        };
        let open: Vec<_> = asked.iter().filter(is_open).collect();
        let [only] = open[..] else {
            return false;
        };
        only.pointer("/params/notifications").unwrap()["resourceSubscriptions"] == uris
    })
    .await;
}

#[tokio::test]
async fn pv_09_a_dropped_subscription_comes_back_and_what_was_missed_is_made_up_for() {
    let behaviour = Behaviour::modern().honouring(&["toolsListChanged"]);
    let rig = Rig::new(Era::Legacy, behaviour).await;
    let server = &rig.server;
    let mut get = rig.agent.open_get(None).await.unwrap();
    let modern = agent_of(Era::Modern, &rig.daemon).await;
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true});
    let (mut listening, first) = listen(&modern, filter).await;
    let honoured = json!({"toolsListChanged": true});
    assert_eq!(first, acknowledgment(&listening.id, honoured));
    let asked = server.log().posts(LISTEN);
    assert_eq!(asked.len(), 1, "one for all agents: {}", server.log());
    assert_eq!(
        asked[0].pointer("/params/notifications"),
        Some(
            &json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
        )
    );
    let note = rig.connection().await["stream"].clone();
    assert_eq!(note, "server does not announce: prompts, resources");

    let lists = server.log().count("tools/list");
    let refused = server.script().first_on(post(LISTEN).times(1));
    refused.reply(status(503).header("retry-after", "0"));
    server.set_tools(vec![Tool::new("brand_new", Action::Echo)]);
    server.reset_connections().await;
    let expected = tagged(list_changed(TOOLS), &listening.id);
    assert_eq!(next_of(&mut listening, TOOLS).await, expected);
    assert_eq!(next(&mut get, TOOLS).await, list_changed(TOOLS));
    let ids: Vec<_> = server
        .log()
        .posts(LISTEN)
        .iter()
        .map(|asked| asked.rpc_id().unwrap().as_i64().unwrap())
        .collect();
    assert_eq!(ids.len(), 3, "{}", server.log());
    assert!(ids[0] < ids[1] && ids[1] < ids[2], "{ids:?}");
    seen(server, |log| log.count("tools/list") > lists).await;
    let listed = rig.agent.request("tools/list", json!({})).await.unwrap();
    assert_eq!(listed.result()["tools"][0]["name"], "brand_new");
    // It holds: what is announced from now on arrives on the same streams.
    server.tools_changed();
    assert_eq!(next_of(&mut listening, TOOLS).await, expected);
    assert_eq!(next(&mut get, TOOLS).await, list_changed(TOOLS));
    assert_eq!(server.log().count(LISTEN), 3);
}

#[tokio::test]
async fn pv_09_a_list_whose_changes_are_not_announced_is_asked_for_again() {
    let mut behaviour = Behaviour::modern().honouring(&["promptsListChanged"]);
    behaviour.ttl_ms = 1_000;
    let rig = Rig::new(Era::Legacy, behaviour).await;
    let mut get = rig.agent.open_get(None).await.unwrap();
    let lists = rig.server.log().count("tools/list");
    let mut tools = Tool::defaults();
    tools.push(Tool::new("brand_new", Action::Echo));
    rig.server.set_tools(tools);
    assert_eq!(next(&mut get, TOOLS).await, list_changed(TOOLS));
    assert_eq!(rig.server.log().count("tools/list"), lists + 1);
}

#[tokio::test]
async fn pv_09_an_unknown_method_is_asked_for_once_per_opening() {
    for refusal in [
        json_rpc_error(404, -32601, "Method not found"),
        json_rpc_error(200, -32601, "Method not found"),
        status(405),
    ] {
        let server = Server::start(Behaviour::modern()).await;
        server.script().on(post(LISTEN)).reply(refusal);
        let rig = Rig::with(Era::Modern, server, |daemon| {
            daemon.set_text("retry.stream_recheck", "50ms")
        })
        .await;
        assert_eq!(rig.connection().await["stream"], "no server stream");
        let (_listening, first) = listen(&rig.agent, json!({"toolsListChanged": true})).await;
        assert_eq!(first["params"]["notifications"], json!({}));
        let again = |log: &RequestLog| log.count(LISTEN) > 1;
        never(&rig.server, Duration::from_millis(300), again).await;
        rig.works().await;
        rig.daemon
            .post("/api/v1/connections/dev/fake/reload", &Value::Null)
            .await
            .unwrap();
        seen(&rig.server, |log| log.count(LISTEN) == 2).await;
    }
}

/// A server whose subscriptions go on like this once they are acknowledged.
async fn scripted(after: impl Fn(Reply, &Value) -> Reply + Send + Sync + 'static) -> Server {
    let server = Server::start(Behaviour::modern()).await;
    server.script().on(post(LISTEN)).reply_with(move |asked| {
        let id = asked.rpc_id().unwrap();
        let all = asked.pointer("/params/notifications").unwrap().clone();
        after(event_stream().rpc_event(acknowledgment(id, all)), id)
    });
    server
}

#[tokio::test]
async fn pv_09_a_graceful_end_is_followed_by_a_slow_recheck() {
    let server = scripted(|reply, id| {
        reply.rpc_event(json!({
            "result": {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: id}},
        }))
    });
    let rig = Rig::with(Era::Legacy, server.await, |daemon| {
        daemon.set_text("retry.stream_recheck", "600ms")
    })
    .await;
    seen(&rig.server, |log| log.count(LISTEN) == 3).await;
    let asked = rig.server.log().posts(LISTEN);
    for pair in asked.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_millis(590), "{gap:?}");
        assert_ne!(pair[0].rpc_id(), pair[1].rpc_id());
    }
    rig.works().await;
}

#[tokio::test]
async fn pv_09_notifications_of_unknown_subscriptions_are_dropped() {
    let server = scripted(|reply, id| {
        let reply = reply.wait_for("listening").rpc_event(updated("none"));
        let reply = reply.rpc_event(tagged(updated("unknown"), &json!("someone else's")));
        let reply = reply.rpc_event(tagged(updated("other type"), &json!(id.to_string())));
        reply.rpc_event(tagged(updated("ours"), id)).black_hole()
    });
    let rig = Rig::with(Era::Legacy, server.await, |daemon| daemon).await;
    let mut get = rig.agent.open_get(None).await.unwrap();
    rig.server.open("listening");
    assert_eq!(next(&mut get, UPDATED).await, updated("ours"));
}

#[tokio::test]
async fn pv_09_sessions_of_one_agent_share_what_they_want_to_hear_of() {
    for era in [Era::Modern, Era::Legacy] {
        let rig = Rig::new(Era::Legacy, era.behaviour()).await;
        let other = agent_of(Era::Legacy, &rig.daemon).await;
        let uri = || json!({"uri": NOTE});
        let mut streams = Vec::new();
        for agent in [&rig.agent, &other] {
            streams.push(agent.open_get(None).await.unwrap());
            let subscribed = agent.request("resources/subscribe", uri()).await.unwrap();
            assert_eq!(subscribed.result(), &json!({}), "{era:?}: {subscribed:?}");
        }
        let gone = rig.agent.request("resources/unsubscribe", uri()).await;
        assert_eq!(gone.unwrap().result(), &json!({}), "{era:?}");
        rig.server.notify(&updated(NOTE));
        rig.server.notify(&list_changed(TOOLS));
        let [gave_up, wants] = &mut streams[..] else {
            unreachable!("two sessions");
        };
        assert_eq!(next(wants, UPDATED).await, updated(NOTE), "{era:?}");
        let heard = loop {
            let message = gave_up.message().await.unwrap().unwrap();
            if [UPDATED, TOOLS].iter().any(|it| message["method"] == *it) {
                break message;
            }
        };
        assert_eq!(heard["method"], TOOLS, "{era:?}: it gave the resource up");
        let log = rig.server.log();
        assert_eq!(log.count("resources/unsubscribe"), 0, "{era:?}: {log}");
        // With the last session the wish goes.
        other.delete().await.unwrap();
        match era {
            Era::Modern => listening_to(&rig.server, &[]).await,
            Era::Legacy => {
                seen(&rig.server, |log| log.count("resources/unsubscribe") == 1).await;
            }
        }
    }
}

#[tokio::test]
async fn pv_09_a_resource_that_the_server_does_not_announce_is_an_error_for_a_legacy_agent() {
    let behaviour = Behaviour::modern().honouring(&["toolsListChanged"]);
    let rig = Rig::new(Era::Legacy, behaviour).await;
    let uri = json!({"uri": NOTE});
    let refused = rig.agent.request("resources/subscribe", uri).await.unwrap();
    assert_eq!(refused.error_code(), Some(-32602), "{refused:?}");
    // It is not asked for any longer, and calls were never disturbed.
    listening_to(&rig.server, &[]).await;
    rig.works().await;
}

#[tokio::test]
async fn pv_09_what_a_session_wants_to_hear_of_survives_restarts_of_server_and_gateway() {
    let mut rig = Rig::new(Era::Legacy, Behaviour::modern()).await;
    let uri = json!({"uri": NOTE});
    let subscribed = rig.agent.request("resources/subscribe", uri).await.unwrap();
    assert_eq!(subscribed.result(), &json!({}), "{subscribed:?}");
    listening_to(&rig.server, &[NOTE]).await;
    let asked = rig.server.log().count(LISTEN);
    rig.server.restart().await;
    seen(&rig.server, |log| log.count(LISTEN) > asked).await;
    listening_to(&rig.server, &[NOTE]).await;
    rig.daemon.kill9().await.unwrap();
    rig.daemon.restart().await.unwrap();
    let daemon: &Daemon = &rig.daemon;
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let again = daemon.legacy_agent("dev", "fake").await.unwrap();
    again.set_session(rig.agent.session().as_deref());
    let mut get = again.open_get(None).await.unwrap();
    listening_to(&rig.server, &[NOTE]).await;
    rig.server.notify(&updated(NOTE));
    assert_eq!(next(&mut get, UPDATED).await, updated(NOTE));
}

#[tokio::test]
async fn pv_09_every_pairing_of_eras_hears_of_lists_and_resources() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let what = format!("{agent:?} on {server:?}");
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": [NOTE]});
        let mut pending;
        let mut get;
        let (stream, id) = match agent {
            Era::Modern => {
                let (listening, first) = listen(&rig.agent, wanted.clone()).await;
                assert_eq!(first, acknowledgment(&listening.id, wanted), "{what}");
                pending = listening;
                let id = Some(pending.id.clone());
                (pending.stream().await.unwrap(), id)
            }
            Era::Legacy => {
                get = rig.agent.open_get(None).await.unwrap();
                let uri = json!({"uri": NOTE});
                let asked = rig.agent.request("resources/subscribe", uri).await;
                assert_eq!(asked.unwrap().result(), &json!({}), "{what}");
                (&mut get, None)
            }
        };
        let expected = |message: Value| match &id {
            Some(id) => tagged(message, id),
            None => message,
        };
        for message in [list_changed(TOOLS), updated(NOTE)] {
            rig.server.notify(&message);
            let method = message["method"].as_str().unwrap().to_owned();
            assert_eq!(next(stream, &method).await, expected(message), "{what}");
        }
        // The server goes and comes back: the agent's stream does not notice.
        rig.server.restart().await;
        assert_eq!(
            next(stream, TOOLS).await,
            expected(list_changed(TOOLS)),
            "{what}"
        );
    }
}

#[tokio::test]
async fn pv_09_a_gateway_that_stops_ends_subscriptions_with_their_response() {
    for server in [Era::Legacy, Era::Modern] {
        let mut rig = Rig::new(Era::Modern, server.behaviour()).await;
        let asked = rig.agent.start_with_id(
            json!("é"),
            LISTEN,
            json!({"notifications": {"toolsListChanged": true}}),
        );
        let mut listening = asked.await.unwrap();
        listening.message().await.unwrap().unwrap();
        rig.daemon.terminate().await.unwrap();
        let answer = tokio::time::timeout(LIMIT, listening.finish()).await;
        let message = answer.unwrap().unwrap().message;
        let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION_ID: "é"}});
        assert_eq!(
            message,
            json!({"jsonrpc": "2.0", "id": "é", "result": result})
        );
    }
}
