//! What identical calls have in common: the canonical form of their arguments. Members stand in the order of their
//! names and white space is gone; the text of a number stays, since `1.0` and `1` may be two things to a provider.

use std::borrow::Cow;
use std::ops::Range;

use crate::wire::json;

/// How deep members are sorted. What lies deeper is taken as it is written: reading it would cost its length once
/// for each level.
const DEPTH: usize = 32;

/// The canonical form of the JSON value at `range` of `source`, which is valid; without the value at `without`, where
/// that is a member of an object.
#[must_use]
pub fn canonical(source: &[u8], range: Range<usize>, without: Option<&Range<usize>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(range.len());
    write(source, range, without, DEPTH, &mut out);
    out
}

fn write(
    source: &[u8],
    range: Range<usize>,
    without: Option<&Range<usize>>,
    depth: usize,
    out: &mut Vec<u8>,
) {
    let raw = source.get(range.clone()).unwrap_or_default();
    match raw.first() {
        Some(b'{') if depth > 0 => {
            let mut members: Vec<(Cow<'_, [u8]>, Range<usize>)> = Vec::new();
            let _ = json::members(source, range, |member| {
                if without != Some(&member.value) {
                    members.push((string(source, member.key), member.value));
                }
            });
            // Stable: of two members with one name, which comes last is part of what is said.
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            out.push(b'{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&key);
                out.push(b':');
                write(source, value, without, depth - 1, out);
            }
            out.push(b'}');
        }
        Some(b'[') if depth > 0 => {
            out.push(b'[');
            let mut elements = Vec::new();
            let _ = json::elements(source, range, |element| elements.push(element));
            for (index, element) in elements.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(source, element, without, depth - 1, out);
            }
            out.push(b']');
        }
        Some(b'"') => out.extend_from_slice(&string(source, range)),
        Some(_) | None => out.extend_from_slice(raw),
    }
}

/// A string in the one way in which we write it. What is not text (a lone surrogate) stays as it is written.
fn string(source: &[u8], range: Range<usize>) -> Cow<'_, [u8]> {
    let raw = source.get(range.clone()).unwrap_or_default();
    if memchr::memchr(b'\\', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    match json::text(source, range) {
        Some(text) => Cow::Owned(crate::wire::splice::quote(&text).into_bytes()),
        None => Cow::Borrowed(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::place::Place;

    fn of(source: &str) -> String {
        let canonical = canonical(source.as_bytes(), 0..source.len(), None);
        String::from_utf8(canonical).unwrap()
    }

    #[test]
    fn order_space_and_escapes_do_not_count() {
        assert_eq!(
            of(r#" {"b" : [ 1 , {"d":2,"c":"\u0041\/"} ], "a":null }"#.trim()),
            r#"{"a":null,"b":[1,{"c":"A/","d":2}]}"#
        );
        assert_eq!(of("{ }"), "{}");
        assert_eq!(of("[ ]"), "[]");
    }

    #[test]
    fn numbers_and_what_is_said_twice_count_as_they_are_written() {
        assert_ne!(of(r#"{"n":1.0}"#), of(r#"{"n":1}"#));
        assert_ne!(
            of(r#"{"n":9007199254740993}"#),
            of(r#"{"n":9007199254740992}"#)
        );
        assert_ne!(of(r#"{"a":1,"a":2}"#), of(r#"{"a":2,"a":1}"#));
        assert_ne!(of(r#""\ud800""#), of(r#""\ud801""#));
    }

    #[test]
    fn the_declared_key_is_left_out() {
        let with = r#"{"room":"4","meta":{"key":"k1"}}"#;
        let place = Place::read("$.meta.key").unwrap();
        let key = place.find(with.as_bytes(), 0..with.len()).unwrap();
        let left = canonical(with.as_bytes(), 0..with.len(), Some(&key));
        assert_eq!(left, br#"{"meta":{},"room":"4"}"#);
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(of(&deep).len(), deep.len());
    }
}
