#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn client(log_level: Option<&str>) -> Client {
    Client {
        info: r#"{"name":"a","version":"1"}"#.to_owned(),
        capabilities: r#"{"roots":{"listChanged":true}}"#.to_owned(),
        log_level: log_level.map(str::to_owned),
    }
}

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{"listChanged":true}}"#;

fn to_modern(message: &str) -> String {
    let bytes = request_to_modern(message.as_bytes(), Revision::V2026_07_28, &client(None));
    String::from_utf8(bytes).unwrap()
}

fn to_legacy(message: &str) -> String {
    String::from_utf8(request_to_legacy(message.as_bytes())).unwrap()
}

#[test]
fn a_legacy_request_gains_its_metadata_and_nothing_else_changes() {
    let cases = [
        // (before, after, with M for the metadata)
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{M}}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{M}}}"#,
        ),
        (
            r#"{"params":{"_meta":{}},"id":1,"method":"x","jsonrpc":"2.0"}"#,
            r#"{"params":{"_meta":{M}},"id":1,"method":"x","jsonrpc":"2.0"}"#,
        ),
        // WR-08: number forms, key order, unknown members, white space.
        (
            r#"{ "id" : 1.0, "method":"tools/call","params":{"b": 1e3,"a":9007199254740993,"_meta":{"vendor/idempotency-key":"k1"} },"jsonrpc":"2.0" }"#,
            r#"{ "id" : 1.0, "method":"tools/call","params":{"b": 1e3,"a":9007199254740993,"_meta":{"vendor/idempotency-key":"k1",M} },"jsonrpc":"2.0" }"#,
        ),
        // What is no object is replaced; what is stale too.
        (
            r#"{"method":"x","params":{"a":1,"_meta":null},"id":1}"#,
            r#"{"method":"x","params":{"a":1,"_meta":{M}},"id":1}"#,
        ),
        (
            r#"{"method":"x","params":{"_meta":{"io.modelcontextprotocol/logLevel":"debug","k":1,"io.modelcontextprotocol/protocolVersion":"x"}},"id":1}"#,
            r#"{"method":"x","params":{"_meta":{"k":1,M}},"id":1}"#,
        ),
        // Nothing can be put into positional params.
        (
            r#"{"method":"x","params":[1,2],"id":1}"#,
            r#"{"method":"x","params":[1,2],"id":1}"#,
        ),
    ];
    for (before, after) in cases {
        assert_eq!(to_modern(before), after.replace('M', META), "{before}");
    }
}

#[test]
fn the_log_level_goes_along_where_one_was_asked_for() {
    let message = br#"{"method":"x","id":1}"#;
    let modern = request_to_modern(message, Revision::V2026_07_28, &client(Some("\"info\"")));
    assert_eq!(
        String::from_utf8(modern).unwrap(),
        format!(
            r#"{{"method":"x","id":1,"params":{{"_meta":{{{META},"io.modelcontextprotocol/logLevel":"info"}}}}}}"#
        )
    );
}

