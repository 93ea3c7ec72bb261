//! `initialize`: a session for the agent at once, whatever the server does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{HeaderValue, Response, StatusCode};
use steadfast_core::bridge::Client;
use steadfast_core::wire::json;
use steadfast_core::{Era, Revision};

use super::{SESSION_ID, json_answer, store_failed};
use crate::Gate;
use crate::agents::endpoint::Caller;
use crate::agents::inbound::Inbound;
use crate::agents::{hello, merged, render};
use crate::body::Body;
use crate::problem::{INVALID_PARAMS, rpc_error};

/// Answers `initialize` in the server's words, and opens a session.
pub(crate) async fn initialize(
    gate: &Arc<Gate>,
    caller: &Caller,
    inbound: &Inbound,
) -> Response<Body> {
    let id = inbound.raw_id().unwrap_or(b"null");
    let Some(revision) = revision(inbound) else {
        let message = rpc_error(Some(id), INVALID_PARAMS, "no protocolVersion", None);
        return json_answer(StatusCode::BAD_REQUEST, message);
    };
    let (agent, link) = (caller.agent().clone(), caller.link.as_ref());
    let result = match link {
        Some(link) => {
            if link.hello().is_none() {
                link.connected(gate.settings.hello_wait).await;
            }
            hello::initialize(link, revision)
        }
        None => merged::initialize(gate, &caller.access, revision).await,
    };
    let server = link.map(|link| link.server().clone());
    let sessions = &gate.sessions;
    let opened = sessions
        .open(agent, server, revision, client(inbound))
        .await;
    let (session_id, session) = match opened {
        Ok(opened) => opened,
        Err(error) => return store_failed(Some(id), &error),
    };
    let unseen = link.is_some_and(|link| link.hello().is_none());
    session.unseen.store(unseen, Ordering::Relaxed);
    if let Some(link) = link {
        // One of its own, where it has one, is opened now: the first call finds it open.
        drop(session.link(&gate.keeper, Arc::clone(link)));
    }
    let mut response = json_answer(StatusCode::OK, render::result(id, &result));
    // Hexadecimal digits are a header value.
    if let Ok(value) = HeaderValue::from_str(&session_id) {
        response.headers_mut().insert(SESSION_ID.clone(), value);
    }
    response
}

/// The revision of the session: the agent's where it is a legacy one that we speak, else our latest
/// (2025-11-25 lifecycle, "Version Negotiation").
fn revision(inbound: &Inbound) -> Option<Revision> {
    let params = inbound.params.whole.clone()?;
    let range = json::at_path(&inbound.message, params, &["protocolVersion"])?;
    let asked = json::text(&inbound.message, range)?;
    let known = Revision::parse(&asked).filter(|revision| revision.era() == Era::Legacy);
    Some(known.unwrap_or(Revision::LATEST_LEGACY))
}

fn client(inbound: &Inbound) -> Client {
    let member = |key| {
        let params = inbound.params.whole.clone()?;
        let range = json::at_path(&inbound.message, params, &[key])?;
        String::from_utf8(inbound.message.get(range)?.to_vec()).ok()
    };
    Client {
        info: member("clientInfo").unwrap_or_else(|| "{}".to_owned()),
        capabilities: member("capabilities").unwrap_or_else(|| "{}".to_owned()),
        log_level: None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn initialize(params: &str) -> Inbound {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
        Inbound::read(Bytes::from(text)).unwrap()
    }

    #[test]
    fn the_agents_revision_is_taken_where_it_is_a_legacy_one() {
        for (asked, given) in [
            ("2025-03-26", Some(Revision::V2025_03_26)),
            ("2025-06-18", Some(Revision::V2025_06_18)),
            ("2025-11-25", Some(Revision::V2025_11_25)),
            ("2026-07-28", Some(Revision::LATEST_LEGACY)),
            ("1.0", Some(Revision::LATEST_LEGACY)),
        ] {
            let inbound = initialize(&format!(r#"{{"protocolVersion":"{asked}"}}"#));
            assert_eq!(revision(&inbound), given, "{asked}");
        }
        assert_eq!(revision(&initialize("{}")), None);
    }

    #[test]
    fn what_the_agent_says_of_itself_is_kept_as_it_came() {
        let inbound = initialize(
            r#"{"protocolVersion":"2025-11-25","clientInfo":{"name":"a", "n":1.0},"capabilities":{ "roots":{} }}"#,
        );
        let client = client(&inbound);
        assert_eq!(client.info, r#"{"name":"a", "n":1.0}"#);
        assert_eq!(client.capabilities, r#"{ "roots":{} }"#);
    }
}
