//! A strict RFC 8259 scanner that finds the members of an object without building a tree.
//!
//! It accepts exactly what `serde_json` accepts as a raw value: valid UTF-8, no control characters in
//! strings, any depth. It walks nesting with one bit per level and no recursion, so that depth cannot
//! exhaust the stack. An escaped lone surrogate (`"\ud800"`) is valid JSON by the grammar (RFC 8259
//! section 8.2) and passes; only [`text`] refuses it, because it is not text.

use std::borrow::Cow;
use std::ops::Range;

/// Why text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Error {
    /// The byte offset.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// One member of an object: where its key (with quotes) and its value stand in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The key, with its quotes.
    pub key: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

/// Checks that `source` is one JSON value in valid UTF-8.
pub fn validate(source: &[u8]) -> Result<(), Error> {
    check_utf8(source, 0..source.len())?;
    let mut scanner = Scanner::new(source, 0);
    scanner.value()?;
    scanner.end()
}

/// Checks the whole object at `range` of `source` and calls `each` for its direct members, in order.
/// Trailing white space is allowed, anything else after it is an error.
pub fn members(source: &[u8], range: Range<usize>, each: impl FnMut(Member)) -> Result<(), Error> {
    let part = check_utf8(source, range.clone())?;
    Scanner::new(part, range.start).members(each)
}

/// Checks the whole array at `range` of `source` and calls `each` for its direct elements, in order.
/// Trailing white space is allowed, anything else after it is an error.
pub fn elements(
    source: &[u8],
    range: Range<usize>,
    each: impl FnMut(Range<usize>),
) -> Result<(), Error> {
    let part = check_utf8(source, range.clone())?;
    Scanner::new(part, range.start).elements(each)
}

/// The text of a JSON string, unescaped. Borrowed where nothing had to be unescaped.
/// `None` where `source[range]` is not a valid string, or has an escaped lone surrogate.
#[must_use]
pub fn text(source: &[u8], range: Range<usize>) -> Option<Cow<'_, str>> {
    unescape(inner(source, range)?, LoneSurrogate::Refuse)
}

/// As [`text`], with U+FFFD for each escaped lone surrogate: for people to read, never to compare.
#[must_use]
pub fn text_lossy(source: &[u8], range: Range<usize>) -> Option<Cow<'_, str>> {
    unescape(inner(source, range)?, LoneSurrogate::Replace)
}

/// Whether the string at `range` is `text` after unescaping: `"\u0069d"` is the key `id`.
#[must_use]
pub fn is_text(source: &[u8], range: Range<usize>, text: &str) -> bool {
    let quoted = source.get(range.clone()).unwrap_or_default();
    if memchr::memchr(b'\\', quoted).is_some() {
        return self::text(source, range).is_some_and(|found| found == text);
    }
    matches!(quoted, [b'"', plain @ .., b'"'] if plain == text.as_bytes())
}

/// The value at a chain of keys below the object at `range`, if it is there. Of members with the same
/// key the last counts, as in most readers of JSON.
#[must_use]
pub fn at_path(source: &[u8], range: Range<usize>, path: &[&str]) -> Option<Range<usize>> {
    let mut place = range;
    for step in path {
        let mut found = None;
        members(source, place, |member| {
            if is_text(source, member.key, step) {
                found = Some(member.value);
            }
        })
        .ok()?;
        place = found?;
    }
    Some(place)
}

/// White space between tokens (RFC 8259 section 2).
#[must_use]
pub const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn check_utf8(source: &[u8], range: Range<usize>) -> Result<&[u8], Error> {
    let start = range.start;
    let part = source.get(range).ok_or(Error {
        at: source.len(),
        what: "a range beyond the end",
    })?;
    if simdutf8::basic::from_utf8(part).is_ok() {
        return Ok(part);
    }
    // The fast check does not say where.
    let valid = simdutf8::compat::from_utf8(part).map_or_else(|e| e.valid_up_to(), str::len);
    Err(Error {
        at: start + valid,
        what: "invalid UTF-8",
    })
}

