//! A bound on repeated lines: a fault that comes back a thousand times a second is said a few times, and then
//! counted (OP-03).

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How many lines of one kind are written …
const LINES: u64 = 20;
/// … within this long.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts lines by kind.
#[derive(Debug)]
struct Cap<Kind> {
    lines: u64,
    counts: HashMap<Kind, Count>,
}

#[derive(Debug, Default)]
struct Count {
    seen: u64,
    /// What the first line that was left out says.
    said: String,
}

impl<Kind: Hash + Eq> Cap<Kind> {
    fn new(lines: u64) -> Self {
        Self {
            lines,
            counts: HashMap::new(),
        }
    }

    /// Whether one more line of this kind is written.
    fn allows(&mut self, kind: Kind, said: impl FnOnce() -> String) -> bool {
        let count = self.counts.entry(kind).or_default();
        count.seen += 1;
        if count.seen == self.lines + 1 {
            count.said = said();
        }
        count.seen <= self.lines
    }

    /// An interval is over: what was left out in it, and how often.
    fn turn(&mut self) -> Vec<(Kind, u64, String)> {
        let counts = std::mem::take(&mut self.counts);
        counts
            .into_iter()
            .filter(|(_, count)| count.seen > self.lines)
            .map(|(kind, count)| (kind, count.seen - self.lines, count.said))
            .collect()
    }
}

/// Where a line comes from, and which server it is about.
type Kind = (Identifier, String);

/// Leaves out lines above the bound; an outer layer of a subscriber.
#[derive(Clone, Debug)]
pub(super) struct CapLayer(Arc<Mutex<Cap<Kind>>>);

impl CapLayer {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Cap::new(LINES))))
    }

    fn lock(&self) -> MutexGuard<'_, Cap<Kind>> {
        // Counting goes on where somebody panicked meanwhile.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says once per interval what was left out in it.
    pub(super) async fn sum_up(self) {
        let seconds = INTERVAL.as_secs();
        loop {
            tokio::time::sleep(INTERVAL).await;
            // Written after the lock is free: the summary is a line that is counted, too.
            let left_out = self.lock().turn();
            for ((_, server), lines, said) in left_out {
                tracing::info!(%server, "… {lines} similar lines left out in the last {seconds} s: {said}");
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for CapLayer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let mut line = Line::default();
        event.record(&mut line);
        let kind = (event.metadata().callsite(), line.server);
        self.lock().allows(kind, || line.message)
    }
}

/// What of a line decides.
#[derive(Default)]
struct Line {
    server: String,
    message: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "server" => self.server = format!("{value:?}"),
            "message" => self.message = format!("{value:?}"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(cap: &mut Cap<&'static str>, kind: &'static str, times: usize) -> usize {
        let allowed = |line: usize| cap.allows(kind, || format!("line {line}"));
        (1..=times).map(allowed).filter(|allowed| *allowed).count()
    }

    #[test]
    fn each_kind_has_a_bound_of_its_own_and_what_is_left_out_is_counted() {
        let mut cap = Cap::new(3);
        assert_eq!(fill(&mut cap, "storm", 1_000), 3);
        assert_eq!(fill(&mut cap, "other", 3), 3);
        assert_eq!(cap.turn(), [("storm", 997, "line 4".to_owned())]);
        assert_eq!(fill(&mut cap, "storm", 2), 2, "a new interval");
        assert!(cap.turn().is_empty());
        assert!(cap.counts.is_empty(), "nothing is kept of what is over");
    }
}
