#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

fn apply_to(source: &str, edits: &[(Range<usize>, &str)]) -> String {
    let mut edits: Vec<_> = edits
        .iter()
        .map(|(range, with)| Edit {
            range: range.clone(),
            with: with.as_bytes(),
        })
        .collect();
    String::from_utf8(apply(source.as_bytes(), &mut edits)).unwrap()
}

#[test]
fn edits_change_their_ranges_and_nothing_else() {
    let source = r#"{ "id" : 1.0e0 ,"z":1.00,"a":"é" }"#;
    assert_eq!(apply_to(source, &[]), source);
    assert_eq!(
        apply_to(source, &[(9..14, "42")]),
        r#"{ "id" : 42 ,"z":1.00,"a":"é" }"#
    );
    assert_eq!(
        apply_to("abc", &[(3..3, "d"), (0..0, "_"), (1..2, "")]),
        "_acd"
    );
    assert_eq!(
        apply_to("abc", &[(1..1, "1"), (1..1, "2"), (1..2, "B"), (2..2, "3")]),
        "a12B3c"
    );
}

#[test]
fn an_overlapping_or_impossible_edit_is_left_out() {
    assert_eq!(
        apply_to("abcdef", &[(0..3, "x"), (2..4, "y"), (5..6, "z")]),
        "xdez"
    );
    assert_eq!(apply_to("abc", &[(2..9, "x"), (7..7, "y")]), "abc");
    #[expect(
        clippy::reversed_empty_ranges,
        reason = "a range that makes no sense is the point"
    )]
    let backwards = 2..1;
    assert_eq!(apply_to("abc", &[(backwards, "x")]), "abc");
}

fn members_of(source: &str) -> Vec<Member> {
    let mut found = Vec::new();
    json::members(source.as_bytes(), 0..source.len(), |member| {
        found.push(member)
    })
    .unwrap();
    found
}

#[test]
fn a_cut_member_takes_one_comma_with_it() {
    for (source, cut, expected) in [
        (r#"{"a":1,"b":2,"c":3}"#, 0, r#"{"b":2,"c":3}"#),
        (r#"{"a":1,"b":2,"c":3}"#, 1, r#"{"a":1,"c":3}"#),
        (r#"{"a":1,"b":2,"c":3}"#, 2, r#"{"a":1,"b":2}"#),
        (r#"{ "a" : 1 , "b" : "x," }"#, 0, r#"{  "b" : "x," }"#),
        (r#"{ "a" : 1 , "b" : "x," }"#, 1, r#"{ "a" : 1  }"#),
        (r#"{ "a" : 1 }"#, 0, r#"{  }"#),
    ] {
        let range = cut_member(source.as_bytes(), &members_of(source)[cut]);
        assert_eq!(
            apply_to(source, &[(range, "")]),
            expected,
            "{source}, member {cut}"
        );
    }
}

#[test]
fn an_inserted_member_stands_last() {
    for (source, expected) in [
        ("{}", r#"{"k\"":[1]}"#),
        ("{ }\n", "{ \"k\\\"\":[1]}\n"),
        (r#" {"a":{}} "#, r#" {"a":{},"k\"":[1]} "#),
        (r#"{"a":"}" }"#, r#"{"a":"}" ,"k\"":[1]}"#),
    ] {
        let (at, text) = insert_member(source.as_bytes(), 0..source.len(), "k\"", "[1]");
        assert_eq!(apply_to(source, &[(at..at, &text)]), expected);
    }
}

#[test]
fn an_object_inside_another_is_changed_in_place() {
    let source = r#"{"params":{"_meta":{"dev.steadfast/a":1}},"id":1}"#;
    let meta = json::at_path(source.as_bytes(), 0..source.len(), &["params", "_meta"]).unwrap();
    let mut ours = Vec::new();
    json::members(source.as_bytes(), meta.clone(), |member| ours.push(member)).unwrap();
    let change = change_members(source.as_bytes(), meta, &ours, &[("x", "1"), ("y", "2")]);
    let mut edits: Vec<_> = change.edits().collect();
    let result = apply(source.as_bytes(), &mut edits);
    assert_eq!(result, br#"{"params":{"_meta":{"x":1,"y":2}},"id":1}"#);
}

/// Every choice of members to cut, with and without members to add, leaves the right members and valid JSON.
#[test]
fn commas_are_right_whatever_is_cut_and_added() {
    for source in [
        "{}",
        r#"{"a":1}"#,
        r#"{ "a" : 1 , "b":[2,3] ,"c":"," , "d":{} }"#,
        r#"{"a":1,"b":2,"c":3}"#,
    ] {
        let all = members_of(source);
        for choice in 0_u32..1 << all.len() {
            for add in [&[][..], &[("x", "8")], &[("x", "8"), ("y", "9")]] {
                let is_cut = |at: usize| choice & (1 << at) != 0;
                let cut: Vec<_> = (0..all.len())
                    .filter(|at| is_cut(*at))
                    .map(|at| all[at].clone())
                    .collect();
                let change = change_members(source.as_bytes(), 0..source.len(), &cut, add);
                let mut edits: Vec<_> = change.edits().collect();
                let result = String::from_utf8(apply(source.as_bytes(), &mut edits)).unwrap();
                let kept = (0..all.len())
                    .filter(|at| !is_cut(*at))
                    .map(|at| &source[all[at].value.clone()]);
                let expected: Vec<_> = kept.chain(add.iter().map(|(_, value)| *value)).collect();
                let found: Vec<_> = members_of(&result)
                    .into_iter()
                    .map(|it| result[it.value].to_owned())
                    .collect();
                assert_eq!(found, expected, "{source} became {result}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Applied one by one from the back, non-overlapping edits give the same as all at once.
    #[test]
    fn many_edits_are_as_good_as_one_after_another(
        source in prop::collection::vec(any::<u8>(), 0..60),
        places in prop::collection::btree_set(0_usize..60, 0..12),
        with in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 6),
    ) {
        let places: Vec<_> = places.into_iter().filter(|at| *at <= source.len()).collect();
        let ranges: Vec<_> = places.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
        let mut edits: Vec<_> = ranges.iter().zip(&with)
            .map(|(range, with)| Edit { range: range.clone(), with })
            .collect();
        let mut expected = source.clone();
        for edit in edits.iter().rev() {
            expected.splice(edit.range.clone(), edit.with.iter().copied());
        }
        edits.reverse();
        prop_assert_eq!(apply(&source, &mut edits), expected);
    }
}
