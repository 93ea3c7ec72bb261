//! Server-sent events, both ways (WHATWG HTML, "Interpreting an event stream").
//! Bytes are kept as bytes: a character may be cut anywhere (SP-03), line ends may be LF, CRLF or CR
//! and may be cut too (SP-02).

/// What the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A dispatched event, or a block that only carried an id or a retry (SP-01: remembered as well).
    Event(Event),
    /// A comment: nothing but life (SP-04).
    Comment,
    /// An event grew above the limit; its bytes were dropped up to its end (SP-05).
    TooLarge,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// `event`; empty for the default.
    pub name: String,
    /// `id` where the block had one; an id with a NUL is ignored.
    pub id: Option<String>,
    /// `retry` where the block had one of digits only.
    pub retry: Option<u64>,
    /// `data`, lines joined by LF; `None` where the block had no data field.
    pub data: Option<Vec<u8>>,
}

/// Turns chunks into events.
#[derive(Debug)]
pub struct Decoder {
    _limit: usize,
}

impl Decoder {
    /// `limit`: the most bytes of data one event may have.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { _limit: limit }
    }

    /// Takes a chunk and appends what it completes. Memory stays bounded by the limit.
    pub fn feed(&mut self, chunk: &[u8], found: &mut Vec<Item>) {
        let _ = (chunk, found);
        unimplemented!()
    }

    /// Whether bytes of an unfinished block are held (at the end of a body such a block is dropped,
    /// as the algorithm says).
    #[must_use]
    pub fn is_mid_event(&self) -> bool {
        unimplemented!()
    }
}

/// Writes one event. Data with line ends becomes several data lines.
pub fn encode(out: &mut Vec<u8>, id: Option<&str>, retry: Option<u64>, data: &[u8]) {
    let _ = (out, id, retry, data);
    unimplemented!()
}
