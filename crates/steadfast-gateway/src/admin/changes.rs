//! `GET /changes`: every change of connections with their grants, of operations, notices and the configuration, as
//! server-sent events. Whoever connects first gets what is so now, up to the event `current`, and then what changes;
//! whoever loses the stream, or cannot keep up with it, connects again and gets what is so then. Nothing is numbered,
//! and nothing needs to be: the state is told, not the steps to it.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State as Given;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::sync::broadcast::Receiver;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::feed::{frame, notice};
use crate::problem::Problem;

/// What keeps proxies from ending a silent stream.
const COMMENT: &[u8] = b":\n\n";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(follow_changes))
}

/// Every change, as server-sent events. First what is so now: `connection` for each connection and `notice` for each
/// notice that is open, then `current`. From then on what changes: `connection` and `notice` again, `operation` as
/// `/operations` shows it, `removed` with agent and server of a connection that left the configuration, and
/// `configuration` with what was put or removed (`agent`, `server`, `secret` or `file`, and its name), to be asked for
/// again. A stream that ends is opened again: it begins anew with what is so then.
#[utoipa::path(
    get,
    path = "/changes",
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
async fn follow_changes(Given(state): Given<Shared>) -> Result<Response, Problem> {
    // Subscribed before anything is read, so that no change falls between.
    let later = state.feed.follow(&state);
    let now = current(&state).await?;
    let ending = state.ending.clone();
    let events = stream::once(async { now })
        .chain(following(later, state.settings.keep_alive))
        // Whoever watches a daemon that stops finds the next one sooner.
        .take_until(async move { ending.begun().await })
        .map(Ok::<_, Infallible>);
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// All that is so now, as events.
async fn current(state: &Shared) -> Result<Bytes, Problem> {
    let mut now = BytesMut::new();
    for link in state.keeper.links() {
        now.extend(frame("connection", &link.report()));
    }
    let notices = state.store.notices().await?;
    for open in notices.iter().filter(|it| it.cleared_at.is_none()) {
        now.extend(notice(&state.keeper, open));
    }
    now.extend(frame("current", &serde_json::json!({})));
    Ok(now.freeze())
}

/// What comes later. Ends where something was missed.
fn following(later: Receiver<Bytes>, keep_alive: Duration) -> impl Stream<Item = Bytes> {
    stream::unfold(later, move |mut later| async move {
        let next = tokio::time::timeout(keep_alive, later.recv()).await;
        match next {
            Ok(Ok(frame)) => Some((frame, later)),
            Ok(Err(_)) => None,
            Err(_) => Some((Bytes::from_static(COMMENT), later)),
        }
    })
}