#[test]
fn a_modern_request_loses_its_metadata_and_nothing_else_changes() {
    let cases = [
        (
            r#"{"id":1,"params":{"_meta":{M}},"method":"x"}"#,
            r#"{"id":1,"params":{},"method":"x"}"#,
        ),
        (
            r#"{"id":1,"params":{"_meta":{M},"name":"t", "n":1e3},"method":"x"}"#,
            r#"{"id":1,"params":{"name":"t", "n":1e3},"method":"x"}"#,
        ),
        (
            r#"{"id":1,"params":{"_meta":{"progressToken":1,M,"traceparent":"00-1"}},"method":"x"}"#,
            r#"{"id":1,"params":{"_meta":{"progressToken":1,"traceparent":"00-1"}},"method":"x"}"#,
        ),
        (
            r#"{"id":1,"params":{"_meta":{"io.modelcontextprotocol\/logLevel":"info","io.modelcontextprotocol/other":1}},"method":"x"}"#,
            r#"{"id":1,"params":{"_meta":{"io.modelcontextprotocol/other":1}},"method":"x"}"#,
        ),
        // Nothing of ours: not a byte changes, an empty _meta stays.
        (
            r#"{"id":1,"params":{"_meta":{}},"method":"x"}"#,
            r#"{"id":1,"params":{"_meta":{}},"method":"x"}"#,
        ),
        (
            r#"{"id":1,"params":{"_meta":7},"method":"x"}"#,
            r#"{"id":1,"params":{"_meta":7},"method":"x"}"#,
        ),
        (
            r#"{"id":1,"params":[{"_meta":{M}}],"method":"x"}"#,
            r#"{"id":1,"params":[{"_meta":{M}}],"method":"x"}"#,
        ),
        (r#"{"id":1,"method":"x"}"#, r#"{"id":1,"method":"x"}"#),
        // Keys of the same name elsewhere belong to the tool.
        (
            r#"{"id":1,"params":{"arguments":{"_meta":{M}}},"method":"x"}"#,
            r#"{"id":1,"params":{"arguments":{"_meta":{M}}},"method":"x"}"#,
        ),
    ];
    for (before, after) in cases {
        let (before, after) = (before.replace('M', META), after.replace('M', META));
        assert_eq!(to_legacy(&before), after, "{before}");
    }
}

fn result_modern(method: &str, message: &str) -> String {
    String::from_utf8(result_to_modern(method, message.as_bytes())).unwrap()
}

fn result_legacy(message: &str) -> Option<String> {
    result_to_legacy(message.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_legacy_result_gains_its_type_and_a_cacheable_one_its_hints() {
    const HINTS: &str = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
    for method in [
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "skills/list",
        "skills/get",
    ] {
        assert_eq!(
            result_modern(
                method,
                r#"{"id":1,"result":{"tools":[ {"n":1.0} ]},"jsonrpc":"2.0"}"#
            ),
            format!(r#"{{"id":1,"result":{{"tools":[ {{"n":1.0}} ],{HINTS}}},"jsonrpc":"2.0"}}"#),
            "{method}"
        );
    }
    for method in ["tools/call", "prompts/get", "completion/complete", "ping"] {
        assert_eq!(
            result_modern(method, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}"#,
            "{method}"
        );
    }
}

#[test]
fn what_a_result_has_already_is_kept() {
    let message = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":5,"cacheScope":"public"}}"#;
    assert_eq!(result_modern("tools/list", message), message);
    assert_eq!(
        result_modern(
            "tools/list",
            r#"{"jsonrpc":"2.0","id":1,"result":{"ttlMs":5}}"#
        ),
        r#"{"jsonrpc":"2.0","id":1,"result":{"ttlMs":5,"resultType":"complete","cacheScope":"private"}}"#
    );
    for message in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
        "not json",
    ] {
        assert_eq!(result_modern("resources/read", message), message);
    }
}

#[test]
fn a_modern_result_loses_its_type_only() {
    let cases = [
        (
            r#"{"id":1,"jsonrpc":"2.0","result":{"resultType":"complete","content":[],"ttlMs":5}}"#,
            r#"{"id":1,"jsonrpc":"2.0","result":{"content":[],"ttlMs":5}}"#,
        ),
        (
            r#"{"id":1,"jsonrpc":"2.0","result":{ "content":[1e3] , "resultType" : "complete"}}"#,
            r#"{"id":1,"jsonrpc":"2.0","result":{ "content":[1e3] }}"#,
        ),
        (
            r#"{"id":1,"jsonrpc":"2.0","result":{"content":[{"resultType":"complete"}]}}"#,
            r#"{"id":1,"jsonrpc":"2.0","result":{"content":[{"resultType":"complete"}]}}"#,
        ),
        (
            r#"{"id":1,"jsonrpc":"2.0","result":{"resultType":"task"}}"#,
            r#"{"id":1,"jsonrpc":"2.0","result":{"resultType":"task"}}"#,
        ),
        (
            r#"{"id":1,"jsonrpc":"2.0","error":{"code":-32000,"message":"x"}}"#,
            r#"{"id":1,"jsonrpc":"2.0","error":{"code":-32000,"message":"x"}}"#,
        ),
    ];
    for (before, after) in cases {
        assert_eq!(result_legacy(before).as_deref(), Some(after));
    }
    assert_eq!(
        result_legacy(
            r#"{"id":1,"jsonrpc":"2.0","result":{"inputRequests":{},"resultType":"input_required"}}"#
        ),
        None
    );
}

#[test]
fn resource_not_found_has_a_code_in_each_era() {
    let legacy = r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32002,"message":"Resource not found","data":{"uri":"file:///x"}}}"#;
    let modern = legacy.replace("-32002", "-32602");
    let mapped = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(
        mapped(error_to_modern("resources/read", legacy.as_bytes())),
        modern
    );
    assert_eq!(
        mapped(error_to_legacy("resources/read", modern.as_bytes())),
        legacy
    );
    // Elsewhere both codes mean other things.
    assert_eq!(
        mapped(error_to_modern("tools/call", legacy.as_bytes())),
        legacy
    );
    assert_eq!(
        mapped(error_to_legacy("tools/call", modern.as_bytes())),
        modern
    );
    let invalid =
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"uri must be a string"}}"#;
    assert_eq!(
        mapped(error_to_legacy("resources/read", invalid.as_bytes())),
        invalid
    );
    let result = r#"{"jsonrpc":"2.0","id":5,"result":{"error":{"code":-32002}}}"#;
    assert_eq!(
        mapped(error_to_modern("resources/read", result.as_bytes())),
        result
    );
}

