//! ST-05 and ST-06: a stream that broke is resumed where it was, and not before the server wants it.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::reply::{event_stream, json_rpc_error, status};
use testkit::script::{call, get};
use testkit::{Behaviour, End, Request, RequestLog, Server, Step, sse};

use super::{gets, late_answer, log_event, log_message, priming, stream_with};
use crate::common::{LIMIT, agent, agents_of_both_eras, daemon, never};

const BREAKS: [End; 4] = [End::Clean, End::Rst, End::MidChunk, End::Fin];

/// The call leaves a stream with this cursor, and the tool has run.
fn break_call(server: &Server, cursor: &str, end: End) {
    let reply = stream_with(&priming(cursor, 50))
        .row()
        .delay(Duration::from_millis(20))
        .step(Step::End(end));
    server.script().on(call("add_row").times(1)).reply(reply);
}

/// The answer waits behind this cursor.
fn answer_after(server: &Server, cursor: &str) {
    let log = server.log().clone();
    let reply = move |_: &Request| stream_with(&late_answer(&log, "add_row", "last"));
    server
        .script()
        .on(get().header("last-event-id", cursor))
        .reply_with(reply);
}

#[tokio::test]
async fn st_05_a_stream_that_drops_again_and_again_keeps_its_cursor() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    for (number, end) in BREAKS.into_iter().enumerate() {
        let (calls, (era, agent)) = (number + 1, &agents[number % 2]);
        let cursor = format!("{era}-{end:?}");
        break_call(&server, &cursor, end);
        // Two resumes bring nothing, not even a new id.
        let nothing = event_stream()
            .delay(Duration::from_millis(100))
            .step(Step::End(end));
        server
            .script()
            .on(get().header("last-event-id", &cursor).times(2))
            .reply(nothing);
        answer_after(&server, &cursor);
        let answer = agent.call("add_row", json!({})).await.unwrap();
        assert_eq!(answer.text(), "found", "{cursor}: {answer:?}");
        assert!(!answer.is_error());
        assert_eq!(gets(server.log(), Some(&cursor)), 3, "{}", server.log());
        assert_eq!(server.log().count("tools/call"), calls);
        assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), calls);
    }
    let resumed = server
        .log()
        .matching(|request| request.header("last-event-id").is_some());
    assert!(
        resumed
            .iter()
            .all(|request| request.session() == Some("S1"))
    );
    assert_eq!(resumed.len(), 3 * BREAKS.len());
}

#[tokio::test]
async fn st_05_a_new_event_id_moves_the_cursor_and_its_message_is_passed_on_once() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    break_call(&server, "e1", End::Clean);
    let more = sse::event(Some("e2"), None, &log_message("half way").to_string());
    let reply = stream_with(&more)
        .delay(Duration::from_millis(20))
        .step(Step::End(End::MidChunk));
    server
        .script()
        .on(get().header("last-event-id", "e1"))
        .reply(reply);
    answer_after(&server, "e2");
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "found", "{answer:?}");
    let said: Vec<_> = answer
        .notifications()
        .iter()
        .map(|said| said["params"]["data"].clone())
        .collect();
    assert_eq!(said, ["half way"]);
    assert_eq!(
        (
            gets(server.log(), Some("e1")),
            gets(server.log(), Some("e2"))
        ),
        (1, 1)
    );
    assert_eq!(server.log().count("tools/call"), 1);
}

#[tokio::test]
async fn st_05_resuming_without_success_ends_in_what_is_known() {
    let gone = json_rpc_error(404, -32001, "Session not found");
    let nothing = event_stream().step(Step::End(End::Clean));
    let refusals = [
        (status(405), 1, "405"),
        (status(400), 1, "400"),
        (gone, 1, "404"),
        // What time may mend, and what brings nothing, is tried as often as allowed.
        (status(503), 3, "3 attempts to resume brought nothing"),
        (nothing, 3, "3 attempts to resume brought nothing"),
    ];
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server)
        .set("retry.resume_attempts", "3")
        .start()
        .await
        .unwrap();
    let agents = agents_of_both_eras(&daemon).await;
    for (number, (reply, attempts, why)) in refusals.into_iter().enumerate() {
        let (_, agent) = &agents[number % 2];
        let cursor = format!("e{number}");
        break_call(&server, &cursor, End::Clean);
        server
            .script()
            .on(get().header("last-event-id", &cursor))
            .reply(reply);
        let answer = agent.call("add_row", json!({ "n": number })).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
        let evidence = answer.operation()["evidence"].as_str().unwrap();
        assert!(evidence.contains(why), "{evidence}");
        assert_eq!(
            gets(server.log(), Some(&cursor)),
            attempts,
            "{}",
            server.log()
        );
        assert_eq!(server.log().count("tools/call"), number + 1);
        assert_eq!(
            server.ledger().rows_of("add_row").unwrap().len(),
            number + 1
        );
    }
    let again = |log: &RequestLog| log.count("tools/call") > 5;
    never(&server, Duration::from_millis(200), again).await;
}

