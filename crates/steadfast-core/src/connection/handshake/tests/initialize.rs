//! Revisions and headers of `initialize`, and what is remembered: PV-05 to PV-07.

use super::*;

#[test]
fn pv_05_the_header_is_left_out_and_sent_once_where_a_server_insists() {
    // Server A: no version header on initialize.
    first_contact(
        &[http(404, ""), initialized("2025-11-25")],
        &[DISCOVER, INITIALIZE],
        legacy(R::V2025_11_25),
    );
    // Server B, in the forms that it may take.
    let insisting = Known {
        initialize_header: true,
        ..known(Era::Legacy, R::V2025_06_18)
    };
    for refusal in [
        unread(
            400,
            -32000,
            "Bad Request: MCP-Protocol-Version header required",
        ),
        error(400, -32600, "MCP-Protocol-Version header required"),
        error(406, -32600, "Missing protocol version header"),
        error(400, -32000, "Unsupported protocol version: undefined"),
        http(400, "missing header"),
        http(400, ""),
    ] {
        first_contact(
            &[http(404, ""), refusal, initialized("2025-06-18")],
            &[DISCOVER, INITIALIZE, with_header(R::V2025_06_18)],
            Next::Open(insisting.clone()),
        );
    }
    // Remembered.
    assert_eq!(
        play(
            Some(&insisting),
            Offer::default(),
            &[initialized("2025-06-18")]
        ),
        (
            vec![with_header(R::V2025_06_18)],
            Some(Next::Open(insisting.clone()))
        )
    );
    // No longer true: once without it.
    assert_eq!(
        play(
            Some(&insisting),
            Offer::default(),
            &[error(400, -32600, "no"), initialized("2025-11-25")]
        ),
        (
            vec![with_header(R::V2025_06_18), INITIALIZE],
            Some(legacy(R::V2025_11_25))
        )
    );
    // A refusal that answers our message and does not speak of the header is not about it.
    fails(
        Some(&known(Era::Legacy, R::V2025_11_25)),
        Offer::default(),
        &[error(400, -32602, "Invalid params")],
        &[INITIALIZE],
        Kind::ProtocolMismatch,
        "the server refuses (400): -32602, \"Invalid params\"",
    );
}

#[test]
fn pv_06_a_version_that_was_not_asked_for() {
    let offer = Offer::Either {
        legacy: R::V2025_06_18,
    };
    for (version, revision) in [
        ("2025-11-25", R::V2025_11_25),
        ("2024-11-05", R::V2024_11_05),
        ("2025-03-26", R::V2025_03_26),
    ] {
        assert_eq!(
            play(None, offer, &[http(404, ""), initialized(version)]),
            (
                vec![DISCOVER, plain(R::V2025_06_18)],
                Some(legacy(revision))
            )
        );
    }
    for (version, message) in [
        (
            "2026-07-28",
            "the server answers initialize with 2026-07-28, which has no sessions",
        ),
        (
            "banana",
            "the server answers initialize with the unknown revision \"banana\"",
        ),
    ] {
        fails(
            None,
            offer,
            &[http(404, ""), initialized(version)],
            &[DISCOVER, plain(R::V2025_06_18)],
            Kind::ProtocolMismatch,
            message,
        );
    }
    fails(
        None,
        offer,
        &[http(404, ""), result("{}")],
        &[DISCOVER, plain(R::V2025_06_18)],
        Kind::ProtocolMismatch,
        "the server answers initialize without a protocolVersion",
    );
}

