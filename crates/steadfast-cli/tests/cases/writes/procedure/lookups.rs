//! Step 5: the provider is asked what became of a write. Only a record of exactly this call proves anything.

use serde_json::{Value, json};
use testkit::reply::{json_rpc_error, json_rpc_result, status};
use testkit::script::call;
use testkit::{Agent, Reply};

use super::super::ledger::{id_of, wait_for};
use super::super::{READ, WRITE};
use super::{Stage, booking, bookings, with_lookup};
use crate::rig::{BOTH, Era};

fn found(room: &str) -> Value {
    json!({ "reference": "r-17", "room": room })
}

/// Loses a booking whose lookups are answered so; everything on record of it once it has this state.
async fn looked_up(stage: &Stage, replies: Vec<Reply>, state: &str) -> Value {
    stage.server.script().on(call(READ)).replies(replies);
    let answer = stage.lost_write(booking()).await;
    assert_eq!(answer.operation()["executed"], "unknown", "{answer:?}");
    wait_for(&stage.daemon, &id_of(&answer), state).await
}

/// The agent that calls again is told of the first one, and nothing is sent.
async fn assert_kept_back(stage: &Stage, agent: &Agent, first: &Value) {
    let repeat = agent.call(WRITE, booking()).await.unwrap();
    assert_eq!(
        repeat.operation()["duplicate_of"],
        first["id"],
        "{repeat:?}"
    );
    assert_eq!(repeat.operation()["executed"], "no", "{repeat:?}");
    assert_eq!(stage.calls(WRITE), 1);
}

#[tokio::test]
async fn step_5_a_record_of_this_target_and_these_arguments_proves_the_effect() {
    for era in BOTH {
        let stage = Stage::new(era, with_lookup("")).await;
        let others = json!([{ "reference": "r-18", "room": "4" }, found("4")]);
        let confirmed = looked_up(&stage, vec![bookings(others)], "confirmed").await;
        assert_eq!(confirmed["executed"], "yes", "{confirmed}");
        assert_eq!(stage.calls(READ), 1);
        let asked = stage.server.log().calls(READ)[0].arguments().clone();
        assert_eq!(asked, json!({ "reference": "r-17" }));
        // The agent that asks again is told, once, and nothing is sent.
        let told = stage.agent.call(WRITE, booking()).await.unwrap();
        assert_eq!(told.operation()["state"], "confirmed", "{told:?}");
        assert_eq!(told.operation()["id"], confirmed["id"], "{told:?}");
        assert_eq!(stage.calls(WRITE), 1);
    }
}

/// What is missing, inaccessible, ambiguous or another one proves nothing, however often it is seen.
#[tokio::test]
async fn step_5_a_missing_inaccessible_ambiguous_or_other_record_proves_nothing() {
    let not_mcp = Reply::new().header("content-type", "text/html").body("<p>");
    for (what, reply) in [
        ("missing", bookings(json!([]))),
        ("ambiguous", bookings(json!([found("4"), found("4")]))),
        ("another room", bookings(json!([found("5")]))),
        (
            "a text for a number",
            bookings(json!([{"reference": "r-17", "room": 4}])),
        ),
        (
            "an error of the tool",
            json_rpc_result(json!({"isError": true, "content": []})),
        ),
        (
            "an error of the server",
            json_rpc_error(200, -32000, "not now"),
        ),
        ("forbidden", status(403)),
        ("no answer of MCP", not_mcp),
    ] {
        let stage = Stage::new(Era::Modern, with_lookup("")).await;
        let held = looked_up(&stage, vec![reply; 6], "held").await;
        assert_eq!(held["executed"], "unknown", "{what}: {held}");
        assert_kept_back(&stage, &stage.agent, &held).await;
        let evidence = held["evidence"].as_array().unwrap();
        let lookups = evidence.iter().filter(|it| it["kind"] == "looked_up");
        assert_eq!(lookups.count(), 3, "{what}: each try is on record: {held}");
    }
}

#[tokio::test]
async fn step_5_a_record_that_comes_late_is_found_by_a_later_lookup() {
    for era in BOTH {
        let stage = Stage::new(era, with_lookup("")).await;
        let replies = vec![bookings(json!([])), bookings(json!([found("4")]))];
        let confirmed = looked_up(&stage, replies, "confirmed").await;
        assert_eq!(stage.calls(READ), 2, "{confirmed}");
        assert_eq!(stage.calls(WRITE), 1);
    }
}

/// While nothing is proven an automatic repeat is held, also one that comes in the middle of it.
#[tokio::test]
async fn step_5_a_repeat_is_held_as_long_as_the_outcome_is_open() {
    let stage = Stage::new(Era::Modern, with_lookup("")).await;
    let slow = Reply::new().wait_for("looked up");
    let slow = slow.then(bookings(json!([found("4")])));
    stage.server.script().on(call(READ)).reply(slow);
    let answer = stage.lost_write(booking()).await;
    let id = id_of(&answer);
    let open = wait_for(&stage.daemon, &id, "reconciling").await;
    assert_kept_back(&stage, &stage.agent, &open).await;
    stage.server.open("looked up");
    wait_for(&stage.daemon, &id, "confirmed").await;
}

/// Nothing to ask by: a person is asked.
#[tokio::test]
async fn step_5_without_any_contract_it_is_held_for_a_person() {
    for era in BOTH {
        let stage = Stage::new(era, |daemon| daemon).await;
        let answer = stage.lost_write(booking()).await;
        let held = stage.operation(&answer).await;
        assert_eq!(held["state"], "held", "{held}");
        assert_eq!(held["next"], Value::Null, "{held}");
        assert_kept_back(&stage, &stage.agent, &held).await;
    }
}

/// A person who asks for it gets a lookup at once, whatever the schedule says.
#[tokio::test]
async fn step_5_a_person_may_ask_the_provider_again() {
    let stage = Stage::new(Era::Modern, with_lookup("")).await;
    let nothing = vec![bookings(json!([])); 3];
    let held = looked_up(&stage, nothing, "held").await;
    let found = bookings(json!([found("4")]));
    stage.server.script().on(call(READ)).reply(found);
    let path = format!(
        "/api/v1/operations/{}/reconcile",
        held["id"].as_str().unwrap()
    );
    let (status, confirmed) = stage.daemon.post(&path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{confirmed}");
    assert_eq!(confirmed["state"], "confirmed", "{confirmed}");
    assert_eq!(stage.calls(WRITE), 1);
}
