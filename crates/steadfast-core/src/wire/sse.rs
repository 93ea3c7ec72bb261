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
    /// An event grew above the limit (SP-05). Said at once and once per event; its bytes are dropped up to
    /// its end. Its id still comes, in an [`Event`] without data, so that a resume goes on behind it.
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

/// The longest `event` or `id` that is taken: an id goes back in a header, and peers refuse longer ones.
const SHORT_FIELD_LIMIT: usize = 8 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The longest beginning of a line that can still become a field we know: a byte order mark and five letters.
const LONGEST_NAME: usize = BYTE_ORDER_MARK.len() + 5;

/// The fields that mean something; all others are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Unknown,
}

/// How far into its present line the decoder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the colon: the bytes so far are in `name`.
    Name,
    /// Behind the colon, where one space is no part of the value.
    Colon(Field),
    /// In the value.
    Value(Field),
    /// In a comment.
    Comment,
}

/// Turns chunks into events.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// Whether the present line is the first of the stream, where a byte order mark may stand.
    first_line: bool,
    /// Whether the last line ended with a CR, so that an LF next belongs to it.
    after_cr: bool,
    place: Place,
    name: [u8; LONGEST_NAME],
    name_length: usize,
    /// The value of the present line, for fields other than data.
    value: Vec<u8>,
    block: Event,
    /// Whether the present block went above a limit: no more of its data is kept.
    too_large: bool,
}

