//! The lost booking, three times: at a provider that offers nothing, at one that can be asked, and at one that takes a
//! key.

use serde_json::{Value, json};
use testkit::reply::{json_rpc_result, tool_text};
use testkit::script::call;
use testkit::{Agent, Answer, Reply, Request};

use crate::commands::demo::scene::{Broken, Proof, Scene, seconds, times};
use crate::commands::demo::stage::{BOUGHT, Provider, Stage};

pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "The answer to a booking is lost, and nobody can be asked",
        fault: "The booking server makes the booking. Then the connection is reset, before a byte of the answer.",
        naive: "sends the request again, as some HTTP libraries do by themselves: two bookings.",
        steadfast: "sends nothing again, tells the model so, keeps its next try back, and has a person decide.",
        play: |stage| Box::pin(without_contract(stage)),
    },
    Scene {
        title: "The same, at a provider that can be asked",
        fault: "The booking server books the table, and the answer is lost. The configuration declares `find_table` as \
                the way to look a booking up.",
        naive: "lets the model try again: two tables.",
        steadfast: "asks for the reference of this very call. One record of the same table is proof enough.",
        play: |stage| Box::pin(with_lookup(stage)),
    },
    Scene {
        title: "The same, at a provider that takes a key",
        fault: "The train server sells the seat, and the answer is lost. The configuration says what the provider \
                documents of its keys.",
        naive: "makes a new key for each try: two seats.",
        steadfast: "sends it once more: the same key, the same arguments, another request id.",
        play: |stage| Box::pin(with_key(stage)),
    },
];

/// The tool runs, and the connection is reset.
fn ran_and_reset() -> Reply {
    Reply::new().row().rst()
}

/// The id of the operation that an answer names.
fn id_of(answer: &Answer) -> Result<String, Broken> {
    let operation = answer.operation();
    let id = operation["id"]
        .as_str()
        .or(operation["duplicate_of"].as_str());
    id.map(str::to_owned)
        .ok_or_else(|| Broken(format!("the answer names no operation: {operation}")))
}

/// Claims that the call was sent so often, and that its tool ran once.
fn claim_sent(
    proof: &mut Proof,
    provider: &Provider,
    (tool, arguments): (&str, &Value),
    often: usize,
) -> Result<(), Broken> {
    let asked = provider.asked(tool, arguments);
    proof.claim(
        asked == often,
        format!("the call was sent {}", times(asked)),
    );
    provider.claim_one_run(proof, tool, arguments)
}

/// Claims that the model's next try is answered from what is known of the first.
async fn claim_kept_back(
    proof: &mut Proof,
    agent: &Agent,
    (tool, arguments): (&str, &Value),
    id: &str,
    state: &str,
) -> Result<(), Broken> {
    let again = agent.call(tool, arguments.clone()).await?;
    let operation = again.operation();
    let names_it = operation["duplicate_of"] == id || operation["id"] == id;
    proof.claim(
        names_it && operation["state"] == state,
        format!(
            "the model called again, and was told of the first one: {}",
            operation["state"].as_str().unwrap_or("nothing")
        ),
    );
    Ok(())
}

async fn without_contract(stage: &Stage) -> Result<Proof, Broken> {
    let (booking, tool) = (&stage.booking, "create_booking");
    let arguments = json!({ "room": 12, "guest": "whose answer is lost" });
    let lost = call(tool).times(1);
    booking.server.script().on(lost).reply(ran_and_reset());
    let answer = booking.legacy.call(tool, arguments.clone()).await?;

    let mut proof = Proof::default();
    proof.unknown(&answer);
    let this = (tool, &arguments);
    let id = id_of(&answer)?;
    claim_kept_back(&mut proof, &booking.legacy, this, &id, "held").await?;
    let note = "it is in the hotel's calendar";
    stage.settle(&id, "confirmed", note).await?;
    let settled = stage.operation(&id, "confirmed").await?;
    proof.claim(
        settled["executed"] == "yes",
        format!("a person looked, and settled it: confirmed, \"{note}\""),
    );
    booking
        .claim_not_repeated(&mut proof, &booking.legacy, this)
        .await?;
    Ok(proof)
}

/// What the provider has on record of this reference.
fn shown(rows: &[testkit::Row], request: &Request) -> Reply {
    let booked = rows
        .iter()
        .filter_map(|row| serde_json::from_str(&row.key).ok());
    let wanted = &request.arguments()["reference"];
    let tables: Vec<Value> = booked
        .filter(|booked: &Value| booked["reference"] == *wanted)
        .collect();
    let mut result = tool_text("found");
    result["structuredContent"] = json!({ "tables": tables });
    json_rpc_result(result)
}

async fn with_lookup(stage: &Stage) -> Result<Proof, Broken> {
    let (booking, tool) = (&stage.booking, "book_table");
    let arguments = json!({ "reference": "booking-intent-17", "table": 3 });
    let (script, ledger) = (booking.server.script(), booking.server.ledger().clone());
    script.on(call(tool).times(1)).reply(ran_and_reset());
    script.on(call("find_table")).reply_with(move |request| {
        let rows = ledger.rows_of("book_table").unwrap_or_default();
        shown(&rows, request)
    });
    let began = std::time::Instant::now();
    let answer = booking.legacy.call(tool, arguments.clone()).await?;

    let mut proof = Proof::default();
    proof.unknown(&answer);
    let id = id_of(&answer)?;
    let known = stage.operation(&id, "confirmed").await?;
    proof.claim(
        known["executed"] == "yes",
        format!(
            "`find_table` showed one table under booking-intent-17, after {}: confirmed",
            seconds(began.elapsed())
        ),
    );
    let this = (tool, &arguments);
    claim_kept_back(&mut proof, &booking.legacy, this, &id, "confirmed").await?;
    claim_sent(&mut proof, booking, this, 1)?;
    Ok(proof)
}

async fn with_key(stage: &Stage) -> Result<Proof, Broken> {
    let (trains, tool) = (&stage.trains, "buy_seat");
    let arguments = json!({ "to": "the sea", "idempotency_key": "purchase-17" });
    let ledger = trains.server.ledger().clone();
    // A key that the provider has seen is answered from its record.
    trains
        .server
        .script()
        .on(call(tool))
        .reply_with(move |request| {
            let key = request.arguments().to_string();
            let rows = ledger.rows_of("buy_seat").unwrap_or_default();
            if rows.iter().any(|row| row.key == key) {
                json_rpc_result(tool_text(BOUGHT))
            } else {
                ran_and_reset()
            }
        });
    let answer = trains.modern.call(tool, arguments.clone()).await?;

    let mut proof = Proof::default();
    proof.answered(&answer, BOUGHT);
    let sent = trains.server.log().calls(tool);
    let [first, second] = &sent[..] else {
        return Err(Broken(format!("it was sent {}", times(sent.len()))));
    };
    proof.claim(
        first.arguments() == second.arguments() && first.rpc_id() != second.rpc_id(),
        format!(
            "the key {} was sent again after {}, under another request id",
            second.arguments()["idempotency_key"],
            seconds(second.at - first.at)
        ),
    );
    claim_sent(&mut proof, trains, (tool, &arguments), 2)?;
    Ok(proof)
}
