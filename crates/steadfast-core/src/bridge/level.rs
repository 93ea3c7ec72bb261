//! Log levels: a property of the session in the legacy era, of each request in the modern one.

use crate::wire::{envelope, json};

/// The severity of a log message (RFC 5424 section 6.2.1), the least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Detailed debugging information.
    Debug,
    /// General informational messages.
    Info,
    /// Normal but significant events.
    Notice,
    /// Warning conditions.
    Warning,
    /// Error conditions.
    Error,
    /// Critical conditions.
    Critical,
    /// Action must be taken immediately.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl Level {
    /// All of them, the least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// As the protocol writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Reads one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }

    /// Reads one from a JSON string.
    #[must_use]
    pub fn from_json(raw: &[u8]) -> Option<Self> {
        Self::parse(&json::text(raw, 0..raw.len())?)
    }

    /// The level of a `notifications/message`; `None` for any other message.
    #[must_use]
    pub fn of_message(message: &[u8], read: &envelope::Envelope) -> Option<Self> {
        if read.method(message) != "notifications/message" {
            return None;
        }
        let level = json::at_path(message, read.params.clone()?, &["level"])?;
        Self::from_json(message.get(level)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn levels_are_ordered_and_read_as_they_are_written() {
        assert!(Level::ALL.is_sorted());
        for level in Level::ALL {
            let quoted = format!("\"{}\"", level.as_str());
            assert_eq!(Level::from_json(quoted.as_bytes()), Some(level));
        }
        assert_eq!(Level::parse("verbose"), None);
        assert_eq!(Level::from_json(b"1"), None);
    }

    #[test]
    fn only_a_log_message_has_a_level() {
        let level = |text: &str| {
            let read = envelope::read(text.as_bytes()).unwrap();
            Level::of_message(text.as_bytes(), &read)
        };
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"err\u006fr","data":1}}"#;
        assert_eq!(level(log), Some(Level::Error));
        let progress =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"level":"error"}}"#;
        assert_eq!(level(progress), None);
    }
}
