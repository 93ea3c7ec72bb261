//! What a person did here, for the record of changes: under the same names as the calls of the admin API.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State as Given};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, StatusCode};
use steadfast_store::Via;

use super::Shared;
use crate::admin::audit::ADMIN;
use crate::problem::sanitised;

/// What a form changed that is not in its address.
#[derive(Clone, Debug)]
pub(super) struct Target(pub(super) String);

/// Wraps every page. A form that was refused changed nothing.
pub(super) async fn recorded(
    Given(console): Given<Shared>,
    path: Option<MatchedPath>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let action = path
        .filter(|_| *request.method() == Method::POST)
        .and_then(|path| action(path.as_str()));
    let Some(action) = action else {
        return next.run(request).await;
    };
    let given = parameters.map_or_else(
        // The handler refuses it.
        |_| String::new(),
        |parameters| {
            let names: Vec<&str> = parameters.iter().map(|(_, value)| value).collect();
            names.join("/")
        },
    );
    let mut response = next.run(request).await;
    if response.status() == StatusCode::SEE_OTHER || response.status().is_success() {
        let told = response.extensions_mut().remove::<Target>();
        let target = told.map_or(given, |told| told.0);
        let target = sanitised(target.as_bytes());
        let audit = &console.admin.audit;
        let who = ADMIN.to_owned();
        audit
            .record(who, Via::Console, action, target, String::new())
            .await;
    }
    response
}

/// What the form at an address does; `None` where it changes nothing.
fn action(path: &str) -> Option<&'static str> {
    match path {
        "/connections/{agent}/{server}/reload" => Some("reload_connection"),
        "/connections/{agent}/{server}/sign-in" => Some("sign_in"),
        "/connections/{agent}/{server}/sign-out" => Some("sign_out"),
        "/agents/{agent}/reload" => Some("reload_agent"),
        "/operations/{id}/reconcile" => Some("reconcile_operation"),
        "/operations/{id}/settle" => Some("settle_operation"),
        "/servers/add" | "/servers/{name}/enable" | "/servers/{name}/disable" => Some("put_server"),
        "/servers/{name}/remove" => Some("remove_server"),
        "/vault" => Some("set_secret"),
        "/vault/{name}/remove" => Some("remove_secret"),
        _ => None,
    }
}
