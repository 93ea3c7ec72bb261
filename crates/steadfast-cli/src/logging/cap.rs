//! A bound on repeated lines: a fault that comes back a thousand times a second is said a few times, and then
//! counted (OP-03). Lines below INFO are only written where somebody asked for them, and then all of them are.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
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
    /// How many of each kind were seen.
    counts: HashMap<Kind, u64>,
}

impl<Kind: Hash + Eq> Cap<Kind> {
    fn new(lines: u64) -> Self {
        Self {
            lines,
            counts: HashMap::new(),
        }
    }

    /// Whether one more line of this kind is written.
    fn allows(&mut self, kind: Kind) -> bool {
        let seen = self.counts.entry(kind).or_default();
        *seen += 1;
        *seen <= self.lines
    }

    /// An interval is over: what was left out in it, and how often.
    fn turn(&mut self) -> Vec<(Kind, u64)> {
        let counts = std::mem::take(&mut self.counts);
        counts
            .into_iter()
            .filter(|(_, seen)| *seen > self.lines)
            .map(|(kind, seen)| (kind, seen - self.lines))
            .collect()
    }
}

/// What makes a line a repetition of another: where it comes from, which server it is about, and what it says.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind {
    callsite: Identifier,
    server: String,
    message: String,
}

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
            for (kind, lines) in left_out {
                let Kind {
                    server, message, ..
                } = kind;
                tracing::info!(%server, "… {lines} similar lines left out in the last {seconds} s: {message}");
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for CapLayer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::INFO {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let kind = Kind {
            callsite: event.metadata().callsite(),
            server: line.server,
            message: line.message,
        };
        self.lock().allows(kind)
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
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn fill(cap: &mut Cap<&'static str>, kind: &'static str, times: usize) -> usize {
        (0..times).filter(|_| cap.allows(kind)).count()
    }

    #[test]
    fn each_kind_has_a_bound_of_its_own_and_what_is_left_out_is_counted() {
        let mut cap = Cap::new(3);
        assert_eq!(fill(&mut cap, "storm", 1_000), 3);
        assert_eq!(fill(&mut cap, "other", 3), 3);
        assert_eq!(cap.turn(), [("storm", 997)]);
        assert_eq!(fill(&mut cap, "storm", 2), 2, "a new interval");
        assert!(cap.turn().is_empty());
        assert!(cap.counts.is_empty(), "nothing is kept of what is over");
    }

    /// Counts the lines that get through.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Written {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().unwrap().push(line.message);
        }
    }

    #[test]
    fn only_repetitions_count_and_what_somebody_asked_for_is_all_there() {
        let written = Written::default();
        let subscriber = Registry::default()
            .with(written.clone())
            .with(CapLayer::new());
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..100 {
                tracing::warn!(server = "one", number, "repeated");
                tracing::warn!(server = format!("server {number}"), "of another server");
                tracing::warn!(server = "one", "differs: {number}");
                tracing::debug!(server = "one", "asked for");
                tracing::trace!(server = "one", "asked for");
            }
        });
        let written = written.0.lock().unwrap();
        let lines = |said: &str| written.iter().filter(|it| it.starts_with(said)).count();
        assert_eq!(lines("repeated") as u64, LINES);
        assert_eq!(lines("of another server"), 100);
        assert_eq!(lines("differs"), 100);
        assert_eq!(lines("asked for"), 200);
    }
}
