//! After an opening and before the first request of an agent: what the session was asked to remember
//! is restored, and the tools are fetched again. The other lists are fetched when somebody uses them: a server
//! that nobody asks for them sees no request more.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::wire::splice;
use steadfast_core::{Era, Fault, Kind};
use tokio::sync::oneshot;

use crate::link::Link;
use crate::perform::ask::ask;
use crate::route::Route;

/// How long the GET stream may delay the first request.
const LISTEN_FIRST: Duration = Duration::from_secs(1);

/// Restores and fetches. A fault means that the opening is not usable.
pub(super) async fn settle(
    link: &Arc<Link>,
    route: &Arc<Route>,
    resumed: bool,
    listening: oneshot::Receiver<()>,
) -> Result<(), Fault> {
    let _ = tokio::time::timeout(LISTEN_FIRST, listening).await;
    if route.endpoint.is_some() {
        // The old transport answers on its stream only; its lists are fetched when an agent asks.
        return Ok(());
    }
    if route.era() == Era::Legacy && !resumed {
        restore(link, route).await;
    }
    match link.ask_for_tools(route).await {
        Ok(()) => {}
        Err(fault) => match fault.kind {
            // What is missing is on record, and other calls may do with what is granted.
            Kind::ScopeInsufficient if route.upstream.credential().lacks_any_scope() => {}
            // The connection works; a list that cannot be read leaves the last complete one in place.
            Kind::ProtocolMismatch | Kind::NotAnMcpAnswer => {
                tracing::warn!(
                    agent = %link.agent, server = %link.server, fault = %fault.message,
                    "the list of tools cannot be read"
                );
            }
            Kind::Timeout
            | Kind::Network
            | Kind::Tls
            | Kind::ServerError
            | Kind::RateLimited
            | Kind::SessionLost
            | Kind::UnstableSessions
            | Kind::Redirected
            | Kind::SignInRequired
            | Kind::ScopeInsufficient
            | Kind::Forbidden
            | Kind::Misconfigured
            | Kind::VaultReference
            | Kind::TokenEndpointMoved
            | Kind::RenewalDelayed
            | Kind::RenewalOutcomeLost
            | Kind::GrantRefused
            | Kind::FreshTokenRefused
            | Kind::IssuerChanged
            | Kind::StoreUnavailable
            | Kind::OperationsHeld
            | Kind::ClientRefused => return Err(fault),
        },
    }
    Ok(())
}

/// Log level and subscriptions of the session before, best effort.
async fn restore(link: &Arc<Link>, route: &Arc<Route>) {
    let mut remembered = link.remembered.lock().clone();
    // Also what agents came to want while there was no session.
    let wished = link.wishes.uris();
    remembered
        .subscriptions
        .extend(wished.iter().map(|uri| splice::quote(uri)));
    let level = remembered
        .log_level
        .map(|params| ("logging/setLevel", params));
    let subscriptions = remembered
        .subscriptions
        .into_iter()
        .map(|uri| ("resources/subscribe", format!(r#"{{"uri":{uri}}}"#)));
    for (method, params) in level.into_iter().chain(subscriptions) {
        let id = link.next_id();
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let aside = |message, _| link.aside(route, message);
        let restored = ask(
            &route.upstream,
            route.headers.clone(),
            (id, Bytes::from(body)),
            &aside,
        )
        .await;
        if let Err(fault) = restored {
            tracing::warn!(server = %link.server, method, fault = %fault.message, "not restored");
        }
    }
}
