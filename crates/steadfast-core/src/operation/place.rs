//! One place in JSON text: a JSONPath that names at most one value (RFC 9535 section 2.3.5.1, "singular query"), as
//! the path of a provider's key is. What stands there is found, or put there, in the raw bytes, so that nothing
//! else of a call changes.

use std::ops::Range;

use serde_json_path::JsonPath;

use super::lookup::Invalid;
use crate::wire::json;
use crate::wire::splice::{self, Edit};

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(i64),
}

impl Place {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// Where it is no JSONPath, and where it may select several values.
    pub fn read(expression: &str) -> Result<Self, Invalid> {
        JsonPath::parse(expression).map_err(|why| Invalid::Expression {
            expression: expression.to_owned(),
            why: why.to_string(),
        })?;
        let several = || Invalid::Several {
            expression: expression.to_owned(),
        };
        let mut rest = expression.strip_prefix('$').ok_or_else(several)?.trim();
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest).ok_or_else(several)?;
            steps.push(step);
            rest = after.trim_start();
        }
        Ok(Self { steps })
    }

    /// Where the value stands in the JSON value at `range`.
    #[must_use]
    pub fn find(&self, source: &[u8], range: Range<usize>) -> Option<Range<usize>> {
        let mut place = range;
        for step in &self.steps {
            place = child(source, place, step)?;
        }
        Some(place)
    }

    /// The whole text with `value` (raw JSON) at this place of the JSON value at `range`, in place of a null or of nothing.
    /// `None` where something else is there, or nothing can be put there.
    #[must_use]
    pub fn put(&self, source: &[u8], range: Range<usize>, value: &str) -> Option<Vec<u8>> {
        let mut place = range;
        for (depth, step) in self.steps.iter().enumerate() {
            if let Some(found) = child(source, place.clone(), step) {
                place = found;
                continue;
            }
            let Step::Name(name) = step else {
                return None;
            };
            if source.get(place.start) != Some(&b'{') {
                return None;
            }
            // The objects that are not there yet, from the innermost.
            let mut inner = value.to_owned();
            for missing in self.steps.get(depth + 1..)?.iter().rev() {
                let Step::Name(name) = missing else {
                    return None;
                };
                inner = format!("{{{}:{inner}}}", splice::quote(name));
            }
            let (at, member) = splice::insert_member(source, place, name, &inner);
            return Some(splice::apply(
                source,
                &mut [Edit {
                    range: at..at,
                    with: member.as_bytes(),
                }],
            ));
        }
        let is_null = source.get(place.clone()) == Some(b"null");
        is_null.then(|| {
            let with = value.as_bytes();
            splice::apply(source, &mut [Edit { range: place, with }])
        })
    }
}

/// What the step leads to. Of members with the same name the last counts.
fn child(source: &[u8], place: Range<usize>, step: &Step) -> Option<Range<usize>> {
    match step {
        Step::Name(name) => json::at_path(source, place, &[name]),
        Step::Index(index) => {
            let mut elements = Vec::new();
            json::elements(source, place, |element| elements.push(element)).ok()?;
            let length = i64::try_from(elements.len()).ok()?;
            let index = if *index < 0 { length + index } else { *index };
            elements.get(usize::try_from(index).ok()?).cloned()
        }
    }
}

/// The step at the beginning of a path that is known to be one; `None` where it selects several values.
fn step(rest: &str) -> Option<(Step, &str)> {
    if let Some(after) = rest.strip_prefix('.') {
        let is_name = |character: char| {
            character == '_' || character.is_ascii_alphanumeric() || !character.is_ascii()
        };
        let end = after.find(|character| !is_name(character));
        let (name, after) = after.split_at(end.unwrap_or(after.len()));
        return (!name.is_empty()).then(|| (Step::Name(name.to_owned()), after));
    }
    let within = rest.strip_prefix('[')?.trim_start();
    let (step, after) = match within.chars().next()? {
        quote @ ('\'' | '"') => {
            let end = closing(within, quote)?;
            let (name, after) = within.split_at_checked(end + 1)?;
            (Step::Name(unquote(name, quote)?), after)
        }
        _ => {
            let end =
                within.find(|character: char| character != '-' && !character.is_ascii_digit())?;
            let (index, after) = within.split_at(end);
            (Step::Index(index.parse().ok()?), after)
        }
    };
    Some((step, after.trim_start().strip_prefix(']')?))
}

