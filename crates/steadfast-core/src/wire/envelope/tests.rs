#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

fn part(source: &str, range: Option<Range<usize>>) -> Option<&str> {
    range.map(|range| &source[range])
}

fn refusal(source: &str) -> &'static str {
    match read(source.as_bytes()) {
        Err(Invalid::Message(why)) => why,
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn reads_a_request() {
    let source = r#" {"params" : {"name":"x"}, "id": "a", "method":"tools/call", "jsonrpc":"2.0", "more":[1]}
"#;
    let envelope = read(source.as_bytes()).unwrap();
    assert_eq!(envelope.kind, Kind::Request);
    assert_eq!(part(source, envelope.id.clone()), Some("\"a\""));
    assert_eq!(
        part(source, envelope.method.clone()),
        Some("\"tools/call\"")
    );
    assert_eq!(
        part(source, envelope.params.clone()),
        Some(r#"{"name":"x"}"#)
    );
    assert_eq!(envelope.result, None);
    assert_eq!(envelope.error, None);
    assert_eq!(
        envelope.rpc_id(source.as_bytes()),
        RpcId::from_json("\"a\"")
    );
    assert_eq!(envelope.method(source.as_bytes()), "tools/call");
}

#[test]
fn tells_the_kinds_apart() {
    for (source, kind, has_id) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            Kind::Request,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":-1.5e3,"method":"ping","params":[]}"#,
            Kind::Request,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            Kind::Notification,
            false,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            Kind::Result,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"1","result":{},"params":3}"#,
            Kind::Result,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#,
            Kind::Error,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            Kind::Error,
            false,
        ),
        (r#"{"jsonrpc":"2.0","error":{}}"#, Kind::Error, false),
    ] {
        let envelope = read(source.as_bytes()).unwrap();
        assert_eq!(envelope.kind, kind, "{source}");
        assert_eq!(
            envelope.rpc_id(source.as_bytes()).is_some(),
            has_id,
            "{source}"
        );
        assert!(
            envelope.kind != Kind::Result || envelope.params.is_none(),
            "{source}"
        );
        let is_call = matches!(kind, Kind::Request | Kind::Notification);
        assert_eq!(
            envelope.method(source.as_bytes()).is_empty(),
            !is_call,
            "{source}"
        );
    }
}