/// What stands between the quotes of the string at `range`, checked.
fn inner(source: &[u8], range: Range<usize>) -> Option<&str> {
    let part = simdutf8::basic::from_utf8(source.get(range)?).ok()?;
    let mut scanner = Scanner::new(part.as_bytes(), 0);
    scanner.string().ok()?;
    if scanner.at != part.len() {
        return None;
    }
    part.get(1..part.len() - 1)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LoneSurrogate {
    Refuse,
    Replace,
}

/// Unescapes what the scanner found valid.
fn unescape(raw: &str, lone: LoneSurrogate) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return Some(Cow::Borrowed(raw));
    }
    let mut plain = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(backslash) = memchr::memchr(b'\\', rest.as_bytes()) {
        plain.push_str(rest.get(..backslash)?);
        let escape = *rest.as_bytes().get(backslash + 1)?;
        rest = rest.get(backslash + 2..)?;
        let character = match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => match unescape_unicode(&mut rest)? {
                Some(character) => character,
                None if lone == LoneSurrogate::Replace => char::REPLACEMENT_CHARACTER,
                None => return None,
            },
            itself => char::from(itself),
        };
        plain.push(character);
    }
    plain.push_str(rest);
    Some(Cow::Owned(plain))
}

/// Reads the four digits after `\u`, and the low surrogate that belongs to a high one.
/// `Some(None)` for a lone surrogate.
fn unescape_unicode(rest: &mut &str) -> Option<Option<char>> {
    let unit = take_hex(rest)?;
    if !(0xd800..0xdc00).contains(&unit) {
        return Some(char::from_u32(unit));
    }
    let mut after = *rest;
    if let Some(tail) = after.strip_prefix("\\u") {
        after = tail;
        let low = take_hex(&mut after)?;
        if (0xdc00..0xe000).contains(&low) {
            *rest = after;
            return Some(char::from_u32(
                0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00),
            ));
        }
    }
    Some(None)
}

fn take_hex(rest: &mut &str) -> Option<u32> {
    let (digits, tail) = rest.split_at_checked(4)?;
    *rest = tail;
    u32::from_str_radix(digits, 16).ok()
}

/// Reads one document from the front. `base` is where `bytes` stands in the source.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    base: usize,
}

