//! Answers that are lost: what may have changed something is never sent twice, what only reads is.

use serde_json::{Value, json};
use testkit::reply::content;
use testkit::script::call;
use testkit::{Agent, Reply};

use crate::commands::demo::scene::{Broken, Proof, Scene, seconds, times};
use crate::commands::demo::stage::{DEPARTURES, Provider, Stage};

pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "An answer is lost on a server of 2026-07-28",
        fault: "The train server sells the ticket. Then the connection is reset, before a byte of the answer.",
        naive: "issues the request again, as this revision tells clients to: two tickets.",
        steadfast: "departs from the revision on purpose: the same rule holds in both eras.",
        play: |stage| Box::pin(lost_ticket(stage)),
    },
    Scene {
        title: "A proxy in front of the server answers 504",
        fault: "The booking server makes the booking, slowly. The proxy loses patience: 504 Gateway Time-out.",
        naive: "takes an error status for \"it did not happen\", and lets the model try again.",
        steadfast: "knows that a status of a proxy proves nothing about what ran behind it.",
        play: |stage| Box::pin(gateway_timeout(stage)),
    },
    Scene {
        title: "The answer to a read is lost",
        fault: "The same reset, but on `departures`, which the configuration declares as `effect = \"read\"`.",
        naive: "treats all tools alike: it repeats all of them, or none.",
        steadfast: "asks again under a new request id, and marks the answer as a new observation.",
        play: |stage| Box::pin(lost_read(stage)),
    },
];

/// The tool runs, and the connection is reset.
fn ran_and_reset() -> Reply {
    Reply::new().row().rst()
}

async fn lost_ticket(stage: &Stage) -> Result<Proof, Broken> {
    let arguments = json!({ "to": "the sea", "at": "10:04" });
    lost(
        &stage.trains,
        &stage.trains.modern,
        ("buy_ticket", arguments),
        ran_and_reset(),
    )
    .await
}

async fn gateway_timeout(stage: &Stage) -> Result<Proof, Broken> {
    let page = "<html><h1>504 Gateway Time-out</h1></html>";
    let arguments = json!({ "room": 12, "guest": "behind a proxy" });
    let reply = Reply::new().row().then(content(504, "text/html", page));
    lost(
        &stage.booking,
        &stage.booking.legacy,
        ("create_booking", arguments),
        reply,
    )
    .await
}

/// Calls a tool whose answer is lost in this way.
async fn lost(
    provider: &Provider,
    agent: &Agent,
    (tool, arguments): (&str, Value),
    reply: Reply,
) -> Result<Proof, Broken> {
    provider
        .server
        .script()
        .on(call(tool).times(1))
        .reply(reply);
    let answer = agent.call(tool, arguments.clone()).await?;
    let mut proof = Proof::default();
    proof.unknown(&answer);
    provider
        .claim_not_repeated(&mut proof, agent, (tool, &arguments))
        .await?;
    Ok(proof)
}

async fn lost_read(stage: &Stage) -> Result<Proof, Broken> {
    let (trains, tool) = (&stage.trains, "departures");
    let arguments = json!({ "from": "here" });
    trains
        .server
        .script()
        .on(call(tool).times(1))
        .reply(ran_and_reset());
    let answer = trains.modern.call(tool, arguments.clone()).await?;

    let mut proof = Proof::default();
    proof.answered(&answer, DEPARTURES);
    let asked = trains.server.log().calls(tool);
    let asked: Vec<_> = asked
        .iter()
        .filter(|call| *call.arguments() == arguments)
        .collect();
    let [lost, again] = asked[..] else {
        return Err(Broken(format!("it was sent {}", times(asked.len()))));
    };
    proof.claim(
        lost.rpc_id() != again.rpc_id(),
        format!(
            "it was sent twice, {} apart, under two request ids",
            seconds(again.at - lost.at)
        ),
    );
    let mark = &answer.result()["_meta"]["dev.steadfast/observation"];
    proof.claim(
        *mark == json!({ "reissued": 1 }),
        format!("its result is marked: dev.steadfast/observation = {mark}"),
    );
    Ok(proof)
}
