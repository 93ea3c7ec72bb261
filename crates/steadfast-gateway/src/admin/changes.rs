//! `GET /changes`: every change of a connection, as server-sent events.

use std::convert::Infallible;

use axum::Router;
use axum::extract::State as Given;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};
use steadfast::Change;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::Shared;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/changes", get(changes))
}

async fn changes(Given(state): Given<Shared>) -> Response {
    // Subscribed before the connections are read, so that no change falls between.
    let receiver = state.keeper.changes();
    let now: Vec<_> = state
        .keeper
        .links()
        .iter()
        .map(|link| connection(&link.report()))
        .collect();
    let events = stream::iter(now)
        .chain(later(receiver))
        .map(Ok::<_, Infallible>);
    let keep_alive = KeepAlive::new().interval(state.settings.keep_alive);
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn later(receiver: Receiver<Change>) -> impl Stream<Item = Event> {
    stream::unfold(receiver, |mut receiver| async move {
        match receiver.recv().await {
            Ok(change) => Some((event(&change), receiver)),
            // The stream ends: whoever watches connects again and gets everything as it is then.
            Err(RecvError::Lagged(_) | RecvError::Closed) => None,
        }
    })
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
    named(
        "connection",
        &serde_json::to_value(report).unwrap_or_default(),
    )
}

fn named(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
