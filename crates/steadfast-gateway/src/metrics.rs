//! `/metrics`, in the text format of Prometheus. Counters and durations are kept by the recorder of this process; what
//! can be looked at is looked at when somebody asks, so that nothing is shown that is not there any more.
//! `docs/metrics.md` says what each of them means.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use steadfast::{Keeper, measure};
use steadfast_store::SharedStore;

/// Seconds. From an answer out of memory to the longest that a call may take.
const DURATIONS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 3_600.0,
];

const REQUESTS: &str = "steadfast_http_requests_total";
const BUILD: &str = "steadfast_build_info";
const CONNECTIONS: &str = "steadfast_connections";
const GRANTS: &str = "steadfast_grants";
const EXPIRY: &str = "steadfast_grant_earliest_expiry_timestamp_seconds";
const NOTICES: &str = "steadfast_notices_open";
const HELD: &str = "steadfast_operations_held";
const SESSIONS: &str = "steadfast_agent_sessions_in_memory";
const STORE: &str = "steadfast_store_up";

/// How long the store may take to say how many notices and operations there are.
const STORE_WAIT: Duration = Duration::from_secs(2);

/// The recorder of this process.
#[derive(Clone, Default)]
pub struct Metrics(Option<PrometheusHandle>);

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Metrics").field(&self.0.is_some()).finish()
    }
}

impl Metrics {
    /// Makes everything in this process count. Once.
    ///
    /// # Errors
    ///
    /// Where something else counts already.
    pub fn install() -> Result<Self, BuildError> {
        let durations = Matcher::Suffix("_duration_seconds".to_owned());
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(durations, DURATIONS)?
            .install_recorder()?;
        measure::describe();
        describe_counter!(
            REQUESTS,
            Unit::Count,
            "HTTP requests by who they are for and the status of the answer"
        );
        Ok(Self(Some(handle)))
    }

    /// Sorts in what was recorded since: without this it would be kept one by one where nobody ever asks.
    pub(crate) fn tidy(&self) {
        if let Some(handle) = &self.0 {
            handle.run_upkeep();
        }
    }

    /// All there is to say.
    pub(crate) async fn render(&self, shown: Shown<'_>) -> String {
        let counted = self
            .0
            .as_ref()
            .map(PrometheusHandle::render)
            .unwrap_or_default();
        counted + &shown.render().await
    }
}

/// Whom a request is for: few words, so that nobody's paths become labels.
fn endpoint(path: &str) -> &'static str {
    match path.split('/').nth(1).unwrap_or_default() {
        "mcp" => "mcp",
        "api" => "api",
        "oauth" => "oauth",
        "healthz" | "readyz" | "metrics" => "monitoring",
        _ => "console",
    }
}

/// A request was answered.
pub(crate) fn answered(endpoint: &'static str, status: http::StatusCode) {
    counter!(REQUESTS, "endpoint" => endpoint, "status" => status.as_str().to_owned()).increment(1);
}

/// For [`answered`], from the path of a request.
pub(crate) fn endpoint_of(uri: &http::Uri) -> &'static str {
    endpoint(uri.path())
}

/// What is looked at when somebody asks.
pub(crate) struct Shown<'s> {
    pub(crate) keeper: &'s Keeper,
    pub(crate) store: &'s SharedStore,
    pub(crate) sessions: usize,
}

impl Shown<'_> {
    async fn render(&self) -> String {
        let stored = tokio::time::timeout(STORE_WAIT, stored(self.store)).await;
        let stored = stored.ok().flatten();
        // A recorder for this one answer: a server that is gone leaves no line behind.
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            describe();
            gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            gauge!(SESSIONS).set(count(self.sessions));
            gauge!(STORE).set(if stored.is_some() { 1.0 } else { 0.0 });
            self.connections();
            if let Some(stored) = stored {
                gauge!(NOTICES).set(count(stored.notices));
                for (server, held) in stored.held {
                    gauge!(HELD, "server" => server).set(count(held));
                }
            }
        });
        recorder.handle().render()
    }

    /// Each server with each of the states that its connections and their grants are in.
    fn connections(&self) {
        let mut connections = BTreeMap::<(Arc<str>, String), usize>::new();
        let mut grants = BTreeMap::<(Arc<str>, String), usize>::new();
        let mut expiries = BTreeMap::<Arc<str>, jiff::Timestamp>::new();
        for link in self.keeper.links() {
            let report = link.report();
            let server: Arc<str> = Arc::from(report.server);
            let expires_at = report.grant.expires_at.and_then(|at| at.parse().ok());
            if let Some(at) = expires_at {
                let earliest = expiries.entry(Arc::clone(&server)).or_insert(at);
                *earliest = at.min(*earliest);
            }
            *grants
                .entry((Arc::clone(&server), report.grant.state))
                .or_default() += 1;
            *connections.entry((server, report.state)).or_default() += 1;
        }
        for (name, counted) in [(CONNECTIONS, connections), (GRANTS, grants)] {
            for ((server, state), number) in counted {
                gauge!(name, "server" => server, "state" => state).set(count(number));
            }
        }
        for (server, at) in expiries {
            gauge!(EXPIRY, "server" => server).set(at.as_duration().as_secs_f64());
        }
    }
}

/// What only the store knows.
struct Stored {
    notices: usize,
    held: BTreeMap<String, usize>,
}

async fn stored(store: &SharedStore) -> Option<Stored> {
    let notices = store.notices().await.ok()?;
    let mut held = BTreeMap::<String, usize>::new();
    for of_connection in store.held_operations().await.ok()? {
        let number = usize::try_from(of_connection.count).unwrap_or(usize::MAX);
        *held
            .entry(of_connection.server.as_str().to_owned())
            .or_default() += number;
    }
    let open = notices.iter().filter(|notice| notice.cleared_at.is_none());
    Some(Stored {
        notices: open.count(),
        held,
    })
}

/// As a gauge takes it: exact as long as there are fewer than four thousand million.
fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn describe() {
    let gauges = [
        (BUILD, Unit::Count, "1, with the version of this daemon"),
        (
            CONNECTIONS,
            Unit::Count,
            "Connections to a server that are in a state",
        ),
        (
            GRANTS,
            Unit::Count,
            "Grants for a server that are in a state",
        ),
        (
            EXPIRY,
            Unit::Seconds,
            "When the first access token for a server ends, in Unix time",
        ),
        (NOTICES, Unit::Count, "Notices that wait for a person"),
        (
            HELD,
            Unit::Count,
            "Operations whose outcome a person must find out",
        ),
        (
            SESSIONS,
            Unit::Count,
            "Legacy sessions of agents that are in use",
        ),
        (STORE, Unit::Count, "1 where the store answers, else 0"),
    ];
    for (name, unit, text) in gauges {
        describe_gauge!(name, unit, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_do_not_become_labels() {
        for (path, expected) in [
            ("/mcp", "mcp"),
            ("/mcp/booking", "mcp"),
            ("/api/v1/connections", "api"),
            ("/oauth/callback", "oauth"),
            ("/readyz", "monitoring"),
            ("/", "console"),
            ("/whatever/comes", "console"),
        ] {
            assert_eq!(endpoint(path), expected, "{path}");
        }
    }
}
