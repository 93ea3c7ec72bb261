#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::quirks::Media;
use Revision as R;

const ENDPOINT: Ask = Ask::Endpoint;
const DISCOVER: Ask = Ask::Discover(R::V2026_07_28);
const INITIALIZE: Ask = plain(R::V2025_11_25);

const fn plain(revision: R) -> Ask {
    Ask::Initialize {
        revision,
        header: false,
    }
}

const fn with_header(revision: R) -> Ask {
    Ask::Initialize {
        revision,
        header: true,
    }
}

/// What a scripted server gives.
#[derive(Clone, Debug)]
enum Given {
    Http(u16, Media, String),
    Challenge(u16, &'static str),
    Endpoint(bool),
    Fault(Fault),
}

use Given::{Challenge, Endpoint};

fn http(status: u16, body: &str) -> Given {
    let media = if body.starts_with('<') {
        Media::Html
    } else {
        Media::Json
    };
    Given::Http(status, media, body.to_owned())
}

fn result(body: &str) -> Given {
    http(
        200,
        &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{body}}}"#),
    )
}

fn discovered(versions: &str) -> Given {
    result(&format!(
        r#"{{"resultType":"complete","supportedVersions":[{versions}],"capabilities":{{}}}}"#
    ))
}

fn initialized(version: &str) -> Given {
    result(&format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
    ))
}

fn error(status: u16, code: i64, message: &str) -> Given {
    http(
        status,
        &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"{message}"}}}}"#),
    )
}

/// An error that was given before the message was read.
fn unread(status: u16, code: i64, message: &str) -> Given {
    http(
        status,
        &format!(
            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"{message}"}}}}"#
        ),
    )
}

fn unsupported(status: u16, supported: &str) -> Given {
    http(
        status,
        &format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32022,"message":"Unsupported protocol version","data":{{"supported":[{supported}],"requested":"2026-07-28"}}}}}}"#
        ),
    )
}

fn give(state: State, given: &Given) -> (State, Next) {
    let answer = |status, media, body, challenge| Answer {
        status,
        media,
        body,
        challenge,
        retry_after: None,
        session_attached: false,
        era: Era::Legacy,
    };
    match given {
        Given::Http(status, media, body) => next(
            state,
            &Reply::Answer(answer(*status, *media, body.as_bytes(), None)),
        ),
        Given::Challenge(status, challenge) => next(
            state,
            &Reply::Answer(answer(*status, Media::None, b"", Some(challenge))),
        ),
        Given::Endpoint(came) => next(state, &Reply::Endpoint(*came)),
        Given::Fault(fault) => next(state, &Reply::Fault(fault)),
    }
}

/// Plays a script; gives the questions asked, and the end where it came.
fn play(known: Option<&Known>, offer: Offer, script: &[Given]) -> (Vec<Ask>, Option<Next>) {
    let (mut state, ask) = begin(known, offer);
    let mut asked = vec![ask];
    for given in script {
        let (after, what) = give(state, given);
        state = after;
        match what {
            Next::Ask(ask) => asked.push(ask),
            end @ (Next::Open(_) | Next::Fail(_)) => return (asked, Some(end)),
        }
    }
    (asked, None)
}

fn known(era: Era, revision: R) -> Known {
    Known {
        era,
        transport: Transport::StreamableHttp,
        revision,
        initialize_header: false,
        no_ping: false,
    }
}

fn legacy(revision: R) -> Next {
    Next::Open(known(Era::Legacy, revision))
}

fn modern() -> Next {
    Next::Open(known(Era::Modern, R::V2026_07_28))
}

/// First contact with the default offer: the whole script must be used, and end so.
#[track_caller]
fn first_contact(script: &[Given], asked: &[Ask], end: Next) {
    assert_eq!(
        play(None, Offer::default(), script),
        (asked.to_vec(), Some(end))
    );
}

#[track_caller]
fn first_contact_fails(script: &[Given], asked: &[Ask], kind: Kind, message: &str) {
    fails(None, Offer::default(), script, asked, kind, message);
}

#[track_caller]
fn fails(
    known: Option<&Known>,
    offer: Offer,
    script: &[Given],
    asked: &[Ask],
    kind: Kind,
    message: &str,
) {
    let (questions, end) = play(known, offer, script);
    assert_eq!(questions, asked);
    let Some(Next::Fail(fault)) = end else {
        panic!("expected a fault, got {end:?}")
    };
    assert_eq!((fault.kind, fault.message.as_str()), (kind, message));
}

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

