//! That something changed: an open page then fetches itself again. Nothing is said of what it was, so that this costs
//! the same for each page, however many there are.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::State as Given;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::broadcast::error::RecvError;

use super::Shared;

/// What happens within this time is one change.
const TOGETHER: Duration = Duration::from_millis(100);

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/live", get(live))
}

async fn live(Given(console): Given<Shared>) -> Response {
    let ending = console.admin.ending.clone();
    let later = console.admin.feed.follow(&console.admin);
    let events = stream::unfold(later, |mut later| async move {
        if let Err(RecvError::Closed) = later.recv().await {
            return None;
        }
        tokio::time::sleep(TOGETHER).await;
        // All that has come meanwhile is on the page that is fetched now.
        let later = later.resubscribe();
        let event = Event::default().event("changed").data("{}");
        Some((Ok::<_, Infallible>(event), later))
    });
    let events = events.take_until(async move { ending.begun().await });
    let keep_alive = KeepAlive::new().interval(console.admin.settings.keep_alive);
    Sse::new(events).keep_alive(keep_alive).into_response()
}
