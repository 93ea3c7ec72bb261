//! Streams that break, and streams that are not offered.

use std::time::Duration;

use serde_json::json;
use testkit::script::call;
use testkit::{End, GetStream, PATIENCE, Reply};

use crate::commands::demo::scene::{Broken, Proof, Scene, counted, seconds, times};
use crate::commands::demo::stage::{BOOKED, Stage};

const TOOL: &str = "create_booking";
/// How long the server asks its clients to wait before they resume a stream.
const RETRY: Duration = Duration::from_millis(300);
/// More than the priming event of a stream has, and less than that and the answer have.
const CUT_AFTER: u64 = 60;

pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "The answer's stream breaks in the middle",
        fault: "The booking server streams its answer with event ids, and asks for 300 ms before a resume. The \
                connection breaks in the middle of the answer; the tool has run.",
        naive: "waits for ever, or makes the booking a second time.",
        steadfast: "asks for the rest of that stream, from the last event id that it saw. Nothing runs again.",
        play: |stage| Box::pin(resume(stage)),
    },
    Scene {
        title: "The server refuses its stream of notifications",
        fault: "The booking server's stream breaks, and it answers the next GET with 405: it does not offer one any more.",
        naive: "takes the whole connection for dead, or asks again without end.",
        steadfast: "goes on without that stream: it is optional. It is not asked for again in this session.",
        play: |stage| Box::pin(refused(stage)),
    },
];

async fn resume(stage: &Stage) -> Result<Proof, Broken> {
    let (booking, log) = (&stage.booking, stage.booking.server.log());
    let retry = u64::try_from(RETRY.as_millis()).ok();
    booking.server.change(|behaviour| {
        (
            behaviour.stream_answers,
            behaviour.resumable,
            behaviour.retry_ms,
        ) = (true, true, retry);
    });
    let cut = Reply::new().cut_after(CUT_AFTER, End::MidChunk).run();
    booking.server.script().on(call(TOOL).times(1)).reply(cut);
    let arguments = json!({ "room": 12, "guest": "on a broken stream" });
    let answer = booking.legacy.call(TOOL, arguments.clone()).await?;

    let mut proof = Proof::default();
    proof.answered(&answer, BOOKED);
    let resumes = log
        .matching(|request| request.method == "GET" && request.header("last-event-id").is_some());
    let cursor = resumes
        .last()
        .and_then(|resume| resume.header("last-event-id"))
        .unwrap_or("none")
        .to_owned();
    proof.claim(
        resumes.len() == 1,
        format!(
            "the server was asked {} for what follows Last-Event-ID {cursor}",
            times(resumes.len())
        ),
    );
    proof.claim(
        answer.took >= RETRY,
        format!(
            "it waited as the server had asked, {} in all",
            seconds(answer.took)
        ),
    );
    let asked = booking.asked(TOOL, &arguments);
    proof.claim(asked == 1, format!("the call was sent {}", times(asked)));
    booking.claim_one_run(&mut proof, TOOL, &arguments)?;
    Ok(proof)
}

async fn refused(stage: &Stage) -> Result<Proof, Broken> {
    let (booking, log) = (&stage.booking, stage.booking.server.log());
    booking
        .server
        .change(|behaviour| behaviour.get_stream = GetStream::Refused);
    let (gets, openings) = (log.http("GET").len(), booking.openings());
    booking.server.reset_connections().await;
    let arguments = json!({ "room": 12, "guest": "without a stream" });
    log.wait_for(|log| log.http("GET").len() > gets, PATIENCE)
        .await?;
    let told = stage
        .until(booking, |report| report.stream.is_some())
        .await?;
    let answer = booking.legacy.call(TOOL, arguments.clone()).await?;
    let connection = stage.connection(booking).await?;

    let mut proof = Proof::default();
    proof.answered(&answer, BOOKED);
    let asked = log.http("GET").len() - gets;
    proof.claim(
        asked == 1,
        format!("the server was asked for the stream {}", times(asked)),
    );
    proof.claim(
        connection.state == "connected" && connection.fault.is_none(),
        format!(
            "`steadfast status` says {}: {}",
            connection.state,
            told.stream.unwrap_or_default()
        ),
    );
    let more = booking.openings() - openings;
    proof.claim(
        more == 0,
        format!(
            "the session lives on: the server saw {}",
            counted(more, "new initialize")
        ),
    );
    Ok(proof)
}
