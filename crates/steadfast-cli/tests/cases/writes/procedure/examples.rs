//! The two worked examples: a lost inventory read and a lost booking, on a server of 2026-07-28.

use serde_json::{Value, json};
use testkit::reply::json_rpc_result;
use testkit::script::call;
use testkit::{Action, Answer, Behaviour, Reply, Server, Tool};

use super::super::ledger::{details, id_of, kinds, operations, wait_for};
use super::super::{assert_nothing_follows, ran};
use super::bookings;
use crate::rig::{Era, Rig};

const INVENTORY: &str = "inventory";
const FIND: &str = "find_booking";
const BOOK: &str = "create_booking";

/// An inventory that is read, and bookings that can be made and found.
async fn rig(settings: impl FnOnce(testkit::daemon::Builder) -> testkit::daemon::Builder) -> Rig {
    let tools = [INVENTORY, FIND, BOOK].map(|name| Tool::new(name, Action::AddRow));
    let server = Server::start(Behaviour::modern().with_tools(tools.to_vec())).await;
    Rig::with(Era::Modern, server, |daemon| {
        settings(daemon.read_tool("fake", INVENTORY).read_tool("fake", FIND))
    })
    .await
}

async fn call_as(rig: &Rig, id: &str, tool: &str, arguments: Value) -> Answer {
    let params = json!({ "name": tool, "arguments": arguments });
    let pending = rig.agent.start_with_id(json!(id), "tools/call", params);
    pending.await.unwrap().finish().await.unwrap()
}

fn lose(rig: &Rig, tool: &str) {
    let lost = ran(200)
        .header("content-type", "text/event-stream")
        .head()
        .rst();
    rig.server.script().on(call(tool).times(1)).reply(lost);
}

fn stock(rooms: u32) -> Reply {
    let content = json!([{ "type": "text", "text": format!("{rooms} rooms") }]);
    json_rpc_result(json!({ "resultType": "complete", "content": content }))
}

/// The stock changed meanwhile: what the agent gets is how it is now, and says so.
#[tokio::test]
async fn worked_example_an_inventory_read_is_asked_again_and_its_answer_is_a_new_observation() {
    let rig = rig(|daemon| daemon).await;
    lose(&rig, INVENTORY);
    rig.server.script().on(call(INVENTORY)).reply(stock(3));
    let answer = call_as(&rig, "read-101", INVENTORY, json!({ "hotel": "h" })).await;
    assert_eq!(answer.message["id"], "read-101", "{answer:?}");
    assert_eq!(answer.text(), "3 rooms", "{answer:?}");
    let mark = &answer.result()["_meta"]["dev.steadfast/observation"];
    assert_eq!(*mark, json!({ "reissued": 1 }), "{answer:?}");
    let asked = rig.server.log().calls(INVENTORY);
    assert_eq!(asked.len(), 2, "{}", rig.server.log());
    assert_ne!(asked[0].rpc_id(), asked[1].rpc_id());
    assert_eq!(operations(&rig.daemon).await, Vec::<Value>::new());
}

fn intended() -> Value {
    json!({ "reference": "booking-intent-17", "room": "12", "date": "2026-12-24" })
}

fn with_lookup(daemon: testkit::daemon::Builder) -> testkit::daemon::Builder {
    let lookup = format!(
        "{{ tool = \"{FIND}\", arguments = {{ reference = \"$.arguments.reference\" }}, \
         accepted = \"$.structuredContent.bookings[?@.reference == $reference]\", \
         must_equal = {{ \"$.room\" = \"$.arguments.room\", \"$.date\" = \"$.arguments.date\" }} }}"
    );
    daemon
        .set(&format!("servers.fake.tools.{BOOK}.lookup"), &lookup)
        .set("repeat.lookup_first", "\"20ms\"")
        .set("repeat.lookup_tries", "2")
}

/// `write-201` is lost, the provider shows its booking, and `write-202` is told so instead of being sent.
#[tokio::test]
async fn worked_example_a_lost_booking_is_found_by_its_application_identity() {
    let rig = rig(with_lookup).await;
    lose(&rig, BOOK);
    let found = bookings(json!([intended()]));
    rig.server.script().on(call(FIND)).reply(found);
    let first = call_as(&rig, "write-201", BOOK, intended()).await;
    assert_eq!(first.message["id"], "write-201", "{first:?}");
    assert_eq!(first.operation()["state"], "not_observed", "{first:?}");
    assert_eq!(first.operation()["executed"], "unknown", "{first:?}");
    let id = id_of(&first);
    let known = wait_for(&rig.daemon, &id, "confirmed").await;
    assert_eq!(
        kinds(&known),
        ["leaving", "lost", "looking_up", "looked_up"],
        "{known}"
    );
    let asked = rig.server.log().calls(FIND)[0].arguments().clone();
    assert_eq!(asked, json!({ "reference": "booking-intent-17" }));
    let second = call_as(&rig, "write-202", BOOK, intended()).await;
    assert_eq!(second.operation()["id"], *id, "{second:?}");
    assert_eq!(second.operation()["state"], "confirmed", "{second:?}");
    assert_eq!(rig.calls(BOOK), 1);
    assert_eq!(rig.rows(BOOK), 1);
}

/// Another room under the same reference is not this booking: it stays open, and a person is asked.
#[tokio::test]
async fn worked_example_a_booking_that_does_not_match_leaves_it_held() {
    let rig = rig(with_lookup).await;
    lose(&rig, BOOK);
    let mut other = intended();
    other["room"] = json!("13");
    let found = bookings(json!([other]));
    rig.server.script().on(call(FIND)).reply(found);
    let first = call_as(&rig, "write-201", BOOK, intended()).await;
    let id = id_of(&first);
    wait_for(&rig.daemon, &id, "held").await;
    let second = call_as(&rig, "write-202", BOOK, intended()).await;
    assert_eq!(second.operation()["duplicate_of"], *id, "{second:?}");
    assert_nothing_follows(&rig.server).await;
    assert_eq!(rig.calls(BOOK), 1);
}

/// Where the provider documents atomic handling of `booking-intent-17` the key stays, and only the RPC id changes.
#[tokio::test]
async fn worked_example_a_documented_key_lets_the_same_booking_be_sent_once_more() {
    let contract = "{ argument = \"$.reference\", retention = \"24h\", scope = \"account\", \
                    atomic = true, payload_bound = true, propagated = true }";
    let rig = rig(|daemon| {
        daemon
            .set(
                &format!("servers.fake.tools.{BOOK}.duplicate_key"),
                contract,
            )
            .set("repeat.again_first", "\"20ms\"")
    })
    .await;
    lose(&rig, BOOK);
    let answer = call_as(&rig, "write-201", BOOK, intended()).await;
    assert_eq!(answer.message["id"], "write-201", "{answer:?}");
    assert_eq!(answer.text(), "done", "{answer:?}");
    let sent = rig.server.log().calls(BOOK);
    let [first, second] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(first.arguments(), second.arguments());
    assert_eq!(second.arguments()["reference"], "booking-intent-17");
    assert_ne!(first.rpc_id(), second.rpc_id());
    // On record is who decided, and by what.
    let id = operations(&rig.daemon).await[0]["id"].clone();
    let record = details(&rig.daemon, id.as_str().unwrap()).await;
    assert_eq!(record["attempts"], 2, "{record}");
    assert_eq!(record["policy"]["duplicate_key"]["atomic"], true);
}
