//! ST-02 to ST-04: the stream that a session listens on is optional, and asking for it is no hot loop.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::{content, event_stream, json_rpc_error, status};
use testkit::script::{call, get};
use testkit::{Agent, Behaviour, Daemon, End, Reply, RequestLog, Server, Step, sse};

use super::log_message;
use crate::common::{LIMIT, never};

/// A server that answers every GET like this.
async fn answering_get(reply: Reply) -> Server {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    server.script().on(get()).reply(reply);
    server
}

/// One daemon in front of many servers, named by position.
async fn daemon(servers: &[Server], recheck: &str) -> Daemon {
    let builder = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .agent("dev")
        .set_text("retry.stream_recheck", recheck);
    let named = servers.iter().enumerate();
    let builder = named.fold(builder, |builder, (number, server)| {
        builder.server(&name(number), &server.url())
    });
    builder.start().await.unwrap()
}

fn name(number: usize) -> String {
    format!("fake{number}")
}

async fn agent(daemon: &Daemon, number: usize) -> Agent {
    let agent = daemon.legacy_agent("dev", &name(number)).await.unwrap();
    agent.initialize().await.unwrap();
    agent
}

async fn assert_calls_work(agent: &Agent) {
    for _ in 0..3 {
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert_eq!(answer.text(), "{}", "{answer:?}");
    }
}

/// The connection without a server stream; it is connected all the same.
async fn without_stream(daemon: &Daemon, number: usize) -> Value {
    let told = |connection: &Value| {
        connection["state"] == "connected" && connection["stream"] == "no server stream"
    };
    let connection = daemon
        .wait_connection("dev", &name(number), LIMIT, told)
        .await
        .unwrap();
    assert_eq!(connection["fault"], Value::Null, "{connection}");
    connection
}

async fn lose_session(server: &Server, agent: &Agent) {
    let openings = server.log().count("initialize");
    let lost = json_rpc_error(404, -32001, "Session not found");
    server.script().first_on(call("echo").times(1)).reply(lost);
    assert_eq!(agent.call("echo", json!({})).await.unwrap().text(), "{}");
    assert_eq!(server.log().count("initialize"), openings + 1);
}

/// When the GETs came.
fn times(server: &Server) -> Vec<Duration> {
    server
        .log()
        .http("GET")
        .iter()
        .map(|request| request.at)
        .collect()
}

#[tokio::test]
async fn st_02_405_means_not_before_the_next_session() {
    let servers = [answering_get(status(405)).await];
    let [server] = &servers;
    let daemon = daemon(&servers, "300ms").await;
    let connection = without_stream(&daemon, 0).await;
    assert_eq!(connection["next"], Value::Null, "{connection}");
    let agent = agent(&daemon, 0).await;
    assert_calls_work(&agent).await;
    never(server, Duration::from_millis(900), |log| {
        log.http("GET").len() > 1
    })
    .await;
    lose_session(server, &agent).await;
    let sessions: Vec<_> = server
        .log()
        .http("GET")
        .iter()
        .map(|get| get.session().map(str::to_owned))
        .collect();
    assert_eq!(sessions, [Some("S1".to_owned()), Some("S2".to_owned())]);
    without_stream(&daemon, 0).await;
}

#[tokio::test]
async fn st_02_other_refusals_are_checked_again_slowly() {
    let refusals = [
        status(404),
        content(400, "text/plain", "No sessionId"),
        status(406),
        status(501),
        json_rpc_error(400, -32000, "Bad Request: No valid session ID provided"),
    ];
    let mut servers = Vec::new();
    for refusal in refusals {
        servers.push(answering_get(refusal).await);
    }
    let daemon = daemon(&servers, "1s").await;
    for (number, server) in servers.iter().enumerate() {
        let connection = without_stream(&daemon, number).await;
        let agent = agent(&daemon, number).await;
        assert_calls_work(&agent).await;
        assert!(
            server.log().http("GET").len() == 1 || connection["next"]["kind"] == "recheck",
            "{connection}"
        );
    }
    for server in &servers {
        server
            .log()
            .wait_for(|log| log.http("GET").len() >= 2, LIMIT)
            .await
            .unwrap();
        let at = times(server);
        assert!(at[1] - at[0] >= Duration::from_millis(980), "{at:?}");
        // Whatever the refusal was about, the session has shown that it lives.
        assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
        assert_eq!(server.log().calls("echo").len(), 3);
    }
    // A 404 may be about the session: a harmless POST tells that it is not.
    let log = servers[0].log();
    log.wait_for(|log| log.count("ping") == 1, LIMIT)
        .await
        .unwrap();
    assert_eq!(log.posts("ping")[0].session(), Some("S1"));
    assert_eq!(log.count("initialize"), 1, "{log}");
}

