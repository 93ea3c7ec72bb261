//! The scanner itself: one pass from front to back, no recursion, and no allocation up to 64 levels.

use std::ops::Range;

use super::{Error, Member, is_space};

/// Reads one document from the front. `base` is where `bytes` stands in the source.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    base: usize,
    /// Whether there is no control character at all, white space included: then no string needs a check
    /// of its own.
    clean: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8], base: usize) -> Self {
        Self {
            bytes,
            at: 0,
            base,
            clean: !has_control(bytes),
        }
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

    /// Exactly one value, with white space around it.
    pub(super) fn lone_value(&mut self) -> Result<(), Error> {
        self.value()?;
        self.end()
    }

    /// Exactly one string, with nothing around it.
    pub(super) fn lone_string(&mut self) -> Result<(), Error> {
        self.string()?;
        if self.at == self.bytes.len() {
            return Ok(());
        }
        self.fail("something after the end")
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.peek_token() {
            None => Ok(()),
            Some(_) => self.fail("something after the end"),
        }
    }

    pub(super) fn members(&mut self, mut each: impl FnMut(Member)) -> Result<(), Error> {
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

    pub(super) fn elements(&mut self, mut each: impl FnMut(Range<usize>)) -> Result<(), Error> {
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
            self.at = plain_end(self.bytes, self.at, self.clean);
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

/// Where the plain part of a string ends: at a quote, a backslash, a control character, or the end.
/// `clean`: there is no control character anywhere.
fn plain_end(bytes: &[u8], mut at: usize, clean: bool) -> usize {
    // Keys and most values end within two words.
    for _ in 0..2 {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else {
            break;
        };
        let ends = ends_plain_in(u64::from_le_bytes(*word));
        if ends != 0 {
            return at + ends.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    let plain = rest.get(..end).unwrap_or_default();
    if clean || !has_control(plain) {
        return at + end;
    }
    let control = plain.iter().position(|byte| *byte < 0x20);
    at + control.unwrap_or(end)
}

/// No early exit, so that the compiler makes vector code of it.
fn has_control(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .fold(0, |hit, byte| hit | u8::from(*byte < 0x20))
        != 0
}

/// Which of eight bytes end the plain part: the lowest set bit is the top bit of the first such byte.
/// (A borrow may set bits above it, never below.)
const fn ends_plain_in(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES * 0x80;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    let is_control = word.wrapping_sub(ONES * 0x20) & !word;
    (is_quote | is_backslash | is_control) & TOPS
}
