//! `/mcp/{server}` and `/mcp`: who asks, for which server or for all of them, in which era.

use std::sync::Arc;

use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use steadfast::Link;
use steadfast_core::replay::{Access, Reach, Resource};
use steadfast_core::{AgentName, ServerName, code};

use super::covered;
use super::inbound::{self, Content, Inbound};
use super::legacy::{self, SESSION_ID};
use super::modern::{self, mirrored};
use super::routing;
use crate::Gate;
use crate::body::Body;
use crate::credential::Refused;
use crate::directory::is_name;
use crate::problem::{INVALID_REQUEST, METHOD_NOT_FOUND, Problem};

/// Who asks, and the connection that serves it.
#[derive(Debug)]
pub(crate) struct Caller {
    /// What its credential says.
    pub(crate) access: Access,
    /// None at the address of all the agent's servers: there each request finds its own.
    pub(crate) link: Option<Arc<Link>>,
}

impl Caller {
    /// Whose request it is.
    pub(crate) fn agent(&self) -> &AgentName {
        &self.access.agent
    }
}

/// Whether a path is an agent's business.
pub(crate) fn is_ours(path: &str) -> bool {
    path.strip_prefix("/mcp")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Serves one request. Host and Origin have been checked.
pub(crate) async fn serve(gate: &Arc<Gate>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let access = gate
        .directory
        .access_of(headers, &gate.protected.public_url);
    let access = match access.await {
        Ok(access) => access,
        Err(refused) => return gate.protected.refused(&refused, head.uri.path()),
    };
    let caller = match caller(gate, access, head.uri.path()) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    if head.method == Method::POST {
        return match inbound::read(headers, body, gate.settings.max_message).await {
            Ok(content) => post(gate, &caller, headers, content).await,
            Err(refused) => *refused,
        };
    }
    if let Err(missing) = begins(gate, &caller, None) {
        return gate.protected.lacking(&[missing], None);
    }
    // Without a session there is neither GET nor DELETE (2026-07-28 streamable-http, "Earlier
    // Streamable HTTP Revisions").
    let in_session = headers.contains_key(&SESSION_ID);
    if head.method == Method::GET && in_session {
        let response = Box::pin(legacy::get(gate, &caller, headers)).await;
        still_known(gate, &caller, headers, response)
    } else if head.method == Method::DELETE && in_session {
        Box::pin(legacy::delete(gate, &caller, headers)).await
    } else {
        not_allowed()
    }
}

/// Whether the credential reaches what is no call: at the address of a server, anything of that server. Requests are
/// looked at one by one, each for what it needs.
fn begins(gate: &Gate, caller: &Caller, message: Option<&Inbound>) -> Result<(), Resource> {
    let Some(link) = &caller.link else {
        return Ok(());
    };
    let (reach, server) = (&caller.access.reach, link.server());
    match message {
        Some(inbound) if inbound.is_request() && inbound.method() != "initialize" => Ok(()),
        Some(inbound) => covered::reaches(gate, reach, server, inbound),
        None if covered::touches(gate, reach, server) => Ok(()),
        None => Err(Resource::server(&gate.protected.public_url, server)),
    }
}

/// A stream that is listened on goes out only while its credential is good: one that was opened while the
/// agent got another key was not there yet when those of the old one were ended.
fn still_known(
    gate: &Gate,
    caller: &Caller,
    headers: &HeaderMap,
    response: Response<Body>,
) -> Response<Body> {
    // An access token is no key: it is good until it expires.
    if matches!(caller.access.reach, Reach::Only(_)) {
        return response;
    }
    let refused = match gate.directory.credentials.known(headers) {
        Ok(agent) if agent == *caller.agent() => return response,
        Ok(_) => Refused::Unknown,
        Err(refused) => refused,
    };
    let everywhere = "/mcp";
    gate.protected.refused(&refused, everywhere)
}

/// The connection that a path names, or all of them.
fn caller(gate: &Gate, access: Access, path: &str) -> Result<Caller, Box<Response<Body>>> {
    let name = path
        .strip_prefix("/mcp")
        .unwrap_or_default()
        .trim_start_matches('/');
    if name.is_empty() {
        return Ok(Caller { access, link: None });
    }
    let link = is_name(name)
        .then(|| routing::link(gate, &access.agent, &ServerName::from(name), None))
        .flatten();
    if link.is_none() {
        // The same for a server that does not exist and for one of other agents.
        let detail = "this agent has no server of that name";
        let problem = Problem::new(StatusCode::NOT_FOUND, code::UNKNOWN_SERVER, detail);
        return Err(Box::new(problem.rpc(None, INVALID_REQUEST)));
    }
    Ok(Caller { access, link })
}

fn not_allowed() -> Response<Body> {
    let detail = "only POST is served without an Mcp-Session-Id";
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, code::BAD_MESSAGE, detail);
    let mut response = problem.rpc(None, METHOD_NOT_FOUND);
    let methods = HeaderValue::from_static("POST, GET, DELETE");
    response.headers_mut().insert(ALLOW, methods);
    response
}

/// How the agent opens decides the era (2026-07-28 versioning, "Backward Compatibility").
async fn post(
    gate: &Arc<Gate>,
    caller: &Caller,
    headers: &HeaderMap,
    content: Content,
) -> Response<Body> {
    let by_header = mirrored::header_is_modern(headers);
    let (message, id) = match &content {
        Content::Message(inbound) => (Some(&**inbound), inbound.id()),
        Content::Batch(_) => (None, None),
    };
    if let Err(missing) = begins(gate, caller, message) {
        return gate.protected.lacking(&[missing], id.as_deref());
    }
    match content {
        Content::Message(inbound) if mirrored::is_modern(&inbound.params) => {
            let listens = inbound.method() == "subscriptions/listen";
            let response = modern::post(gate, caller, headers, Content::Message(inbound)).await;
            if listens {
                still_known(gate, caller, headers, response)
            } else {
                response
            }
        }
        Content::Message(inbound) if inbound.is_request() && inbound.method() == "initialize" => {
            Box::pin(legacy::initialize(gate, caller, &inbound)).await
        }
        content if by_header => modern::post(gate, caller, headers, content).await,
        content => match unknown_revision(headers) {
            None => legacy::post(gate, caller, headers, content).await,
            Some(refused) => refused,
        },
    }
}

/// 2025-11-25 transports, "Protocol Version Header": an unsupported one MUST be answered with 400.
fn unknown_revision(headers: &HeaderMap) -> Option<Response<Body>> {
    let named = headers.get(&mirrored::PROTOCOL_VERSION)?;
    if mirrored::header_revision(headers).is_some() {
        return None;
    }
    let detail = format!(
        "the revision `{}` is not spoken here",
        crate::problem::sanitised(named.as_bytes())
    );
    let problem = Problem::new(StatusCode::BAD_REQUEST, code::UNSUPPORTED_REVISION, detail);
    Some(problem.rpc(None, INVALID_REQUEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_paths_are_known() {
        for ours in ["/mcp", "/mcp/", "/mcp/booking", "/mcp/a/b"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["/", "/mcpx", "/api/v1/mcp", "/healthz"] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn an_unknown_revision_is_refused() {
        let mut headers = HeaderMap::new();
        assert!(unknown_revision(&headers).is_none());
        headers.insert(&mirrored::PROTOCOL_VERSION, "2025-06-18".parse().unwrap());
        assert!(unknown_revision(&headers).is_none());
        headers.insert(&mirrored::PROTOCOL_VERSION, "2024-01-01".parse().unwrap());
        assert_eq!(unknown_revision(&headers).unwrap().status(), 400);
    }
}