#[tokio::test]
async fn st_05_a_session_lost_with_the_stream_takes_the_answer_along_but_not_the_connection() {
    let server = Server::start(Behaviour::legacy("2025-11-25").resumable(Some(50))).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (number, (_, agent)) in agents_of_both_eras(&daemon).await.into_iter().enumerate() {
        let gate = format!("drop {number}");
        let stream = stream_with(&priming("e1", 50)).row().wait_for(&gate).rst();
        server.script().on(call("add_row").times(1)).reply(stream);
        let pending = agent
            .start(
                "tools/call",
                json!({ "name": "add_row", "arguments": { "number": number } }),
            )
            .await
            .unwrap();
        server.gates().arrived(&gate, 1).await;
        server.forget_sessions();
        server.open(&gate);
        let answer = pending.finish().await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
        let sent = 2 * number + 1;
        assert_eq!(
            server.log().count("tools/call"),
            sent,
            "never sent again:\n{}",
            server.log()
        );
        assert_eq!(
            agent
                .call("add_row", json!({ "next": number }))
                .await
                .unwrap()
                .text(),
            "done"
        );
        assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), sent + 1);
    }
}

/// How long after the end of one answer the next request came.
fn pause(log: &RequestLog, from: &Request, to: &Request) -> Duration {
    let (ended, _) = log.ending(from.index).unwrap();
    to.at.saturating_sub(ended)
}

#[tokio::test]
async fn st_06_each_stream_resumes_with_its_own_cursor_and_when_the_server_says() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let listening = |cursor: &'static str| {
        get().when(move |request| request.header("last-event-id").unwrap_or_default() == cursor)
    };
    let steps = [
        ("", "g1", "1500"),
        ("g1", "g2", "50"),
        ("g2", "g3", "abc"),
        ("g3", "g4", "999999999"),
    ];
    for (cursor, id, retry) in steps {
        let reply = stream_with(&log_event(id, retry)).step(Step::End(End::Clean));
        server.script().on(listening(cursor).times(1)).reply(reply);
    }
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    // A call whose stream breaks in the meantime has a cursor of its own.
    break_call(&server, "p1", End::Clean);
    answer_after(&server, "p1");
    assert_eq!(
        agent.call("add_row", json!({})).await.unwrap().text(),
        "found"
    );

    let last = |log: &RequestLog| gets(log, Some("g3")) == 1;
    server.log().wait_for(last, LIMIT).await.unwrap();
    let log = server.log();
    let asked: Vec<_> = log.matching(|request| {
        request.method == "GET" && request.header("last-event-id") != Some("p1")
    });
    let cursors: Vec<_> = asked
        .iter()
        .map(|request| request.header("last-event-id"))
        .collect();
    assert_eq!(cursors, [None, Some("g1"), Some("g2"), Some("g3")]);
    let pauses: Vec<_> = asked
        .windows(2)
        .map(|pair| pause(log, &pair[0], &pair[1]).as_millis())
        .collect();
    assert!(
        (1_480..2_400).contains(&pauses[0]),
        "retry: 1500 is never less: {pauses:?}"
    );
    assert!((48..1_000).contains(&pauses[1]), "retry: 50: {pauses:?}");
    assert!(
        (48..1_000).contains(&pauses[2]),
        "`abc` changes nothing: {pauses:?}"
    );
    let posts = log
        .matching(|request| request.method == "POST" && request.header("last-event-id").is_some());
    assert!(posts.is_empty(), "{posts:?}");
    assert_eq!(gets(log, Some("p1")), 1);

    // Eleven days count as five minutes, and an eighth at most for the jitter.
    let reopens = |connection: &Value| connection["next"]["kind"] == "reopen_stream";
    let connection = daemon
        .wait_connection("dev", "fake", LIMIT, reopens)
        .await
        .unwrap();
    assert_eq!(connection["state"], "connected");
    let at = connection["next"]["at"].as_str().unwrap();
    let wait = seconds_until(at);
    assert!((280..=338).contains(&wait), "{wait} s, {connection}");
}

/// How far a time of the admin API is away.
fn seconds_until(at: &str) -> i64 {
    let at: jiff::Timestamp = at.parse().unwrap();
    at.as_second() - jiff::Timestamp::now().as_second()
}

#[tokio::test]
async fn st_06_the_stream_of_a_call_waits_as_long_as_the_server_says() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    let agent = agent(&daemon).await;
    // Without a usable value it is the keeper's own first delay, 25 to 50 ms.
    let cases = [
        ("700", 690..1_600),
        ("50", 48..650),
        ("abc", 20..650),
        ("-1", 20..650),
        ("0", 48..650),
    ];
    for (number, (retry, expected)) in cases.into_iter().enumerate() {
        let cursor = format!("e{number}");
        let first = format!("id: {cursor}\nretry: {retry}\ndata: \n\n");
        let reply = stream_with(&first).row().step(Step::End(End::Clean));
        server.script().on(call("add_row").times(1)).reply(reply);
        answer_after(&server, &cursor);
        let answer = agent.call("add_row", json!({ "n": number })).await.unwrap();
        assert_eq!(answer.text(), "found", "{answer:?}");
        let log = server.log();
        let resumed =
            log.matching(|request| request.header("last-event-id") == Some(cursor.as_str()));
        let waited = pause(log, &log.calls("add_row")[number], &resumed[0]).as_millis();
        assert!(expected.contains(&waited), "retry: {retry}: {waited} ms");
    }
}