fn discovered(result: &str, supported: &[Revision]) -> Option<String> {
    discover_result(result.as_bytes(), supported).map(|bytes| String::from_utf8(bytes).unwrap())
}

fn initialized(result: &str) -> Option<String> {
    initialize_result(result.as_bytes(), Revision::V2025_11_25)
        .map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn an_initialize_result_becomes_a_discover_result() {
    assert_eq!(
        discovered(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}, "x":1e3},"serverInfo":{"name":"s","version":"1.0"},"instructions":"do \u00e4"}"#,
            &[Revision::V2026_07_28, Revision::V2025_11_25],
        )
        .unwrap(),
        r#"{"capabilities":{"tools":{"listChanged":true}, "x":1e3},"instructions":"do \u00e4","resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1.0"}}}"#
    );
    assert_eq!(
        discovered(
            r#"{"_meta":{"k":1},"serverInfo":{"name":"s","version":"1"}}"#,
            &[Revision::V2026_07_28]
        )
        .unwrap(),
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{},"_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#
    );
    assert_eq!(
        discovered("{}", &[Revision::V2026_07_28]).unwrap(),
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{}}"#
    );
    assert_eq!(discovered("[]", &[Revision::V2026_07_28]), None);
    assert_eq!(discovered("", &[]), None);
}

#[test]
fn a_discover_result_becomes_an_initialize_result() {
    assert_eq!(
        initialized(
            r#" {"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"instructions":"i","ttlMs":3600000,"cacheScope":"public"} "#
        )
        .unwrap(),
        r#"{"capabilities":{"tools":{}},"instructions":"i","protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"}}"#
    );
    assert_eq!(
        initialized(r#"{"supportedVersions":[],"_meta":{"k":1}}"#).unwrap(),
        r#"{"_meta":{"k":1},"protocolVersion":"2025-11-25","serverInfo":{"name":"unknown","version":"unknown"},"capabilities":{}}"#
    );
    assert_eq!(initialized("null"), None);
}

/// The required members of a modern result, as the schema of 2026-07-28 has them.
#[test]
fn what_is_made_for_a_modern_agent_has_what_its_schema_requires() {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let discover = read(&discovered("{}", &[Revision::V2026_07_28]).unwrap());
    for member in [
        "cacheScope",
        "capabilities",
        "resultType",
        "supportedVersions",
        "ttlMs",
    ] {
        assert!(discover.get(member).is_some(), "{member}");
    }
    let list = read(&result_modern(
        "tools/list",
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#,
    ));
    for member in ["cacheScope", "resultType", "tools", "ttlMs"] {
        assert!(list["result"].get(member).is_some(), "{member}");
    }
    let request = read(&to_modern(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    ));
    for member in ["protocolVersion", "clientInfo", "clientCapabilities"] {
        let key = format!("io.modelcontextprotocol/{member}");
        assert!(request["params"]["_meta"].get(key).is_some(), "{member}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\\n]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                prop_oneof![Just("_meta".to_owned()), "[a-c\"]{1,2}"],
                inner,
                0..4
            )
            .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_request_that_goes_there_and_back_is_the_same(params in any_json()) {
        prop_assume!(params.get("_meta").is_none_or(Value::is_object));
        let message = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": params});
        let modern = to_modern(&message.to_string());
        let mut expected = message;
        if params.get("_meta").is_some_and(|meta| meta.as_object().unwrap().is_empty()) {
            // An empty _meta goes with the metadata.
            expected["params"].as_object_mut().unwrap().shift_remove("_meta");
        }
        prop_assert_eq!(to_legacy(&modern), expected.to_string());
    }

    #[test]
    fn a_result_that_goes_there_and_back_is_the_same(result in any_json()) {
        let message = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        prop_assert_eq!(result_legacy(&result_modern("tools/call", &message)), Some(message));
    }

    #[test]
    fn nothing_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "[\\[{}\\]\",:a_meta0-9 ]{0,40}") {
        for input in [bytes.as_slice(), text.as_bytes()] {
            let _ = request_to_modern(input, Revision::V2026_07_28, &client(None));
            let _ = request_to_legacy(input);
            let _ = result_to_modern("tools/list", input);
            let _ = result_to_legacy(input);
            let _ = error_to_modern("resources/read", input);
            let _ = error_to_legacy("resources/read", input);
            let _ = discover_result(input, &[Revision::V2026_07_28]);
            let _ = initialize_result(input, Revision::V2025_11_25);
        }
    }
}
