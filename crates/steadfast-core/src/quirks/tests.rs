#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use super::*;
use crate::fault::{Fault, Kind};

/// A legacy answer to a request that carried a session id.
fn answer(status: u16, media: Media, body: &str) -> Answer<'_> {
    Answer {
        status,
        media,
        body: body.as_bytes(),
        challenge: None,
        retry_after: None,
        session_attached: true,
        era: Era::Legacy,
    }
}

fn json(status: u16, body: &str) -> Answer<'_> {
    answer(status, Media::Json, body)
}

fn error(code: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"{message}"}}}}"#)
}

fn name(rule: Option<&'static Rule>) -> Option<&'static str> {
    rule.map(|rule| rule.name)
}

#[test]
fn every_rule_has_its_own_name() {
    let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    assert!(names.iter().all(|name| !name.is_empty()));
}

/// `first` relies on it: a success is only looked at where it holds an error object.
#[test]
fn rules_that_match_a_success_ask_for_an_error_code() {
    for rule in RULES {
        if rule.statuses.is_empty() || rule.statuses.iter().any(|status| *status < 300) {
            assert!(matches!(rule.codes, Codes::OneOf(_)), "{}", rule.name);
        }
    }
}

#[test]
fn fragments_are_in_lower_case() {
    for rule in RULES {
        for text in rule.texts {
            assert_eq!(*text, text.to_ascii_lowercase(), "{}", rule.name);
        }
    }
}

#[test]
fn an_unknown_session_is_recognised_in_the_forms_of_the_field() {
    let cases: &[(u16, &str, &str)] = &[
        (
            404,
            r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#,
            "session-404",
        ),
        (
            404,
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#,
            "session-404",
        ),
        (404, r#"{"jsonrpc":"2.0","id":1}"#, "session-404"),
        (404, "", "session-404"),
        (
            404,
            "<html><title>404 Not Found</title></html>",
            "session-404",
        ),
        (
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#,
            "session-400-text",
        ),
        (
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Bad Request: No valid session. Send an initialize request first."},"id":null}"#,
            "session-400-text",
        ),
        (
            400,
            r#"{"error":"Invalid or missing session ID"}"#,
            "session-400-text",
        ),
        (400, "Invalid session ID", "session-400-text"),
        (400, "Session not found", "session-400-text"),
        (
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Unknown Mcp-Session-Id header"},"id":null}"#,
            "session-400-text",
        ),
        (
            400,
            r#"{"jsonrpc":"2.0","id":72,"error":{"code":-32600,"message":"Unknown session id 'x' for 'tools/call'; client should reinitialize"}}"#,
            "session-400-text",
        ),
        (
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#,
            "session-400-text",
        ),
        (400, "No active session", "session-400-text"),
        (401, "Unauthorized: Session not found", "session-401-text"),
        (403, r#"{"error":"Invalid session"}"#, "session-403-text"),
        (
            200,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"missing or invalid Mcp-Session-Id"}}"#,
            "session-200-text",
        ),
        (
            200,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32002,"message":"Server not initialized"}}"#,
            "session-200-text",
        ),
    ];
    for (status, body, rule) in cases {
        let with = json(*status, body);
        assert_eq!(name(unknown_session(&with)), Some(*rule), "{status} {body}");
        assert_eq!(
            name(refused_before_execution(&with)),
            Some(*rule),
            "{status} {body}"
        );

        let without = Answer {
            session_attached: false,
            ..with
        };
        assert_eq!(
            name(unknown_session(&without)),
            None,
            "no session: {status} {body}"
        );
        let modern = Answer {
            era: Era::Modern,
            ..with
        };
        assert_eq!(
            name(unknown_session(&modern)),
            None,
            "modern: {status} {body}"
        );
    }
}

