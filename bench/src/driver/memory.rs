//! Memory: at idle, and what idle agents cost, without and with their GET stream.

use std::time::Duration;

use serde::Serialize;

use super::Run;
use crate::Outcome;
use crate::measure::{self, Memory};
use crate::process::Process;
use crate::protocol::Era;
use crate::routes::{Open, Route};

/// How long the sessions may take to open.
const HELD_WITHIN: Duration = Duration::from_secs(60);
/// Until what happens behind the last answer has happened, too.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// The memory of one proxy.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct MemoryOf {
    pub(crate) route: Route,
    /// After a few calls, with nobody connected.
    pub(crate) idle: Memory,
    /// With sessions whose agents hold their connection and do nothing.
    pub(crate) with_sessions: Memory,
    /// And with a GET stream each.
    pub(crate) with_streams: Memory,
    pub(crate) sessions: usize,
}

impl MemoryOf {
    /// KiB per idle session.
    pub(crate) fn per_session(&self) -> f64 {
        self.growth(self.with_sessions)
    }

    /// KiB per idle session that has its GET stream.
    pub(crate) fn per_session_with_stream(&self) -> f64 {
        self.growth(self.with_streams)
    }

    /// From resident memory: a proxy shares its pages with nobody that comes or goes meanwhile, except its code,
    /// and the share of that would change when a part of this bench starts or ends.
    fn growth(&self, then: Memory) -> f64 {
        (then.rss_kib as f64 - self.idle.rss_kib as f64) / self.sessions as f64
    }
}

impl Run<'_> {
    /// In fresh processes: an allocator that has seen load has memory to spare, and would hide what is needed.
    pub(super) async fn memory(&mut self) -> Vec<MemoryOf> {
        let mut found = Vec::new();
        for route in Route::ALL {
            if route == Route::Direct || !self.selection.has_route(route) {
                continue;
            }
            eprintln!("memory of {}", route.name());
            let Some(way) = self.open(route).await else {
                continue;
            };
            let memory = memory_of(&way, self.options.sessions()).await;
            let memory = memory.map_err(|failure| format!("memory of {}: {failure}", route.name()));
            found.extend(self.kept(memory.map_err(Into::into)));
            let stopped = way.stop().await;
            self.kept(stopped);
        }
        found
    }
}

async fn memory_of(way: &Open, sessions: usize) -> Outcome<MemoryOf> {
    let settled = async || {
        tokio::time::sleep(SETTLED_AFTER).await;
        measure::memory(&way.pids)
    };
    let idle = settled().await?;
    let mut arguments = way.target(Era::Legacy).arguments();
    arguments.extend(["--sessions".to_owned(), sessions.to_string()]);
    let mut agents = Process::start_part("hold", &arguments)?;
    agents.line(HELD_WITHIN).await?;
    let with_sessions = settled().await?;
    agents.go_on().await?;
    agents.line(HELD_WITHIN).await?;
    let with_streams = settled().await?;
    agents.ended(HELD_WITHIN).await?;
    Ok(MemoryOf {
        route: way.route,
        idle,
        with_sessions,
        with_streams,
        sessions,
    })
}
