//! Mirrored headers of 2026-07-28 (streamable-http, "Request Metadata"): always derived from the
//! outgoing body (PV-08).

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::json;

/// The markers around a Base64 value; "case-sensitive and MUST appear exactly as shown".
const SENTINEL_START: &str = "=?base64?";
const SENTINEL_END: &str = "?=";

const ANNOTATION: &str = "x-mcp-header";

/// The largest integer that every JavaScript peer holds exactly: 2^53 - 1.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A header value for `text`: as it is where it is plain, else in the Base64 sentinel
/// (streamable-http, "Value Encoding").
#[must_use]
pub fn encode_value(text: &str) -> Cow<'_, str> {
    // RFC 9110 section 5.5: visible ASCII with spaces and tabs within; those at the ends are not kept.
    let is_plain = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
        && !text.starts_with([' ', '\t'])
        && !text.ends_with([' ', '\t']);
    let is_sentinel = text.starts_with(SENTINEL_START) && text.ends_with(SENTINEL_END);
    if is_plain && !is_sentinel {
        return Cow::Borrowed(text);
    }
    let encoded = STANDARD.encode(text);
    Cow::Owned(format!("{SENTINEL_START}{encoded}{SENTINEL_END}"))
}

/// Undoes [`encode_value`]. `None` where the sentinel holds no valid Base64 of UTF-8.
#[must_use]
pub fn decode_value(value: &str) -> Option<Cow<'_, str>> {
    let encoded = value
        .strip_prefix(SENTINEL_START)
        .and_then(|rest| rest.strip_suffix(SENTINEL_END));
    match encoded {
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).ok()?;
            String::from_utf8(bytes).ok().map(Cow::Owned)
        }
        None => Some(Cow::Borrowed(value)),
    }
}

/// One parameter of a tool that is mirrored: the header's full name (`Mcp-Param-Region`) and the chain
/// of keys below `arguments`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// `Mcp-Param-{Name}`.
    pub header: String,
    /// Keys from the root of `arguments`.
    pub path: Vec<String>,
}

/// Reads the `x-mcp-header` annotations of an inputSchema (raw JSON). An error names the broken rule;
/// such a tool must be left out of tools/list ("Schema Extension").
pub fn param_headers(input_schema: &[u8]) -> Result<Vec<ParamHeader>, String> {
    // Most schemas have none; a search for bytes is cheaper than a tree. An escaped key has a backslash.
    if memchr::memmem::find(input_schema, ANNOTATION.as_bytes()).is_none()
        && memchr::memchr(b'\\', input_schema).is_none()
    {
        return json::validate(input_schema)
            .map(|()| Vec::new())
            .map_err(|e| format!("the schema is not JSON: {e}"));
    }
    let schema: Value = serde_json::from_slice(input_schema)
        .map_err(|e| format!("the schema cannot be read: {e}"))?;
    let mut found = Annotations::default();
    if let Value::Object(root) = &schema {
        if root.contains_key(ANNOTATION) {
            return Err(format!("{ANNOTATION} at the root, which is no parameter"));
        }
        found.walk(root, &mut Vec::new())?;
    }
    Ok(found.headers)
}

#[derive(Default)]
struct Annotations {
    headers: Vec<ParamHeader>,
    /// Names in lower case: they must differ by more than case.
    names: BTreeSet<String>,
}

