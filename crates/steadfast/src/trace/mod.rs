//! OpenTelemetry traces: one span for each request of an agent to a server, sent by OTLP over HTTP in JSON. Ours, and
//! not an SDK's: the SDK's exporters bring an HTTP client that resends requests by itself, and one span needs none of
//! the rest. `docs/tracing.md` says what a span holds.
//!
//! Nothing is added to a request for it: an agent's `traceparent` and `tracestate` pass unchanged, so that the server's
//! span and ours are both children of the agent's; where the agent sent none, the server gets none.

mod context;
mod otlp;
mod settings;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::call::Call;
use crate::clock;
use crate::perform::dial::Dialer;
use crate::perform::fetch::Fetcher;
use context::Context;
pub use settings::Traces;
use steadfast_core::wire::json;

/// How many spans wait at most; what comes then is dropped.
const WAITING: usize = 2_048;
/// How many are sent at a time (the default of `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`).
const BATCH: usize = 512;
/// How long a collector may take (the default of `OTEL_EXPORTER_OTLP_TIMEOUT`).
const LIMIT: Duration = Duration::from_secs(10);

/// Where spans go, once somebody has said so.
static QUEUE: OnceLock<mpsc::Sender<Work>> = OnceLock::new();

enum Work {
    Span(Span),
    /// Send what is there, and say when.
    Flush(oneshot::Sender<()>),
}

/// A span that has ended.
#[derive(Debug)]
struct Span {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    name: String,
    /// Nanoseconds since 1970.
    began: u128,
    ended: u128,
    attributes: Vec<(&'static str, String)>,
    is_error: bool,
}

/// A span that has begun.
#[derive(Debug)]
pub(crate) struct Open {
    span: Span,
    since: Instant,
}

/// Begins the span of a request, where spans go anywhere, and where the agent's own trace is recorded.
pub(crate) fn open(
    call: &Call,
    method: &str,
    tool: Option<&str>,
    names: [&str; 2],
) -> Option<Open> {
    QUEUE.get()?;
    let parent = parent(call);
    if parent.is_some_and(|parent| !parent.is_sampled) {
        // `parentbased_always_on`, the default of OTEL_TRACES_SAMPLER.
        return None;
    }
    let mut ids = [0; 24];
    getrandom::fill(&mut ids).ok()?;
    let (trace, id) = ids.split_at(16);
    let [agent, server] = names;
    let mut attributes = vec![
        ("mcp.method.name", method.to_owned()),
        ("steadfast.agent", agent.to_owned()),
        ("steadfast.server", server.to_owned()),
    ];
    attributes.extend(tool.map(|tool| ("gen_ai.tool.name", tool.to_owned())));
    let began = u128::from(clock::wall().0.unsigned_abs()) * 1_000_000;
    Some(Open {
        span: Span {
            trace: match parent {
                Some(parent) => parent.trace,
                None => trace.try_into().ok()?,
            },
            id: id.try_into().ok()?,
            parent: parent.map(|parent| parent.span),
            // OpenTelemetry's conventions for MCP: the method and its target.
            name: [Some(method), tool]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
            began,
            ended: began,
            attributes,
            is_error: false,
        },
        since: Instant::now(),
    })
}

/// What the agent says of its own trace.
fn parent(call: &Call) -> Option<Context> {
    let meta = call.params.meta.clone()?;
    let mut found = None;
    let read = json::members(&call.message, meta, |member| {
        if json::text(&call.message, member.key.clone()).is_some_and(|key| key == "traceparent") {
            found = json::text(&call.message, member.value.clone()).map(|text| text.into_owned());
        }
    });
    read.ok()?;
    Context::read(&found?)
}

impl Open {
    /// It ends so.
    pub(crate) fn end(mut self, outcome: &'static str, is_error: bool) {
        self.span.ended = self.span.began + self.since.elapsed().as_nanos();
        self.span
            .attributes
            .push(("steadfast.outcome", outcome.to_owned()));
        if is_error {
            self.span
                .attributes
                .push(("error.type", outcome.to_owned()));
        }
        self.span.is_error = is_error;
        if let Some(queue) = QUEUE.get()
            && queue.try_send(Work::Span(self.span)).is_err()
        {
            tracing::debug!("a span is dropped: the collector does not keep up");
        }
    }
}

/// Sends spans to a collector from now on. What the first keeper of a process says counts.
pub(crate) fn start(traces: Traces, dialer: &Arc<Dialer>) {
    let (queue, spans) = mpsc::channel(WAITING);
    if QUEUE.set(queue).is_ok() {
        let fetcher = Fetcher::for_operator(dialer, LIMIT);
        tokio::spawn(export(traces, fetcher, spans));
    }
}

/// Sends what waits; for the end of the process.
pub(crate) async fn flush() {
    let Some(queue) = QUEUE.get() else {
        return;
    };
    let (done, is_done) = oneshot::channel();
    if queue.send(Work::Flush(done)).await.is_ok() {
        let _ = is_done.await;
    }
}

async fn export(traces: Traces, fetcher: Fetcher, mut spans: mpsc::Receiver<Work>) {
    while let Some(first) = spans.recv().await {
        let (mut batch, mut flushed) = (Vec::new(), Vec::new());
        let mut take = |work| match work {
            Work::Span(span) => {
                batch.push(span);
                batch.len() < BATCH
            }
            Work::Flush(done) => {
                flushed.push(done);
                false
            }
        };
        let mut goes_on = take(first);
        let limit = tokio::time::Instant::now() + traces.delay;
        while goes_on {
            match tokio::time::timeout_at(limit, spans.recv()).await {
                Ok(Some(work)) => goes_on = take(work),
                Ok(None) | Err(_) => goes_on = false,
            }
        }
        if !batch.is_empty() {
            send(&traces, &fetcher, &batch).await;
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

/// Once: spans are worth less than what a retry may cost.
async fn send(traces: &Traces, fetcher: &Fetcher, batch: &[Span]) {
    let body = otlp::request(&traces.resource, batch);
    let headers = traces.headers.clone();
    let why = match fetcher
        .post_json_with(&traces.endpoint, headers, &body)
        .await
    {
        Ok(fetched) if (200..300).contains(&fetched.status) => return,
        Ok(fetched) => format!("it answered with status {}", fetched.status),
        Err(lost) => lost.fault.to_string(),
    };
    tracing::warn!(%why, lost = batch.len(), "the collector of traces did not take spans");
}
