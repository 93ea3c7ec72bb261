//! Edits of raw JSON that leave every other byte as it was: number forms, key order, white space and
//! unknown members survive (GW, WR-08).

use std::ops::Range;

/// One replacement. Edits are sorted by their place and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    /// What is taken out; empty for an insertion.
    pub range: Range<usize>,
    /// What is put in.
    pub with: &'a [u8],
}

/// Applies the edits. They are sorted first; overlapping ones are a bug of the caller, and the later
/// one is then left out.
#[must_use]
pub fn apply(source: &[u8], edits: &mut [Edit<'_>]) -> Vec<u8> {
    let _ = (source, edits);
    unimplemented!()
}

/// The range to cut so that the member at `key`/`value` of an object vanishes together with one comma.
#[must_use]
pub fn cut_member(source: &[u8], member: &super::json::Member) -> Range<usize> {
    let _ = (source, member);
    unimplemented!()
}

/// Where to insert a member into the object at `object`, and the text to insert for `"key":value`,
/// with a comma where the object has members already.
#[must_use]
pub fn insert_member(
    source: &[u8],
    object: Range<usize>,
    key: &str,
    value: &str,
) -> (usize, String) {
    let _ = (source, object, key, value);
    unimplemented!()
}
