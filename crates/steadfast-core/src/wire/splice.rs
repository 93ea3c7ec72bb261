//! Edits of raw JSON that leave every other byte as it was: number forms, key order, white space and
//! unknown members survive (GW, WR-08).

use std::ops::Range;

use super::json::{self, Member};

/// One replacement. Edits are sorted by their place and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    /// What is taken out; empty for an insertion.
    pub range: Range<usize>,
    /// What is put in.
    pub with: &'a [u8],
}

/// Applies the edits. They are sorted first; overlapping ones are a bug of the caller, and the later
/// one is then left out. Insertions at the same place keep their order.
#[must_use]
pub fn apply(source: &[u8], edits: &mut [Edit<'_>]) -> Vec<u8> {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let added: usize = edits.iter().map(|edit| edit.with.len()).sum();
    let mut result = Vec::with_capacity(source.len() + added);
    let mut kept_to = 0;
    for edit in edits.iter() {
        let Range { start, end } = edit.range;
        if end < start || end > source.len() {
            continue;
        }
        if let Some(kept) = source.get(kept_to..start) {
            result.extend_from_slice(kept);
            result.extend_from_slice(edit.with);
            kept_to = end;
        }
    }
    result.extend_from_slice(source.get(kept_to..).unwrap_or_default());
    result
}

/// The range to cut so that the member at `key`/`value` of an object vanishes together with one comma.
/// For several members of one object use [`change_members`]: two neighbours share a comma.
#[must_use]
pub fn cut_member(source: &[u8], member: &Member) -> Range<usize> {
    cut_run(source, member.key.start..member.value.end)
}

/// Where to insert a member into the object at `object`, and the text to insert for `"key":value`,
/// with a comma where the object has members already. It stands last, behind all others.
/// To insert several, or to cut members of the same object as well, use [`change_members`].
#[must_use]
pub fn insert_member(
    source: &[u8],
    object: Range<usize>,
    key: &str,
    value: &str,
) -> (usize, String) {
    let change = change_members(source, object, &[], &[(key, value)]);
    (change.at, change.text)
}

/// What [`change_members`] found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    /// What is cut.
    pub cuts: Vec<Range<usize>>,
    /// Where `text` goes in.
    pub at: usize,
    /// The new members, with the commas that they need.
    pub text: String,
}

impl MemberChange {
    /// The edits to apply.
    pub fn edits(&self) -> impl Iterator<Item = Edit<'_>> {
        let cuts = self.cuts.iter().map(|range| Edit {
            range: range.clone(),
            with: b"",
        });
        let insertion = Edit {
            range: self.at..self.at,
            with: self.text.as_bytes(),
        };
        cuts.chain((!self.text.is_empty()).then_some(insertion))
    }
}

/// Takes some members out of the object at `object` and puts others in behind the rest, so that the
/// commas are right whatever is left. `cut` holds members of this object in their order; `add` holds
/// keys as text and values as JSON.
#[must_use]
pub fn change_members(
    source: &[u8],
    object: Range<usize>,
    cut: &[Member],
    add: &[(&str, &str)],
) -> MemberChange {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for member in cut {
        match runs.last_mut() {
            Some(run) if is_one_comma(source, run.end..member.key.start) => {
                run.end = member.value.end;
            }
            _ => runs.push(member.key.start..member.value.end),
        }
    }
    let body = body_of(source, object);
    // One run from the first member to the last leaves nothing that a comma could follow.
    let all_cut = runs.first().is_some_and(|run| {
        blank(source, body.start..run.start) && blank(source, run.end..body.end)
    });
    let mut comma = !all_cut && !blank(source, body.clone());
    let mut text = String::new();
    for (key, value) in add {
        if comma {
            text.push(',');
        }
        comma = true;
        text.push_str(&quote(key));
        text.push(':');
        text.push_str(value);
    }
    MemberChange {
        cuts: runs.into_iter().map(|run| cut_run(source, run)).collect(),
        at: body.end,
        text,
    }
}

/// A JSON string for `text`.
#[must_use]
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What stands between the braces of the object at `object`, which may have white space around it.
fn body_of(source: &[u8], object: Range<usize>) -> Range<usize> {
    let part = source.get(object.clone()).unwrap_or_default();
    let open = memchr::memchr(b'{', part).map_or(part.len(), |at| at + 1);
    let close = memchr::memrchr(b'}', part).unwrap_or(open).max(open);
    object.start + open..object.start + close
}

/// Cuts a run of members with one comma: the one behind it, or for the last members the one before.
fn cut_run(source: &[u8], run: Range<usize>) -> Range<usize> {
    let behind = source.get(run.end..).unwrap_or_default();
    let space = behind
        .iter()
        .take_while(|byte| json::is_space(**byte))
        .count();
    if behind.get(space) == Some(&b',') {
        return run.start..run.end + space + 1;
    }
    let before = source.get(..run.start).unwrap_or_default();
    match before.iter().rposition(|byte| !json::is_space(*byte)) {
        Some(comma) if before.get(comma) == Some(&b',') => comma..run.end,
        _ => run,
    }
}

fn blank(source: &[u8], range: Range<usize>) -> bool {
    source
        .get(range)
        .unwrap_or_default()
        .iter()
        .all(|byte| json::is_space(*byte))
}

fn is_one_comma(source: &[u8], range: Range<usize>) -> bool {
    let gap = source.get(range).unwrap_or_default();
    gap.iter()
        .filter(|byte| !json::is_space(**byte))
        .eq([&b','])
}

#[cfg(test)]
mod tests;
