//! SP-06: what a body claims to be and what it is.

use serde_json::{Value, json};
use testkit::reply::{content, event_stream, message_for, status, tool_text};
use testkit::script::{call, post};
use testkit::{Behaviour, Reply, Request, Server};

use crate::rig::{BOTH, Era, PAIRINGS, Rig, assert_unknown, event};

fn done(request: &Request) -> String {
    message_for(request, &json!({"result": tool_text("it is done")}))
}

fn refused(request: &Request) -> String {
    let error = json!({"code": -32603, "message": "no room", "data": {"why": "full"}});
    message_for(request, &json!({"error": error}))
}

/// Bodies that hold the response, however they are labelled.
fn readable(kind: &str, request: &Request) -> Reply {
    let body = done(request);
    match kind {
        "charset" => content(200, "application/json; charset=utf-8", body),
        "capitals" => content(200, "Application/JSON", body),
        "no content type" => status(200).body(body),
        "text" => content(200, "text/plain", body),
        "stream charset" => content(200, "text/event-stream; charset=utf-8", event(None, &body)),
        "json as a stream" => content(200, "text/event-stream", body),
        "json as a stream in pieces" => event_stream().drip(7, crate::rig::AT_ONCE).body(body),
        "spaced json as a stream" => content(200, "text/event-stream", format!("\r\n  {body}\n\n")),
        "201" => content(201, "application/json", body),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn sp_06_a_readable_answer_is_delivered_whatever_its_label() {
    const KINDS: [&str; 9] = [
        "charset",
        "capitals",
        "no content type",
        "text",
        "stream charset",
        "json as a stream",
        "json as a stream in pieces",
        "spaced json as a stream",
        "201",
    ];
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        rig.server
            .script()
            .on(call("add_row"))
            .reply_with(|request| {
                let kind = request.arguments()["kind"].as_str().expect("a kind");
                Reply::new().row().then(readable(kind, request))
            });
        for kind in KINDS {
            let answer = rig
                .agent
                .call("add_row", json!({"kind": kind}))
                .await
                .unwrap();
            assert_eq!(
                answer.text(),
                "it is done",
                "{agent:?} {server:?} {kind}: {answer:?}"
            );
        }
        assert_eq!(
            (rig.rows("add_row"), rig.calls("add_row")),
            (KINDS.len(), KINDS.len())
        );
        assert_eq!(rig.connection().await["state"], "connected");
    }
}

#[tokio::test]
async fn sp_06_an_error_on_a_stream_or_in_json_passes_unchanged() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        rig.server
            .script()
            .on(call("add_row"))
            .reply_with(|request| {
                if request.arguments()["streams"] == true {
                    event_stream().row().body(event(None, &refused(request)))
                } else {
                    Reply::new()
                        .row()
                        .then(content(200, "application/json", refused(request)))
                }
            });
        for streams in [true, false] {
            let arguments = json!({"streams": streams});
            let answer = rig.agent.call("add_row", arguments).await.unwrap();
            assert_eq!(answer.error_code(), Some(-32603), "{answer:?}");
            assert_eq!(answer.message["error"]["message"], "no room");
            assert_eq!(answer.message["error"]["data"]["why"], "full");
        }
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (2, 2));
    }
}

/// Bodies that do not hold the response.
fn unreadable(kind: &str, request: &Request) -> Reply {
    let other = json!({"jsonrpc": "2.0", "id": "another", "result": tool_text("not yours")});
    let no_rpc = json!({"content": [{"type": "text", "text": "ok"}]}).to_string();
    match kind {
        "empty json" => content(200, "application/json", ""),
        "empty" => status(200),
        "empty stream" => content(200, "text/event-stream", ""),
        "no content" => status(204),
        "accepted" => status(202),
        "a stream as json" => content(200, "application/json", event(None, &done(request))),
        "half of it" => {
            let body = done(request);
            content(200, "application/json", body[..body.len() / 2].to_owned())
        }
        "empty object" => content(200, "application/json", "{}"),
        "null" => content(200, "application/json", "null"),
        "no json-rpc" => content(200, "application/json", no_rpc),
        "neither" => {
            let message = message_for(request, &json!({}));
            content(200, "application/json", message)
        }
        "another's" => content(200, "application/json", other.to_string()),
        "another's on a stream" => {
            content(200, "text/event-stream", event(None, &other.to_string()))
        }
        "a request" => {
            let ping = json!({"jsonrpc": "2.0", "id": request.rpc_id(), "method": "ping"});
            content(200, "application/json", ping.to_string())
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn sp_06_what_holds_no_answer_is_never_a_success() {
    const KINDS: [&str; 14] = [
        "empty json",
        "empty",
        "empty stream",
        "no content",
        "accepted",
        "a stream as json",
        "half of it",
        "empty object",
        "null",
        "no json-rpc",
        "neither",
        "another's",
        "another's on a stream",
        "a request",
    ];
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        rig.server
            .script()
            .on(call("add_row"))
            .reply_with(|request| {
                let kind = request.arguments()["kind"].as_str().expect("a kind");
                Reply::new().row().then(unreadable(kind, request))
            });
        for kind in KINDS {
            let answer = rig
                .agent
                .call("add_row", json!({"kind": kind}))
                .await
                .unwrap();
            assert_unknown(&answer, "add_row", "");
            assert_ne!(
                answer.operation()["evidence"],
                json!(""),
                "{kind}: {answer:?}"
            );
        }
        assert_eq!(
            (rig.rows("add_row"), rig.calls("add_row")),
            (KINDS.len(), KINDS.len())
        );
        // None of them says anything about the connection.
        rig.works().await;
        assert!(
            rig.server.log().count("initialize") <= 1,
            "{}",
            rig.server.log()
        );
    }
}

#[tokio::test]
async fn sp_06_the_handshake_reads_either_label_too() {
    type Labelled = fn(&str) -> Reply;
    let labels: [(&str, Labelled); 3] = [
        ("a stream", |body| {
            content(200, "text/event-stream", event(Some("1"), body))
        }),
        ("json as a stream", |body| {
            content(200, "text/event-stream", body.to_owned())
        }),
        ("no content type", |body| status(200).body(body.to_owned())),
    ];
    for (label, reply) in labels {
        let server = Server::start(Behaviour::legacy_stateless()).await;
        let initialized = json!({"result": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }});
        server
            .script()
            .on(post("initialize"))
            .reply_with(move |request| reply(&message_for(request, &initialized)));
        let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
        let connection = rig.connection().await;
        assert_eq!(
            connection["revision"], "2025-11-25",
            "{label}: {connection}"
        );
        rig.works().await;
    }
}

#[tokio::test]
async fn sp_06_a_list_that_is_none_never_empties_the_catalog() {
    for era in BOTH {
        let rig = Rig::new(era, era.behaviour()).await;
        let tools = rig.connection().await["tools"].clone();
        let lists: Vec<Value> = vec![json!({}), json!({"tools": {}}), json!(null)];
        for (n, result) in lists.into_iter().enumerate() {
            rig.server
                .script()
                .first_on(post("tools/list").times(1))
                .reply(testkit::reply::json_rpc_result(result));
            let before = rig.server.log().count("tools/list");
            rig.daemon
                .post("/api/v1/connections/dev/fake/reload", &json!({}))
                .await
                .unwrap();
            assert!(rig.server.log().count("tools/list") > before, "{n}");
            assert_eq!(rig.connection().await["tools"], tools, "{n}");
        }
    }
}
