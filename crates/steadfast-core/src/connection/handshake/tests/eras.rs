//! Which era, and which transport: PV-01 to PV-04, HT-03.

use super::*;

#[test]
fn a_modern_server_opens_with_one_question() {
    first_contact(&[discovered(r#""2026-07-28""#)], &[DISCOVER], modern());
    first_contact(
        &[discovered(r#""2025-11-25","2026-07-28","2027-01-01""#)],
        &[DISCOVER],
        modern(),
    );
}

#[test]
fn a_server_that_names_only_legacy_revisions_is_initialized_in_the_best() {
    first_contact(
        &[
            discovered(r#""2025-03-26","2025-06-18""#),
            initialized("2025-06-18"),
        ],
        &[DISCOVER, plain(R::V2025_06_18)],
        legacy(R::V2025_06_18),
    );
    first_contact_fails(
        &[discovered(r#""2027-01-01""#)],
        &[DISCOVER],
        Kind::ProtocolMismatch,
        "no common revision: the server speaks 2027-01-01, we speak 2026-07-28 and 2025-11-25 or earlier",
    );
}

#[test]
fn pv_01_and_pv_02_and_pv_03_anything_else_is_a_legacy_server_at_the_cost_of_one_question() {
    let refusals = [
        http(404, "Invalid session ID"),
        error(400, -32000, "Mcp-Session-Id header is required"),
        http(
            400,
            r#"{"error":{"code":"invalid_payload","message":"Unknown method server/discover","type":"invalid_request_error"}}"#,
        ),
        http(400, "<html><title>Bad Request</title>"),
        http(400, ""),
        http(422, r#"{"detail":"no"}"#),
        http(500, "oops"),
        http(501, ""),
        http(405, ""),
        http(406, ""),
        error(404, -32601, "Method not found"),
        error(200, -32601, "Method not found"),
        error(200, -32600, "not initialized"),
        error(400, -32602, "Invalid params"),
        result("{}"),
        result(r#"{"supportedVersions":[]}"#),
        result(r#"{"supportedVersions":"2026-07-28"}"#),
        http(200, r#"{"ok":true}"#),
        http(202, ""),
        http(401, "Unauthorized: Session ID is required"),
    ];
    for refusal in refusals {
        first_contact(
            &[refusal, initialized("2025-11-25")],
            &[DISCOVER, INITIALIZE],
            legacy(R::V2025_11_25),
        );
    }
}

#[test]
fn pv_04_a_refused_version_never_ends_in_a_guess() {
    for status in [400, 200] {
        first_contact_fails(
            &[unsupported(status, r#""2026-10-01""#)],
            &[DISCOVER],
            Kind::ProtocolMismatch,
            "no common revision: the server speaks 2026-10-01, we speak 2026-07-28 and 2025-11-25 or earlier",
        );
        first_contact(
            &[
                unsupported(status, r#""2026-07-28""#),
                discovered(r#""2026-07-28""#),
            ],
            &[DISCOVER, DISCOVER],
            modern(),
        );
        first_contact(
            &[
                unsupported(status, r#""2025-11-25""#),
                initialized("2025-11-25"),
            ],
            &[DISCOVER, INITIALIZE],
            legacy(R::V2025_11_25),
        );
        first_contact_fails(
            &[error(status, -32022, "Unsupported protocol version")],
            &[DISCOVER],
            Kind::ProtocolMismatch,
            "the server refuses our revision and names none of its own (-32022)",
        );
    }
}

#[test]
fn a_version_that_is_refused_twice_leaves_what_else_was_named() {
    let refusal = unsupported(400, r#""2026-07-28","2025-06-18""#);
    first_contact(
        &[refusal.clone(), refusal, initialized("2025-06-18")],
        &[DISCOVER, DISCOVER, plain(R::V2025_06_18)],
        legacy(R::V2025_06_18),
    );
    let refusal = unsupported(400, r#""2026-07-28""#);
    let (asked, end) = play(None, Offer::default(), &[refusal.clone(), refusal]);
    assert_eq!(asked, [DISCOVER, DISCOVER]);
    assert!(matches!(end, Some(Next::Fail(_))));
}

#[test]
fn a_modern_server_that_refuses_for_another_reason_is_not_initialized() {
    first_contact_fails(
        &[error(400, -32020, "Header mismatch: Mcp-Method")],
        &[DISCOVER],
        Kind::ProtocolMismatch,
        "the server refuses (400): -32020, \"Header mismatch: Mcp-Method\"",
    );
    first_contact_fails(
        &[error(200, -32021, "elicitation wanted")],
        &[DISCOVER],
        Kind::ProtocolMismatch,
        "the server refuses: -32021, \"elicitation wanted\"",
    );
    first_contact_fails(
        &[error(400, -32001, "Header mismatch: draft")],
        &[DISCOVER],
        Kind::ProtocolMismatch,
        "the server refuses (400): -32001, \"Header mismatch: draft\"",
    );
}

#[test]
fn ht_03_what_says_nothing_about_the_era_ends_the_attempt_with_its_own_cause() {
    let cases = [
        (Challenge(401, "Bearer"), Kind::SignInRequired),
        (http(401, "Unauthorized"), Kind::SignInRequired),
        (
            Challenge(401, "Bearer realm=\"session\""),
            Kind::SignInRequired,
        ),
        (http(403, ""), Kind::Forbidden),
        (
            Challenge(403, "Bearer error=\"insufficient_scope\""),
            Kind::ScopeInsufficient,
        ),
        (http(302, ""), Kind::Redirected),
        (http(408, ""), Kind::Timeout),
        (http(425, ""), Kind::RateLimited),
        (http(429, ""), Kind::RateLimited),
        (http(502, ""), Kind::ServerError),
        (http(503, ""), Kind::ServerError),
        (http(504, ""), Kind::Timeout),
        (http(522, "<title>origin down</title>"), Kind::ServerError),
        (http(200, "<title>Sign in</title>"), Kind::NotAnMcpAnswer),
        (
            Given::Fault(Fault::new(Kind::Network, "reset")),
            Kind::Network,
        ),
        (
            Given::Fault(Fault::new(Kind::Timeout, "silent")),
            Kind::Timeout,
        ),
    ];
    for (given, kind) in cases {
        for (script, asked) in [
            (vec![given.clone()], vec![DISCOVER]),
            // The same answers end the second question as well.
            (
                vec![http(404, ""), given.clone()],
                vec![DISCOVER, INITIALIZE],
            ),
        ] {
            let (questions, end) = play(None, Offer::default(), &script);
            assert_eq!(questions, asked, "{given:?}");
            let Some(Next::Fail(fault)) = end else {
                panic!("{given:?} must fail, got {end:?}")
            };
            assert_eq!(fault.kind, kind, "{given:?}");
        }
    }
    // A failing `initialize` is a failure, also where a failing probe is not.
    for status in [500, 501] {
        let (asked, end) = play(None, Offer::default(), &[http(404, ""), http(status, "")]);
        assert_eq!(asked, [DISCOVER, INITIALIZE]);
        assert!(matches!(end, Some(Next::Fail(fault)) if fault.kind == Kind::ServerError));
    }
}

#[test]
fn ht_03_only_400_404_and_405_on_first_contact_lead_to_the_old_transport() {
    let old = Next::Open(Known {
        transport: Transport::HttpSse,
        ..known(Era::Legacy, R::V2024_11_05)
    });
    for status in [404, 405] {
        first_contact(
            &[http(status, ""), http(status, ""), Endpoint(true)],
            &[DISCOVER, INITIALIZE, ENDPOINT],
            old.clone(),
        );
        first_contact_fails(
            &[http(status, ""), http(status, ""), Endpoint(false)],
            &[DISCOVER, INITIALIZE, ENDPOINT],
            Kind::ProtocolMismatch,
            &format!("no MCP endpoint at this address ({status})"),
        );
    }
    first_contact(
        &[http(400, ""), http(400, ""), http(400, ""), Endpoint(true)],
        &[DISCOVER, INITIALIZE, with_header(R::V2025_06_18), ENDPOINT],
        old,
    );
    for status in [403, 406, 410, 422, 500] {
        let (asked, _) = play(None, Offer::default(), &[http(404, ""), http(status, "")]);
        assert_eq!(asked, [DISCOVER, INITIALIZE], "{status}");
    }
    // Never in place of what is known to work.
    let before = known(Era::Legacy, R::V2025_11_25);
    for status in [404, 405] {
        fails(
            Some(&before),
            Offer::default(),
            &[http(status, "")],
            &[INITIALIZE],
            Kind::ProtocolMismatch,
            &format!("no MCP endpoint at this address ({status})"),
        );
    }
}

#[test]
fn the_get_of_the_old_transport_hides_no_cause() {
    let first = [http(405, ""), http(405, "")];
    for (given, kind) in [
        (Challenge(401, "Bearer"), Kind::SignInRequired),
        (http(503, ""), Kind::ServerError),
        (http(406, ""), Kind::ProtocolMismatch),
        (
            Given::Fault(Fault::new(Kind::Network, "reset")),
            Kind::ProtocolMismatch,
        ),
    ] {
        let script = [first.as_slice(), std::slice::from_ref(&given)].concat();
        let (_, end) = play(None, Offer::default(), &script);
        assert!(
            matches!(end, Some(Next::Fail(fault)) if fault.kind == kind),
            "{given:?}"
        );
    }
}

#[test]
fn a_server_of_the_old_transport_is_asked_for_its_endpoint_only() {
    let before = Known {
        transport: Transport::HttpSse,
        ..known(Era::Legacy, R::V2024_11_05)
    };
    let offer = Offer::default();
    assert_eq!(
        play(Some(&before), offer, &[Endpoint(true)]),
        (vec![ENDPOINT], Some(Next::Open(before.clone())))
    );
    // It was updated.
    assert_eq!(
        play(
            Some(&before),
            offer,
            &[Endpoint(false), discovered(r#""2026-07-28""#)]
        ),
        (vec![ENDPOINT, DISCOVER], Some(modern()))
    );
    assert_eq!(
        play(
            Some(&before),
            offer,
            &[http(404, ""), http(400, ""), initialized("2025-11-25")]
        ),
        (
            vec![ENDPOINT, DISCOVER, INITIALIZE],
            Some(legacy(R::V2025_11_25))
        )
    );
    // It is only down.
    let (asked, end) = play(Some(&before), offer, &[http(502, "")]);
    assert_eq!(asked, [ENDPOINT]);
    assert!(matches!(end, Some(Next::Fail(fault)) if fault.kind == Kind::ServerError));
}
