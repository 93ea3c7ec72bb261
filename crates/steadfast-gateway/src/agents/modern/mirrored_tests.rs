//! Which requests are refused for their headers.

use bytes::Bytes;

use super::*;

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"größe","arguments":{"region":"eu","n":42},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const NAME_ENCODED: &str = "=?base64?Z3LDtsOfZQ==?=";

fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn refused(body: &str, given: &[(&'static str, &'static str)]) -> Option<i32> {
    let inbound = Inbound::read(Bytes::from(body.to_owned())).unwrap();
    check(&headers(given), &inbound)
        .err()
        .map(|refused| refused.rpc_code)
}

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
const CALL: (&str, &str) = ("mcp-method", "tools/call");
const ENCODED: (&str, &str) = ("mcp-name", NAME_ENCODED);

#[test]
fn what_agrees_passes() {
    assert_eq!(refused(BODY, &[VERSION, CALL, ENCODED]), None);
    let spaced = [VERSION, ("mcp-method", " tools/call "), ENCODED];
    assert_eq!(refused(BODY, &spaced), None);
}

#[test]
fn what_is_missing_twice_or_different_is_refused() {
    for given in [
        &[CALL, ENCODED][..],
        &[VERSION, ENCODED],
        &[VERSION, CALL],
        &[VERSION, ("mcp-method", "TOOLS/CALL"), ENCODED],
        &[VERSION, CALL, CALL, ENCODED],
        &[VERSION, CALL, ("mcp-name", "other")],
        &[VERSION, CALL, ("mcp-name", "=?base64?!!?=")],
        &[("mcp-protocol-version", "2025-11-25"), CALL, ENCODED],
    ] {
        assert_eq!(refused(BODY, given), Some(-32020), "{given:?}");
    }
}

#[test]
fn a_version_that_is_not_spoken_lists_those_that_are() {
    let body = BODY.replace("2026-07-28", "v999.0.0");
    let inbound = Inbound::read(Bytes::from(body)).unwrap();
    let given = headers(&[("mcp-protocol-version", "v999.0.0"), CALL, ENCODED]);
    let refused = check(&given, &inbound).unwrap_err();
    assert_eq!(refused.rpc_code, -32022);
    let data = refused.data.unwrap();
    assert_eq!(
        (&data["supported"], &data["requested"]),
        (&json!(["2026-07-28"]), &json!("v999.0.0"))
    );
    let legacy = BODY.replace("2026-07-28", "2025-11-25");
    let given = [("mcp-protocol-version", "2025-11-25"), CALL, ENCODED];
    assert_eq!(self::refused(&legacy, &given), Some(-32022));
}

#[test]
fn metadata_is_required() {
    let no_version = BODY.replace("io.modelcontextprotocol/protocolVersion", "x");
    assert_eq!(
        refused(&no_version, &[VERSION, CALL, ENCODED]),
        Some(-32602)
    );
    let no_capabilities = BODY.replace("io.modelcontextprotocol/clientCapabilities", "x");
    assert_eq!(
        refused(&no_capabilities, &[VERSION, CALL, ENCODED]),
        Some(-32602)
    );
}

#[test]
fn a_task_id_is_compared_where_it_is_mirrored() {
    let body = BODY
        .replace("tools/call", "tasks/get")
        .replace(r#""name":"größe""#, r#""taskId":"t1""#);
    let get = ("mcp-method", "tasks/get");
    assert_eq!(refused(&body, &[VERSION, get]), None);
    assert_eq!(refused(&body, &[VERSION, get, ("mcp-name", "t1")]), None);
    assert_eq!(
        refused(&body, &[VERSION, get, ("mcp-name", "t2")]),
        Some(-32020)
    );
}

#[test]
fn mirrored_parameters_agree_with_the_arguments() {
    let tools = read_tools([
        ("plain", &br#"{"inputSchema":{"type":"object"}}"#[..]),
        (
            "t",
            br#"{"inputSchema":{"type":"object","properties":{
              "region":{"type":"string","x-mcp-header":"Region"},
              "n":{"type":"integer","x-mcp-header":"N"}}}}"#,
        ),
    ]);
    assert_eq!(tools.len(), 1);
    let check = |arguments: &str, given: &[(&'static str, &'static str)]| {
        check_mirrored(&headers(given), &tools["t"], arguments.as_bytes()).is_ok()
    };
    let both = r#"{"region":"Hello","n":42}"#;
    assert!(check(
        both,
        &[("mcp-param-region", "Hello"), ("mcp-param-n", "42")]
    ));
    assert!(check(
        both,
        &[
            ("mcp-param-region", "=?base64?SGVsbG8=?="),
            ("mcp-param-n", "42.0")
        ]
    ));
    assert!(check(r#"{"region":null}"#, &[]));
    for given in [
        &[("mcp-param-region", "Hello")][..],
        &[("mcp-param-region", "other"), ("mcp-param-n", "42")],
        &[
            ("mcp-param-region", "=?base64?SGVsbG8?="),
            ("mcp-param-n", "42"),
        ],
        &[
            ("mcp-param-region", "=?base64?SGVs!!!bG8=?="),
            ("mcp-param-n", "42"),
        ],
        &[("mcp-param-region", "Hello"), ("mcp-param-n", "43")],
    ] {
        assert!(!check(both, given), "{given:?}");
    }
    assert!(!check(
        r#"{"n":42}"#,
        &[("mcp-param-region", "Hello"), ("mcp-param-n", "42")]
    ));
    assert!(
        !check(r#"{"region":"42"}"#, &[("mcp-param-region", "42.0")]),
        "text is compared as text"
    );
}
