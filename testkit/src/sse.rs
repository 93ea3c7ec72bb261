//! Server-sent events: a writer for scripts and a decoder of its own, independent of the product's.

use bytes::BytesMut;

/// One event as bytes, with LF line ends.
#[must_use]
pub fn event(id: Option<&str>, name: Option<&str>, data: &str) -> String {
    let mut text = String::new();
    if let Some(name) = name {
        text.push_str(&format!("event: {name}\n"));
    }
    if let Some(id) = id {
        text.push_str(&format!("id: {id}\n"));
    }
    for line in data.split('\n') {
        text.push_str(&format!("data: {line}\n"));
    }
    text.push('\n');
    text
}

/// One block of a stream: an event with its fields as written, or a comment line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A comment line, without its colon.
    Comment(String),
    /// The fields up to an empty line.
    Event(Fields),
}

/// The fields of one event; absent ones are `None`, so that a priming event (`id` and empty data) can be told apart
/// from an event without data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `id`
    pub id: Option<String>,
    /// `event`
    pub event: Option<String>,
    /// `data`, several lines joined by LF
    pub data: Option<String>,
    /// `retry`, as written
    pub retry: Option<String>,
}

/// An incremental decoder (WHATWG HTML, section 9.2.6), which also reports comments and events without data.
#[derive(Debug, Default)]
pub struct Decoder {
    line: BytesMut,
    after_cr: bool,
    started: bool,
    fields: Fields,
}

impl Decoder {
    /// Takes bytes and returns the blocks that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Block> {
        let mut blocks = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = self.line.split();
                    self.end_line(&String::from_utf8_lossy(&line), &mut blocks);
                }
                _ => self.line.extend_from_slice(&[byte]),
            }
        }
        blocks
    }

    fn end_line(&mut self, line: &str, blocks: &mut Vec<Block>) {
        let line = if self.started {
            line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(line)
        };
        self.started = true;
        if line.is_empty() {
            let fields = std::mem::take(&mut self.fields);
            if fields != Fields::default() {
                blocks.push(Block::Event(fields));
            }
            return;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" => blocks.push(Block::Comment(value.to_owned())),
            "id" => self.fields.id = Some(value.to_owned()),
            "event" => self.fields.event = Some(value.to_owned()),
            "retry" => self.fields.retry = Some(value.to_owned()),
            "data" => match &mut self.fields.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_and_every_cut_gives_the_same_blocks() {
        let text = ": hello\nid: 1\ndata:\n\nevent: message\ndata: a\ndata: b\n\nretry: 5\n\n";
        let expected = Decoder::default().feed(text.as_bytes());
        assert_eq!(expected.len(), 4);
        for end in ["\n", "\r\n", "\r"] {
            let bytes = text.replace('\n', end).into_bytes();
            for cut in 0..bytes.len() {
                let mut decoder = Decoder::default();
                let mut blocks = decoder.feed(&bytes[..cut]);
                blocks.extend(decoder.feed(&bytes[cut..]));
                assert_eq!(blocks, expected, "line end {end:?}, cut at {cut}");
            }
        }
    }
}
