//! `GET /changes`: every change of a connection and of an operation, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::State as Given;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde::Serialize;
use serde_json::{Value, json};
use steadfast::{Change, OperationReport};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::Shared;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/changes", get(changes))
}

async fn changes(Given(state): Given<Shared>) -> Response {
    let ending = state.ending.clone();
    // Subscribed before the connections are read, so that no change falls between.
    let receiver = state.keeper.changes();
    let operations = state.keeper.operation_changes();
    let now: Vec<_> = state
        .keeper
        .links()
        .iter()
        .map(|link| connection(&link.report()))
        .collect();
    let events = stream::iter(now)
        .chain(later(receiver, operations))
        // Whoever watches a daemon that stops finds the next one sooner.
        .take_until(async move { ending.begun().await })
        .map(Ok::<_, Infallible>);
    let keep_alive = KeepAlive::new().interval(state.settings.keep_alive);
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn later(
    connections: Receiver<Change>,
    operations: Receiver<Arc<OperationReport>>,
) -> impl Stream<Item = Event> {
    stream::unfold(
        (connections, operations),
        |(mut connections, mut operations)| async move {
            let event: Result<Event, RecvError> = tokio::select! {
                change = connections.recv() => change.map(|change| event(&change)),
                change = operations.recv() => change.map(|operation| of("operation", &*operation)),
            };
            // Where it failed the stream ends: whoever watches connects again and gets everything as it is then.
            Some((event.ok()?, (connections, operations)))
        },
    )
}

fn event(change: &Change) -> Event {
    match change {
        Change::Connection(report) => connection(report),
        Change::Removed(agent, server) => {
            let gone = json!({"agent": agent.as_str(), "server": server.as_str()});
            named("removed", &gone)
        }
    }
}

fn connection(report: &steadfast::Report) -> Event {
    of("connection", report)
}

fn of(name: &str, object: &impl Serialize) -> Event {
    named(name, &serde_json::to_value(object).unwrap_or_default())
}

fn named(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
