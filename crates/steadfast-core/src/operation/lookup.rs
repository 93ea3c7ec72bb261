//! What the answer to a lookup proves. Only one record of exactly this target and these arguments does; everything
//! else, such as a record that is missing, late, or one of several, is no proof.
//!
//! Paths are JSONPath (RFC 9535). Those that take something from the operation see its record as
//! `{"arguments":…,"server":…,"tool":…,"operation":…}`. In `accepted`, the arguments of the lookup can be used by
//! name: `$.bookings[?@.reference == $reference]`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use serde_json_path::JsonPath;
use thiserror::Error;

use super::Finding;
use super::contract::LookupContract;
use super::place::Place;

/// A lookup contract whose expressions have been read.
#[derive(Clone, Debug)]
pub struct Lookup {
    arguments: BTreeMap<String, Argument>,
    accepted: String,
    must_equal: Vec<(JsonPath, JsonPath, String)>,
}

#[derive(Clone, Debug)]
enum Argument {
    Fixed(Value),
    Taken(JsonPath),
}

/// What is wrong with a contract.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Invalid {
    /// An expression that is not a JSONPath.
    #[error("`{expression}` is not a JSONPath (RFC 9535): {why}")]
    Expression {
        /// It.
        expression: String,
        /// What its reader says.
        why: String,
    },
    /// An expression that must name one value, and may select several.
    #[error("`{expression}` may select several values, and one is needed")]
    Several {
        /// It.
        expression: String,
    },
    /// A variable in `accepted` that is no argument of the lookup.
    #[error("`${name}` in `{expression}` is not an argument of the lookup")]
    Variable {
        /// Its name.
        name: String,
        /// Where it stands.
        expression: String,
    },
    /// Without anything that must be equal, any record would do.
    #[error("`must_equal` is empty: nothing would tie a record to this operation")]
    NothingToCompare,
}

impl Lookup {
    /// Reads the expressions of a contract.
    ///
    /// # Errors
    ///
    /// The first expression that cannot be read, and where nothing ties a record to the operation.
    pub fn compile(contract: &LookupContract) -> Result<Self, Invalid> {
        let arguments = contract
            .arguments
            .iter()
            .map(|(name, value)| Ok((name.clone(), argument(value)?)))
            .collect::<Result<BTreeMap<_, _>, Invalid>>()?;
        // With any value in the place of each variable, it must be an expression.
        let sample = arguments
            .keys()
            .map(|name| (name.clone(), Value::Null))
            .collect();
        path(&filled_in(&contract.accepted, &sample)?).map_err(|invalid| match invalid {
            // As it was written, and not with values in it.
            Invalid::Expression { why, .. } => Invalid::Expression {
                expression: contract.accepted.clone(),
                why,
            },
            other => other,
        })?;
        let must_equal = contract
            .must_equal
            .iter()
            .map(|(found, meant)| Ok((one(found)?, one(meant)?, found.clone())))
            .collect::<Result<Vec<_>, Invalid>>()?;
        if must_equal.is_empty() && !contract.accepted.contains("[?") {
            return Err(Invalid::NothingToCompare);
        }
        Ok(Self {
            arguments,
            accepted: contract.accepted.clone(),
            must_equal,
        })
    }

    /// The arguments to ask with, from the record of the operation.
    ///
    /// # Errors
    ///
    /// Says which argument the operation does not have: then it cannot be looked up.
    pub fn arguments(&self, record: &Value) -> Result<Map<String, Value>, String> {
        self.arguments
            .iter()
            .map(|(name, argument)| {
                let value = match argument {
                    Argument::Fixed(value) => value.clone(),
                    Argument::Taken(path) => path
                        .query(record)
                        .exactly_one()
                        .map_err(|_| format!("`{name}` cannot be taken from the call"))?
                        .clone(),
                };
                Ok((name.clone(), value))
            })
            .collect()
    }