impl Annotations {
    /// Walks a schema that is reachable by `properties` alone, and refuses annotations beside that way.
    fn walk(&mut self, schema: &Map<String, Value>, path: &mut Vec<String>) -> Result<(), String> {
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let Value::Object(property) = property else {
                            continue;
                        };
                        path.push(name.clone());
                        if let Some(annotation) = property.get(ANNOTATION) {
                            self.take(annotation, property, path)?;
                        }
                        self.walk(property, path)?;
                        path.pop();
                    }
                }
                (ANNOTATION, _) => {}
                (keyword, value) => refuse_annotations(keyword, value, keyword)?,
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        annotation: &Value,
        property: &Map<String, Value>,
        path: &[String],
    ) -> Result<(), String> {
        let parameter = path.join(".");
        let Value::String(name) = annotation else {
            return Err(format!("{ANNOTATION} of {parameter} is no string"));
        };
        if name.is_empty() {
            return Err(format!("{ANNOTATION} of {parameter} is empty"));
        }
        if !name.bytes().all(is_tchar) {
            return Err(format!(
                "{ANNOTATION} of {parameter} is no HTTP field name: {name:?}"
            ));
        }
        if !is_mirrored_type(property.get("type")) {
            return Err(format!(
                "{ANNOTATION} of {parameter}, whose type is not string, integer or boolean"
            ));
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(format!("{ANNOTATION} {name:?} stands there twice"));
        }
        self.headers.push(ParamHeader {
            header: format!("Mcp-Param-{name}"),
            path: path.to_vec(),
        });
        Ok(())
    }
}

/// Fails where an annotation stands in `value`, the value of `keyword`. `way` is how it was reached.
fn refuse_annotations(keyword: &str, value: &Value, way: &str) -> Result<(), String> {
    match (keyword, value) {
        // Instances, not schemas: a key in there is data.
        ("const" | "default" | "enum" | "example" | "examples", _) => Ok(()),
        // Here keys are names that the author chose, not keywords.
        (
            "$defs" | "definitions" | "dependentSchemas" | "patternProperties" | "properties",
            Value::Object(schemas),
        ) => schemas
            .values()
            .try_for_each(|schema| refuse_annotations("", schema, way)),
        (_, Value::Object(schema)) => {
            if schema.contains_key(ANNOTATION) {
                return Err(format!(
                    "{ANNOTATION} below {way}, which is not reached by properties alone"
                ));
            }
            schema
                .iter()
                .try_for_each(|(keyword, value)| refuse_annotations(keyword, value, way))
        }
        (_, Value::Array(schemas)) => schemas
            .iter()
            .try_for_each(|schema| refuse_annotations("", schema, way)),
        (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(()),
    }
}

/// "MUST only be applied to parameters with primitive types (integer, string, boolean)". One of them
/// together with null is taken for that one: the header is left out for a null value.
fn is_mirrored_type(kind: Option<&Value>) -> bool {
    let is_mirrored =
        |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    match kind {
        Some(Value::Array(kinds)) => {
            let mut others = kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            others.next().is_some_and(is_mirrored) && others.next().is_none()
        }
        Some(kind) => is_mirrored(kind),
        None => false,
    }
}

/// RFC 9110 section 5.6.2.
const fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// The value of one mirrored parameter in `arguments` (raw JSON object), encoded; `None` where it is
/// absent or null, and where it is not a string, an integer in the safe range or a boolean.
#[must_use]
pub fn param_value(arguments: &[u8], header: &ParamHeader) -> Option<String> {
    let path: Vec<&str> = header.path.iter().map(String::as_str).collect();
    let place = json::at_path(arguments, 0..arguments.len(), &path)?;
    let value = std::str::from_utf8(arguments.get(place.clone())?).ok()?;
    match value.as_bytes().first()? {
        b'"' => {
            let text = json::text(arguments, place)?;
            Some(encode_value(&text).into_owned())
        }
        b't' | b'f' => Some(value.to_owned()),
        b'-' | b'0'..=b'9' => safe_integer(value).map(|number| number.to_string()),
        _ => None,
    }
}

/// A whole number in the safe range, however it is written: `42`, `42.0` and `4.2e1` are one integer
/// (JSON Schema core, section 4.2.2; ECMA-262 `Number.MAX_SAFE_INTEGER`).
fn safe_integer(text: &str) -> Option<i64> {
    let number = match text.parse::<i64>() {
        Ok(number) => number,
        Err(_) => {
            let number: f64 = text.parse().ok()?;
            let is_whole = number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64;
            is_whole.then_some(number as i64)?
        }
    };
    (number.unsigned_abs() <= MAX_SAFE_INTEGER).then_some(number)
}

#[cfg(test)]
mod tests;
