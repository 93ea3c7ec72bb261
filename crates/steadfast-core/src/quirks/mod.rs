//! ONE table of how servers really say things: "unknown session", "not modern", "refused before
//! executing". Status, code, text, session and challenge are looked at together, never one of them
//! alone (architecture, connections 8; PV-10).

use crate::fault::Fault;
use crate::now::Millis;
use crate::revision::Era;

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
    /// Whether a `WWW-Authenticate` header came.
    pub challenge: Option<&'a str>,
    /// The `Retry-After` header, already turned into a delay.
    pub retry_after: Option<Millis>,
    /// Whether the request carried a session id.
    pub session_attached: bool,
    /// The era in which the request was sent.
    pub era: Era,
}
