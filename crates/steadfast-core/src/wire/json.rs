//! A strict RFC 8259 scanner that finds the members of an object without building a tree.
//!
//! It accepts exactly what `serde_json` accepts as a raw value: valid UTF-8, no control characters in
//! strings, any depth. It walks nesting with one bit per level and no recursion, so that depth cannot
//! exhaust the stack. An escaped lone surrogate (`"\ud800"`) is valid JSON by the grammar (RFC 8259
//! section 8.2) and passes; only [`text`] refuses it, because it is not text.

mod scanner;

use std::borrow::Cow;
use std::ops::Range;

use scanner::Scanner;

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
    Scanner::new(source, 0).lone_value()
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
    Scanner::new(part.as_bytes(), 0).lone_string().ok()?;
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

#[cfg(test)]
mod tests;
