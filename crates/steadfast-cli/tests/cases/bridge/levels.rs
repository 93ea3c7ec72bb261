//! Log levels: of the session in the legacy era, of each request in the modern one (2026-07-28
//! server/utilities/logging).

use serde_json::{Value, json};
use testkit::{Answer, Behaviour, RequestLog};

use super::asking;
use crate::rig::{Era, Rig, seen};

const CALL: &str = "tools/call";
const SET: &str = "logging/setLevel";
const LEVEL: &str = "/params/_meta/io.modelcontextprotocol~1logLevel";

/// Calls a tool that logs one line at level info.
async fn logs(rig: &Rig, level: Option<&str>) -> Answer {
    let mut params = json!({"name": "ask", "arguments": {}});
    if let Some(level) = level {
        params["_meta"] = json!({"io.modelcontextprotocol/logLevel": level});
    }
    rig.agent.request(CALL, params).await.unwrap()
}

fn lines(answer: &Answer) -> usize {
    let all = answer.notifications();
    all.iter()
        .filter(|it| it["method"] == "notifications/message")
        .count()
}

fn levels_set(log: &RequestLog) -> Vec<Value> {
    let set = log.posts(SET);
    set.iter()
        .filter_map(|it| it.pointer("/params/level").cloned())
        .collect()
}

#[tokio::test]
async fn a_legacy_agents_level_goes_with_each_request_to_a_modern_server() {
    let rig = Rig::new(Era::Legacy, asking(Behaviour::modern(), vec![Vec::new()])).await;
    assert_eq!(lines(&logs(&rig, None).await), 0, "none was asked for");
    let set = rig
        .agent
        .request(SET, json!({"level": "info"}))
        .await
        .unwrap();
    assert_eq!(set.result(), &json!({}));
    let answer = logs(&rig, None).await;
    assert_eq!(lines(&answer), 1, "{answer:?}");
    let legs = rig.server.log().calls("ask");
    let sent: Vec<_> = legs.iter().map(|it| it.pointer(LEVEL)).collect();
    let info = json!("info");
    assert_eq!(
        sent,
        [None, None, Some(&info), Some(&info)],
        "each leg is a request"
    );
    assert_eq!(rig.server.log().count(SET), 0, "a method that is no more");
    let wrong = rig
        .agent
        .request(SET, json!({"level": "verbose"}))
        .await
        .unwrap();
    assert_eq!(wrong.error_code(), Some(-32602));
}

#[tokio::test]
async fn a_modern_requests_level_is_set_in_the_session_of_a_legacy_server() {
    let behaviour = asking(Behaviour::legacy("2025-11-25"), vec![Vec::new()]);
    let rig = Rig::new(Era::Modern, behaviour).await;
    assert_eq!(lines(&logs(&rig, None).await), 0, "it asked for none");
    for _ in 0..2 {
        let answer = logs(&rig, Some("info")).await;
        assert_eq!(lines(&answer), 1, "{answer:?}");
    }
    assert_eq!(levels_set(rig.server.log()), ["info"], "once for both");
    assert_eq!(
        lines(&logs(&rig, Some("error")).await),
        0,
        "below what it asked for"
    );
    assert_eq!(lines(&logs(&rig, None).await), 0);
    assert_eq!(rig.server.log_level("S1").as_deref(), Some("error"));
    let order = rig.server.log().order();
    let place = |what: &str| order.iter().rposition(|it| it == what).unwrap();
    assert!(
        place("POST logging/setLevel") < place("POST tools/call ask"),
        "{order:?}"
    );

    let before = rig.server.log().requests().len();
    let wrong = logs(&rig, Some("verbose")).await;
    assert_eq!(wrong.error_code(), Some(-32602), "{wrong:?}");
    assert_eq!(rig.server.log().requests().len(), before, "sent nothing");
    let body = rig.server.log().calls("ask")[1].body.clone();
    assert!(
        !String::from_utf8_lossy(&body).contains("logLevel"),
        "it is of the other era"
    );
}

/// Calls that are under way together share the session: the lowest level of them is set, and each gets what it
/// asked for.
#[tokio::test]
async fn the_lowest_level_of_the_calls_under_way_is_set() {
    let behaviour = asking(Behaviour::legacy("2025-11-25"), vec![Vec::new()]);
    let rig = Rig::new(Era::Modern, behaviour).await;
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let slow = json!({"name": "slow", "arguments": {}, "_meta": meta});
    let pending = rig.agent.start(CALL, slow).await.unwrap();
    seen(&rig.server, |log| log.calls("slow").len() == 1).await;
    assert_eq!(lines(&logs(&rig, Some("error")).await), 0);
    assert_eq!(levels_set(rig.server.log()), ["debug"]);
    rig.server.open("slow");
    pending.finish().await.unwrap();
    assert_eq!(lines(&logs(&rig, Some("notice")).await), 0);
    assert_eq!(levels_set(rig.server.log()), ["debug", "notice"]);
}

/// What the session of a legacy server tells of below an agent's own level is not for that agent.
#[tokio::test]
async fn a_legacy_agent_hears_nothing_below_its_own_level() {
    let rig = Rig::new(Era::Legacy, Era::Legacy.behaviour()).await;
    let mut stream = rig.agent.open_get(None).await.unwrap();
    let set = rig
        .agent
        .request(SET, json!({"level": "error"}))
        .await
        .unwrap();
    assert_eq!(set.result(), &json!({}));
    seen(&rig.server, |_| rig.server.open_streams() == 1).await;
    for level in ["info", "error"] {
        let params = json!({"level": level, "data": level});
        rig.server.notify(
            &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
        );
    }
    let heard = stream.message().await.unwrap().unwrap();
    assert_eq!(heard["params"]["data"], "error", "{heard}");
}
