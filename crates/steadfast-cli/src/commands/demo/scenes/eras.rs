//! Agents and servers of different eras.

use serde_json::json;

use crate::commands::demo::scene::{Broken, Proof, Scene, times};
use crate::commands::demo::stage::{BOOKED, BOUGHT, Stage};

pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "An old agent on a new server",
        fault: "An agent that speaks 2025-11-25 uses the train server, which knows only 2026-07-28.",
        naive: "says initialize to a server that has no such method, and gives up.",
        steadfast: "keeps a session with the agent, and sends requests that stand alone to the server.",
        play: |stage| Box::pin(legacy_on_modern(stage)),
    },
    Scene {
        title: "A new agent on an old server",
        fault: "An agent that speaks 2026-07-28 uses the booking server, which knows only 2025-11-25.",
        naive: "sends requests without a session, and is refused each time.",
        steadfast: "keeps the session with the server for it.",
        play: |stage| Box::pin(modern_on_legacy(stage)),
    },
];

async fn legacy_on_modern(stage: &Stage) -> Result<Proof, Broken> {
    let (trains, agent) = (&stage.trains, &stage.trains.legacy);
    let arguments = json!({ "to": "the sea", "at": "13:04" });
    let answer = agent.call("buy_ticket", arguments.clone()).await?;

    let mut proof = Proof::default();
    proof.answered(&answer, BOUGHT);
    let has_session = agent.session().is_some() && agent.revision() == "2025-11-25";
    proof.claim(
        has_session,
        format!("the agent has a session, in revision {}", agent.revision()),
    );
    let calls = trains.server.log().calls("buy_ticket");
    let revision = calls
        .last()
        .and_then(|call| call.header("mcp-protocol-version"))
        .unwrap_or("none")
        .to_owned();
    let openings = trains.openings();
    proof.claim(
        openings == 0 && revision == "2026-07-28",
        format!(
            "the server got a request of {revision}, and was {} asked to initialize",
            times(openings)
        ),
    );
    trains.claim_one_run(&mut proof, "buy_ticket", &arguments)?;
    Ok(proof)
}

async fn modern_on_legacy(stage: &Stage) -> Result<Proof, Broken> {
    let (booking, agent) = (&stage.booking, &stage.booking.modern);
    let arguments = json!({ "room": 12, "guest": "of the new era" });
    let answer = agent.call("create_booking", arguments.clone()).await?;

    let mut proof = Proof::default();
    proof.answered(&answer, BOOKED);
    let is_modern = agent.session().is_none() && answer.result()["resultType"] == "complete";
    proof.claim(
        is_modern,
        "the agent has no session, and its result is in the form of 2026-07-28",
    );
    let calls = booking.server.log().calls("create_booking");
    let call = calls
        .last()
        .ok_or_else(|| Broken("the server saw no call".to_owned()))?;
    let revision = call.header("mcp-protocol-version").unwrap_or("none");
    let session = call.session().unwrap_or("none");
    proof.claim(
        revision == "2025-11-25" && session != "none",
        format!("the server got a request of {revision}, in session {session}"),
    );
    booking.claim_one_run(&mut proof, "create_booking", &arguments)?;
    Ok(proof)
}