impl Decoder {
    /// `limit`: the most bytes of data one event may have.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            first_line: true,
            after_cr: false,
            place: Place::Name,
            name: [0; LONGEST_NAME],
            name_length: 0,
            value: Vec::new(),
            block: Event::default(),
            too_large: false,
        }
    }

    /// Takes a chunk and appends what it completes. Memory stays bounded by the limit: bytes are looked at
    /// once and copied once, straight to where the event keeps them.
    pub fn feed(&mut self, chunk: &[u8], found: &mut Vec<Item>) {
        let mut rest = chunk;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let (line, terminator) = rest.split_at(end);
            self.take(line, found);
            self.end_line(found);
            rest = if let Some(tail) = terminator.strip_prefix(b"\r\n") {
                tail
            } else {
                // A lone CR ends its line at once; should an LF come with the next chunk, it adds nothing.
                self.after_cr = terminator == b"\r";
                terminator.get(1..).unwrap_or_default()
            };
        }
        self.take(rest, found);
    }

    /// Whether bytes of an unfinished block are held (at the end of a body such a block is dropped,
    /// as the algorithm says).
    #[must_use]
    pub fn is_mid_event(&self) -> bool {
        self.place != Place::Name
            || self.name_length > 0
            || self.too_large
            || self.block != Event::default()
    }

    /// Takes bytes of the present line.
    fn take(&mut self, mut part: &[u8], found: &mut Vec<Item>) {
        if self.place == Place::Name && !part.is_empty() {
            let room = LONGEST_NAME - self.name_length;
            let head = part.get(..room + 1).unwrap_or(part);
            let colon = memchr::memchr(b':', head);
            let name = head.get(..colon.unwrap_or(head.len())).unwrap_or_default();
            let kept = name.len().min(room);
            for (slot, byte) in self.name.iter_mut().skip(self.name_length).zip(name) {
                *slot = *byte;
            }
            self.name_length += kept;
            part = match colon {
                Some(colon) => {
                    self.place = self.after_colon(found);
                    part.get(colon + 1..).unwrap_or_default()
                }
                None if name.len() > room => {
                    self.place = Place::Value(Field::Unknown);
                    part
                }
                None => return,
            };
        }
        if let Place::Colon(field) = self.place
            && !part.is_empty()
        {
            self.place = Place::Value(field);
            part = part.strip_prefix(b" ").unwrap_or(part);
        }
        if let Place::Value(field) = self.place {
            self.take_value(field, part, found);
        }
    }

    fn take_value(&mut self, field: Field, part: &[u8], found: &mut Vec<Item>) {
        let (kept, limit) = match field {
            Field::Data if self.too_large => return,
            Field::Data => (self.block.data.get_or_insert_default(), self.limit),
            Field::Event | Field::Id | Field::Retry => (&mut self.value, SHORT_FIELD_LIMIT),
            Field::Unknown => return,
        };
        if part.len() > limit.saturating_sub(kept.len()) {
            self.place = Place::Value(Field::Unknown);
            self.refuse(found);
        } else {
            kept.extend_from_slice(part);
        }
    }

    /// Gives up the data of the present block, and says so once.
    fn refuse(&mut self, found: &mut Vec<Item>) {
        self.value = Vec::new();
        self.block.data = None;
        if !self.too_large {
            self.too_large = true;
            found.push(Item::TooLarge);
        }
    }

    /// What the name before the colon, or the whole line without one, says.
    fn field(&self) -> (&[u8], Field) {
        let name = self.name.get(..self.name_length).unwrap_or_default();
        let name = match name.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.first_line => rest,
            _ => name,
        };
        let field = match name {
            b"data" => Field::Data,
            b"event" => Field::Event,
            b"id" => Field::Id,
            b"retry" => Field::Retry,
            _ => Field::Unknown,
        };
        (name, field)
    }

    /// The name is complete: what kind of line this is.
    fn after_colon(&mut self, found: &mut Vec<Item>) -> Place {
        let (name, field) = self.field();
        if name.is_empty() {
            return Place::Comment;
        }
        self.begin_value(field, found);
        Place::Colon(field)
    }

    /// A second data line is joined to the first by an LF; the first makes even empty data present.
    fn begin_value(&mut self, field: Field, found: &mut Vec<Item>) {
        if field != Field::Data || self.too_large {
            return;
        }
        match &mut self.block.data {
            // Empty lines count too, else endlessly many of them would fill the memory.
            Some(data) if data.len() >= self.limit => self.refuse(found),
            Some(data) => data.push(b'\n'),
            none => *none = Some(Vec::new()),
        }
    }

    fn end_line(&mut self, found: &mut Vec<Item>) {
        match self.place {
            Place::Name => {
                let (name, field) = self.field();
                if name.is_empty() {
                    self.end_block(found);
                } else {
                    // "Otherwise, the string is not empty but does not contain a colon": an empty value.
                    self.begin_value(field, found);
                    self.end_field(field);
                }
            }
            Place::Colon(field) | Place::Value(field) => self.end_field(field),
            Place::Comment => found.push(Item::Comment),
        }
        self.place = Place::Name;
        self.name_length = 0;
        self.first_line = false;
    }

    fn end_field(&mut self, field: Field) {
        let value = match field {
            Field::Data | Field::Unknown => return,
            Field::Event | Field::Id | Field::Retry => std::mem::take(&mut self.value),
        };
        match field {
            Field::Event => self.block.name = String::from_utf8_lossy(&value).into_owned(),
            // "If the field value does not contain U+0000 NULL": else it is ignored.
            Field::Id if !value.contains(&0) => {
                self.block.id = Some(String::from_utf8_lossy(&value).into_owned());
            }
            // "If the field value consists of only ASCII digits". One beyond u64 is no delay anybody means.
            Field::Retry if value.iter().all(u8::is_ascii_digit) => {
                let number = std::str::from_utf8(&value)
                    .ok()
                    .and_then(|it| it.parse().ok());
                self.block.retry = number.or(self.block.retry);
            }
            Field::Data | Field::Id | Field::Retry | Field::Unknown => {}
        }
    }

    /// A blank line: what the block carried is dispatched.
    fn end_block(&mut self, found: &mut Vec<Item>) {
        self.too_large = false;
        let mut event = std::mem::take(&mut self.block);
        if event.data.is_none() {
            // No data, no event ("set the event type buffer to the empty string and return").
            event.name = String::new();
        }
        if event != Event::default() {
            found.push(Item::Event(event));
        }
    }
}

/// Writes one event. Data with line ends becomes several data lines, so that a reader gets an LF for each
/// CR, LF or CRLF: the format has no way to write a CR. An id that no reader would take (with a line end or
/// a NUL) is left out.
pub fn encode(out: &mut Vec<u8>, id: Option<&str>, retry: Option<u64>, data: &[u8]) {
    out.reserve(data.len() + 64);
    if let Some(id) = id
        && !id.contains(['\r', '\n', '\0'])
    {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    if let Some(retry) = retry {
        out.extend_from_slice(format!("retry: {retry}\n").as_bytes());
    }
    let mut rest = data;
    while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
        let (line, terminator) = rest.split_at(end);
        encode_data_line(out, line);
        let width = if terminator.starts_with(b"\r\n") {
            2
        } else {
            1
        };
        rest = terminator.get(width..).unwrap_or_default();
    }
    encode_data_line(out, rest);
    out.push(b'\n');
}

fn encode_data_line(out: &mut Vec<u8>, line: &[u8]) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(line);
    out.push(b'\n');
}

#[cfg(test)]
mod tests;
