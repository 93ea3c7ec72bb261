//! What is wrong, where an answer is no answer of the protocol or an HTTP error.

use super::body::{self, Message};
use super::excerpt::{sanitise, title};
use super::{Answer, Media};
use crate::fault::{Fault, Kind};
use crate::wire::challenge::{self, ScopeNeeded};

/// JSON-RPC 2.0 section 5.1: internal error.
const INTERNAL_ERROR: i64 = -32603;

/// The fault of an answer that is an HTTP error, a JSON-RPC error where none was due, or no MCP
/// answer at all. The message is one sentence and never holds a secret.
#[must_use]
pub fn fault_of(answer: &Answer<'_>) -> Fault {
    let status = answer.status;
    if let Some(needed) = challenge::scope_needed(status, answer.challenge) {
        return scope_insufficient(status, &needed);
    }
    match status {
        401 => Fault::new(Kind::SignInRequired, "the server wants a sign-in (401)"),
        403 => Fault::new(
            Kind::Forbidden,
            format!("the server refuses (403){}", said(answer)),
        ),
        // RFC 9110 sections 15.5.9 and 15.6.5: the server, or the one behind it, waited too long.
        408 | 504 => Fault::new(Kind::Timeout, format!("no answer in time ({status})"))
            .after(answer.retry_after),
        // RFC 8470 section 5.2: 425 asks for the same request, later.
        425 | 429 => Fault::new(
            Kind::RateLimited,
            format!("the server asks to be called less often ({status})"),
        )
        .after(answer.retry_after),
        500..=599 => Fault::new(
            Kind::ServerError,
            format!("the server failed ({status}){}", said(answer)),
        )
        .after(answer.retry_after),
        300..=399 => Fault::new(
            Kind::Redirected,
            format!("redirected ({status}), and not followed"),
        ),
        400..=499 => refused(answer),
        _ => not_mcp(answer),
    }
}

/// The fault of a call that wants more than is granted.
#[must_use]
pub fn scope_insufficient(status: u16, needed: &ScopeNeeded) -> Fault {
    let named = needed.scopes.as_deref().map(|scopes| scopes.join(" "));
    let named = named.map(|scopes| sanitise(&scopes));
    let message = named.map_or_else(
        || format!("the grant does not cover this, and the server names no scope ({status})"),
        |scopes| format!("the grant lacks the scope {scopes} ({status})"),
    );
    Fault::new(Kind::ScopeInsufficient, message)
}

/// A 4xx that has no fault of its own.
fn refused(answer: &Answer<'_>) -> Fault {
    let status = answer.status;
    match Message::read(answer.body) {
        Message::Error(error) => Fault::new(
            Kind::ProtocolMismatch,
            format!(
                "the server refuses ({status}): {}{}",
                error.code,
                quoted(&error.message)
            ),
        ),
        Message::Result(_) | Message::NotRpc => match (status, answer.media) {
            (400 | 404 | 405, _) => Fault::new(
                Kind::ProtocolMismatch,
                format!("no MCP endpoint at this address ({status})"),
            ),
            (_, Media::Html) => not_mcp(answer),
            (_, Media::Json | Media::EventStream | Media::Other | Media::None) => Fault::new(
                Kind::ProtocolMismatch,
                format!("the server refuses ({status}){}", said(answer)),
            ),
        },
    }
}

/// A success that is none: a JSON-RPC error where none was due, or something that is not MCP (HT-04).
fn not_mcp(answer: &Answer<'_>) -> Fault {
    if let Message::Error(error) = Message::read(answer.body) {
        let message = quoted(&error.message);
        return if error.code == INTERNAL_ERROR {
            Fault::new(
                Kind::ServerError,
                format!("the server failed: {INTERNAL_ERROR}{message}"),
            )
        } else {
            Fault::new(
                Kind::ProtocolMismatch,
                format!("the server refuses: {}{message}", error.code),
            )
        };
    }
    let text = body::text(answer.body);
    let what = match answer.media {
        Media::Html => title(&text).map_or_else(
            || "html without a title".to_owned(),
            |title| format!("html, title \"{title}\""),
        ),
        Media::Json => format!("json{}", quoted(&text)),
        Media::EventStream => format!("event stream{}", quoted(&text)),
        Media::Other => format!("neither json nor an event stream{}", quoted(&text)),
        Media::None => format!("no content type{}", quoted(&text)),
    };
    let status = match answer.status {
        200 => String::new(),
        status => format!("{status}, "),
    };
    Fault::new(
        Kind::NotAnMcpAnswer,
        format!("not an MCP answer ({status}{what})"),
    )
}

/// What the body of an error says: the message of a JSON-RPC error, the title of a page, or short text.
fn said(answer: &Answer<'_>) -> String {
    let text = match Message::read(answer.body) {
        Message::Error(error) => error.message,
        Message::Result(_) => return String::new(),
        Message::NotRpc if answer.media == Media::Html => {
            return title(&body::text(answer.body))
                .map_or_else(String::new, |title| format!(": html, title \"{title}\""));
        }
        Message::NotRpc => body::text(answer.body),
    };
    match sanitise(&text) {
        excerpt if excerpt.is_empty() => String::new(),
        excerpt => format!(": {excerpt}"),
    }
}

fn quoted(text: &str) -> String {
    match sanitise(text) {
        excerpt if excerpt.is_empty() => String::new(),
        excerpt => format!(", \"{excerpt}\""),
    }
}
