//! The console: pages for the people who look after agents. They are rendered here, whole, and work without a
//! script; with it an open page keeps itself true ([`live`]).
//!
//! | file | what it shows |
//! | --- | --- |
//! | [`session`] | who is signed in, and that a form comes from one of our own pages |
//! | [`frame`] | what every page has around it, and how an error looks |
//! | [`changed`] | what a person did here, for the record |
//! | [`row`] | one connection in a line, and its token pill |
//! | [`overview`] | counts, what waits for a person, the bell |
//! | [`connections`] | all connections, one with its history, those of an agent |
//! | [`operations`] | calls whose outcome matters, their evidence, a person's decision |
//! | [`servers`] | what is configured, and the guided form that connects a server |
//! | [`vault`] | names of secrets, and what is in force |
//! | [`live`] | that something changed |

mod assets;
mod changed;
mod connections;
mod frame;
mod live;
mod operations;
mod overview;
mod row;
mod servers;
mod session;
mod vault;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Given};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue};

use crate::admin::State;
use session::Sessions;

/// Nothing but our own files; no script or style in a page, and no page in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the pages need.
#[derive(Debug)]
pub(crate) struct Console {
    admin: Arc<State>,
    sessions: Sessions,
}

type Shared = Arc<Console>;

/// All pages.
pub(crate) fn router(admin: Arc<State>) -> Router {
    let port = admin.doors.callback.port_or_known_default();
    let console = Arc::new(Console {
        sessions: Sessions::new(port.unwrap_or_default()),
        admin,
    });
    let pages = Router::new()
        .merge(overview::routes())
        .merge(connections::routes())
        .merge(operations::routes())
        .merge(servers::routes())
        .merge(vault::routes())
        .merge(live::routes())
        .layer(middleware::from_fn_with_state(
            Arc::clone(&console),
            changed::recorded,
        ))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&console),
            signed_in,
        ));
    pages
        .merge(session::routes())
        .route("/assets/{file}", get(assets::serve))
        .layer(middleware::from_fn(careful))
        .with_state(console)
}

/// Whoever is not signed in is asked to, and comes back to the page.
async fn signed_in(Given(console): Given<Shared>, mut request: Request, next: Next) -> Response {
    match console.sessions.of(request.headers()) {
        Some(session) => {
            request.extensions_mut().insert(session);
            next.run(request).await
        }
        None => Redirect::to("/sign-in").into_response(),
    }
}

async fn careful(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What a person sees is not for a cache, unless it says so itself.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
