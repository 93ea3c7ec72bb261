//! ONE table of how servers really say things: "unknown session", "not modern", "refused before
//! executing". Status, code, text, session and challenge are looked at together, never one of them
//! alone (architecture, connections 8; PV-10). The table is [`RULES`]; the functions here only ask it.

pub(crate) mod body;
mod excerpt;
mod faults;
mod grants;
mod results;
mod rules;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use crate::now::Millis;
use crate::revision::Era;

pub use excerpt::sanitise;
pub use faults::{fault_of, scope_insufficient};
pub use grants::{TokenAnswer, error_code, token_answer};
pub use results::blames_token;
pub use rules::{Codes, Meaning, RULES, Rule};

/// What a body claims to be, by its Content-Type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Media {
    /// application/json, with any parameters.
    Json,
    /// text/event-stream.
    EventStream,
    /// text/html.
    Html,
    /// Something else.
    Other,
    /// No Content-Type.
    None,
}

impl Media {
    /// Reads a Content-Type header.
    #[must_use]
    pub fn of(content_type: Option<&str>) -> Self {
        let Some(value) = content_type else {
            return Self::None;
        };
        let essence = value.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") {
            Self::Json
        } else if essence.eq_ignore_ascii_case("text/event-stream") {
            Self::EventStream
        } else if essence.eq_ignore_ascii_case("text/html") {
            Self::Html
        } else {
            Self::Other
        }
    }
}

/// One HTTP answer, as far as a decision looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// What the body claims to be.
    pub media: Media,
    /// The body, or the first message of an event stream; at most its first 64 KiB.
    pub body: &'a [u8],
    /// The `WWW-Authenticate` header, its lines as one (RFC 9110 section 5.3).
    pub challenge: Option<&'a str>,
    /// The `Retry-After` header, already turned into a delay.
    pub retry_after: Option<Millis>,
    /// Whether the request carried a session id.
    pub session_attached: bool,
    /// The era in which the request was sent.
    pub era: Era,
}

/// Whether a status to a GET for a stream says "not now" rather than "not offered": time mends it.
#[must_use]
pub const fn is_temporary(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// Whether the server no longer knows the session that the request carried. Never without a session
/// id on the request, never in the modern era (SE-01, SE-02, SE-03, PV-10).
#[must_use]
pub fn unknown_session(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| rule.meaning == Meaning::UnknownSession)
}

/// Proof that the request was refused before it was executed: what allows `executed: no`. A status
/// alone proves nothing, whatever its class (WR-05).
#[must_use]
pub fn refused_before_execution(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| rule.refused)
}

/// Whether mirrored headers and body disagreed, in the server's eyes (PV-08, PV-10).
#[must_use]
pub fn header_mismatch(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| rule.meaning == Meaning::HeaderMismatch)
}

/// Whether the server does not know the method, in whatever status it says so (OP-05).
#[must_use]
pub fn method_unknown(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| rule.meaning == Meaning::MethodUnknown)
}

/// Whether a request without a session id was refused for the lack of one: a server that has
/// sessions, not one that wants a sign-in (PV-01, SE-03).
#[must_use]
pub fn session_wanted(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| rule.meaning == Meaning::SessionWanted)
}

/// Whether only a modern server says such a thing (2026-07-28 streamable-http, "Backward
/// Compatibility": a recognised modern JSON-RPC error; PV-02).
#[must_use]
pub fn modern_refusal(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| rule.meaning.is_modern())
}

/// Whether only a server of the era that the request was not sent in says such a thing, or one that does not speak
/// its revision any more: what was learned of the server is no longer true. A draft's codes say nothing in the
/// legacy era (PV-10).
#[must_use]
pub fn other_era(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| match answer.era {
        Era::Legacy => rule.meaning.is_modern() && rule.refused && rule.texts.is_empty(),
        Era::Modern => {
            rule.refused
                && matches!(
                    rule.meaning,
                    Meaning::SessionWanted | Meaning::VersionUnsupported
                )
        }
    })
}

/// Whether the refusal is about the MCP-Protocol-Version header (PV-05).
#[must_use]
pub fn version_header(answer: &Answer<'_>) -> Option<&'static Rule> {
    first(answer, |rule| rule.meaning == Meaning::VersionHeader)
}

/// The first wanted rule that matches. The body is read only once a rule's cheaper conditions hold,
/// and in a success (the usual case) only where it can hold an error.
fn first(answer: &Answer<'_>, wanted: impl Fn(&Rule) -> bool) -> Option<&'static Rule> {
    let success = (200..300).contains(&answer.status);
    if success && memchr::memmem::find(answer.body, b"\"error\"").is_none() {
        return None;
    }
    let said = OnceCell::new();
    RULES.iter().find(|rule| {
        wanted(rule)
            && rule.fits(answer)
            && rule.hears(said.get_or_init(|| body::Said::of(answer.body)))
    })
}
