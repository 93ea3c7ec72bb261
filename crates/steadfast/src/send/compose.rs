//! What goes out: the agent's message with our own id and progress token, in the server's era, and
//! the headers that mirror it. Headers are always derived from the outgoing body (PV-08).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use steadfast_core::Era;
use steadfast_core::bridge::{self, Level};
use steadfast_core::catalog::List;
use steadfast_core::wire::splice::{self, Edit};
use steadfast_core::wire::{envelope, header, json};

use super::Policy;
use crate::call::{Call, Origin};
use crate::levels;
use crate::link::Link;
use crate::route::{MCP_METHOD, MCP_NAME, Route};

/// A request as it goes out.
pub(super) struct Composed {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Composes the request with this id.
pub(super) fn compose(
    link: &Link,
    route: &Route,
    call: &Call,
    policy: &Policy,
    id: i64,
) -> Composed {
    let own = id.to_string();
    let mut edits: Vec<Edit<'_>> = Vec::with_capacity(2);
    let replaced = [call.envelope.id.clone(), call.params.progress_token.clone()];
    for range in replaced.into_iter().flatten() {
        edits.push(Edit {
            range,
            with: own.as_bytes(),
        });
    }
    // `dev.steadfast/*` is for us; nothing else of `_meta` changes.
    let ours = match &call.params.meta {
        Some(meta) if !call.params.ours.is_empty() => Some(splice::change_members(
            &call.message,
            meta.clone(),
            &call.params.ours,
            &[],
        )),
        Some(_) | None => None,
    };
    edits.extend(ours.iter().flat_map(splice::MemberChange::edits));
    let spliced = splice::apply(&call.message, &mut edits);
    let (body, is_own) = match (&call.origin, route.era()) {
        (Origin::Legacy { .. }, Era::Legacy) | (Origin::Modern { .. }, Era::Modern) => {
            (spliced, true)
        }
        (Origin::Legacy { client, .. }, Era::Modern) => {
            let body = bridge::request_to_modern(&spliced, route.known.revision, client);
            (body, false)
        }
        (Origin::Modern { .. }, Era::Legacy) => (bridge::request_to_legacy(&spliced), false),
    };
    let mut headers = route.headers.clone();
    if route.era() == Era::Modern {
        if is_own {
            // What is mirrored stands in the body as it stands in the agent's message: only the id and
            // parts of `_meta` were edited. So the body need not be read again.
            mirror(link, &mut headers, policy, &call.message, &call.params);
        } else {
            let read = envelope::read(&body).map(|read| envelope::read_params(&body, &read));
            mirror(link, &mut headers, policy, &body, &read.unwrap_or_default());
        }
    }
    Composed {
        headers,
        body: Bytes::from(body),
    }
}

/// 2026-07-28 streamable-http, "Standard Request Headers" and "Custom Headers from Tool Parameters".
fn mirror(
    link: &Link,
    headers: &mut HeaderMap,
    policy: &Policy,
    body: &[u8],
    params: &envelope::Params,
) {
    insert(headers, MCP_METHOD, &policy.method);
    let source = match policy.method.as_str() {
        "tools/call" | "prompts/get" => params.name.clone(),
        "resources/read" => params.uri.clone(),
        // SEP-2663 (the tasks extension), "Streamable HTTP: Routing Headers".
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            let params = params.whole.clone();
            params.and_then(|whole| json::at_path(body, whole, &["taskId"]))
        }
        _ => None,
    };
    if let Some(name) = source.and_then(|range| json::text(body, range)) {
        insert(headers, MCP_NAME, &header::encode_value(&name));
    }
    if let (Some(tool), Some(arguments)) = (&policy.tool, &params.arguments) {
        let tools = link.listed(List::Tools);
        for mirrored in tools.iter().flat_map(|tools| tools.mirrored(tool)) {
            if let Some(value) = header::param_value(&body[arguments.clone()], mirrored)
                && let Ok(name) = HeaderName::try_from(mirrored.header.as_str())
            {
                insert(headers, name, &value);
            }
        }
    }
}

pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The response for the agent: its own id, its own era, and a mark where the read was asked again.
/// `None` where a modern server asks a legacy agent for input.
pub(super) fn answer_for(
    call: &Call,
    era: Era,
    policy: &Policy,
    message: &Bytes,
    read: &envelope::Envelope,
    reissued: u32,
) -> Option<Bytes> {
    let mut answer = with_agent_id(call, message, read);
    let is_error = read.kind == envelope::Kind::Error;
    match (&call.origin, era) {
        (Origin::Legacy { .. }, Era::Legacy) | (Origin::Modern { .. }, Era::Modern) => {}
        (Origin::Legacy { .. }, Era::Modern) => {
            answer = Bytes::from(if is_error {
                bridge::error_to_legacy(&policy.method, &answer)
            } else {
                bridge::result_to_legacy(&answer)?
            });
        }
        (Origin::Modern { .. }, Era::Legacy) => {
            answer = Bytes::from(if is_error {
                bridge::error_to_modern(&policy.method, &answer)
            } else {
                bridge::result_to_modern(&policy.method, &answer)
            });
        }
    }
    if reissued > 0 {
        answer = mark_observation(answer, reissued);
    }
    Some(answer)
}

fn with_agent_id(call: &Call, message: &Bytes, read: &envelope::Envelope) -> Bytes {
    let Some(own) = call.envelope.id.clone() else {
        return message.clone();
    };
    let own = &call.message[own];
    let spliced = match &read.id {
        Some(range) => splice::apply(
            message,
            &mut [Edit {
                range: range.clone(),
                with: own,
            }],
        ),
        // An error to a request whose id the server did not read: it is the answer to this one.
        None => {
            let text = String::from_utf8_lossy(own);
            let cut = null_id(message);
            let bare = cut.map_or_else(
                || message.to_vec(),
                |range| splice::apply(message, &mut [Edit { range, with: b"" }]),
            );
            let (at, member) = splice::insert_member(&bare, 0..bare.len(), "id", &text);
            let insertion = Edit {
                range: at..at,
                with: member.as_bytes(),
            };
            splice::apply(&bare, &mut [insertion])
        }
    };
    Bytes::from(spliced)
}

/// The member `"id": null` of an error.
fn null_id(message: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut found = None;
    json::members(message, 0..message.len(), |member| {
        if json::text(message, member.key.clone()).as_deref() == Some("id") {
            found = Some(splice::cut_member(message, &member));
        }
    })
    .ok()?;
    found
}

/// The answer to a read that was asked again is a new observation (architecture, writes 15).
fn mark_observation(message: Bytes, reissued: u32) -> Bytes {
    let Ok(read) = envelope::read(&message) else {
        return message;
    };
    let Some(result) = read.result else {
        return message;
    };
    let mark = format!(r#"{{"reissued":{reissued}}}"#);
    let meta = json::at_path(&message, result.clone(), &["_meta"])
        .filter(|range| message.get(range.start) == Some(&b'{'));
    let (at, member) = match meta {
        Some(meta) => splice::insert_member(&message, meta, "dev.steadfast/observation", &mark),
        None => {
            let meta = format!(r#"{{"dev.steadfast/observation":{mark}}}"#);
            splice::insert_member(&message, result, "_meta", &meta)
        }
    };
    let insertion = Edit {
        range: at..at,
        with: member.as_bytes(),
    };
    Bytes::from(splice::apply(&message, &mut [insertion]))
}

/// Whether a notification on the stream of a call, other than of progress, is for its agent: not a log
/// message below its level, and nothing that its era does not have.
pub(super) fn is_for(
    call: &Call,
    route: &Route,
    message: &[u8],
    read: &envelope::Envelope,
) -> bool {
    if let Some(level) = Level::of_message(message, read) {
        return levels::wants(call, route.era(), level);
    }
    // 2026-07-28 changelog, minor 11: it is no more. The second leg asks instead.
    let is_of_pages = read.method(message) == "notifications/elicitation/complete";
    !is_of_pages || matches!(call.origin, Origin::Legacy { .. })
}

/// A notification of progress with the agent's own token; `None` where it gave none.
fn with_agent_token(call: &Call, message: &Bytes, read: &envelope::Envelope) -> Option<Bytes> {
    let asked = call.params.progress_token.clone()?;
    let range = envelope::read_params(message, read).progress_of?;
    let with = &call.message[asked];
    let mut edits = [Edit { range, with }];
    Some(Bytes::from(splice::apply(message, &mut edits)))
}

/// A message of an earlier leg's stream as one of this leg: its own id, its own progress token. `None`
/// for progress that this leg did not ask for.
pub(crate) fn for_leg(leg: &Call, message: Bytes) -> Option<Bytes> {
    let Ok(read) = envelope::read(&message) else {
        return Some(message);
    };
    match read.kind {
        envelope::Kind::Result | envelope::Kind::Error => Some(with_agent_id(leg, &message, &read)),
        envelope::Kind::Notification if read.method(&message) == "notifications/progress" => {
            with_agent_token(leg, &message, &read)
        }
        envelope::Kind::Notification | envelope::Kind::Request => Some(message),
    }
}
