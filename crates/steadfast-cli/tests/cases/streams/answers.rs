//! ST-01 and ST-08: the stream of an answer ends, with the answer or without it.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::{event_stream, tool_text};
use testkit::script::{call, post};
use testkit::{
    Agent, Answer, Behaviour, Daemon, End, GetStream, Reply, Request, RequestLog, Server, Step, Tls,
};

use super::priming;
use crate::common::{agent, agents_of_both_eras, daemon, daemon_at, never};

/// How a body ends before its answer, and what the agent is told of it.
const ENDS: [(End, &str); 4] = [
    (End::Clean, "stream ended before the response"),
    (End::Rst, "connection reset before the response"),
    (End::MidChunk, "body cut short before the response"),
    (End::Fin, "body cut short before the response"),
];

/// Nothing in the settings ends a call as early as this: what does is the end of the body.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The tool runs, one progress notification comes, and once the gate is open the body ends.
fn one_progress_then(request: &Request, gate: &str, end: End) -> Reply {
    let token = request.pointer("/params/_meta/progressToken").cloned();
    let params = json!({ "progressToken": token, "progress": 1 });
    let progress = json!({ "method": "notifications/progress", "params": params });
    event_stream()
        .row()
        .rpc_event(progress)
        .wait_for(gate)
        .step(Step::End(end))
}

/// Calls that differ are no repeats of each other.
async fn start(agent: &Agent, tool: &str, number: &str) -> testkit::Pending {
    let arguments = json!({ "number": number });
    let params =
        json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "mine" } });
    agent.start("tools/call", params).await.unwrap()
}

/// Calls a tool whose stream breaks after a progress notification.
async fn broken(server: &Server, agent: &Agent, tool: &str, (gate, end): (&str, End)) -> Answer {
    let at_gate = gate.to_owned();
    let reply = move |request: &Request| one_progress_then(request, &at_gate, end);
    server
        .script()
        .first_on(call(tool).times(1))
        .reply_with(reply);
    let mut pending = start(agent, tool, gate).await;
    let progress = pending.message().await.unwrap().unwrap();
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "mine");
    let began = std::time::Instant::now();
    server.open(gate);
    let answer = pending.finish().await.unwrap();
    assert!(
        began.elapsed() < AT_ONCE,
        "a silent wait of {:?}",
        began.elapsed()
    );
    answer
}

fn assert_not_observed(server: &Server, answer: &Answer, evidence: &str) {
    let operation = answer.operation();
    assert_eq!(answer.status, 200);
    assert!(answer.is_error(), "{answer:?}");
    assert_eq!(operation["state"], "not_observed", "{operation}");
    assert_eq!(operation["executed"], "unknown", "{operation}");
    assert_eq!(operation["server"], "fake");
    assert_eq!(operation["tool"], "add_row");
    assert_eq!(operation["evidence"], evidence, "{operation}");
    let calls = server.log().calls("add_row");
    let sent = calls.last().unwrap().body.len();
    assert_eq!(operation["bytes_sent"], sent, "{operation}");
    assert!(operation["sent_at"].is_string(), "{operation}");
    let text = answer.text();
    assert!(
        text.contains("add_row") && text.contains(evidence),
        "{text}"
    );
}

/// Servers of both eras that answer calls as streams without event ids.
fn streaming_servers() -> [Behaviour; 2] {
    [
        Behaviour::legacy("2025-11-25").streaming(),
        Behaviour::modern().streaming(),
    ]
}

