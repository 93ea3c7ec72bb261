//! What the answer to `initialize` leads to.

use serde::Deserialize;

use super::{
    Ask, HEADER_REVISION, Known, Memory, Next, State, Transport, failed, opened, undecided,
};
use crate::fault::{Fault, Kind};
use crate::quirks::body::{self, Message, Said};
use crate::quirks::{self, Answer};
use crate::revision::{Era, Revision};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
}

/// Takes the answer to `initialize`.
pub(super) fn answered(
    revision: Revision,
    header: bool,
    memory: Memory,
    answer: &Answer<'_>,
) -> (State, Next) {
    if let Some(fault) = undecided(answer) {
        return failed(fault);
    }
    match (answer.status, Message::read(answer.body)) {
        (200..=299, Message::Result(result)) => match serde_json::from_str(result.get()) {
            Ok(result) => negotiated(header, &memory, &result),
            Err(_) => failed(Fault::new(
                Kind::ProtocolMismatch,
                "the server answers initialize without a protocolVersion",
            )),
        },
        (200..=299, Message::Error(_)) | (400..=499, _) => {
            refused(revision, header, memory, answer)
        }
        (_, Message::Result(_) | Message::Error(_) | Message::NotRpc) => {
            failed(quirks::fault_of(answer))
        }
    }
}

/// The server chose a revision: any legacy one that we speak will do, also one above what was
/// offered (PV-06).
fn negotiated(header: bool, memory: &Memory, result: &InitializeResult) -> (State, Next) {
    let name = &result.protocol_version;
    match Revision::parse(name) {
        Some(revision) if revision.era() == Era::Legacy => opened(Known {
            era: Era::Legacy,
            transport: Transport::StreamableHttp,
            revision,
            initialize_header: header,
            no_ping: memory.no_ping(),
        }),
        Some(revision) => failed(Fault::new(
            Kind::ProtocolMismatch,
            format!("the server answers initialize with {revision}, which has no sessions"),
        )),
        None => failed(Fault::new(
            Kind::ProtocolMismatch,
            format!(
                "the server answers initialize with the unknown revision \"{}\"",
                quirks::sanitise(name)
            ),
        )),
    }
}

/// The server refuses `initialize`: find out, once for each, whether the era, the header, the revision
/// or the transport is the reason.
fn refused(
    revision: Revision,
    header: bool,
    mut memory: Memory,
    answer: &Answer<'_>,
) -> (State, Next) {
    let cause = quirks::fault_of(answer);
    let named = body::named_revisions(answer.body, revision);
    let modern_only = named.iter().any(|name| name.era() == Era::Modern);
    let named = memory.best_legacy(named);
    if quirks::modern_refusal(answer).is_some()
        || quirks::method_unknown(answer).is_some()
        || (modern_only && named.is_none())
    {
        return modern(header, memory, named, cause);
    }
    let header_named = quirks::version_header(answer).is_some();
    if header_named && !memory.header_changed {
        return change_header(revision, header, memory, cause);
    }
    if let Some(revision) = named.filter(|_| !memory.revision_changed) {
        memory.revision_changed = true;
        return memory.ask(Ask::Initialize { revision, header }, cause);
    }
    if header_suspected(header, answer) && !memory.header_changed {
        return change_header(revision, header, memory, cause);
    }
    // 2026-07-28 streamable-http, "HTTP+SSE Transport": 400, 404 or 405 without a modern error.
    // Only during first contact, never in place of what is known to work (HT-03).
    if memory.known.is_none() && matches!(answer.status, 400 | 404 | 405) {
        return memory.ask(Ask::Endpoint, cause);
    }
    failed(cause)
}

/// The refusal is a modern server's.
fn modern(
    header: bool,
    mut memory: Memory,
    named: Option<Revision>,
    cause: Fault,
) -> (State, Next) {
    if let Some(revision) = named.filter(|_| !memory.revision_changed) {
        memory.revision_changed = true;
        return memory.ask(Ask::Initialize { revision, header }, cause);
    }
    let known_legacy = memory
        .known
        .as_ref()
        .is_some_and(|known| known.era == Era::Legacy);
    // 2026-07-28 versioning: "re-probing if the cached assumption later fails".
    if known_legacy && memory.offer.modern() && !memory.era_doubted {
        memory.era_doubted = true;
        return memory.ask(Ask::Discover(Revision::LATEST_MODERN), cause);
    }
    failed(cause)
}

/// Asks again with the header, or without it. The protocol leaves open whether it belongs on
/// `initialize`; the least surprising choice is to leave it out (PV-05).
fn change_header(
    revision: Revision,
    header: bool,
    mut memory: Memory,
    cause: Fault,
) -> (State, Next) {
    memory.header_changed = true;
    let revision = if header {
        memory.offer.legacy().unwrap_or(revision)
    } else {
        revision.min(HEADER_REVISION)
    };
    let ask = Ask::Initialize {
        revision,
        header: !header,
    };
    memory.ask(ask, cause)
}

/// Whether a refusal that does not name it may be about the header: a 400 to a request with it, one
/// that speaks of versions, or one that was given before the message was read, as it carries no id of
/// a request.
fn header_suspected(header: bool, answer: &Answer<'_>) -> bool {
    let unread = match Message::read(answer.body) {
        Message::Error(error) => !error.has_id,
        Message::NotRpc => true,
        Message::Result(_) => false,
    };
    let of_versions = || Said::of(answer.body).text.contains("protocol version");
    answer.status == 400 && (header || unread || of_versions())
}
