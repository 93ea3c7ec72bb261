//! What is on record of a consequential call, and what that does to the next one: WR-01, WR-06, WR-07, WR-08, GW-02.

use serde_json::{Value, json};
use testkit::reply::{event_stream, json_rpc_result, tool_text};
use testkit::script::call;
use testkit::{Agent, Answer, Behaviour, Daemon, Reply};

use super::{READ, WRITE, assert_nothing_follows, calls, key, ran, rows, server};
use crate::common::{LIMIT, agents_of_both_eras, daemon};
use crate::rig::{BOTH, Era, agent_of};

/// The tool runs, and its answer is lost.
fn lost() -> Reply {
    ran(200)
        .header("content-type", "application/json")
        .head()
        .rst()
}

/// Everything on record of an operation.
pub(super) async fn details(daemon: &Daemon, id: &str) -> Value {
    let path = format!("/api/v1/operations/{id}");
    let (status, details) = daemon.get(&path).await.unwrap();
    assert_eq!(status, 200, "{details}");
    details
}

/// The id that an answer names.
pub(super) fn id_of(answer: &Answer) -> String {
    let id = answer.operation()["id"].as_str();
    id.unwrap_or_else(|| panic!("no operation: {answer:?}"))
        .to_owned()
}

/// What happened to it, in order.
pub(super) fn kinds(details: &Value) -> Vec<&str> {
    let evidence = details["evidence"].as_array().unwrap();
    evidence
        .iter()
        .filter_map(|it| it["kind"].as_str())
        .collect()
}

/// Waits until an operation has this state.
pub(crate) async fn wait_for(daemon: &Daemon, id: &str, state: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let found = details(daemon, id).await;
        if found["state"] == state {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "{id} is not {state}: {found}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// All operations, the newest first.
pub(crate) async fn operations(daemon: &Daemon) -> Vec<Value> {
    let (_, listed) = daemon.get("/api/v1/operations").await.unwrap();
    listed["operations"].as_array().unwrap().clone()
}

async fn intended(agent: &Agent, arguments: Value) -> Answer {
    let meta = json!({ "dev.steadfast/repeat": "intended" });
    let answer = agent.call_with_meta(WRITE, arguments, meta).await;
    answer.unwrap()
}

async fn keyed(agent: &Agent, operation_key: &str, arguments: Value) -> Answer {
    let meta = json!({ "dev.steadfast/operationKey": operation_key });
    let answer = agent.call_with_meta(WRITE, arguments, meta).await;
    answer.unwrap()
}

#[tokio::test]
async fn wr_01_a_lost_write_is_on_record_and_its_repeat_is_held() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = server(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            server.script().on(call(WRITE).times(1)).reply(lost());
            let answer = agent.call(WRITE, key(era)).await.unwrap();
            let id = id_of(&answer);
            let first = details(&daemon, &id).await;
            assert_eq!(first["state"], "held", "{first}");
            assert_eq!(first["executed"], "unknown", "{first}");
            assert_eq!(first["tool"], WRITE, "{first}");
            assert_eq!(kinds(&first), ["leaving", "lost"], "{first}");
            let sent = server.log().calls(WRITE).last().unwrap().rpc_id().cloned();
            assert_eq!(Some(&first["rpc_id"]), sent.as_ref(), "{first}");

            let repeat = agent.call(WRITE, key(era)).await.unwrap();
            assert!(repeat.is_error(), "{repeat:?}");
            assert_eq!(repeat.operation()["duplicate_of"], *id, "{repeat:?}");
            assert_eq!(repeat.operation()["executed"], "no", "{repeat:?}");
            assert_eq!(rows(&server, WRITE, era), 1);
            assert_eq!(calls(&server, WRITE, era), 1);

            // Another room, or a call that is meant, is a further call.
            let other = agent.call(WRITE, json!({"key": era, "n": 2})).await;
            assert_eq!(other.unwrap().text(), "done");
            let meant = intended(agent, key(era)).await;
            assert_eq!(meant.text(), "done", "{meant:?}");
            assert_eq!(rows(&server, WRITE, era), 3);
        }
        assert_nothing_follows(&server).await;
    }
}

