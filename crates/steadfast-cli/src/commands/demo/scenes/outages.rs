//! The server cannot be used for a while.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::Answer;
use testkit::reply::content;
use testkit::script::any;

use crate::commands::demo::scene::{Broken, Proof, Scene, counted, seconds};
use crate::commands::demo::stage::{BOOKED, BOUGHT, Stage};

/// Nobody waits for a server that is known to be down.
const AT_ONCE: Duration = Duration::from_secs(1);
/// A step of the schedule and a handshake, on a busy machine.
const SOON: Duration = Duration::from_secs(5);

pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "A sign-in page answers instead of the server",
        fault: "A captive portal in front of the train server answers everything with 200 and an HTML page.",
        naive: "passes the page on as a result, or fails on it for ever.",
        steadfast: "recognises that this is no MCP answer, says so, and tries on a schedule until the server is back.",
        play: |stage| Box::pin(sign_in_page(stage)),
    },
    Scene {
        title: "The server is down",
        fault: "The booking server stops, and its port refuses. Later it is started again.",
        naive: "loses the server's tools in mid-conversation, or lets every call hang until it times out.",
        steadfast: "keeps the tools listed, answers calls at once with the reason and the next try, and connects again.",
        play: |stage| Box::pin(down(stage)),
    },
];

async fn sign_in_page(stage: &Stage) -> Result<Proof, Broken> {
    let (trains, agent) = (&stage.trains, &stage.trains.modern);
    let page = "<html><title>Sign in to continue</title><form></form></html>";
    let portal = trains
        .server
        .script()
        .on(any())
        .reply(content(200, "text/html", page));
    let arguments = json!({ "to": "the sea", "at": "11:04" });
    let answer = agent.call("buy_ticket", arguments.clone()).await?;
    let down = stage
        .until(trains, |report| report.state == "retrying")
        .await?;
    portal.remove();
    let gone = Instant::now();
    stage.connected(trains).await?;
    let back = gone.elapsed();
    let again = agent
        .call("buy_ticket", json!({ "to": "the sea", "at": "12:04" }))
        .await?;

    let mut proof = Proof::default();
    proof.unknown(&answer);
    let is_passed_on = String::from_utf8_lossy(&answer.body).contains("<form>");
    proof.claim(!is_passed_on, "the page itself is not in the answer");
    let fault = down
        .fault
        .ok_or_else(|| Broken("it is retrying without a fault".to_owned()))?;
    let next = down.next.map(|next| next.reason).unwrap_or_default();
    proof.claim(
        fault.kind == "not_an_mcp_answer" && !fault.person_needed,
        format!(
            "`steadfast status` said {} {}; next: {next}",
            fault.code, fault.message
        ),
    );
    proof.claim(
        back < SOON,
        format!(
            "connected again by itself {} after the page was gone",
            seconds(back)
        ),
    );
    proof.answered(&again, BOUGHT);
    Ok(proof)
}

async fn down(stage: &Stage) -> Result<Proof, Broken> {
    let (booking, agent) = (&stage.booking, &stage.booking.legacy);
    let before = tool_names(&agent.request("tools/list", json!({})).await?);
    booking.server.stop().await;
    stage
        .until(booking, |report| report.state == "retrying")
        .await?;
    let listed = tool_names(&agent.request("tools/list", json!({})).await?);
    let arguments = json!({ "room": 12, "guest": "while it is down" });
    let refused = agent.call("create_booking", arguments.clone()).await?;
    booking.server.forget_sessions();
    booking.server.resume();
    let started = Instant::now();
    stage.connected(booking).await?;
    let back = started.elapsed();
    let again = agent
        .call(
            "create_booking",
            json!({ "room": 12, "guest": "after it was down" }),
        )
        .await?;

    let mut proof = Proof::default();
    proof.claim(
        !before.is_empty() && listed == before,
        format!(
            "its {} stayed listed: {}",
            counted(listed.len(), "tool"),
            listed.join(", ")
        ),
    );
    let connection = &refused.result()["_meta"]["dev.steadfast/connection"];
    proof.claim(
        refused.is_error() && refused.took < AT_ONCE && connection["next"]["kind"] == "reconnect",
        format!(
            "a call was answered after {}, with the reason and the next try",
            seconds(refused.took)
        ),
    );
    proof.model_reads = Some(refused.text().to_owned());
    let runs = booking.runs("create_booking", &arguments)?;
    proof.claim(
        runs == 0,
        format!(
            "that call was not kept and made later: {} in the ledger",
            counted(runs, "row")
        ),
    );
    proof.claim(
        back < SOON,
        format!(
            "connected again by itself {} after the server was back",
            seconds(back)
        ),
    );
    proof.answered(&again, BOOKED);
    Ok(proof)
}

fn tool_names(answer: &Answer) -> Vec<String> {
    let tools = answer.result()["tools"].as_array();
    tools
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str())
        .map(str::to_owned)
        .collect::<Vec<_>>()
}