#[test]
fn what_only_resembles_an_unknown_session_is_left_alone() {
    let ordinary = r#"{"jsonrpc":"2.0","id":7,"result":{"isError":true,"content":[{"type":"text","text":"Session not found: unknown session id, missing or invalid Mcp-Session-Id"}]}}"#;
    let cases: &[(u16, String)] = &[
        // SE-02, the control: the same session goes on.
        (
            400,
            error(-32602, "Invalid params: session not found in arguments"),
        ),
        // PV-10: a timeout of the tool, and a draft's header mismatch.
        (200, error(-32001, "Request timed out")),
        (
            400,
            error(
                -32001,
                "Header mismatch: Mcp-Name header value 'a' does not match body value 'b'",
            ),
        ),
        // WR-02: ordinary errors of tools.
        (200, error(-32000, "Session not found")),
        (200, error(-32602, "missing or invalid mcp-session-id")),
        (200, error(-32600, "Session not found")),
        (200, ordinary.to_owned()),
        // The method is missing, not the session.
        (404, error(-32601, "Method not found")),
        // WR-05: these prove nothing.
        (
            500,
            error(-32000, "Bad Request: No valid session ID provided"),
        ),
        (503, "Session not found".to_owned()),
        (429, "session expired".to_owned()),
        (400, "Bad Request".to_owned()),
        (401, "Unauthorized".to_owned()),
    ];
    for (status, body) in cases {
        assert_eq!(
            name(unknown_session(&json(*status, body))),
            None,
            "{status} {body}"
        );
    }
    let challenged = Answer {
        challenge: Some(r#"Bearer error="invalid_token""#),
        ..json(401, "Unauthorized: Session not found")
    };
    assert_eq!(name(unknown_session(&challenged)), None);
}

#[test]
fn only_a_refusal_before_execution_is_proof() {
    let cases: &[(u16, Option<&str>, String, Option<&str>)] = &[
        (
            401,
            Some("Bearer"),
            String::new(),
            Some("credential-401-challenge"),
        ),
        (
            401,
            None,
            r#"{"error":"Unauthorized"}"#.to_owned(),
            Some("credential-401-text"),
        ),
        (
            401,
            None,
            "Invalid API key".to_owned(),
            Some("credential-401-text"),
        ),
        (401, None, String::new(), None),
        (
            400,
            None,
            error(-32020, "Header mismatch"),
            Some("header-mismatch"),
        ),
        (
            400,
            None,
            error(-32022, "Unsupported protocol version"),
            Some("version-unsupported"),
        ),
        (
            400,
            None,
            error(-32001, "Header mismatch: Mcp-Name"),
            Some("header-mismatch-draft"),
        ),
        (200, None, error(-32020, "Header mismatch"), None),
        (
            200,
            None,
            error(-32022, "Unsupported protocol version"),
            None,
        ),
        (
            400,
            None,
            error(-32021, "Server requires elicitation"),
            None,
        ),
        (400, None, error(-32602, "Invalid params"), None),
        (404, None, error(-32601, "Method not found"), None),
        (403, None, "Forbidden".to_owned(), None),
        (
            403,
            Some(r#"Bearer error="insufficient_scope""#),
            String::new(),
            None,
        ),
        (429, None, String::new(), None),
        (500, None, String::new(), None),
        (502, None, String::new(), None),
        (503, None, String::new(), None),
        (504, None, String::new(), None),
        (200, None, error(-32001, "Request timed out"), None),
    ];
    for (status, challenge, body, rule) in cases {
        let answer = Answer {
            challenge: *challenge,
            session_attached: false,
            era: Era::Modern,
            ..json(*status, body)
        };
        assert_eq!(
            name(refused_before_execution(&answer)),
            *rule,
            "{status} {body}"
        );
    }
}

#[test]
fn a_change_of_era_is_recognised_from_either_side() {
    let modern = |status, body| Answer {
        era: Era::Modern,
        session_attached: false,
        ..json(status, body)
    };
    let wanted = error(-32000, "Bad Request: Mcp-Session-Id header is required");
    let mismatch = error(-32020, "Header mismatch: Mcp-Method is missing");
    let version = error(-32022, "Unsupported protocol version");
    let draft = error(-32001, "Header mismatch: Mcp-Name");
    let argument = error(-32602, "no valid session in the arguments");
    let cases = [
        (json(400, &mismatch), Some("header-mismatch")),
        (json(400, &version), Some("version-unsupported")),
        (modern(400, &wanted), Some("session-wanted")),
        (modern(404, "Invalid session ID"), Some("session-wanted")),
        // The revision is not what it was, in whichever era.
        (modern(400, &version), Some("version-unsupported")),
        // In their own era these are no change; and neither is what proves nothing.
        (modern(200, &version), None),
        (modern(400, &mismatch), None),
        (json(400, &wanted), None),
        (json(200, &mismatch), None),
        (json(400, &draft), None),
        (modern(400, &draft), None),
        (modern(400, &argument), None),
        (modern(500, &wanted), None),
    ];
    for (answer, expected) in cases {
        assert_eq!(name(other_era(&answer)), expected, "{answer:?}");
    }
}

#[test]
fn header_mismatch_and_unknown_methods_have_several_forms() {
    let mismatch =
        |status, code, text| header_mismatch(&json(status, &error(code, text))).is_some();
    assert!(mismatch(400, -32020, "whatever"));
    assert!(mismatch(200, -32020, "whatever"));
    assert!(mismatch(400, -32001, "Header Mismatch: Mcp-Name"));
    assert!(!mismatch(404, -32001, "Header mismatch"));
    assert!(!mismatch(400, -32001, "Session not found"));
    for status in [200, 400, 404, 500] {
        assert!(method_unknown(&json(status, &error(-32601, "no ping"))).is_some());
        assert!(method_unknown(&json(status, &error(-32600, "Method not found"))).is_none());
    }
}

#[test]
fn faults_follow_the_status_and_the_body() {
    let cases: &[(u16, Media, &str, Kind, &str)] = &[
        (
            401,
            Media::Json,
            "",
            Kind::SignInRequired,
            "the server wants a sign-in (401)",
        ),
        (
            403,
            Media::None,
            "",
            Kind::Forbidden,
            "the server refuses (403)",
        ),
        (
            408,
            Media::None,
            "",
            Kind::Timeout,
            "no answer in time (408)",
        ),
        (
            504,
            Media::Html,
            "<title>Gateway</title>",
            Kind::Timeout,
            "no answer in time (504)",
        ),
        (
            429,
            Media::None,
            "",
            Kind::RateLimited,
            "the server asks to be called less often (429)",
        ),
        (
            503,
            Media::Other,
            "back soon",
            Kind::ServerError,
            "the server failed (503): back soon",
        ),
        (
            502,
            Media::Html,
            "<html><TITLE>Bad  gateway</TITLE>",
            Kind::ServerError,
            "the server failed (502): html, title \"Bad gateway\"",
        ),
        (
            302,
            Media::None,
            "",
            Kind::Redirected,
            "redirected (302), and not followed",
        ),
        (
            200,
            Media::Html,
            "<!doctype html><title lang=en>Sign in</title>",
            Kind::NotAnMcpAnswer,
            "not an MCP answer (html, title \"Sign in\")",
        ),
        (
            200,
            Media::Html,
            "<p>hello",
            Kind::NotAnMcpAnswer,
            "not an MCP answer (html without a title)",
        ),
        (
            200,
            Media::Other,
            "MCP\u{1b}[31m endpoint",
            Kind::NotAnMcpAnswer,
            "not an MCP answer (neither json nor an event stream, \"MCP [31m endpoint\")",
        ),
        (
            202,
            Media::None,
            "",
            Kind::NotAnMcpAnswer,
            "not an MCP answer (202, no content type)",
        ),
        (
            404,
            Media::Html,
            "<title>404</title>",
            Kind::ProtocolMismatch,
            "no MCP endpoint at this address (404)",
        ),
        (
            405,
            Media::None,
            "",
            Kind::ProtocolMismatch,
            "no MCP endpoint at this address (405)",
        ),
        (
            402,
            Media::Html,
            "<title>Pay</title>",
            Kind::NotAnMcpAnswer,
            "not an MCP answer (402, html, title \"Pay\")",
        ),
        (
            422,
            Media::Json,
            r#"{"detail":"no"}"#,
            Kind::ProtocolMismatch,
            "the server refuses (422): {\"detail\":\"no\"}",
        ),
        (
            400,
            Media::Json,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"bad"}}"#,
            Kind::ProtocolMismatch,
            "the server refuses (400): -32602, \"bad\"",
        ),
        (
            200,
            Media::EventStream,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"boom"}}"#,
            Kind::ServerError,
            "the server failed: -32603, \"boom\"",
        ),
    ];
    for (status, media, body, kind, message) in cases {
        let fault = fault_of(&answer(*status, *media, body));
        assert_eq!(
            (fault.kind, fault.message.as_str()),
            (*kind, *message),
            "{status} {body}"
        );
    }
}