    /// What the result of the lookup tool (`CallToolResult`) proves about the operation.
    #[must_use]
    pub fn judge(&self, record: &Value, result: &Value) -> Finding {
        if result.get("isError").and_then(Value::as_bool) == Some(true) {
            return unclear("the lookup answered with an error");
        }
        let asked = match self.arguments(record) {
            Ok(asked) => asked,
            Err(why) => return unclear(why),
        };
        let accepted = match filled_in(&self.accepted, &asked).and_then(|text| path(&text)) {
            Ok(accepted) => accepted,
            Err(invalid) => return unclear(invalid.to_string()),
        };
        let found = accepted.query(result).all();
        if found.is_empty() {
            return Finding::Absent;
        }
        let mut differs = None;
        let mut same = Vec::new();
        for node in found {
            match self.difference(record, node) {
                None => same.push(node),
                Some(place) => differs = Some(place),
            }
        }
        match (same.as_slice(), differs) {
            ([one], _) => Finding::Found {
                record: one.to_string(),
            },
            ([], Some(place)) => unclear(format!("a record was found, but `{place}` differs")),
            ([], None) => Finding::Absent,
            (several, _) => unclear(format!("{} records match", several.len())),
        }
    }

    /// The first place where a record is not of this operation.
    fn difference(&self, record: &Value, found: &Value) -> Option<&str> {
        self.must_equal
            .iter()
            .find(|(there, meant, _)| {
                let there = there.query(found).exactly_one();
                let meant = meant.query(record).exactly_one();
                !matches!((there, meant), (Ok(there), Ok(meant)) if is_same(there, meant))
            })
            .map(|(_, _, place)| place.as_str())
    }
}

fn unclear(why: impl Into<String>) -> Finding {
    Finding::Unclear { why: why.into() }
}

fn argument(value: &Value) -> Result<Argument, Invalid> {
    match value.as_str() {
        Some(text) if text.starts_with('$') => one(text).map(Argument::Taken),
        Some(_) | None => Ok(Argument::Fixed(value.clone())),
    }
}

/// A path that names one value.
fn one(expression: &str) -> Result<JsonPath, Invalid> {
    Place::read(expression)?;
    path(expression)
}

fn path(expression: &str) -> Result<JsonPath, Invalid> {
    JsonPath::parse(expression).map_err(|why| Invalid::Expression {
        expression: expression.to_owned(),
        why: why.to_string(),
    })
}

/// Whether two values say the same. Numbers are compared exactly: a number that a `f64` may have rounded is like no
/// other, since a wrong match would be taken for proof.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
                return a == b;
            }
            if let (Some(a), Some(b)) = (a.as_u64(), b.as_u64()) {
                return a == b;
            }
            match (a.as_f64(), b.as_f64()) {
                #[expect(
                    clippy::float_cmp,
                    reason = "the same decimal text gives the same bits"
                )]
                (Some(a), Some(b)) => a == b && a.abs() < EXACT,
                _ => false,
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Up to here a `f64` holds every whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The expression with a literal in the place of each variable. `$` followed by a name is no JSONPath (RFC 9535
/// section 2.2.1: the root identifier stands alone), so that nothing else can be meant.
fn filled_in(expression: &str, values: &Map<String, Value>) -> Result<String, Invalid> {
    let mut filled = String::with_capacity(expression.len());
    let mut quote = None;
    let mut rest = expression.chars().peekable();
    while let Some(character) = rest.next() {
        filled.push(character);
        match (quote, character) {
            (Some(_), '\\') => filled.extend(rest.next()),
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '$') => {
                let mut name = String::new();
                while let Some(next) = rest.next_if(|next| is_name(*next, name.is_empty())) {
                    name.push(next);
                }
                if !name.is_empty() {
                    filled.pop();
                    filled.push_str(&literal(&name, values, expression)?);
                }
            }
            (Some(_) | None, _) => {}
        }
    }
    Ok(filled)
}

fn is_name(character: char, first: bool) -> bool {
    character == '_'
        || if first {
            character.is_alphabetic()
        } else {
            character.is_alphanumeric()
        }
}

