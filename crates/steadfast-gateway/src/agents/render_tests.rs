//! What agents are told, as they read it.

use steadfast::report::{FaultReport, GrantReport, NextReport};
use steadfast_core::{Fault, Kind, Wall};

use super::*;
use crate::agents::inbound::Inbound;

fn about(method: &str, params: &str, era: Era) -> About {
    let text = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#);
    About::of(&Inbound::read(text.into()).unwrap(), era).unwrap()
}

fn parsed(message: &Bytes) -> Value {
    serde_json::from_slice(message).unwrap()
}

fn lost(tool: Option<&str>, executed: Executed) -> NotObserved {
    NotObserved {
        server: "booking".to_owned(),
        tool: tool.map(str::to_owned),
        method: "tools/call".to_owned(),
        executed,
        sent_at: Some(Wall(1_764_496_800_000)),
        bytes_sent: 412,
        evidence: "stream ended before the response".to_owned(),
        fault: None,
        operation: None,
        connection: None,
    }
}

fn report() -> Report {
    Report {
        agent: "support".to_owned(),
        server: "booking".to_owned(),
        state: "retrying".to_owned(),
        since: "2026-11-30T10:00:00.000Z".to_owned(),
        fault: Some(FaultReport::from(&Fault::new(
            Kind::Timeout,
            "no answer within 60s",
        ))),
        next: Some(NextReport {
            at: "2026-11-30T10:00:05.000Z".to_owned(),
            kind: "reconnect".to_owned(),
            reason: "reconnect, attempt 4".to_owned(),
        }),
        revision: None,
        era: None,
        session_age_s: None,
        tools: Some(1),
        last_answer_at: None,
        stream: None,
        grant: GrantReport {
            state: "none".to_owned(),
            ..GrantReport::default()
        },
        sign_in_url: None,
    }
}

fn known() -> Known {
    Known {
        tools: Some(Bytes::from_static(
            br#"[{"name":"create_booking","n":1.0}]"#,
        )),
        lacks_tool: false,
        discovered: Some(Bytes::from_static(br#"{"supportedVersions":[]}"#)),
    }
}

#[test]
fn the_model_sees_that_a_result_was_not_observed() {
    let call = about("tools/call", r#"{"name":"create_booking"}"#, Era::Legacy);
    let message = parsed(&not_observed(
        &call,
        &lost(Some("create_booking"), Executed::Unknown),
    ));
    assert_eq!(message["id"], "a");
    assert_eq!(message["result"]["isError"], true);
    let operation = &message["result"]["_meta"]["dev.steadfast/operation"];
    assert_eq!(operation["state"], "not_observed");
    assert_eq!(operation["executed"], "unknown");
    assert_eq!(operation["sent_at"], "2025-11-30T10:00:00.000Z");
    assert_eq!(operation["bytes_sent"], 412);
    let text = message["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("create_booking") && text.contains("Do not call it again"),
        "{text}"
    );
    assert_eq!(message["result"]["resultType"], Value::Null);

    let modern = about("tools/call", r#"{"name":"create_booking"}"#, Era::Modern);
    let message = parsed(&not_observed(
        &modern,
        &lost(Some("create_booking"), Executed::No),
    ));
    assert_eq!(message["result"]["resultType"], "complete");
    let text = message["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("was not executed") && !text.contains("Do not call"),
        "{text}"
    );
}

#[test]
fn other_requests_get_an_error_with_the_same_object() {
    let read = about("prompts/get", r#"{"name":"x"}"#, Era::Legacy);
    let message = parsed(&not_observed(&read, &lost(None, Executed::Unknown)));
    assert_eq!(message["error"]["code"], -32603);
    assert_eq!(message["error"]["data"]["executed"], "unknown");
    assert_eq!(message["error"]["data"]["code"], "SF0041");
}

#[test]
fn a_known_tool_of_a_server_that_is_down_says_why_and_what_happens_next() {
    let call = about("tools/call", r#"{"name":"create_booking"}"#, Era::Legacy);
    let message = parsed(&unavailable(&call, &report(), &known()));
    assert_eq!(message["result"]["isError"], true);
    assert_eq!(
        message["result"]["_meta"]["dev.steadfast/connection"]["state"],
        "retrying"
    );
    let text = message["result"]["content"][0]["text"].as_str().unwrap();
    for part in [
        "`booking`",
        "no answer within 60s",
        "reconnect, attempt 4",
        "10:00:05",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_unknown_tool_stays_unknown_and_an_unseen_list_says_nothing() {
    let call = about("tools/call", r#"{"name":"nothing"}"#, Era::Legacy);
    let without = Known {
        lacks_tool: true,
        ..known()
    };
    let message = parsed(&unavailable(&call, &report(), &without));
    assert_eq!(message["error"]["code"], -32602);
    let message = parsed(&unavailable(&call, &report(), &Known::default()));
    assert_eq!(message["result"]["isError"], true);
}

#[test]
fn the_tools_stay_listed_as_the_server_wrote_them() {
    let list = about("tools/list", "{}", Era::Legacy);
    let message = unavailable(&list, &report(), &known());
    assert_eq!(
        std::str::from_utf8(&message).unwrap(),
        r#"{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"create_booking","n":1.0}]}}"#
    );
    let modern = about("tools/list", "{}", Era::Modern);
    let message = parsed(&unavailable(&modern, &report(), &known()));
    assert_eq!(message["result"]["cacheScope"], "private");
    let later = about("tools/list", r#"{"cursor":"2"}"#, Era::Legacy);
    let message = parsed(&unavailable(&later, &report(), &known()));
    assert_eq!(message["error"]["data"]["connection"]["server"], "booking");
    let discover = about("server/discover", "{}", Era::Modern);
    let message = parsed(&unavailable(&discover, &report(), &known()));
    assert!(message["result"]["supportedVersions"].is_array());
}