#[tokio::test]
async fn st_02_a_404_that_is_about_the_session_is_found_out() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let servers = [server];
    let [server] = &servers;
    let daemon = daemon(&servers, "5s").await;
    daemon
        .wait_state("dev", "fake0", "connected")
        .await
        .unwrap();
    // The stream ends with the session, and the next GET is answered 404.
    server.forget_sessions();
    let mended = |log: &RequestLog| log.count("initialize") == 2;
    server.log().wait_for(mended, LIMIT).await.unwrap();
    let listening = |log: &RequestLog| {
        log.http("GET")
            .iter()
            .any(|get| get.session() == Some("S2"))
    };
    server.log().wait_for(listening, LIMIT).await.unwrap();
    assert_eq!(server.log().posts("ping")[0].session(), Some("S1"));
    assert_calls_work(&agent(&daemon, 0).await).await;
    assert_eq!(server.log().count("initialize"), 2, "{}", server.log());
}

#[tokio::test]
async fn st_03_a_200_that_is_no_event_stream_is_not_asked_for_again() {
    let answers = [
        content(200, "text/plain", "MCP endpoint"),
        content(200, "application/json", "{}"),
        content(200, "text/html", "<title>MCP</title>"),
        status(200),
        status(202),
        status(204),
    ];
    let mut servers = Vec::new();
    for answer in answers {
        servers.push(answering_get(answer).await);
    }
    let daemon = daemon(&servers, "200ms").await;
    for (number, server) in servers.iter().enumerate() {
        without_stream(&daemon, number).await;
        let agent = agent(&daemon, number).await;
        assert_calls_work(&agent).await;
        // Not in this session, and not in the next one either: not within the hour.
        lose_session(server, &agent).await;
        let connection = without_stream(&daemon, number).await;
        assert_eq!(connection["next"]["kind"], "recheck", "{connection}");
        let at: jiff::Timestamp = connection["next"]["at"].as_str().unwrap().parse().unwrap();
        let wait = at.as_second() - jiff::Timestamp::now().as_second();
        assert!((3_500..=3_600).contains(&wait), "{wait} s");
    }
    for server in &servers {
        never(server, Duration::from_millis(100), |log| {
            log.http("GET").len() > 1
        })
        .await;
    }
}

#[tokio::test]
async fn st_04_a_stream_that_closes_at_once_is_reopened_ever_more_slowly() {
    let event = sse::event(None, None, &log_message("again").to_string());
    let closing = |bytes: String| event_stream().body(bytes).step(Step::End(End::Clean));
    let servers = [
        answering_get(event_stream()).await,
        answering_get(closing("retry: 250\n\n".to_owned())).await,
        answering_get(closing(": nothing\n\n".to_owned())).await,
        answering_get(event_stream().rst()).await,
        answering_get(closing(event.clone())).await,
        answering_get(closing(format!("retry: 600\n{event}"))).await,
    ];
    let daemon = daemon(&servers, "10s").await;
    let busy = &servers[4];
    busy.log()
        .wait_for(|log| log.http("GET").len() >= 9, LIMIT)
        .await
        .unwrap();
    for (number, server) in servers.iter().enumerate() {
        let at = times(server);
        let first_3_s = at
            .iter()
            .filter(|time| **time - at[0] < Duration::from_secs(3))
            .count();
        assert!((3..=10).contains(&first_3_s), "server {number}: {at:?}");
        let connection = daemon.connection("dev", &name(number)).await.unwrap();
        assert_eq!(
            connection["state"], "connected",
            "server {number}: {connection}"
        );
        assert_eq!(server.log().count("initialize"), 1, "{}", server.log());
        assert_calls_work(&agent(&daemon, number).await).await;
    }
    // Nothing comes: the delay doubles, from 25 to 50 ms or from what the server said, up to a second.
    for (number, first) in [(0, 25), (1, 250), (2, 25), (3, 25)] {
        let at = times(&servers[number]);
        for (step, pair) in at.windows(2).enumerate() {
            let least = Duration::from_millis((first << step).min(500) - 2);
            assert!(
                pair[1] - pair[0] >= least,
                "delay {step} of server {number}: {at:?}"
            );
        }
    }
    // Events come: the server's own delay is used as it is.
    let at = times(&servers[5]);
    for pair in at.windows(2) {
        let gap = (pair[1] - pair[0]).as_millis();
        assert!((595..1_200).contains(&gap), "{at:?}");
    }
}

#[tokio::test]
async fn st_04_while_it_is_closed_the_state_says_so() {
    let event = sse::event(None, None, &log_message("once").to_string());
    let servers = [answering_get(
        event_stream()
            .body(format!("retry: 60000\n{event}"))
            .step(Step::End(End::Clean)),
    )
    .await];
    let daemon = daemon(&servers, "10s").await;
    let told = |connection: &Value| {
        connection["stream"] == "reopening" && connection["state"] == "connected"
    };
    let connection = daemon
        .wait_connection("dev", "fake0", LIMIT, told)
        .await
        .unwrap();
    assert_eq!(connection["next"]["kind"], "reopen_stream", "{connection}");
    assert_eq!(servers[0].log().http("GET").len(), 1);
}
