//! What the answer to `server/discover` says about the server's era.

use serde::Deserialize;

use super::{Ask, Known, Memory, Next, State, Transport, failed, opened, undecided};
use crate::fault::{Fault, Kind};
use crate::quirks::body::{Message, RpcError};
use crate::quirks::{self, Answer, Meaning, Media};
use crate::revision::{Era, Revision};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
}

/// Takes the answer to `server/discover`.
pub(super) fn answered(memory: Memory, answer: &Answer<'_>) -> (State, Next) {
    // SE-03, PV-01: a server that has sessions, not one that wants a sign-in.
    if quirks::session_wanted(answer).is_some() {
        return legacy(memory, answer);
    }
    if let Some(fault) = undecided(answer) {
        return failed(fault);
    }
    let success = (200..300).contains(&answer.status);
    match Message::read(answer.body) {
        Message::Error(error) => match quirks::modern_refusal(answer) {
            Some(rule) if rule.meaning == Meaning::VersionUnsupported => {
                version_refused(memory, &error)
            }
            // A modern server; falling back would hide what it says.
            Some(_) => failed(quirks::fault_of(answer)),
            None => legacy(memory, answer),
        },
        // A result without supportedVersions is a legacy server's that answers everything (PV-03).
        Message::Result(result) if success => {
            match serde_json::from_str::<DiscoverResult>(result.get()) {
                Ok(result) if !result.supported_versions.is_empty() => {
                    versions_named(memory, &result.supported_versions)
                }
                Ok(_) | Err(_) => legacy(memory, answer),
            }
        }
        // A sign-in page or a captive portal (HT-04).
        Message::NotRpc if success && answer.media == Media::Html => {
            failed(quirks::fault_of(answer))
        }
        Message::Result(_) | Message::NotRpc => legacy(memory, answer),
    }
}

/// Nothing in the answer is a modern server's: go on with the handshake.
fn legacy(memory: Memory, answer: &Answer<'_>) -> (State, Next) {
    let cause = quirks::fault_of(answer);
    // `initialize` was refused already: neither era works.
    if memory.era_doubted {
        return failed(cause);
    }
    match memory.offer.legacy() {
        Some(revision) => {
            let ask = memory.initialize(revision);
            memory.ask(ask, cause)
        }
        None => failed(Fault::new(
            Kind::ProtocolMismatch,
            format!(
                "the server does not speak {}, and nothing older may be used",
                memory.offer.spoken()
            ),
        )),
    }
}

/// The server named its revisions.
fn versions_named(memory: Memory, versions: &[String]) -> (State, Next) {
    match Revision::best_of(versions.iter().map(String::as_str), Era::Modern) {
        Some(revision) => opened(Known {
            era: Era::Modern,
            transport: Transport::StreamableHttp,
            revision,
            initialize_header: false,
            no_ping: memory.no_ping(),
        }),
        None => initialize_in_one_of(memory, versions),
    }
}

/// -32022: the request was refused, not executed, and the server says what it speaks (2026-07-28
/// versioning, "Protocol Version Negotiation"; PV-04). Never the legacy handshake on a guess.
fn version_refused(mut memory: Memory, error: &RpcError) -> (State, Next) {
    let Some(versions) = &error.supported else {
        return failed(Fault::new(
            Kind::ProtocolMismatch,
            "the server refuses our revision and names none of its own (-32022)",
        ));
    };
    match Revision::best_of(versions.iter().map(String::as_str), Era::Modern) {
        Some(revision) if !memory.discover_repeated => {
            memory.discover_repeated = true;
            let cause = no_common(&memory, versions);
            memory.ask(Ask::Discover(revision), cause)
        }
        Some(_) | None => initialize_in_one_of(memory, versions),
    }
}

/// The server named legacy revisions, and none of the modern ones helps.
fn initialize_in_one_of(memory: Memory, versions: &[String]) -> (State, Next) {
    let cause = no_common(&memory, versions);
    match memory.best_legacy(versions.iter().filter_map(|name| Revision::parse(name))) {
        Some(revision) => {
            let ask = memory.initialize(revision);
            memory.ask(ask, cause)
        }
        None => failed(cause),
    }
}

/// Names both sides' revisions: whoever reads it sees who must be updated.
fn no_common(memory: &Memory, versions: &[String]) -> Fault {
    Fault::new(
        Kind::ProtocolMismatch,
        format!(
            "no common revision: the server speaks {}, we speak {}",
            quirks::sanitise(&versions.join(", ")),
            memory.offer.spoken()
        ),
    )
}
