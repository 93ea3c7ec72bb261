//! Step 6: a write is repeated on evidence only, and evidence and decision are on record.

use serde_json::{Value, json};
use testkit::script::call;

use super::super::ledger::{id_of, kinds, operations, wait_for};
use super::super::{READ, WRITE, assert_nothing_follows};
use super::{Stage, booking, bookings, with_key, with_lookup};
use crate::rig::{BOTH, Era};

fn keyed() -> Value {
    json!({ "room": "4", "idempotency_key": "k-1" })
}

/// The provider documents that what it does not show did not happen: the intention may be carried out again.
#[tokio::test]
async fn step_6_a_definitive_no_effect_lets_the_call_be_made_again() {
    for era in BOTH {
        let definitive = ", absent_is_definitive = true, settle_after = \"50ms\"";
        let stage = Stage::new(era, with_lookup(definitive)).await;
        let nothing = bookings(json!([]));
        stage.server.script().on(call(READ)).reply(nothing);
        let answer = stage.lost_write(booking()).await;
        let known = wait_for(&stage.daemon, &id_of(&answer), "no_effect").await;
        assert_eq!(known["executed"], "no", "{known}");
        let decision = known["decision"].as_str().unwrap();
        assert!(decision.contains("definitive"), "{decision}");
        // By itself nothing is sent; the agent that calls again is not held.
        assert_nothing_follows(&stage.server).await;
        assert_eq!(stage.calls(WRITE), 1);
        let again = stage.agent.call(WRITE, booking()).await.unwrap();
        assert_eq!(again.text(), "done", "{again:?}");
        assert_eq!(stage.calls(WRITE), 2);
    }
}

/// What is not found before the provider's records have settled is not definitive yet.
#[tokio::test]
async fn step_6_absence_is_definitive_only_once_the_records_have_settled() {
    let definitive = ", absent_is_definitive = true, settle_after = \"1h\"";
    let stage = Stage::new(Era::Modern, with_lookup(definitive)).await;
    let nothing = bookings(json!([]));
    stage.server.script().on(call(READ)).reply(nothing);
    let answer = stage.lost_write(booking()).await;
    let path = format!("/api/v1/operations/{}/reconcile", id_of(&answer));
    let (status, asked) = stage.daemon.post(&path, &json!({})).await.unwrap();
    assert_eq!(
        (status, &asked["state"]),
        (200, &json!("reconciling")),
        "{asked}"
    );
    assert_eq!(stage.calls(WRITE), 1);
}

#[tokio::test]
async fn step_6_under_a_duplicate_prevention_contract_the_key_stays_and_the_rpc_id_changes() {
    for era in BOTH {
        let stage = Stage::new(era, with_key("", "")).await;
        let answer = stage.lost_write(keyed()).await;
        assert_eq!(answer.text(), "done", "{answer:?}");
        let sent = stage.server.log().calls(WRITE);
        let [first, second] = &sent[..] else {
            panic!("{sent:?}");
        };
        assert_eq!(first.arguments(), second.arguments());
        assert_eq!(second.arguments()["idempotency_key"], "k-1");
        assert_ne!(first.rpc_id(), second.rpc_id());
        let id = operations(&stage.daemon).await[0]["id"].clone();
        let record = wait_for(&stage.daemon, id.as_str().unwrap(), "observed").await;
        assert_eq!(kinds(&record), ["leaving", "lost", "leaving", "answered"]);
        let decisions = record["evidence"].to_string();
        assert!(decisions.contains("covers a repeat"), "{decisions}");
        assert_eq!(Some(&record["rpc_id"]), second.rpc_id(), "{record}");
    }
}

/// A contract that lacks one promise, or whose time is over, covers nothing; nor does one without a key.
#[tokio::test]
async fn step_6_a_contract_covers_a_repeat_only_with_every_promise_and_in_its_time() {
    let cases = [
        ("scope", "", keyed(), "account"),
        ("atomic", "", keyed(), "atomic"),
        ("payload_bound", "", keyed(), "payload"),
        ("propagated", "", keyed(), "provider that acts"),
        ("retention", ", retention = \"1ms\"", keyed(), "forgotten"),
        ("", "", booking(), "carries no key"),
    ];
    for (less, more, arguments, why) in cases {
        let stage = Stage::new(Era::Modern, with_key(less, more)).await;
        let answer = stage.lost_write(arguments).await;
        let held = stage.operation(&answer).await;
        assert_eq!(held["state"], "held", "{less}: {held}");
        let said = held["why"].as_str().unwrap();
        assert!(said.contains(why), "{less}: {said}");
        assert_nothing_follows(&stage.server).await;
        assert_eq!(stage.calls(WRITE), 1, "{less}");
    }
}

/// Evidence, decision and who decided are there for somebody who was not, and nothing claims that a call was made
/// exactly once.
#[tokio::test]
async fn step_6_evidence_and_decision_are_on_record() {
    let stage = Stage::new(Era::Modern, |daemon| daemon).await;
    let answer = stage.lost_write(booking()).await;
    let path = format!("/api/v1/operations/{}/settle", id_of(&answer));
    let decision = json!({"outcome": "confirmed", "note": "in the hotel's calendar"});
    stage.daemon.post(&path, &decision).await.unwrap();
    let record = stage.operation(&answer).await;
    assert_eq!(record["state"], "confirmed", "{record}");
    for evidence in record["evidence"].as_array().unwrap() {
        assert!(evidence["at"].is_string(), "{evidence}");
        assert!(evidence["decision"].is_string(), "{evidence}");
    }
    assert_eq!(record["evidence"][2]["note"], "in the hotel's calendar");
    let shown = stage
        .daemon
        .command(&["operations", "show", &id_of(&answer)])
        .await
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in [WRITE, "bytes", "not observed", "in the hotel's calendar"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for said in [answer.message.to_string(), record.to_string(), shown] {
        assert!(!said.to_lowercase().contains("exactly once"), "{said}");
    }
}
