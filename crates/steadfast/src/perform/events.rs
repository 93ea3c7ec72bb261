//! Reads the body of a text/event-stream answer, one event at a time.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use steadfast_core::stream::Break;
use steadfast_core::wire::sse::{Decoder, Event, Item};

use super::exchange::Body;

/// What was read.
#[derive(Debug)]
pub(crate) enum Read {
    /// An event, with data or without.
    Event(Event),
    /// Bytes that complete no event, or a comment: life, nothing more.
    Heard,
    /// An event above the limit; it was dropped.
    TooLarge,
    /// The body is no event stream but plain JSON, whole (SP-06: labelled wrongly).
    PlainJson(Bytes),
    /// The body ended.
    End(Break),
}

/// Reads events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Body,
    decoder: Decoder,
    found: VecDeque<Item>,
    scratch: Vec<Item>,
    plain: Option<BytesMut>,
    begun: bool,
    kept_alive: bool,
    limit: usize,
}

impl Events {
    pub(crate) fn new(body: Body, limit: usize) -> Self {
        Self {
            body,
            decoder: Decoder::new(limit),
            found: VecDeque::new(),
            scratch: Vec::new(),
            plain: None,
            begun: false,
            kept_alive: false,
            limit,
        }
    }

    /// What was already read and not yet taken: never waits.
    pub(crate) fn ready(&mut self) -> Option<Read> {
        self.found.pop_front().map(Read::from)
    }

    /// The next thing on the stream. Safe to drop while waiting.
    pub(crate) async fn next(&mut self) -> Read {
        if let Some(ready) = self.ready() {
            return ready;
        }
        let chunk = match self.body.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => {
                return match self.plain.take() {
                    Some(plain) => Read::PlainJson(plain.freeze()),
                    None => Read::End(Break::CleanEnd),
                };
            }
            Err(how) => return Read::End(how),
        };
        if !self.begun {
            // No line of an event stream begins with a brace: field names are words.
            let first = chunk.iter().find(|byte| !byte.is_ascii_whitespace());
            self.begun = first.is_some();
            if first == Some(&b'{') {
                self.plain = Some(BytesMut::new());
            }
        }
        if let Some(plain) = &mut self.plain {
            if plain.len() + chunk.len() > self.limit {
                return Read::TooLarge;
            }
            plain.extend_from_slice(&chunk);
            return Read::Heard;
        }
        self.decoder.feed(&chunk, &mut self.scratch);
        self.kept_alive |= self
            .scratch
            .iter()
            .any(|item| matches!(item, Item::Comment));
        self.found.extend(self.scratch.drain(..));
        self.ready().unwrap_or(Read::Heard)
    }

    /// Whether the peer keeps the stream alive with comments.
    pub(crate) fn kept_alive(&self) -> bool {
        self.kept_alive
    }

    /// The answer was given: frees the connection.
    pub(crate) fn finish(self) {
        self.body.drain(Duration::from_secs(2));
    }
}

impl From<Item> for Read {
    fn from(item: Item) -> Self {
        match item {
            Item::Event(event) => Self::Event(event),
            Item::Comment => Self::Heard,
            Item::TooLarge => Self::TooLarge,
        }
    }
}