fn any_given() -> impl Strategy<Value = Given> {
    let status = prop::sample::select(vec![
        200, 202, 302, 400, 401, 403, 404, 405, 406, 408, 422, 425, 429, 500, 501, 502, 503, 504,
        522,
    ]);
    let code = prop::sample::select(vec![
        -32000, -32001, -32020, -32021, -32022, -32600, -32601, -32602, -32603,
    ]);
    let text = prop::sample::select(vec![
        "",
        "MCP-Protocol-Version header required",
        "Header mismatch",
        "Session not found",
        "Unsupported protocol version (supported versions: 2025-06-18, 2024-11-05)",
    ]);
    let versions = prop::sample::select(vec![
        r#""2026-07-28""#,
        r#""2025-06-18","2025-11-25""#,
        r#""2026-07-28","2025-03-26""#,
        r#""2030-01-01""#,
        "",
    ]);
    prop_oneof![
        3 => (status.clone(), code, text.clone(), any::<bool>()).prop_map(|(status, code, text, id)| {
            if id { error(status, code, text) } else { unread(status, code, text) }
        }),
        2 => (status.clone(), versions.clone()).prop_map(|(status, list)| unsupported(status, list)),
        1 => versions.prop_map(discovered),
        1 => prop::sample::select(vec!["2025-11-25", "2024-11-05", "2026-07-28", "x"]).prop_map(initialized),
        3 => (status, prop_oneof![Just("<title>x</title>".to_owned()), Just(String::new()), text.prop_map(str::to_owned), ".{0,40}"])
            .prop_map(|(status, body)| http(status, &body)),
        1 => any::<bool>().prop_map(Endpoint),
        1 => Just(Given::Fault(Fault::new(Kind::Network, "reset"))),
        1 => Just(Challenge(401, "Bearer")),
    ]
}

fn any_known() -> impl Strategy<Value = Option<Known>> {
    prop::option::of((any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(modern, sse, header)| Known {
            transport: if sse && !modern {
                Transport::HttpSse
            } else {
                Transport::StreamableHttp
            },
            initialize_header: header,
            ..if modern {
                known(Era::Modern, R::V2026_07_28)
            } else {
                known(Era::Legacy, R::V2025_06_18)
            }
        },
    ))
}

fn any_offer() -> impl Strategy<Value = Offer> {
    prop::sample::select(vec![
        Offer::default(),
        Offer::Either {
            legacy: R::V2024_11_05,
        },
        Offer::LegacyOnly {
            legacy: R::V2025_11_25,
        },
        Offer::ModernOnly,
    ])
}

/// Whether no `initialize` may follow: nothing is known of the era, or the server is modern and named
/// no legacy revision.
fn forbids_initialize(given: &Given) -> bool {
    match given {
        Given::Http(401, _, body) => !body.to_ascii_lowercase().contains("session"),
        Given::Http(302 | 403 | 408 | 425 | 429 | 502 | 503 | 504 | 522, _, _) => true,
        Given::Http(_, _, body) => body.contains("-32022") && !body.contains("2025-"),
        Given::Challenge(..) | Given::Fault(_) => true,
        Given::Endpoint(_) => false,
    }
}

proptest! {
    #[test]
    fn every_attempt_ends_within_the_limit_and_never_initializes_on_a_guess(
        known in any_known(),
        offer in any_offer(),
        script in prop::collection::vec(any_given(), 5),
    ) {
        let (mut state, first) = begin(known.as_ref(), offer);
        let mut asked = vec![first];
        let mut ended = false;
        for given in &script {
            let (after, what) = give(state, given);
            state = after;
            match what {
                Next::Ask(ask) => {
                    if matches!(ask, Ask::Initialize { .. }) {
                        prop_assert!(!forbids_initialize(given), "{ask:?} after {given:?}");
                        prop_assert!(offer != Offer::ModernOnly);
                    }
                    prop_assert!(ask != ENDPOINT || known.is_none());
                    asked.push(ask);
                }
                Next::Open(opened) => {
                    prop_assert_eq!(opened.era, opened.revision.era());
                    ended = true;
                }
                Next::Fail(fault) => {
                    prop_assert!(!fault.message.is_empty());
                    ended = true;
                }
            }
            if ended {
                break;
            }
        }
        prop_assert!(ended, "still asking after {asked:?}");
        prop_assert!(asked.len() <= usize::from(MOST_QUESTIONS));
    }
}