/// Where the string that begins with `quote` ends.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            other if other == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// The text of a name in quotes: as in JSON, but that it may stand in single quotes (RFC 9535 section 2.3.1.1).
fn unquote(name: &str, quote: char) -> Option<String> {
    if quote == '"' {
        return json::text(name.as_bytes(), 0..name.len()).map(|text| text.into_owned());
    }
    let mut quoted = String::from('"');
    let mut characters = name.get(1..name.len() - 1)?.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => match characters.next()? {
                '\'' => quoted.push('\''),
                escaped => quoted.extend(['\\', escaped]),
            },
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    json::text(quoted.as_bytes(), 0..quoted.len()).map(|text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expression: &str, source: &str) -> Option<String> {
        let place = Place::read(expression).unwrap();
        let range = place.find(source.as_bytes(), 0..source.len())?;
        Some(source[range].to_owned())
    }

    fn put(expression: &str, source: &str) -> Option<String> {
        let place = Place::read(expression).unwrap();
        let text = place.put(source.as_bytes(), 0..source.len(), r#""k""#)?;
        Some(String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_value_is_found_in_the_raw_text() {
        for (expression, source, expected) in [
            ("$.key", r#"{"key": 1.0}"#, "1.0"),
            ("$['a key']", r#"{"a key":"x"}"#, r#""x""#),
            (r#"$["a\"b"]"#, r#"{"a\"b":1}"#, "1"),
            (r"$['it\'s']", r#"{"it's":1}"#, "1"),
            ("$.a[0].b", r#"{"a":[{"b":2}]}"#, "2"),
            ("$.a[-1]", r#"{"a":[1,2,3]}"#, "3"),
            ("$", "[1]", "[1]"),
        ] {
            assert_eq!(
                found(expression, source).as_deref(),
                Some(expected),
                "{expression}"
            );
        }
        assert_eq!(found("$.a[3]", r#"{"a":[1]}"#), None);
        assert_eq!(found("$.a[-3]", r#"{"a":[1]}"#), None);
        assert_eq!(found("$.a.b", r#"{"a":1}"#), None);
    }

    #[test]
    fn what_may_select_several_values_or_is_no_path_is_refused() {
        for several in ["$.a[*]", "$..a", "$.a[0,1]", "$[1:2]", "$.*", "$[?@.a]"] {
            assert!(
                matches!(Place::read(several), Err(Invalid::Several { .. })),
                "{several}"
            );
        }
        for bad in ["", "a", "$.", "$['a", "$[01]", "$a"] {
            assert!(
                matches!(Place::read(bad), Err(Invalid::Expression { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_key_is_put_where_none_is_and_nothing_else_changes() {
        assert_eq!(
            put("$.k", r#"{ "b": 1.0, "a": 1e3 }"#).unwrap(),
            r#"{ "b": 1.0, "a": 1e3 ,"k":"k"}"#
        );
        assert_eq!(put("$.k", "{}").unwrap(), r#"{"k":"k"}"#);
        assert_eq!(put("$.k", r#"{"k":null}"#).unwrap(), r#"{"k":"k"}"#);
        assert_eq!(put("$.m.k", r#"{"m":{}}"#).unwrap(), r#"{"m":{"k":"k"}}"#);
        assert_eq!(
            put("$.m.k", r#"{"a":1}"#).unwrap(),
            r#"{"a":1,"m":{"k":"k"}}"#
        );
        assert_eq!(put("$.k", r#"{"k":"theirs"}"#), None);
        assert_eq!(put("$.m.k", r#"{"m":1}"#), None);
        assert_eq!(put("$.a[0].k", r#"{"a":[]}"#), None);
    }
}