/// Members in another order, with other white space, are the same call; other numbers are not.
#[tokio::test]
async fn wr_06_an_identical_call_is_recognised_however_it_is_written() {
    let server = server(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    let [(_, agent), _] = &agents_of_both_eras(&daemon).await;
    server.script().on(call(WRITE).times(1)).reply(lost());
    let first = json!({"key": "k", "room": {"a": 1, "b": [1, 2]}});
    agent.call(WRITE, first).await.unwrap();
    let body = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{{"name":"{WRITE}","arguments":{arguments}}}}}"#
        )
    };
    let headers = agent.headers(None);
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    for (arguments, calls) in [
        (r#"{ "room" : {"b":[1,2],"a":1}, "\u006bey":"k" }"#, 1),
        (r#"{"key":"k","room":{"a":1.0,"b":[1,2]}}"#, 2),
    ] {
        let body = body(arguments);
        agent.raw_post(&headers, body.as_bytes()).await.unwrap();
        assert_eq!(server.log().calls(WRITE).len(), calls, "{arguments}");
    }
}

/// The agent hangs up while the tool runs, and asks again.
#[tokio::test]
async fn wr_06_an_agent_that_gives_up_and_asks_again_gets_the_result_once() {
    for era in BOTH {
        let server = server(era.behaviour()).await;
        let daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        let slow = Reply::new().wait_for("finish").run();
        server.script().on(call(WRITE).times(1)).reply(slow);
        let params = json!({"name": WRITE, "arguments": key("slow")});
        let pending = agent.start("tools/call", params).await.unwrap();
        crate::rig::seen(&server, |log| log.calls(WRITE).len() == 1).await;
        drop(pending);
        let id = operations(&daemon).await[0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        loop {
            let noticed = details(&daemon, &id).await;
            if kinds(&noticed).contains(&"agent_left") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }

        let repeat = agent.call(WRITE, key("slow")).await.unwrap();
        assert_eq!(repeat.operation()["duplicate_of"], *id, "{repeat:?}");
        assert_eq!(repeat.operation()["state"], "sent", "{repeat:?}");
        server.gates().open("finish");
        wait_for(&daemon, &id, "observed").await;

        let told = agent.call(WRITE, key("slow")).await.unwrap();
        assert!(!told.is_error(), "{era:?}: {told:?}");
        assert_eq!(server.log().calls(WRITE).len(), 1, "{era:?}");
        assert_eq!(details(&daemon, &id).await["undelivered"], false);
        // After that an identical call is a new call.
        let next = agent.call(WRITE, key("slow")).await.unwrap();
        assert_eq!(next.text(), "done", "{era:?}: {next:?}");
        assert_eq!(server.log().calls(WRITE).len(), 2, "{era:?}");
    }
}

#[tokio::test]
async fn wr_06_an_operation_key_is_one_operation() {
    let server = server(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        let operation_key = format!("intention-{era}");
        let first = keyed(agent, &operation_key, key(era)).await;
        assert_eq!(first.text(), "done", "{first:?}");
        for _ in 0..2 {
            let again = keyed(agent, &operation_key, key(era)).await;
            assert_eq!(again.result(), first.result(), "{again:?}");
        }
        assert_eq!(calls(&server, WRITE, era), 1);
        let other = keyed(agent, &operation_key, key("other")).await;
        assert_eq!(other.error_code(), Some(-32602), "{other:?}");
        assert_eq!(calls(&server, WRITE, "other"), 0);

        server.script().on(call(WRITE).times(1)).reply(lost());
        let lost_key = format!("lost-{era}");
        let unknown = keyed(agent, &lost_key, key("lost")).await;
        let held = keyed(agent, &lost_key, key("lost")).await;
        assert_eq!(
            held.operation()["duplicate_of"],
            *id_of(&unknown),
            "{held:?}"
        );
    }
}

const SAFE_KEY: &str = r#"{ argument = "$.idempotency_key", retention = "1h", scope = "account", atomic = true, payload_bound = true, propagated = true }"#;

/// The same key, the same arguments, another RPC id; the agent waits, and gets the answer.
#[tokio::test]
async fn wr_07_under_a_duplicate_prevention_contract_a_lost_write_is_sent_once_more() {
    for era in BOTH {
        let server = server(era.behaviour()).await;
        let daemon = daemon(&server)
            .set(
                &format!("servers.fake.tools.{WRITE}.duplicate_key"),
                SAFE_KEY,
            )
            .start()
            .await
            .unwrap();
        for (agents, agent) in &agents_of_both_eras(&daemon).await {
            server.script().on(call(WRITE).times(1)).reply(lost());
            let arguments = json!({"key": agents, "idempotency_key": format!("k-{agents}")});
            let answer = agent.call(WRITE, arguments.clone()).await.unwrap();
            assert_eq!(answer.text(), "done", "{era:?} {agents}: {answer:?}");
            assert_eq!(calls(&server, WRITE, agents), 2);
            let sent = server.log().calls(WRITE);
            let [.., first, second] = &sent[..] else {
                panic!("{sent:?}");
            };
            assert_eq!(first.arguments(), second.arguments());
            assert_ne!(first.rpc_id(), second.rpc_id());
            let newest = operations(&daemon).await[0].clone();
            let newest = wait_for(&daemon, newest["id"].as_str().unwrap(), "observed").await;
            assert_eq!(newest["attempts"], 2, "{newest}");
        }
        // Without a key in the call the contract covers nothing.
        let [(_, agent), _] = &agents_of_both_eras(&daemon).await;
        server.script().on(call(WRITE).times(1)).reply(lost());
        let answer = agent.call(WRITE, key("no-key")).await.unwrap();
        assert_eq!(details(&daemon, &id_of(&answer)).await["state"], "held");
        assert_eq!(calls(&server, WRITE, "no-key"), 1);
    }
}

/// A key is made only where the contract says that it may be; nothing else of the call changes.
#[tokio::test]
async fn wr_08_a_key_is_made_only_where_the_contract_allows_it() {
    let server = server(Behaviour::modern()).await;
    let contract = SAFE_KEY.replace(" }", ", inject = true }");
    let daemon = daemon(&server)
        .set(
            &format!("servers.fake.tools.{WRITE}.duplicate_key"),
            &contract,
        )
        .start()
        .await
        .unwrap();
    for (era, agent) in &agents_of_both_eras(&daemon).await {
        server.script().on(call(WRITE).times(1)).reply(lost());
        let answer = agent.call(WRITE, key(era)).await.unwrap();
        assert_eq!(answer.text(), "done", "{answer:?}");
        let sent = server.log().calls(WRITE);
        let [.., first, second] = &sent[..] else {
            panic!("{sent:?}");
        };
        let made = first.arguments()["idempotency_key"].clone();
        assert!(made.as_str().is_some_and(|made| made.len() >= 32), "{made}");
        assert_eq!(first.arguments(), second.arguments());
        let own = json!({"key": "own", "idempotency_key": "theirs"});
        agent.call(WRITE, own.clone()).await.unwrap();
        let last = server
            .log()
            .calls(WRITE)
            .last()
            .unwrap()
            .arguments()
            .clone();
        assert_eq!(last, own);
    }
}

/// A booking that the provider can be asked for.
fn with_lookup(daemon: testkit::daemon::Builder) -> testkit::daemon::Builder {
    let lookup = format!(
        "{{ tool = \"{READ}\", arguments = {{ reference = \"$.arguments.key\" }}, \
         accepted = \"$.structuredContent.bookings[?@.reference == $reference]\", \
         must_equal = {{ \"$.room\" = \"$.arguments.room\" }} }}"
    );
    daemon
        .read_tool("fake", READ)
        .set(&format!("servers.fake.tools.{WRITE}.lookup"), &lookup)
        .set("repeat.lookup_first", "\"20ms\"")
        .set("repeat.lookup_tries", "3")
}

fn bookings(bookings: Value) -> Reply {
    let mut result = tool_text("found");
    result["structuredContent"] = json!({ "bookings": bookings });
    json_rpc_result(result)
}

#[tokio::test]
async fn a_lost_booking_is_looked_up_and_the_next_identical_call_is_told() {
    for era in BOTH {
        let server = server(era.behaviour()).await;
        let daemon = with_lookup(daemon(&server)).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        server.script().on(call(WRITE).times(1)).reply(lost());
        let found = json!([{"reference": "r-17", "room": "4"}, {"reference": "r-18", "room": "4"}]);
        server.script().on(call(READ)).reply(bookings(found));
        let arguments = json!({"key": "r-17", "room": "4"});
        let answer = agent.call(WRITE, arguments.clone()).await.unwrap();
        assert_eq!(
            answer.operation()["next"],
            "looking it up at the provider",
            "{answer:?}"
        );
        let id = id_of(&answer);
        let confirmed = wait_for(&daemon, &id, "confirmed").await;
        assert_eq!(
            kinds(&confirmed),
            ["leaving", "lost", "looking_up", "looked_up"]
        );
        let asked = server.log().calls(READ)[0].arguments().clone();
        assert_eq!(asked, json!({"reference": "r-17"}));

        let told = agent.call(WRITE, arguments.clone()).await.unwrap();
        assert_eq!(told.operation()["id"], *id, "{told:?}");
        assert_eq!(told.operation()["state"], "confirmed", "{told:?}");
        assert_eq!(server.log().calls(WRITE).len(), 1);
        // Told once: a further one is a new booking.
        agent.call(WRITE, arguments).await.unwrap();
        assert_eq!(server.log().calls(WRITE).len(), 2);
    }
}

#[tokio::test]
async fn another_booking_or_none_is_no_proof() {
    for found in [json!([]), json!([{"reference": "r-17", "room": "5"}])] {
        let server = server(Behaviour::modern()).await;
        let daemon = with_lookup(daemon(&server)).start().await.unwrap();
        let [_, (_, agent)] = &agents_of_both_eras(&daemon).await;
        server.script().on(call(WRITE).times(1)).reply(lost());
        server.script().on(call(READ)).reply(bookings(found));
        let arguments = json!({"key": "r-17", "room": "4"});
        let answer = agent.call(WRITE, arguments.clone()).await.unwrap();
        let id = id_of(&answer);
        let held = wait_for(&daemon, &id, "held").await;
        assert_eq!(server.log().calls(READ).len(), 3, "{held}");
        let repeat = agent.call(WRITE, arguments).await.unwrap();
        assert_eq!(repeat.operation()["duplicate_of"], *id);
        assert_eq!(server.log().calls(WRITE).len(), 1);
    }
}

/// After a restart nothing is sent by itself, and what was under way is held at once.
#[tokio::test]
async fn a_write_that_was_under_way_when_the_gateway_was_killed_is_held() {
    for era in BOTH {
        let server = server(era.behaviour()).await;
        let mut daemon = daemon(&server)
            .set(
                &format!("servers.fake.tools.{WRITE}.duplicate_key"),
                SAFE_KEY,
            )
            .start()
            .await
            .unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        let slow = Reply::new().row().wait_for("never").run();
        server.script().on(call(WRITE).times(1)).reply(slow);
        let arguments = json!({"key": "k", "idempotency_key": "k1"});
        let params = json!({"name": WRITE, "arguments": arguments});
        let pending = agent.start("tools/call", params).await.unwrap();
        crate::rig::seen(&server, |log| log.calls(WRITE).len() == 1).await;
        daemon.kill9().await.unwrap();
        drop(pending);
        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agent = agent_of(era, &daemon).await;
        // At once: the agent does what agents do.
        let repeat = agent.call(WRITE, arguments).await.unwrap();
        let id = repeat.operation()["duplicate_of"]
            .as_str()
            .unwrap()
            .to_owned();
        let held = details(&daemon, &id).await;
        assert_eq!(held["state"], "held", "{held}");
        assert_eq!(kinds(&held), ["leaving", "interrupted"], "{held}");
        assert_nothing_follows(&server).await;
        assert_eq!(server.log().calls(WRITE).len(), 1);
    }
}

#[tokio::test]
async fn a_person_settles_what_nobody_knows() {
    let server = server(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    let [_, (_, agent)] = &agents_of_both_eras(&daemon).await;
    server.script().on(call(WRITE).times(1)).reply(lost());
    let id = id_of(&agent.call(WRITE, key("a")).await.unwrap());
    let path = format!("/api/v1/operations/{id}/settle");
    let decision = json!({"outcome": "no_effect", "repeat": true, "note": "asked by telephone"});
    let (status, settled) = daemon.post(&path, &decision).await.unwrap();
    assert_eq!(status, 200, "{settled}");
    let observed = wait_for(&daemon, &id, "observed").await;
    assert_eq!(
        kinds(&observed),
        ["leaving", "lost", "settled", "leaving", "answered"]
    );
    assert_eq!(calls(&server, WRITE, "a"), 2);
    // The identical call is given the result of the one that a person sent.
    let told = agent.call(WRITE, key("a")).await.unwrap();
    assert_eq!(told.text(), "done", "{told:?}");
    assert_eq!(calls(&server, WRITE, "a"), 2);
}

/// GW-02: the outcome of a write that its agent abandoned is known all the same.
#[tokio::test]
async fn gw_02_the_outcome_of_an_abandoned_write_is_recorded() {
    let server = server(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = agent_of(Era::Modern, &daemon).await;
    let slow = event_stream().wait_for("finish").run();
    server.script().on(call(WRITE).times(1)).reply(slow);
    let params = json!({"name": WRITE, "arguments": key("gone")});
    let mut pending = agent.start("tools/call", params).await.unwrap();
    pending.stream().await.unwrap();
    drop(pending);
    let id = operations(&daemon).await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.gates().open("finish");
    let observed = wait_for(&daemon, &id, "observed").await;
    assert_eq!(observed["executed"], "yes", "{observed}");
    assert_eq!(rows(&server, WRITE, "gone"), 1);
}

/// Reads never come into the ledger.
#[tokio::test]
async fn a_read_is_not_put_on_record() {
    let server = server(Behaviour::modern()).await;
    let daemon = daemon(&server)
        .read_tool("fake", READ)
        .start()
        .await
        .unwrap();
    let [_, (_, agent)] = &agents_of_both_eras(&daemon).await;
    agent.call(READ, key("r")).await.unwrap();
    assert_eq!(operations(&daemon).await, Vec::<Value>::new());
}
