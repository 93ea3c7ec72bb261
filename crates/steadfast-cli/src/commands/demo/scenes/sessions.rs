//! The server is there, and has forgotten its session.

use serde_json::json;
use testkit::reply::json_rpc_error;
use testkit::script::any;

use crate::commands::demo::scene::{Broken, Proof, Scene, times};
use crate::commands::demo::stage::{BOOKED, Stage};

const TOOL: &str = "create_booking";

pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "The server is restarted",
        fault: "A new version of the booking server goes live: every connection is reset, every session is forgotten. \
                The agent calls in the same moment.",
        naive: "reports an error for this call and every later one, until somebody restarts the agent.",
        steadfast: "connects again by itself, opens a session, and sends the call in it. The agent notices a pause.",
        play: |stage| Box::pin(restart(stage)),
    },
    Scene {
        title: "The session expires, answered with 404",
        fault: "The booking server forgets the session and answers 404 \"Session not found\".",
        naive: "hands the 404 to the agent, and goes on with the dead session id.",
        steadfast: "sees from the rule table that the session is gone and that the call was refused before it ran: it \
                    opens a new session and sends the call once more.",
        play: |stage| Box::pin(expiry_404(stage)),
    },
    Scene {
        title: "The session expires, answered with 400 and a text",
        fault: "The same, but this server says it with 400 \"Bad Request: No valid session ID provided\".",
        naive: "knows only 404, takes 400 for a mistake in the call, and never recovers.",
        steadfast: "looks at status, text and session id together, and does the same as for 404.",
        play: |stage| Box::pin(expiry_400(stage)),
    },
];

async fn restart(stage: &Stage) -> Result<Proof, Broken> {
    stage.booking.server.restart().await;
    recovered(stage, "during the restart").await
}

async fn expiry_404(stage: &Stage) -> Result<Proof, Broken> {
    stage.booking.server.forget_sessions();
    recovered(stage, "after a 404").await
}

async fn expiry_400(stage: &Stage) -> Result<Proof, Broken> {
    let server = &stage.booking.server;
    server.forget_sessions();
    let refused = json_rpc_error(400, -32000, "Bad Request: No valid session ID provided");
    let posts = server.log().http("POST");
    let live = posts.iter().rev().find_map(|request| request.session());
    let lost = live.ok_or_else(|| Broken("no session was in use".to_owned()))?;
    server.script().on(any().session(lost)).reply(refused);
    recovered(stage, "after a 400").await
}

/// The agent books a room; what the server saw of it.
async fn recovered(stage: &Stage, guest: &str) -> Result<Proof, Broken> {
    let (booking, agent) = (&stage.booking, &stage.booking.legacy);
    let arguments = json!({ "room": 12, "guest": guest });
    let (openings, session) = (booking.openings(), agent.session());
    let answer = agent.call(TOOL, arguments.clone()).await?;
    let connection = stage.connected(booking).await?;

    let mut proof = Proof::default();
    proof.answered(&answer, BOOKED);
    let more = booking.openings() - openings;
    proof.claim(
        more == 1,
        format!(
            "the server was initialized {}: the session there is a new one",
            times(more)
        ),
    );
    booking.claim_one_run(&mut proof, TOOL, &arguments)?;
    let is_kept = session.is_some() && session == agent.session() && answer.status == 200;
    proof.claim(
        is_kept,
        "the agent's own session with the gateway is the one it had before",
    );
    proof.claim(
        connection.state == "connected" && connection.fault.is_none(),
        format!(
            "`steadfast status` says {}, and nobody had to do anything",
            connection.state
        ),
    );
    Ok(proof)
}