/// A value as a literal of a filter. A list or an object equals nothing there (RFC 9535 section 2.3.5.2.2), and
/// neither does anything in its place.
fn literal(name: &str, values: &Map<String, Value>, expression: &str) -> Result<String, Invalid> {
    match values.get(name) {
        Some(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
            Ok(value.to_string())
        }
        Some(Value::Array(_) | Value::Object(_)) => Err(Invalid::Expression {
            expression: expression.to_owned(),
            why: format!("`${name}` is a list or an object, which nothing can be compared with"),
        }),
        None => Err(Invalid::Variable {
            name: name.to_owned(),
            expression: expression.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::Millis;
    use serde_json::json;

    fn contract() -> LookupContract {
        LookupContract {
            tool: "find_booking".into(),
            arguments: [("reference".to_owned(), json!("$.arguments.reference"))].into(),
            accepted: "$.structuredContent.bookings[?@.reference == $reference]".into(),
            must_equal: [
                ("$.room".to_owned(), "$.arguments.room".to_owned()),
                ("$.nights".to_owned(), "$.arguments.nights".to_owned()),
            ]
            .into(),
            absent_is_definitive: false,
            settle_after: Millis::ZERO,
        }
    }

    fn lookup() -> Lookup {
        Lookup::compile(&contract()).unwrap()
    }

    fn record() -> Value {
        json!({ "arguments": { "reference": "r-\"17", "room": "4", "nights": 2 } })
    }

    fn answer(bookings: Value) -> Value {
        json!({ "structuredContent": { "bookings": bookings } })
    }

    fn booking(room: &str, nights: Value) -> Value {
        json!({ "reference": "r-\"17", "room": room, "nights": nights })
    }

    #[test]
    fn asks_with_what_the_call_said() {
        assert_eq!(
            Value::Object(lookup().arguments(&record()).unwrap()),
            json!({ "reference": "r-\"17" })
        );
        assert!(lookup().arguments(&json!({ "arguments": {} })).is_err());
    }

    #[test]
    fn one_record_of_this_target_and_these_arguments_is_proof() {
        let others = answer(json!([
            { "reference": "r-18", "room": "4", "nights": 2 },
            booking("4", json!(2)),
        ]));
        let Finding::Found { record: found } = lookup().judge(&record(), &others) else {
            panic!("not found");
        };
        assert_eq!(
            serde_json::from_str::<Value>(&found).unwrap(),
            booking("4", json!(2))
        );
    }

    #[test]
    fn another_room_is_no_proof() {
        let found = lookup().judge(&record(), &answer(json!([booking("5", json!(2))])));
        assert_eq!(
            found,
            unclear("a record was found, but `$.room` differs".to_owned())
        );
    }

    #[test]
    fn two_records_are_no_proof() {
        let twice = answer(json!([booking("4", json!(2)), booking("4", json!(2))]));
        assert_eq!(
            lookup().judge(&record(), &twice),
            unclear("2 records match")
        );
    }

    #[test]
    fn what_is_not_there_is_absent_and_an_error_is_unclear() {
        assert_eq!(
            lookup().judge(&record(), &answer(json!([]))),
            Finding::Absent
        );
        assert_eq!(lookup().judge(&record(), &json!({})), Finding::Absent);
        assert!(matches!(
            lookup().judge(&record(), &json!({ "isError": true })),
            Finding::Unclear { .. }
        ));
    }

    #[test]
    fn a_text_is_not_the_number_that_it_spells() {
        let found = lookup().judge(&record(), &answer(json!([booking("4", json!("2"))])));
        assert!(matches!(found, Finding::Unclear { .. }));
    }

    #[test]
    fn numbers_beyond_what_is_exact_match_nothing() {
        assert!(is_same(&json!(2), &json!(2.0)));
        assert!(is_same(
            &json!(9_007_199_254_740_993_u64),
            &json!(9_007_199_254_740_993_u64)
        ));
        assert!(!is_same(
            &json!(9_007_199_254_740_993_u64),
            &json!(9_007_199_254_740_992_u64)
        ));
        assert!(!is_same(&json!(1e300), &json!(1e300)));
    }

    #[test]
    fn a_contract_that_cannot_work_is_refused_before_it_is_needed() {
        let with = |change: fn(&mut LookupContract)| {
            let mut changed = contract();
            change(&mut changed);
            Lookup::compile(&changed).unwrap_err()
        };
        assert!(matches!(
            with(|contract| contract.accepted = "$.a[?".into()),
            Invalid::Expression { .. }
        ));
        assert!(matches!(
            with(|contract| contract.accepted = "$.a[?@.b == $other]".into()),
            Invalid::Variable { .. }
        ));
        assert_eq!(
            with(|contract| {
                contract.accepted = "$.structuredContent".into();
                contract.must_equal.clear();
            }),
            Invalid::NothingToCompare
        );
    }

    #[test]
    fn a_dollar_within_quotes_is_a_dollar() {
        let values = Map::from_iter([("a".to_owned(), json!("it's"))]);
        assert_eq!(
            filled_in(r#"$.x[?@.p == '$a' && @.q == $a]"#, &values).unwrap(),
            r#"$.x[?@.p == '$a' && @.q == "it's"]"#
        );
    }
}