#[test]
fn retry_after_is_passed_on() {
    for status in [408, 429, 500, 503, 504] {
        let answer = Answer {
            retry_after: Some(Millis::secs(7)),
            ..json(status, "")
        };
        assert_eq!(
            fault_of(&answer).retry_after,
            Some(Millis::secs(7)),
            "{status}"
        );
    }
}

#[test]
fn a_missing_scope_is_read_from_any_legal_challenge() {
    let fault = |challenge: &str| -> Fault {
        fault_of(&Answer {
            challenge: Some(challenge),
            ..json(403, "")
        })
    };
    for challenge in [
        r#"Bearer error="insufficient_scope", scope="products:write""#,
        r#"bearer scope = "products:write" , ERROR=insufficient_scope"#,
        r#"Basic realm="a, error=none", Bearer realm="x\"y", error="insufficient_scope",scope=products:write"#,
    ] {
        let fault = fault(challenge);
        assert_eq!(fault.kind, Kind::ScopeInsufficient, "{challenge}");
        assert_eq!(
            fault.message, "the grant lacks the scope products:write (403)",
            "{challenge}"
        );
    }
    assert_eq!(
        fault(r#"Bearer error="insufficient_scope""#).kind,
        Kind::ScopeInsufficient
    );
    assert_eq!(
        fault(r#"Bearer error="invalid_token""#).kind,
        Kind::Forbidden
    );
    assert_eq!(
        fault(r#"Bearer realm="error=insufficient_scope""#).kind,
        Kind::Forbidden
    );
    assert_eq!(fault("Bearer error=").kind, Kind::Forbidden);
}

#[test]
fn excerpts_hold_no_secrets_and_stay_short() {
    let cases = [
        ("plain words, 2026-07-28", "plain words, 2026-07-28"),
        (
            "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl rest",
            "token ….….… rest",
        ),
        (
            "id 0fbc7f3f46a19394ee69ba83d4a726ab unknown",
            "id … unknown",
        ),
        (
            "Authorization: Bearer hunter refused",
            "Authorization: Bearer … refused",
        ),
        (
            "GET /cb?code=abc&state=xyz failed",
            "GET /cb?code=…&state=… failed",
        ),
        ("key sk_live9 bad", "key sk_live9 bad"),
        ("key sk_live42 bad", "key … bad"),
        ("a\r\n\tb\u{202e}c\u{0}", "a b c"),
    ];
    for (text, expected) in cases {
        assert_eq!(sanitise(text), expected);
    }
    let long = sanitise(&"word ".repeat(1_000));
    assert_eq!(long.chars().count(), 80);
    assert!(long.ends_with('…'));
}
