//! SP-02: line ends and where they are cut. SP-03: characters and where they are cut.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::reply::{content, event_stream, message_for, tool_text};
use testkit::script::{call, get};
use testkit::{Behaviour, Reply, Request, Server};
use tokio::task::JoinSet;

use crate::common::call_with_logs;
use crate::rig::{AT_ONCE, BOTH, Era, PAIRINGS, Rig, assert_unknown, event, log_message, seen};

/// How a line may end; `mixed` takes one after the other.
const LINE_ENDS: [(&str, &[&str]); 4] = [
    ("lf", &["\n"]),
    ("crlf", &["\r\n"]),
    ("cr", &["\r"]),
    ("mixed", &["\r\n", "\r", "\n"]),
];

/// Two notifications, the first in two data lines, and the response, with the line ends that the call asks for.
fn three_events(request: &Request) -> Vec<u8> {
    let ends = LINE_ENDS
        .iter()
        .find(|(name, _)| request.arguments()["ends"] == **name)
        .expect("a known line end")
        .1;
    let response = message_for(request, &json!({"result": tool_text("end")}));
    let lines = [
        ": hello".to_owned(),
        r#"data: {"jsonrpc":"2.0","method":"notifications/message","#.to_owned(),
        r#"data: "params":{"level":"info","data":1}}"#.to_owned(),
        String::new(),
        "id:7".to_owned(),
        format!("data:{}", log_message("2")),
        String::new(),
        "event: message".to_owned(),
        format!("data: {response}"),
        String::new(),
    ];
    let mut ends = ends.iter().cycle();
    let ended = lines.map(|line| line + ends.next().expect("endless"));
    ended.concat().into_bytes()
}

/// What the agent is to get, whatever the line ends and the cuts.
fn assert_three_events(answer: &testkit::Answer, what: &str) {
    let seen: Vec<Value> = answer
        .notifications()
        .iter()
        .map(|message| message["params"]["data"].clone())
        .collect();
    assert_eq!(seen, [json!(1), json!("2")], "{what}");
    assert_eq!(answer.text(), "end", "{what}");
}

#[tokio::test]
async fn sp_02_line_ends_and_cuts_change_nothing() {
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    // Each piece is a chunk of its own, and so a read of its own, however fast it follows.
    rig.server.script().on(call("echo")).reply_with(|request| {
        let mut whole = three_events(request);
        let cut = request.arguments()["cut"].as_u64().expect("a cut");
        let rest = whole.split_off(whole.len().min(usize::try_from(cut).expect("small")));
        event_stream().body(whole).body(rest)
    });
    let agent = Arc::new(rig.agent);
    // One call for each place: the response is a few bytes longer or shorter with its id.
    let longest = 360;
    let tries = LINE_ENDS
        .iter()
        .flat_map(move |(ends, _)| (1..longest).map(move |cut| (*ends, cut)));
    let tries = Arc::new(Mutex::new(tries));
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (agent, tries) = (Arc::clone(&agent), Arc::clone(&tries));
        workers.spawn(async move {
            loop {
                let Some((ends, cut)) = tries.lock().unwrap().next() else {
                    return;
                };
                let answer = agent.call("echo", json!({"ends": ends, "cut": cut})).await;
                assert_three_events(&answer.unwrap(), &format!("{ends} cut at {cut}"));
            }
        });
    }
    workers.join_all().await;
}

#[tokio::test]
async fn sp_02_byte_by_byte_in_every_pairing_of_eras() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        rig.server
            .script()
            .on(call("echo"))
            .reply_with(|request| event_stream().drip(1, AT_ONCE).body(three_events(request)));
        for (ends, _) in LINE_ENDS {
            let answer = call_with_logs(&rig.agent, "echo", json!({"ends": ends})).await;
            assert_three_events(&answer, &format!("{agent:?} {server:?} {ends}"));
        }
    }
}

/// Characters of one to four bytes, and one beyond the first plane written with its escapes.
const TEXT: &str = "aé€𝄞 \u{feff}\u{2028}ß";

#[tokio::test]
async fn sp_03_characters_cut_anywhere_arrive_whole() {
    for (agent, server) in PAIRINGS {
        for streams in [false, true] {
            let mut behaviour = server.behaviour();
            behaviour.stream_answers = streams;
            let rig = Rig::new(agent, behaviour).await;
            rig.server
                .script()
                .on(call("echo"))
                .reply(Reply::new().drip(1, AT_ONCE).run());
            let answer = rig.agent.call("echo", json!({"text": TEXT})).await.unwrap();
            let what = format!("{agent:?} {server:?} streams: {streams}");
            let echoed: Value = serde_json::from_str(answer.text()).unwrap();
            assert_eq!(echoed["text"], TEXT, "{what}");
            let asked = &rig.server.log().calls("echo")[0];
            assert_eq!(asked.arguments()["text"], TEXT, "{what}");
        }
    }
}

