//! Idle agents. The driver measures while they hold still, and says on standard input when to go on.

use std::io::{self, BufRead as _};

use super::agent::Agent;
use crate::Outcome;
use crate::options::HoldOptions;

/// Opens sessions; then their GET streams; then ends.
pub(crate) fn hold(options: &HoldOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut go_on = io::stdin().lock().lines();
    let agents = runtime.block_on(async {
        let mut agents = Vec::new();
        for _ in 0..options.sessions {
            agents.push(Agent::open(&options.target).await?);
        }
        Outcome::Ok(agents)
    })?;
    println!("sessions");
    if go_on.next().transpose()?.is_none() {
        return Ok(());
    }
    let streams = runtime.block_on(async {
        let mut streams = Vec::new();
        for agent in &agents {
            streams.push(agent.listen().await?);
        }
        Outcome::Ok(streams)
    })?;
    println!("streams");
    go_on.next().transpose()?;
    drop((agents, streams));
    Ok(())
}