impl<'a> Scanner<'a> {
    const fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, at: 0, base }
    }

    const fn fail<T>(&self, what: &'static str) -> Result<T, Error> {
        Err(Error {
            at: self.base + self.at,
            what,
        })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space and looks at what follows.
    fn peek_token(&mut self) -> Option<u8> {
        while let Some(byte) = self.peek() {
            if !is_space(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.peek_token() {
            None => Ok(()),
            Some(_) => self.fail("something after the end"),
        }
    }

    fn members(&mut self, mut each: impl FnMut(Member)) -> Result<(), Error> {
        if self.peek_token() != Some(b'{') {
            return self.fail("no object");
        }
        self.at += 1;
        if self.peek_token() == Some(b'}') {
            self.at += 1;
            return self.end();
        }
        loop {
            let key = self.key()?;
            let value = self.value()?;
            each(Member { key, value });
            match self.peek_token() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return self.end();
                }
                _ => return self.fail("no comma or end of the object"),
            }
        }
    }

    fn elements(&mut self, mut each: impl FnMut(Range<usize>)) -> Result<(), Error> {
        if self.peek_token() != Some(b'[') {
            return self.fail("no array");
        }
        self.at += 1;
        if self.peek_token() == Some(b']') {
            self.at += 1;
            return self.end();
        }
        loop {
            each(self.value()?);
            match self.peek_token() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return self.end();
                }
                _ => return self.fail("no comma or end of the array"),
            }
        }
    }

    /// A key and its colon; the place of the key, with its quotes.
    fn key(&mut self) -> Result<Range<usize>, Error> {
        if self.peek_token() != Some(b'"') {
            return self.fail("no key");
        }
        let start = self.at;
        self.string()?;
        let key = self.base + start..self.base + self.at;
        if self.peek_token() != Some(b':') {
            return self.fail("no colon after a key");
        }
        self.at += 1;
        Ok(key)
    }

    /// One value of any depth, and its place.
    fn value(&mut self) -> Result<Range<usize>, Error> {
        let first = self.peek_token();
        let start = self.at;
        let mut nesting = Nesting::default();
        if matches!(first, Some(b'{' | b'[')) {
            while !self.nested(&mut nesting)? {}
        } else {
            self.scalar()?;
        }
        Ok(self.base + start..self.base + self.at)
    }

    /// One scalar, or the opening of one container, and all closings that follow it.
    /// True where the outermost container has closed.
    fn nested(&mut self, nesting: &mut Nesting) -> Result<bool, Error> {
        match self.peek_token() {
            Some(open @ (b'{' | b'[')) => {
                self.at += 1;
                let is_object = open == b'{';
                nesting.push(is_object);
                match (is_object, self.peek_token()) {
                    // The loop below closes it.
                    (true, Some(b'}')) | (false, Some(b']')) => {}
                    (true, _) => {
                        self.key()?;
                        return Ok(false);
                    }
                    (false, _) => return Ok(false),
                }
            }
            _ => {
                self.scalar()?;
                if self.peek_token() == Some(b',') {
                    return self.next_item(nesting);
                }
            }
        }
        while let Some(is_object) = nesting.innermost() {
            match (is_object, self.peek_token()) {
                (true, Some(b'}')) | (false, Some(b']')) => {
                    self.at += 1;
                    nesting.pop();
                    if nesting.innermost().is_some() && self.peek_token() == Some(b',') {
                        return self.next_item(nesting);
                    }
                }
                (true, _) => return self.fail("no comma or end of the object"),
                (false, _) => return self.fail("no comma or end of the array"),
            }
        }
        Ok(true)
    }

    /// Over a comma, and the key that must follow it in an object.
    fn next_item(&mut self, nesting: &Nesting) -> Result<bool, Error> {
        self.at += 1;
        if nesting.innermost() == Some(true) {
            self.key()?;
        }
        Ok(false)
    }

    fn scalar(&mut self) -> Result<(), Error> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            Some(_) => self.fail("no value"),
            None => self.fail("the end where a value was due"),
        }
    }

    fn literal(&mut self, literal: &'static [u8]) -> Result<(), Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.starts_with(literal) {
            return self.fail("no value");
        }
        self.at += literal.len();
        Ok(())
    }

    /// RFC 8259 section 6: no leading zero, no bare point, no plus sign.
    fn number(&mut self) -> Result<(), Error> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => {
                self.at += 1;
                if matches!(self.peek(), Some(b'0'..=b'9')) {
                    return self.fail("a leading zero");
                }
            }
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return self.fail("no digit in a number");
        }
        Ok(())
    }

    /// A string from its opening to its closing quote.
    fn string(&mut self) -> Result<(), Error> {
        if self.peek() != Some(b'"') {
            return self.fail("no string");
        }
        self.at += 1;
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(_) => return self.fail("a control character in a string"),
                None => return self.fail("an unfinished string"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|digit| digit.is_ascii_hexdigit()) {
                        return self.fail("no hexadecimal digit in an escape");
                    }
                    self.at += 1;
                }
                Ok(())
            }
            _ => self.fail("an unknown escape"),
        }
    }
}

/// Which of the open containers are objects, one bit each, innermost lowest.
#[derive(Default)]
struct Nesting {
    word: u64,
    in_word: u32,
    /// Full words further out; empty up to a depth of 64.
    outer: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, is_object: bool) {
        if self.in_word == u64::BITS {
            self.outer.push(self.word);
            self.in_word = 0;
        }
        self.word = (self.word << 1) | u64::from(is_object);
        self.in_word += 1;
    }

    fn pop(&mut self) {
        self.word >>= 1;
        self.in_word -= 1;
        if self.in_word == 0
            && let Some(word) = self.outer.pop()
        {
            self.word = word;
            self.in_word = u64::BITS;
        }
    }

    const fn innermost(&self) -> Option<bool> {
        if self.in_word == 0 {
            return None;
        }
        Some(self.word & 1 == 1)
    }
}

const fn ends_plain(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// Where the plain part of a string ends: at a quote, a backslash, a control character, or the end.
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    // Most keys and values are short: a byte loop is over before wide loads would pay.
    const SHORT: usize = 16;
    const WIDE: usize = 32;

    let rest = bytes.get(at..).unwrap_or_default();
    let short = rest.get(..SHORT).unwrap_or(rest);
    if let Some(found) = short.iter().position(|byte| ends_plain(*byte)) {
        return at + found;
    }
    at += short.len();
    // No branch within a chunk, so that the compiler makes vector code of it.
    let (chunks, _) = rest
        .get(short.len()..)
        .unwrap_or_default()
        .as_chunks::<WIDE>();
    for chunk in chunks {
        let hit = chunk
            .iter()
            .fold(false, |hit, byte| hit | ends_plain(*byte));
        if hit {
            break;
        }
        at += WIDE;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| ends_plain(*byte))
        .unwrap_or(rest.len())
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
