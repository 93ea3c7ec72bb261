#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn serde_accepts(source: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(source).is_ok()
}

/// The direct members as `serde_json` reads them: key text and raw value, in order, with duplicates.
fn serde_members(source: &[u8]) -> Option<Vec<(String, String)>> {
    struct Members(Vec<(String, String)>);
    impl<'de> serde::Deserialize<'de> for Members {
        fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Members;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Members, A::Error> {
                    let mut found = Vec::new();
                    while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                        found.push((key, value.get().to_owned()));
                    }
                    Ok(Members(found))
                }
            }
            reader.deserialize_map(Visitor)
        }
    }
    serde_json::from_slice::<Members>(source)
        .ok()
        .map(|members| members.0)
}

fn our_members(source: &[u8]) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    members(source, 0..source.len(), |member| {
        let value = std::str::from_utf8(&source[member.value]).unwrap();
        found.push((text(source, member.key), value.to_owned()));
    })
    .ok()?;
    found
        .into_iter()
        .map(|(key, value)| Some((key?.into_owned(), value)))
        .collect()
}

fn agrees(source: &[u8]) -> Result<(), TestCaseError> {
    prop_assert_eq!(validate(source).is_ok(), serde_accepts(source));
    prop_assert_eq!(our_members(source), serde_members(source));
    prop_assert_eq!(
        text(source, 0..source.len()).map(Cow::into_owned),
        // White space around a string is no part of it.
        serde_json::from_slice::<String>(source)
            .ok()
            .filter(|_| source.starts_with(b"\"") && source.ends_with(b"\""))
    );
    Ok(())
}

#[test]
fn accepts_and_rejects_like_serde_json_on_known_edges() {
    let edges: &[&[u8]] = &[
        b"",
        b" ",
        b"null",
        b"nul",
        b"nulll",
        b"true",
        b"false",
        b"True",
        b"0",
        b"-0",
        b"00",
        b"-",
        b"01",
        b"-01",
        b"1.",
        b".1",
        b"1.0",
        b"1e",
        b"1e+",
        b"1e+5",
        b"1E-5",
        b"1.5e300",
        b"1e999",
        b"0x1",
        b"+1",
        b"1 ",
        b"1 2",
        b"\"\"",
        b"\"",
        b"\"a",
        b"\"\\\"",
        b"\"\\u12\"",
        b"\"\\u12g4\"",
        b"\"\\ud800\"",
        b"\"\\udc00\\ud800\"",
        b"\"\\ud83d\\ude00\"",
        b"\"\\ud83d\\u0041\"",
        b"\"\\ud83d\\n\"",
        b"\"\\x\"",
        b"\"\t\"",
        b"\"\x00\"",
        b"\"\x1f\"",
        b"\"\x7f\"",
        b"\"\xff\"",
        b"\"\xc3\xa9\"",
        b"\"\xc3\"",
        b"\"\xed\xa0\x80\"",
        b"\xef\xbb\xbf1",
        b"[]",
        b"[ ]",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1,2]",
        b"[",
        b"]",
        b"[1",
        b"{}",
        b"{ }",
        b"{,}",
        b"{\"a\"}",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{\"a\":1}",
        b"{\"a\":1 \"b\":2}",
        b"{\"a\" : 1 , \"b\":[{}]}",
        b"{1:2}",
        b"{\"a\":1]",
        b"[1}",
        b"{\"a\":1}}",
        b"[[]",
        b"[[],[]]",
        b"[{},{}]",
        b"{\"a\":{}}",
        b"{\"a\":{},}",
        b"{\"a\":1}x",
        b"\x0b1",
        b"\xc2\xa01",
        b"1\x00",
    ];
    for edge in edges {
        agrees(edge).unwrap();
    }
}

#[test]
fn depth_is_unlimited_and_needs_no_stack() {
    for depth in [63, 64, 65, 128, 129, 1_000_000] {
        let mixed = "[{\"a\":".repeat(depth) + "0" + &"}]".repeat(depth);
        assert_eq!(validate(mixed.as_bytes()), Ok(()), "depth {depth}");
        let swapped = "[{\"a\":".repeat(depth) + "0" + &"]}".repeat(depth);
        assert!(validate(swapped.as_bytes()).is_err(), "depth {depth}");
        let open = "[".repeat(depth);
        assert!(validate(open.as_bytes()).is_err(), "depth {depth}");
        let arrays = open + &"]".repeat(depth);
        assert_eq!(validate(arrays.as_bytes()), Ok(()), "depth {depth}");
    }
}

/// The scanner goes through strings in steps of several widths: something special at each place.
#[test]
fn finds_what_ends_a_string_at_every_place() {
    for length in 0..100 {
        for at in 0..length {
            for special in [b'"', b'\\', 0, 0x1f, b'\n', 0x20, 0x7f] {
                let mut source = vec![b'a'; length + 2];
                source[0] = b'"';
                source[length + 1] = b'"';
                source[at + 1] = special;
                agrees(&source).unwrap();
                // With a line end elsewhere in the source, strings are looked at one by one.
                source.push(b'\n');
                agrees(&source).unwrap();
            }
        }
    }
}