/// A message as no serialiser writes it: spaces, escapes, numbers of every kind, unknown members.
fn odd(id: &str) -> String {
    format!(
        "{{ \"result\" : {{\"content\":[ {{\"type\":\"text\",\"text\":\"{TEXT}\\ud834\\udd1e\\u00e9\"}}],\
         \"n\": 1.0e+2, \"big\":12345678901234567890123,\"a\":1,\"unknown\":{{}}}},\"x\":null , \"id\" :{id},\"jsonrpc\":\"2.0\"}}"
    )
}

#[tokio::test]
async fn sp_03_bytes_of_an_answer_pass_unchanged_but_for_its_id() {
    for era in BOTH {
        let rig = Rig::new(era, era.behaviour()).await;
        rig.server.script().on(call("echo")).reply_with(|request| {
            let id = request.rpc_id().expect("a request").to_string();
            let body = odd(&id);
            if request.arguments()["streams"] == true {
                event_stream().drip(3, AT_ONCE).body(event(None, &body))
            } else {
                content(200, "application/json", body).drip(3, AT_ONCE)
            }
        });
        for streams in [false, true] {
            let params = json!({"name": "echo", "arguments": {"streams": streams}});
            let id = json!("agent's own é");
            let pending = rig.agent.start_with_id(id.clone(), "tools/call", params);
            let answer = pending.await.unwrap().finish().await.unwrap();
            let body = String::from_utf8(answer.body.to_vec()).unwrap();
            assert!(body.contains(&odd(&id.to_string())), "{era:?}: {body}");
        }
    }
}

#[tokio::test]
async fn sp_03_bytes_of_a_request_pass_unchanged_but_for_its_id() {
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    let odd = |id: &str| {
        format!(
            "{{ \"id\":{id} ,\"method\":\"tools\\/call\",\"params\":{{\"arguments\":{{\"t\":\"{TEXT}\\u00e9\",\"n\":1.0e+2}},\
             \"name\": \"echo\"}},\"jsonrpc\":\"2.0\", \"unknown\":[ ]}}"
        )
    };
    let headers = rig.agent.headers(None);
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let sent = odd("\"mine\"");
    let mut response = rig.agent.raw_post(&headers, sent.as_bytes()).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(response.json().await.unwrap()["id"], "mine");
    let asked = rig.server.log().posts("tools/call").pop().unwrap();
    let id = asked.rpc_id().unwrap().to_string();
    assert_eq!(String::from_utf8_lossy(&asked.body), odd(&id));
}

/// One byte that no text in UTF-8 has.
fn spoilt(message: &str) -> Vec<u8> {
    let mut bytes = event(None, message).into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'~').expect("a mark");
    bytes[at] = 0xff;
    bytes
}

#[tokio::test]
async fn sp_03_an_invalid_byte_costs_its_own_message_only() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        rig.server.script().on(call("echo")).reply_with(|request| {
            let response = message_for(request, &json!({"result": tool_text("end")}));
            event_stream()
                .body(spoilt(&log_message("~ spoilt").to_string()))
                .body(event(None, &log_message("good").to_string()))
                .body(event(None, &response))
        });
        let answer = call_with_logs(&rig.agent, "echo", json!({})).await;
        let what = format!("{agent:?} {server:?}: {answer:?}");
        assert_eq!(answer.text(), "end", "{what}");
        let notifications = answer.notifications();
        assert_eq!(notifications.len(), 1, "{what}");
        assert_eq!(notifications[0]["params"]["data"], "good", "{what}");
    }
}

#[tokio::test]
async fn sp_03_an_invalid_byte_in_the_answer_is_an_unknown_outcome() {
    for era in BOTH {
        for streams in [false, true] {
            let rig = Rig::new(era, era.behaviour()).await;
            rig.server
                .script()
                .on(call("add_row"))
                .reply_with(move |request| {
                    let response = message_for(request, &json!({"result": tool_text("~")}));
                    let stream = spoilt(&response);
                    if streams {
                        return event_stream().row().body(stream).wait_for("never");
                    }
                    let body = stream["data: ".len()..].to_vec();
                    Reply::new()
                        .row()
                        .header("content-type", "application/json")
                        .body(body)
                });
            let answer = rig.agent.call("add_row", json!({})).await.unwrap();
            assert_unknown(&answer, "add_row", "cannot be read");
            assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (1, 1));
            rig.works().await;
        }
    }
}

#[tokio::test]
async fn sp_03_an_invalid_byte_on_the_get_stream_leaves_it_open() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    server.script().on(get()).reply(
        event_stream()
            .wait_for("spoil")
            .body(spoilt(&log_message("~").to_string()))
            .body(event(None, &changed.to_string()))
            .wait_for("never"),
    );
    let rig = Rig::with(Era::Legacy, server, |daemon| daemon).await;
    let lists = rig.server.log().count("tools/list");
    rig.server.open("spoil");
    seen(&rig.server, |log| log.count("tools/list") > lists).await;
    assert_eq!(rig.server.log().http("GET").len(), 1);
}
