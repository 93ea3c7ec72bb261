//! A strict RFC 8259 scanner that finds the members of an object without building a tree.

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
    let _ = source;
    unimplemented!()
}

/// Checks the whole object at `range` of `source` and calls `each` for its direct members, in order.
/// Trailing white space is allowed, anything else after it is an error.
pub fn members(
    source: &[u8],
    range: Range<usize>,
    each: impl FnMut(Member),
) -> Result<(), Error> {
    let _ = (source, range, each);
    unimplemented!()
}

/// The text of a JSON string, unescaped. Borrowed where nothing had to be unescaped.
/// `None` where `source[range]` is not a valid string.
#[must_use]
pub fn text(source: &[u8], range: Range<usize>) -> Option<std::borrow::Cow<'_, str>> {
    let _ = (source, range);
    unimplemented!()
}

/// The value at a chain of keys below the object at `range`, if it is there.
#[must_use]
pub fn at_path(source: &[u8], range: Range<usize>, path: &[&str]) -> Option<Range<usize>> {
    let _ = (source, range, path);
    unimplemented!()
}