#[tokio::test]
async fn st_01_a_write_whose_stream_ends_is_not_observed_and_never_sent_again() {
    for behaviour in streaming_servers() {
        let server = Server::start(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        let mut sent = 0;
        for (era, agent) in agents_of_both_eras(&daemon).await {
            for (end, evidence) in ENDS {
                let gate = format!("{era} {end:?}");
                let answer = broken(&server, &agent, "add_row", (&gate, end)).await;
                sent += 1;
                assert_not_observed(&server, &answer, evidence);
                if era == "modern" {
                    assert_eq!(answer.result()["resultType"], "complete");
                }
                assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), sent);
                assert_eq!(server.log().count("tools/call"), sent);
            }
        }
        // The connection has survived all of it.
        let connection = daemon.wait_state("dev", "fake", "connected").await.unwrap();
        assert_eq!(connection["fault"], Value::Null, "{connection}");
        let more = |log: &RequestLog| log.count("tools/call") > sent;
        never(&server, Duration::from_millis(200), more).await;
    }
}

#[tokio::test]
async fn st_01_a_read_whose_stream_ends_is_asked_once_more() {
    for behaviour in streaming_servers() {
        let server = Server::start(behaviour).await;
        let daemon = daemon(&server)
            .read_tool("fake", "echo")
            .start()
            .await
            .unwrap();
        for (era, agent) in agents_of_both_eras(&daemon).await {
            for (end, _) in ENDS {
                let calls = server.log().count("tools/call");
                let gate = format!("{era} {end:?}");
                let echoed = json!({ "number": gate }).to_string();
                let answer = broken(&server, &agent, "echo", (&gate, end)).await;
                assert_eq!(answer.text(), echoed, "{answer:?}");
                let mark = &answer.result()["_meta"]["dev.steadfast/observation"];
                assert_eq!(mark, &json!({ "reissued": 1 }), "{answer:?}");
                let calls = server.log().calls("echo").split_off(calls);
                assert_eq!(calls.len(), 2, "{}", server.log());
                assert_ne!(calls[0].rpc_id(), calls[1].rpc_id());
            }
        }
    }
}

#[tokio::test]
async fn st_01_a_read_is_asked_twice_at_most_and_only_once_where_fresh_data_is_not_wanted() {
    let server = Server::start(Behaviour::legacy("2025-11-25").streaming()).await;
    let daemon = daemon(&server)
        .read_tool("fake", "echo")
        .read_tool("fake", "big")
        .set("servers.fake.tools.big.reissue", "false")
        .start()
        .await
        .unwrap();
    for (end, evidence) in ENDS {
        for tool in ["echo", "big"] {
            let reply = event_stream().step(Step::End(end));
            server.script().first_on(call(tool)).reply(reply);
        }
        for (_, agent) in agents_of_both_eras(&daemon).await {
            for (tool, times) in [("echo", 2), ("big", 1)] {
                let before = server.log().count("tools/call");
                let answer = agent.call(tool, json!({})).await.unwrap();
                assert!(answer.took < AT_ONCE);
                assert!(answer.is_error(), "{answer:?}");
                assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
                let told = answer.operation()["evidence"].as_str().unwrap();
                assert!(told == evidence || end == End::Rst, "{told}");
                assert_eq!(server.log().count("tools/call"), before + times, "{end:?}");
            }
        }
        server.script().clear();
    }
}

#[tokio::test]
async fn st_01_a_body_that_lasts_as_long_as_its_connection_ends_with_it() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        let reply = Reply::new()
            .step(Step::UntilClose)
            .header("content-type", "text/event-stream")
            .body(": working\n\n")
            .row()
            .fin();
        server.script().on(call("add_row")).reply(reply);
        for (era, agent) in agents_of_both_eras(&daemon).await {
            let answer = agent.call("add_row", json!({ "of": era })).await.unwrap();
            assert!(answer.took < AT_ONCE, "{era}: {answer:?}");
            assert_not_observed(&server, &answer, "stream ended before the response");
        }
        assert_eq!(server.log().count("tools/call"), 2);
    }
}

