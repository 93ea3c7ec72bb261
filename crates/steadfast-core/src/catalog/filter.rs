//! Taking entries out of a list on its way to an agent, without touching the others.

use std::ops::Range;

use super::List;
use crate::wire::json;
use crate::wire::splice::{self, Edit};

/// The response without the entries that `keep` does not want; `None` where nothing has to go. An entry whose
/// name cannot be read is not kept: nobody could say that it may pass.
#[must_use]
pub fn without(response: &[u8], list: List, keep: impl Fn(&str) -> bool) -> Option<Vec<u8>> {
    let array = json::at_path(response, 0..response.len(), &["result", list.member()])?;
    let mut entries: Vec<Range<usize>> = Vec::new();
    json::elements(response, array, |entry| entries.push(entry)).ok()?;
    let keeps = |entry: &Range<usize>| {
        json::at_path(response, entry.clone(), &[list.key()])
            .and_then(|name| json::text(response, name))
            .is_some_and(|name| keep(&name))
    };
    let cuts = cuts(&entries, keeps);
    if cuts.is_empty() {
        return None;
    }
    let mut edits: Vec<_> = cuts
        .into_iter()
        .map(|range| Edit { range, with: b"" })
        .collect();
    Some(splice::apply(response, &mut edits))
}

/// What is cut so that the commas are right: an entry with what stands before the next one; at the end, what
/// stands behind the last one that is kept.
fn cuts(entries: &[Range<usize>], keeps: impl Fn(&Range<usize>) -> bool) -> Vec<Range<usize>> {
    let kept: Vec<bool> = entries.iter().map(keeps).collect();
    let behind_kept = kept.iter().rposition(|kept| *kept).map_or(0, |at| at + 1);
    let mut cuts = Vec::new();
    for (at, pair) in entries.windows(2).enumerate().take(behind_kept) {
        if let ([entry, next], Some(false)) = (pair, kept.get(at)) {
            cuts.push(entry.start..next.start);
        }
    }
    if let (Some(first), Some(last)) = (entries.get(behind_kept), entries.last()) {
        let before = behind_kept.checked_sub(1).and_then(|at| entries.get(at));
        cuts.push(before.map_or(first.start, |kept| kept.end)..last.end);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(names: &[&str], gone: &[&str]) -> Option<String> {
        let tools: Vec<_> = names
            .iter()
            .map(|name| format!(r#"{{ "n":1.0,"name":"{name}" }}"#))
            .collect();
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[ {} ], "nextCursor":"2"}}}}"#,
            tools.join(" , ")
        );
        let left = without(text.as_bytes(), List::Tools, |name| !gone.contains(&name))?;
        json::validate(&left).unwrap();
        Some(String::from_utf8(left).unwrap())
    }

    #[test]
    fn the_others_keep_their_bytes_and_the_commas_are_right() {
        for (gone, left) in [
            (&["a"][..], "b c d"),
            (&["b"], "a c d"),
            (&["d"], "a b c"),
            (&["a", "b"], "c d"),
            (&["b", "c"], "a d"),
            (&["c", "d"], "a b"),
            (&["a", "d"], "b c"),
            (&["a", "c"], "b d"),
            (&["a", "b", "c", "d"], ""),
        ] {
            let text = filtered(&["a", "b", "c", "d"], gone).unwrap();
            for name in ["a", "b", "c", "d"] {
                let entry = format!(r#"{{ "n":1.0,"name":"{name}" }}"#);
                assert_eq!(text.contains(&entry), left.contains(name), "{text}");
            }
            assert!(text.ends_with(r#"], "nextCursor":"2"}}"#), "{text}");
        }
    }

    #[test]
    fn where_nothing_has_to_go_nothing_is_copied() {
        assert_eq!(filtered(&["a", "b"], &["c"]), None);
        assert_eq!(filtered(&[], &["c"]), None);
        let error = br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#;
        assert_eq!(without(error, List::Tools, |_| false), None);
    }

    #[test]
    fn a_name_is_compared_as_text_and_one_that_is_none_goes() {
        let text = br#"{"result":{"tools":[{"name":"\u0061"},{"name":"b\ud800"},{"name":7},3,{"name":"c"}]}}"#;
        let left = without(text, List::Tools, |name| name != "a").unwrap();
        assert_eq!(
            std::str::from_utf8(&left).unwrap(),
            r#"{"result":{"tools":[{"name":"c"}]}}"#
        );
    }
}