#[test]
fn says_where_it_went_wrong() {
    assert_eq!(validate(b"{\"a\":tru}").unwrap_err().at, 5);
    assert_eq!(validate(b"[1,\"\x01\"]").unwrap_err().at, 4);
    assert_eq!(validate(b"\"ab\xff\"").unwrap_err().at, 3);
    let inner = members(b"[0,{\"a\":?}]", 3..10, |_| {}).unwrap_err();
    assert_eq!(inner.at, 8);
}

#[test]
fn members_stand_where_the_source_has_them() {
    let source = br#"[ {"a" : [1, 2] , "b":"x"} ]"#;
    let mut found = Vec::new();
    members(source, 2..26, |member| found.push(member)).unwrap();
    let parts: Vec<_> = found
        .iter()
        .map(|member| (&source[member.key.clone()], &source[member.value.clone()]))
        .collect();
    assert_eq!(
        parts,
        [(&b"\"a\""[..], &b"[1, 2]"[..]), (b"\"b\"", b"\"x\"")]
    );
}

#[test]
fn a_range_beyond_the_source_is_an_error() {
    assert!(members(b"{}", 0..9, |_| {}).is_err());
    assert_eq!(text(b"\"a\"", 1..9), None);
    assert!(!is_text(b"\"a\"", 1..9, "a"));
}

#[test]
fn keys_are_compared_after_unescaping() {
    assert!(is_text(br#""\u0069d""#, 0..9, "id"));
    assert!(is_text(br#""id""#, 0..4, "id"));
    assert!(!is_text(br#""id ""#, 0..5, "id"));
    assert!(!is_text(br#""\ud800""#, 0..8, "\u{fffd}"));
}

#[test]
fn a_lone_surrogate_is_no_text_and_shows_as_a_replacement() {
    let source = br#""a\ud83d b\ude00\ud83d\ude00""#;
    assert_eq!(text(source, 0..source.len()), None);
    assert_eq!(
        text_lossy(source, 0..source.len()).unwrap(),
        "a\u{fffd} b\u{fffd}\u{1f600}"
    );
}

#[test]
fn a_path_leads_to_the_last_of_equal_keys() {
    let source = br#"{"a":{"b":1,"\u0062":2},"c":3}"#;
    let found = at_path(source, 0..source.len(), &["a", "b"]).unwrap();
    assert_eq!(&source[found], b"2");
    assert_eq!(at_path(source, 0..source.len(), &["a", "x"]), None);
    assert_eq!(at_path(source, 0..source.len(), &["c", "b"]), None);
    assert_eq!(at_path(source, 0..source.len(), &[]), Some(0..source.len()));
}

/// JSON text in many forms, and such text with a few bytes changed.
fn jsonish() -> impl Strategy<Value = Vec<u8>> {
    let space = prop::sample::select(vec!["", "", " ", "\n", "\t\r\n "]);
    let scalar = prop_oneof![
        prop::sample::select(vec![
            "0",
            "-1",
            "1.50",
            "1e5",
            "-0.0E-7",
            "true",
            "null",
            "\"\"",
            "\"é\"",
            "\"\\n\\u00e9\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud800\"",
        ])
        .prop_map(str::to_owned),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let tree = scalar.prop_recursive(6, 64, 6, move |inner| {
        let key = prop_oneof![
            prop::sample::select(vec!["\"id\"", "\"\\u0069d\"", "\"method\""])
                .prop_map(str::to_owned),
            ".{0,12}".prop_map(|key| serde_json::to_string(&key).unwrap()),
        ];
        let item = (space.clone(), inner.clone(), space.clone());
        let member = (space.clone(), key, space.clone(), item.clone());
        prop_oneof![
            prop::collection::vec(item, 0..5).prop_map(|items| {
                let items: Vec<_> = items.iter().map(|(a, v, b)| format!("{a}{v}{b}")).collect();
                format!("[{}]", items.join(","))
            }),
            prop::collection::vec(member, 0..5).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(a, key, b, (c, v, d))| format!("{a}{key}{b}:{c}{v}{d}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 0..4);
    (tree, changes).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (at, byte, how) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_serde_json_on_json_like_bytes(source in jsonish()) {
        agrees(&source)?;
    }

    #[test]
    fn agrees_with_serde_json_on_arbitrary_bytes(source in prop::collection::vec(any::<u8>(), 0..40)) {
        agrees(&source)?;
    }

    #[test]
    fn agrees_with_serde_json_on_token_soup(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "1", "-", "0", ".", "e", "null", " ",
        ]), 0..14),
    ) {
        agrees(tokens.concat().as_bytes())?;
    }
}