#[test]
fn refuses_what_is_no_message() {
    for source in [
        r#"{}"#,
        r#""x""#,
        r#" 1 "#,
        r#"{"id":1,"method":"m"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
        r#"{"jsonrpc":"2.0","result":1}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":[],"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
    ] {
        refusal(source);
    }
    assert!(refusal(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#).contains("null id"));
}

#[test]
fn refuses_a_member_that_stands_there_twice_however_it_is_written() {
    for (name, value) in [
        ("id", "2"),
        ("i\\u0064", "2"),
        ("jsonrpc", "\"2.0\""),
        ("method", "\"n\""),
        ("\\u006dethod", "\"n\""),
        ("params", "{}"),
    ] {
        let source =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{}},"{name}":{value}}}"#);
        assert!(refusal(&source).starts_with("two members"), "{source}");
    }
    refusal(r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#);
    refusal(r#"{"jsonrpc":"2.0","id":1,"error":{},"error":{}}"#);
    assert!(read(br#"{"jsonrpc":"2.0","id":1,"method":"m","x":1,"x":2}"#).is_ok());
}

#[test]
fn keys_count_after_unescaping() {
    let source = r#"{"\u006asonrpc":"\u0032.0","\u0069d":7,"metho\u0064":"p\u0069ng","\ud800":1}"#;
    let envelope = read(source.as_bytes()).unwrap();
    assert_eq!(envelope.rpc_id(source.as_bytes()), Some(RpcId::Integer(7)));
    assert_eq!(envelope.method(source.as_bytes()), "ping");
}

#[test]
fn what_is_not_json_is_said_before_what_is_no_message() {
    for source in [
        "",
        "{",
        "[",
        r#"{"id":1,"id":2"#,
        r#"{"jsonrpc":"1.0"}x"#,
        "[1,]",
    ] {
        assert!(
            matches!(read(source.as_bytes()), Err(Invalid::Json(_))),
            "{source}"
        );
    }
    assert_eq!(read(b" [1]"), Err(Invalid::Batch));
}

#[test]
fn reads_a_batch() {
    let source = r#" [ {"a":1} , 2,[] ]"#;
    let messages = read_batch(source.as_bytes()).unwrap();
    let parts: Vec<_> = messages.into_iter().map(|range| &source[range]).collect();
    assert_eq!(parts, [r#"{"a":1}"#, "2", "[]"]);
    assert!(matches!(read_batch(b"[ ]"), Err(Invalid::Message(_))));
    assert!(matches!(read_batch(b"{}"), Err(Invalid::Message(_))));
    assert!(matches!(read_batch(b"[1"), Err(Invalid::Json(_))));
    assert!(matches!(read_batch(b"{"), Err(Invalid::Json(_))));
}

fn params_of(source: &str) -> Params {
    read_params(source.as_bytes(), &read(source.as_bytes()).unwrap())
}

#[test]
fn reads_the_params_that_matter() {
    let source = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","uri":"u",
        "arguments":{"name":"inner","_meta":{}},"requestId":5,"progressToken":"direct","_meta":{
        "progressToken":9,"dev.steadfast/operationKey":"k","io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{"x":1},
        "io.modelcontextprotocol/logLevel":"info","dev.steadfast\/repeat":"intended","dev.steadfastly/x":1}}}"#;
    let params = params_of(source);
    assert_eq!(part(source, params.name), Some("\"t\""));
    assert_eq!(part(source, params.uri), Some("\"u\""));
    assert_eq!(
        part(source, params.arguments),
        Some(r#"{"name":"inner","_meta":{}}"#)
    );
    assert_eq!(part(source, params.request_id), Some("5"));
    assert_eq!(part(source, params.progress_of), Some("\"direct\""));
    assert_eq!(part(source, params.progress_token), Some("9"));
    assert_eq!(
        part(source, params.protocol_version),
        Some("\"2026-07-28\"")
    );
    assert_eq!(part(source, params.client_info), Some("{}"));
    assert_eq!(part(source, params.client_capabilities), Some("{\"x\":1}"));
    assert_eq!(part(source, params.log_level), Some("\"info\""));
    assert_eq!(params.twice, None);
    let ours: Vec<_> = params
        .ours
        .into_iter()
        .map(|member| &source[member.value])
        .collect();
    assert_eq!(ours, ["\"k\"", "\"intended\""]);
    assert!(source[params.meta.unwrap()].starts_with('{'));
    assert!(source[params.whole.unwrap()].starts_with('{'));
}

#[test]
fn params_of_other_shapes_have_no_parts() {
    for params in [
        "[1,2]",
        "{}",
        r#"{"_meta":[]}"#,
        r#"{"_meta":"x"}"#,
        r#"{"_meta":{}}"#,
    ] {
        let source = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        let found = params_of(&source);
        assert_eq!(part(&source, found.whole.clone()), Some(params));
        let rest = Params {
            whole: found.whole.clone(),
            meta: found.meta.clone(),
            ..Params::default()
        };
        assert_eq!(found, rest);
    }
    assert_eq!(
        params_of(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#),
        Params::default()
    );
}

#[test]
fn params_say_which_member_stands_there_twice() {
    for (params, twice) in [
        (r#"{"name":"a","na\u006de":"b"}"#, Some("name")),
        (r#"{"_meta":{},"_meta":{}}"#, Some("_meta")),
        (
            r#"{"_meta":{"progressToken":1,"progressToken":2}}"#,
            Some("progressToken"),
        ),
        (r#"{"x":1,"x":2,"_meta":{"y":1,"y":2}}"#, None),
    ] {
        let source = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        assert_eq!(params_of(&source).twice, twice, "{params}");
    }
}

#[test]
fn reads_an_error() {
    let error = |error: &str| {
        let source = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        read_error(source.as_bytes(), &read(source.as_bytes()).unwrap())
    };
    assert_eq!(
        error(r#"{"code":-32601,"message":"no \"x\" \ud83d","data":{}}"#),
        Some((-32601, "no \"x\" \u{fffd}".to_owned()))
    );
    assert_eq!(error(r#"{"code":1}"#), Some((1, String::new())));
    assert_eq!(error(r#"{"code":"1","message":"m"}"#), None);
    assert_eq!(error(r#"{"message":"m"}"#), None);
    let result = br#"{"jsonrpc":"2.0","id":1,"result":{"code":1}}"#;
    assert_eq!(read_error(result, &read(result).unwrap()), None);
}

/// The rules once more, over a parsed tree. Only for sources without a key twice.
fn reference(source: &[u8]) -> Option<Kind> {
    let message: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(source).ok()?;
    if message.get("jsonrpc")?.as_str() != Some("2.0") {
        return None;
    }
    let id = message.get("id");
    let has_id = id.is_some_and(|id| id.is_string() || id.is_number());
    if let Some(method) = message.get("method") {
        let structured = message
            .get("params")
            .is_none_or(|it| it.is_object() || it.is_array());
        let is_call = method.is_string() && structured;
        let is_answer = message.contains_key("result") || message.contains_key("error");
        return match (is_call && !is_answer, id, has_id) {
            (true, None, _) => Some(Kind::Notification),
            (true, Some(_), true) => Some(Kind::Request),
            _ => None,
        };
    }
    match (message.get("result"), message.get("error")) {
        (Some(_), None) => has_id.then_some(Kind::Result),
        (None, Some(error)) if error.is_object() => {
            let id_is_fine = has_id || id.is_none_or(serde_json::Value::is_null);
            id_is_fine.then_some(Kind::Error)
        }
        _ => None,
    }
}

fn member(name: &'static str) -> impl Strategy<Value = Option<String>> {
    let values = vec![
        "\"2.0\"",
        "\"2.0\"",
        "1",
        "\"x\"",
        "null",
        "{}",
        "[]",
        "{\"code\":1}",
        "false",
    ];
    let value = prop::sample::select(values);
    prop::option::of(value.prop_map(move |value| format!("\"{name}\":{value}")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kinds_agree_with_the_rules_over_a_tree(
        members in (
            member("id"), member("method"), member("params"), member("result"), member("error"), member("x"),
            prop::sample::select(vec!["\"jsonrpc\":\"2.0\"", "\"jsonrpc\":\"2.0\"", "\"jsonrpc\":2"]),
        ),
        turn in 0_usize..7,
    ) {
        let (id, method, params, result, error, x, version) = members;
        let mut all: Vec<_> = [id, method, params, result, error, x].into_iter().flatten().collect();
        all.push(version.to_owned());
        let turn = turn % all.len();
        all.rotate_left(turn);
        let source = format!("{{{}}}", all.join(","));
        prop_assert_eq!(read(source.as_bytes()).ok().map(|it| it.kind), reference(source.as_bytes()), "{}", source);
    }
}
