//! `steadfast demo`: the faults, played one after another against scripted servers, with nothing to
//! configure. Everything that it says of a run is checked in that run.
//!
//! - `scene`: what a scene is, and what it proves.
//! - `stage`: servers, daemon and agents that the scenes play with.
//! - `scenes`: the scenes.
//! - `narrator`: how they are told.

mod narrator;
mod scene;
mod scenes;
mod stage;

use std::time::Instant;

use clap::Args;

use self::narrator::Narrator;
use self::stage::Stage;
use super::serve::Stop;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::logging;

/// Whether the command is listed.
pub(crate) const BUILT: bool = true;

/// `demo [--exit]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Stop after the script
    #[arg(long)]
    exit: bool,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    // What the keeper would warn of is what the script is about.
    logging::start(logging::Format::default(), "error")?;
    let mut stop = Stop::new()?;
    let stage = tokio::select! {
        started = Stage::start() => started?,
        () = stop.asked() => return Ok(Exit::Done),
    };
    let narrator = Narrator::new(context.output);
    let mut exit = Exit::Done;
    let tell = async {
        exit = play(&narrator, &stage).await?;
        narrator.closing(&stage, !arguments.exit)?;
        if !arguments.exit {
            std::future::pending::<()>().await;
        }
        Ok(())
    };
    let told = tokio::select! {
        told = tell => told,
        () = stop.asked() => Ok(()),
    };
    tokio::select! {
        () = stage.end() => {}
        // Whoever asks a second time does not want to wait.
        () = stop.asked() => {}
    }
    told.map(|()| exit)
}

/// Plays all scenes. A claim that does not hold makes the whole demo fail.
async fn play(narrator: &Narrator, stage: &Stage) -> Result<Exit, Failure> {
    narrator.opening(stage)?;
    let began = Instant::now();
    let (mut claims, mut failures) = (0, 0);
    let count = scenes::all().count();
    for (index, scene) in scenes::all().enumerate() {
        narrator.scene(index + 1, count, scene)?;
        let proof = scene.prove(stage).await;
        narrator.proof(scene, &proof)?;
        claims += proof.claims.len();
        failures += proof.failures();
    }
    narrator.verdict(count, claims, failures, began.elapsed())?;
    Ok(if failures == 0 {
        Exit::Done
    } else {
        Exit::Failed
    })
}