#[test]
fn a_revision_that_initialize_is_refused_in_is_changed_once() {
    let refusals = [
        http(
            200,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05","2025-03-26"],"requested":"2025-11-25"}}}"#,
        ),
        error(
            400,
            -32602,
            "Unsupported protocol version 2025-11-25 (supported versions: 2025-03-26, 2024-11-05)",
        ),
        unread(
            400,
            -32000,
            "Bad Request: Unsupported protocol version (supported versions: 2025-03-26)",
        ),
        unsupported(400, r#""2026-07-28","2025-03-26""#),
    ];
    for refusal in refusals {
        first_contact(
            &[http(404, ""), refusal.clone(), initialized("2025-03-26")],
            &[DISCOVER, INITIALIZE, plain(R::V2025_03_26)],
            legacy(R::V2025_03_26),
        );
        let (asked, _) = play(
            None,
            Offer::default(),
            &[http(404, ""), refusal.clone(), refusal],
        );
        assert!(
            !asked[3..]
                .iter()
                .any(|ask| matches!(ask, Ask::Initialize { header: false, .. }))
        );
    }
    first_contact_fails(
        &[
            http(404, ""),
            error(200, -32602, "Unsupported protocol version"),
        ],
        &[DISCOVER, INITIALIZE],
        Kind::ProtocolMismatch,
        "the server refuses: -32602, \"Unsupported protocol version\"",
    );
}

#[test]
fn pv_07_a_known_era_is_not_probed_again() {
    assert_eq!(
        play(
            Some(&known(Era::Legacy, R::V2025_03_26)),
            Offer::default(),
            &[initialized("2025-11-25")]
        ),
        (vec![INITIALIZE], Some(legacy(R::V2025_11_25)))
    );
    assert_eq!(
        play(
            Some(&known(Era::Modern, R::V2026_07_28)),
            Offer::default(),
            &[discovered(r#""2026-07-28""#)]
        ),
        (vec![DISCOVER], Some(modern()))
    );
}

#[test]
fn what_is_known_of_ping_is_kept() {
    let before = Known {
        no_ping: true,
        ..known(Era::Legacy, R::V2025_11_25)
    };
    assert_eq!(
        play(
            Some(&before),
            Offer::default(),
            &[initialized("2025-11-25")]
        )
        .1,
        Some(Next::Open(before))
    );
}

#[test]
fn a_known_era_that_proves_wrong_is_probed_once() {
    let before = known(Era::Legacy, R::V2025_11_25);
    for refusal in [
        error(404, -32601, "Method not found"),
        error(200, -32601, "Method not found"),
        error(
            400,
            -32020,
            "Header mismatch: MCP-Protocol-Version is missing",
        ),
        unsupported(400, r#""2026-07-28""#),
        error(400, -32602, "Supported protocol versions: 2026-07-28"),
    ] {
        assert_eq!(
            play(
                Some(&before),
                Offer::default(),
                &[refusal.clone(), discovered(r#""2026-07-28""#)]
            ),
            (vec![INITIALIZE, DISCOVER], Some(modern())),
            "{refusal:?}"
        );
        // Neither era works.
        let (asked, end) = play(
            Some(&before),
            Offer::default(),
            &[refusal, error(404, -32601, "no")],
        );
        assert_eq!(asked, [INITIALIZE, DISCOVER]);
        assert!(matches!(end, Some(Next::Fail(_))));
    }
    assert_eq!(
        play(
            Some(&before),
            Offer::default(),
            &[
                error(404, -32601, "no"),
                discovered(r#""2025-06-18""#),
                initialized("2025-06-18")
            ]
        ),
        (
            vec![INITIALIZE, DISCOVER, plain(R::V2025_06_18)],
            Some(legacy(R::V2025_06_18))
        )
    );
    let before = known(Era::Modern, R::V2026_07_28);
    assert_eq!(
        play(
            Some(&before),
            Offer::default(),
            &[
                error(400, -32000, "Server not initialized"),
                initialized("2025-11-25")
            ]
        ),
        (vec![DISCOVER, INITIALIZE], Some(legacy(R::V2025_11_25)))
    );
    // First contact has probed already.
    let (asked, end) = play(
        None,
        Offer::default(),
        &[error(404, -32601, "no"), error(404, -32601, "no")],
    );
    assert_eq!(asked, [DISCOVER, INITIALIZE]);
    assert!(matches!(end, Some(Next::Fail(_))));
}

#[test]
fn an_offer_limits_the_eras() {
    let only = Offer::LegacyOnly {
        legacy: R::V2025_06_18,
    };
    assert_eq!(
        play(
            Some(&known(Era::Modern, R::V2026_07_28)),
            only,
            &[initialized("2025-06-18")]
        ),
        (vec![plain(R::V2025_06_18)], Some(legacy(R::V2025_06_18)))
    );
    let (asked, end) = play(
        Some(&known(Era::Legacy, R::V2025_06_18)),
        only,
        &[error(404, -32601, "no")],
    );
    assert_eq!(asked, [plain(R::V2025_06_18)]);
    assert!(matches!(end, Some(Next::Fail(_))));
    // A modern revision is never offered for a session.
    assert_eq!(
        begin(
            None,
            Offer::LegacyOnly {
                legacy: R::V2026_07_28
            }
        )
        .1,
        INITIALIZE
    );

    fails(
        Some(&known(Era::Legacy, R::V2025_11_25)),
        Offer::ModernOnly,
        &[http(404, "")],
        &[DISCOVER],
        Kind::ProtocolMismatch,
        "the server does not speak 2026-07-28, and nothing older may be used",
    );
    fails(
        None,
        Offer::ModernOnly,
        &[unsupported(400, r#""2025-11-25""#)],
        &[DISCOVER],
        Kind::ProtocolMismatch,
        "no common revision: the server speaks 2025-11-25, we speak 2026-07-28",
    );
}

#[test]
fn an_end_repeats_itself_and_a_misplaced_reply_ends() {
    let (state, end) = give(
        begin(None, Offer::default()).0,
        &discovered(r#""2026-07-28""#),
    );
    assert_eq!(give(state, &http(500, "")).1, end);
    let (state, end) = give(begin(None, Offer::default()).0, &http(503, ""));
    assert_eq!(give(state, &initialized("2025-11-25")).1, end);
    let (_, end) = give(begin(None, Offer::default()).0, &Endpoint(true));
    assert!(matches!(end, Next::Fail(_)));
}
