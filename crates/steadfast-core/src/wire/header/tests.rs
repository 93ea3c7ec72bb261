#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn encodes_the_examples_of_the_specification() {
    for (text, value) in [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ] {
        assert_eq!(encode_value(text), value);
        assert_eq!(decode_value(value).unwrap(), text);
    }
}

#[test]
fn only_what_is_unsafe_is_encoded() {
    for plain in [
        "",
        "a b",
        "a\tb",
        "~!",
        "=?base64?x",
        "x?=",
        "=?BASE64?x?=",
        "=?base64?x?= ",
    ] {
        let is_plain = encode_value(plain) == plain;
        assert_eq!(is_plain, !plain.ends_with(' '), "{plain:?}");
    }
    for unsafe_text in [
        " a",
        "a ",
        "\ta",
        "a\t",
        "\0",
        "\x7f",
        "a\rb",
        "é",
        "\u{a0}",
        "=?base64?=",
    ] {
        assert!(
            encode_value(unsafe_text).starts_with("=?base64?"),
            "{unsafe_text:?}"
        );
    }
}

#[test]
fn refuses_a_sentinel_without_base64_of_text() {
    for value in [
        "=?base64?!?=",
        "=?base64?YQ?=",
        "=?base64?YQ=?=",
        "=?base64?/w==?=",
        "=?base64? YQ==?=",
    ] {
        assert_eq!(decode_value(value), None, "{value}");
    }
    for literal in [
        "",
        "x",
        "=?base64?YQ==",
        "YQ==?=",
        "=?Base64?YQ==?=",
        "=?base64?=",
    ] {
        assert_eq!(decode_value(literal).as_deref(), Some(literal));
    }
    assert_eq!(decode_value("=?base64??=").as_deref(), Some(""));
}

fn headers(schema: serde_json::Value) -> Result<Vec<(String, String)>, String> {
    let found = param_headers(schema.to_string().as_bytes())?;
    Ok(found
        .into_iter()
        .map(|it| (it.header, it.path.join(".")))
        .collect())
}

fn one_property(schema: serde_json::Value) -> Result<Vec<(String, String)>, String> {
    headers(json!({"type": "object", "properties": {"value": schema}}))
}

#[test]
fn finds_annotations_in_the_order_of_the_schema() {
    let found = headers(json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "query": {"type": "string"},
            "where": {"type": "object", "properties": {
                "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
                "x-mcp-header": {"type": "string"},
                "rows": {"type": ["integer", "null"], "x-mcp-header": "rows"},
            }},
        },
        "required": ["region", "query"],
    }));
    let expected = [
        ("Mcp-Param-Region", "region"),
        ("Mcp-Param-Dry-Run", "where.dry"),
        ("Mcp-Param-rows", "where.rows"),
    ];
    assert_eq!(
        found.unwrap(),
        expected.map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    assert_eq!(headers(json!({"type": "object"})).unwrap(), []);
    assert_eq!(headers(json!(true)).unwrap(), []);
}

#[test]
fn an_escaped_annotation_is_one() {
    let schema = br#"{"properties":{"a":{"type":"string","x-mcp\u002dheader":"A"}}}"#;
    assert_eq!(param_headers(schema).unwrap()[0].header, "Mcp-Param-A");
}

#[test]
fn names_must_be_field_names() {
    for name in [
        "",
        "My Region",
        "Region:Primary",
        "Région",
        "Region\t1",
        "a\r\nb",
        "(a)",
        "a/b",
        "\0",
    ] {
        assert!(
            one_property(json!({"type": "string", "x-mcp-header": name})).is_err(),
            "{name:?}"
        );
    }
    for name in [json!(1), json!(null), json!(["A"]), json!({})] {
        assert!(
            one_property(json!({"type": "string", "x-mcp-header": name})).is_err(),
            "{name}"
        );
    }
    assert!(one_property(json!({"type": "string", "x-mcp-header": "!#$%&'*+-.^_`|~09Az"})).is_ok());
}

#[test]
fn only_primitive_types_are_mirrored() {
    for kind in ["string", "integer", "boolean"] {
        assert!(
            one_property(json!({"type": kind, "x-mcp-header": "A"})).is_ok(),
            "{kind}"
        );
    }
    let others = [
        json!("number"),
        json!("object"),
        json!("array"),
        json!("null"),
        json!(null),
        json!(["string", "integer"]),
        json!(["null"]),
        json!(["number", "null"]),
        json!([]),
    ];
    for kind in others {
        assert!(
            one_property(json!({"type": kind, "x-mcp-header": "A"})).is_err(),
            "{kind}"
        );
    }
    assert!(
        one_property(json!({"x-mcp-header": "A"})).is_err(),
        "no type"
    );
}

#[test]
fn names_are_unique_whatever_their_case() {
    let two = |first: &str, second: &str| {
        headers(json!({"properties": {
            "a": {"type": "string", "x-mcp-header": first},
            "b": {"properties": {"c": {"type": "string", "x-mcp-header": second}}},
        }}))
    };
    assert!(two("Region", "Region").is_err());
    assert!(two("MyField", "myfield").is_err());
    assert!(two("Region", "Region2").is_ok());
}