#[tokio::test]
async fn st_01_other_requests_end_too() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (_, agent) in agents_of_both_eras(&daemon).await {
        for (end, _) in ENDS {
            let before = server.log().count("resources/read");
            let reply = event_stream().step(Step::End(end));
            let rule = server
                .script()
                .on(post("resources/read").times(1))
                .reply(reply.clone());
            let params = json!({ "uri": "test://note" });
            let answer = agent
                .request("resources/read", params.clone())
                .await
                .unwrap();
            assert_eq!(
                answer.result()["contents"][0]["text"],
                "a note",
                "{answer:?}"
            );
            assert_eq!(server.log().count("resources/read"), before + 2);
            rule.remove();

            let rule = server.script().on(post("resources/read")).reply(reply);
            let answer = agent.request("resources/read", params).await.unwrap();
            assert!(answer.took < AT_ONCE);
            assert!(answer.error_code().is_some(), "{answer:?}");
            assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
            assert_eq!(server.log().count("resources/read"), before + 4);
            rule.remove();
        }
    }
}

#[tokio::test]
async fn st_01_on_http_2_a_stream_ends_in_the_same_ways() {
    let tls = Tls::new(&["mcp.test"]).unwrap();
    for behaviour in streaming_servers() {
        let server = Server::builder(behaviour).tls(&tls).start().await;
        let daemon = http2_daemon(&server, &tls).await;
        let agent = agent(&daemon).await;
        for (sent, end) in [End::Clean, End::MidChunk, End::Rst, End::Fin]
            .into_iter()
            .enumerate()
        {
            let gate = format!("{end:?}");
            let answer = broken(&server, &agent, "add_row", (&gate, end)).await;
            assert!(server.log().calls("add_row")[sent].http2);
            assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
            let evidence = answer.operation()["evidence"].as_str().unwrap();
            assert!(
                evidence.ends_with("before the response"),
                "{end:?}: {evidence}"
            );
            assert_eq!(server.log().count("tools/call"), sent + 1);
            assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), sent + 1);
            daemon.wait_state("dev", "fake", "connected").await.unwrap();
        }
    }
}

/// A daemon that reaches the server by TLS, and so by HTTP/2.
async fn http2_daemon(server: &Server, tls: &Tls) -> Daemon {
    let directory = tempfile::tempdir().unwrap();
    let ca = tls.write_ca(directory.path()).unwrap();
    daemon_at(&server.url_as("mcp.test"))
        .set_text("network.ca_file", ca.to_str().unwrap())
        .set("network.resolve", r#"{ "mcp.test" = "127.0.0.1" }"#)
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn st_08_a_stream_that_has_given_its_answer_is_not_resumed() {
    // Every answer begins with a priming event: id, retry 300.
    let mut behaviour = Behaviour::legacy("2025-11-25").resumable(Some(300));
    behaviour.get_stream = GetStream::One;
    let server = Server::start(behaviour).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (era, agent) in agents_of_both_eras(&daemon).await {
        for n in 0..5 {
            let answer = agent.call("add_row", json!({ "n": n })).await.unwrap();
            assert_eq!(answer.text(), "done", "{era}: {answer:?}");
        }
    }
    let more = |log: &RequestLog| log.http("GET").len() > 1;
    never(&server, Duration::from_millis(900), more).await;
    assert_eq!(server.open_streams(), 1);
    assert_eq!(server.peak_streams(), 1);
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 10);
}

#[tokio::test]
async fn st_08_nor_is_one_that_breaks_after_its_answer_or_never_ends() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    for end in [
        End::Clean,
        End::Rst,
        End::MidChunk,
        End::Fin,
        End::BlackHole,
    ] {
        let gate = format!("{end:?}");
        let result = json!({ "result": tool_text("done") });
        let reply = event_stream()
            .body(priming("e1", 50))
            .row()
            .rpc_event_with_id("e2", result)
            .wait_for(&gate)
            .step(Step::End(end));
        server.script().on(call("add_row").times(1)).reply(reply);
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "done", "{end:?}: {answer:?}");
        server.open(&gate);
    }
    let resumed = |log: &RequestLog| log.http("GET").len() > 1;
    never(&server, Duration::from_millis(400), resumed).await;
    assert_eq!(server.log().count("tools/call"), 5);
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 5);
}