#[test]
fn an_annotation_off_the_path_of_properties_is_refused() {
    let annotated = json!({"type": "string", "x-mcp-header": "A"});
    let refused = [
        annotated.clone(),
        json!({"properties": {"a": {"type": "array", "items": annotated}}}),
        json!({"properties": {"a": {"items": {"properties": {"b": annotated}}}}}),
        json!({"prefixItems": [annotated]}),
        json!({"oneOf": [{"properties": {"a": annotated}}]}),
        json!({"anyOf": [annotated]}),
        json!({"allOf": [{"not": annotated}]}),
        json!({"if": {"properties": {"a": annotated}}}),
        json!({"then": annotated}),
        json!({"else": annotated}),
        json!({"$defs": {"a": annotated}, "properties": {"b": {"$ref": "#/$defs/a"}}}),
        json!({"definitions": {"a": annotated}}),
        json!({"patternProperties": {"^a": annotated}}),
        json!({"additionalProperties": annotated}),
        json!({"dependentSchemas": {"a": annotated}}),
        json!({"properties": {"a": {"type": "string", "contentSchema": annotated}}}),
    ];
    for schema in refused {
        assert!(headers(schema.clone()).is_err(), "{schema}");
    }
}

#[test]
fn a_key_in_data_and_a_property_of_that_name_are_no_annotations() {
    let plain = [
        json!({"properties": {"x-mcp-header": {"type": "string"}}}),
        json!({"items": {"properties": {"x-mcp-header": {"type": "string"}}}}),
        json!({"$defs": {"x-mcp-header": {"type": "string"}}}),
        json!({"properties": {"a": {"type": "object", "default": {"x-mcp-header": 1}}}}),
        json!({"examples": [{"x-mcp-header": "A"}]}),
        json!({"properties": {"a": {"description": "x-mcp-header"}}, "required": ["x-mcp-header"]}),
    ];
    for schema in plain {
        assert_eq!(headers(schema.clone()).unwrap(), [], "{schema}");
    }
}

#[test]
fn a_schema_that_cannot_be_read_is_refused() {
    assert!(param_headers(b"{").is_err());
    assert!(param_headers(b"{\"x-mcp-header\"").is_err());
    let deep = "{\"properties\":{\"a\":".repeat(100) + "{\"x-mcp-header\":1}" + &"}}".repeat(100);
    assert!(param_headers(deep.as_bytes()).is_err());
}

fn value_at(arguments: &str, path: &[&str]) -> Option<String> {
    let path = path.iter().map(|key| (*key).to_owned()).collect();
    param_value(
        arguments.as_bytes(),
        &ParamHeader {
            header: "Mcp-Param-A".into(),
            path,
        },
    )
}

#[test]
fn values_are_read_at_the_exact_path() {
    let arguments =
        r#" {"region":"us-west1","where":{"dry":false,"rows":-7},"n":null,"l":[1],"f":1.5} "#;
    assert_eq!(value_at(arguments, &["region"]).unwrap(), "us-west1");
    assert_eq!(value_at(arguments, &["where", "dry"]).unwrap(), "false");
    assert_eq!(value_at(arguments, &["where", "rows"]).unwrap(), "-7");
    for absent in [
        &["x"][..],
        &["n"],
        &["l"],
        &["f"],
        &["where"],
        &["where", "x"],
        &["region", "x"],
    ] {
        assert_eq!(value_at(arguments, absent), None, "{absent:?}");
    }
    assert_eq!(
        value_at(r#"{"a":"line1\nline2"}"#, &["a"]).unwrap(),
        "=?base64?bGluZTEKbGluZTI=?="
    );
    assert_eq!(value_at(r#"{"a":""}"#, &["a"]).unwrap(), "");
    assert_eq!(value_at(r#"{"a":"\ud800"}"#, &["a"]), None);
    assert_eq!(value_at("null", &["a"]), None);
}

#[test]
fn integers_are_decimal_and_safe() {
    for (json, expected) in [
        ("42", Some("42")),
        ("42.0", Some("42")),
        ("4.2e1", Some("42")),
        ("-0", Some("0")),
        ("-0.0", Some("0")),
        ("9007199254740991", Some("9007199254740991")),
        ("9007199254740992", None),
        ("-9007199254740991", Some("-9007199254740991")),
        ("-9007199254740992", None),
        ("9007199254740991.0", Some("9007199254740991")),
        ("9007199254740992.0", None),
        ("9223372036854775807", None),
        ("-9223372036854775808", None),
        ("1e400", None),
        ("0.5", None),
    ] {
        assert_eq!(
            value_at(&format!("{{\"a\":{json}}}"), &["a"]).as_deref(),
            expected,
            "{json}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_comes_back_from_a_header_that_is_safe(
        text in prop_oneof![any::<String>(), "(=\\?base64\\?)?[ -~]{0,8}(\\?=)?", "[\t a]{0,4}"],
    ) {
        let value = encode_value(&text);
        prop_assert!(value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
        prop_assert_eq!(value.trim_matches([' ', '\t']), &*value);
        let decoded = decode_value(&value);
        prop_assert_eq!(decoded.as_deref(), Some(&*text));
    }
}
